"""Queries that differ in the sizes of their windows, among others: shared = alone = what DuckDB says of the texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.properties.dice import SeededDice
from tests.properties.differing_windows import WindowScheduleMaker
from tests.properties.many_queries_driver import play_seed

from millstream.queries import sharing_choice


def check(seed: int, path: Path, most: int = 24, length: int = 14) -> None:
    play_seed(seed, WindowScheduleMaker(SeededDice(seed), most, length).schedule(), path)


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing_choice, "ENOUGH_TO_SHARE", 3)
    monkeypatch.setattr(sharing_choice, "ENOUGH_JOINED_SIZES", 2)


@pytest.mark.parametrize("seed", range(12))
def test_together_alone_and_as_text(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_larger_sets_together_alone_and_as_text(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, most=60, length=18)
