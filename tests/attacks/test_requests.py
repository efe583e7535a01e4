"""10,000 random requests."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.attacks.victim import Victim, check_said, scaled
from tests.support.described import ask_at_random, operations

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of schemathesis and what it uses


def test_random_requests(victim: Victim) -> None:
    def look(response: Any) -> None:
        check_said(response.status_code, response.content.decode("utf-8", "replace"))

    wanted, asked, rounds = scaled(10_000), 0, 0
    examples = -(-wanted // len(operations(victim.address)))
    while asked < wanted:  # of some kinds there are only a few different ones
        asked, rounds = asked + ask_at_random(victim.address, examples, look, rounds), rounds + 1
    sys.stdout.write(f"{asked} requests in {rounds} rounds; ")
