"""Queries that come late see all the history that they can need: singly, together, in groups and alone, in all modes,
over many small files, after restarts. Compared with DuckDB over the raw rows, and with the same query registered early.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.properties.dice import Dice, SeededDice
from tests.properties.late_conditions import COLUMNS, Raw, Text, conditions, rows

import millstream as ms
from millstream.database import Database

STREAM = f"CREATE STREAM S ({COLUMNS}) TIMESTAMP BY ts RETAIN 900"  # a period of history has 100 ticks
SKELETONS = {  # what is asked, and the same of the raw rows at an instant
    "SELECT id, k FROM S [RANGE 40] WHERE {0}": "SELECT id, k FROM S WHERE {0} AND ts BETWEEN {1} - 40 AND {1}",
    "SELECT k, COUNT(*) AS n FROM S [RANGE 70] WHERE {0} GROUP BY k": (
        "SELECT k, COUNT(*) FROM S WHERE {0} AND ts BETWEEN {1} - 70 AND {1} GROUP BY k"
    ),
    "SELECT COUNT(*) AS n FROM S WHERE {0}": "SELECT COUNT(*) FROM S WHERE {0} AND ts <= {1}",
    "SELECT DISTINCT s FROM S [RANGE 30] WHERE {0}": (
        "SELECT DISTINCT s FROM S WHERE {0} AND ts BETWEEN {1} - 30 AND {1}"
    ),
    "RSTREAM(SELECT id FROM S [NOW] WHERE {0})": "SELECT ts, id FROM S WHERE {0} AND ts <= {1}",
}


def shown(table: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def check(connect: Any, path: Path, seed: int) -> None:
    dice = SeededDice(seed)
    raw, batches = Raw(), rows(dice, dice.number(2, 24))
    skeleton = dice.pick(tuple(SKELETONS))
    asked = conditions(dice)
    settings = f"SET sharing = '{dice.pick(('auto', 'on', 'on', 'off'))}'; SET background_rows = {dice.pick((0, 1000))}"
    db = connect(path)
    db.execute(f"{STREAM}; {settings}")
    for number in range(dice.pick((0, 2, 9))):
        db.register(skeleton.format(f"k > {number}"))  # which makes a group that late ones come to
    early = db.register(skeleton.format(asked[0]), name="early", mode=dice.pick(("eager", "none")))
    for batch in batches:
        db.insert("S", batch)
        raw.insert(batch)
        if dice.chance(5):
            db.close()
            db = connect(path)
            early = db.query("early")
    now = batches[-1][-1][-1] + dice.pick((0, 5, 60))
    late = come_late(db, dice, skeleton, asked)
    db.advance(to=now)
    if dice.chance(30):
        late += come_late(db, dice, skeleton, asked)
    for at in {now, max(now - 45, 0)}:
        right = [raw.answer(SKELETONS[skeleton].format(f"({text.theirs})", at)) for text in asked]
        assert shown(early.result(at=at)) == right[0], f"{seed}, early, at {at}: {early.cql}"
        for number, (mode, query) in enumerate(late):
            expected = right[number % len(asked)]
            assert shown(query.result(at=at)) == expected, f"{seed}, {mode}, at {at}: {query.cql}"
    assert not any(query.notices for _, query in late)
    db.close()
    raw.close()


def come_late(db: Database, dice: Dice, skeleton: str, asked: Sequence[Text]) -> list[tuple[str, Any]]:
    """Together in a group or alone, or one after the other has been asked for its answer."""
    mode, single = dice.pick(("eager", "lazy", "none")), dice.chance(30)
    found = []
    for text in asked:
        query = db.register(skeleton.format(text), mode=mode)
        if single:
            query.wait(60)
        found.append((mode, query))
    return found


@pytest.mark.parametrize("chunk", range(5))
def test_late_queries_answer_as_duckdb_does_over_the_raw_rows(tmp_path: Path, chunk: int) -> None:
    for seed in range(chunk * 6, chunk * 6 + 6):
        check(lambda path: ms.connect(path, engine="inprocess"), tmp_path / str(seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20))
def test_many_late_queries_answer_as_duckdb_does_over_the_raw_rows(tmp_path: Path, chunk: int) -> None:
    for seed in range(1000 + chunk * 50, 1000 + chunk * 50 + 50):
        check(lambda path: ms.connect(path, engine="inprocess"), tmp_path / str(seed), seed)


@pytest.mark.spark
@pytest.mark.parametrize("seed", [5, 14])  # queries of a group that come together, one of them without constants
def test_late_queries_on_spark(session: SparkSession, tmp_path: Path, seed: int) -> None:
    check(lambda path: ms.connect(path, spark=session), tmp_path / "db", seed)
