"""10,000 random requests."""

from __future__ import annotations

from typing import Any

import pytest
from tests.attacks.victim import Victim, check_said, scaled
from tests.support.described import ask_at_random, operations

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of schemathesis and what it uses


def test_random_requests(victim: Victim) -> None:
    def look(response: Any) -> None:
        check_said(response.status_code, response.content.decode("utf-8", "replace"))

    ask_at_random(victim.address, -(-scaled(10_000) // len(operations(victim.address))), look)
