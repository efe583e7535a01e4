"""Aggregates of many queries over one stream, let in early, late and together, dropped, in a database that is closed
and opened: together = alone = what DuckDB says of the texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.properties.aggregates_of_many import AggregateMaker
from tests.properties.dice import SeededDice
from tests.properties.many_queries_driver import play_seed

from millstream.kernel.relational import compacted_cells


@pytest.fixture(autouse=True)
def put_together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In half the cases cells of rows that stay are put together in each step, and not once there are many."""
    monkeypatch.setattr(compacted_cells, "FAR_MORE", 2 * (request.getfixturevalue("seed") % 2))


def check(seed: int, path: Path, most: int = 24, length: int = 14) -> None:
    play_seed(seed, AggregateMaker(SeededDice(seed), most, length).schedule(), path)


@pytest.mark.parametrize("seed", range(12))
def test_together_alone_and_as_text(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_larger_sets_together_alone_and_as_text(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, most=60, length=18)
