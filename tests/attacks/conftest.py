"""One served database for all attacks of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.attacks.victim import Victim, attacked


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with attacked(tmp_path_factory.mktemp("victim") / "db", "--in-process") as victim:
        yield victim
