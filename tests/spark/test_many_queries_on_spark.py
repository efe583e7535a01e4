"""Many queries that come and go on Spark: a few schedules as in tests/properties/test_many_queries.py, with fewer."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.properties.dice import SeededDice
from tests.properties.many_queries import ScheduleMaker
from tests.properties.many_queries_driver import play

import millstream as ms

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", [0, 2, 7])
def test_together_and_as_text(session: SparkSession, tmp_path: Path, seed: int) -> None:
    schedule = ScheduleMaker(SeededDice(seed), 10, 8).schedule()
    place = tmp_path / "db" if schedule.needs_directory else None
    play(schedule, lambda: ms.connect(place, spark=session))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_together_and_as_text_in_more_cases(session: SparkSession, tmp_path: Path, seed: int) -> None:
    schedule = ScheduleMaker(SeededDice(seed), 16, 12).schedule()
    place = tmp_path / "db" if schedule.needs_directory else None
    play(schedule, lambda: ms.connect(place, spark=session))
