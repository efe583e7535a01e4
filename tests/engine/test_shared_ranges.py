"""Joins by RANGE windows of different sizes keep the elements of their streams once; the answers are the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import millstream as ms
from millstream.engine.epochs import task
from millstream.state.snapshot import state_names

SCHEMA = "CREATE STREAM s (a INT, b INT, note STRING) TIMESTAMP BY ts; CREATE STREAM t (a INT, c INT) TIMESTAMP BY ts"
JOIN = "SELECT s.b, s.note, t.c FROM s [RANGE {n}], t [RANGE {n}] WHERE s.a = t.a"


def feed(db: ms.Database, epochs: range, rows: int = 200) -> None:
    for epoch in epochs:
        numbers = pl.int_range(epoch * rows, (epoch + 1) * rows, eager=True)
        note = numbers.map_elements(lambda i: f"{i:040d}", pl.String)
        db.insert(
            "s", pl.DataFrame({"a": numbers * 7919 % 997, "b": numbers % 101, "note": note, "ts": [epoch] * rows})
        )
        db.insert("t", pl.DataFrame({"a": numbers * 31 % 997, "c": numbers, "ts": [epoch] * rows}))


def held(db: ms.Database) -> int:
    return sum(db.engine.store.size(name) for name in {*state_names(db.engine.snapshot.states)})


def segments(db: ms.Database) -> list[set[str]]:
    """What each join keeps."""
    states = db.engine.snapshot.states.items()
    return [{*state_names({step: kept})} for step, kept in states if "join" in step and "eddy" not in step]


def rows(query: ms.Query) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in query.changes().to_pylist())


def held_by(sizes: list[int], settings: str) -> tuple[int, list[Counter[tuple[object, ...]]]]:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET sharing = 'off'; {settings}; {SCHEMA}")
        queries = [db.register(JOIN.format(n=n), name=f"q{n}") for n in sizes]
        feed(db, range(40))
        return held(db), [rows(query) for query in queries]


@pytest.mark.parametrize("settings", ["SET shards = 1", "SET shards = 3", "SET join_plan = 'eddy'"])
def test_joins_of_two_sizes_hold_little_more_than_the_larger_alone(settings: str) -> None:
    larger, _ = held_by([25], settings)
    together, shared = held_by([25, 20], settings)
    apart, alone = held_by([25, 20], f"{settings}; SET join_synopses = 'apart'")
    assert together <= 1.2 * larger
    assert apart > 1.5 * larger
    assert shared == alone


@pytest.mark.parametrize("sizes", [(20, 5), (5, 20)])
def test_who_comes_later_finds_what_is_there(sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "COMPARED_EVERY", 3)
    first, later = sizes
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET sharing = 'off'; {SCHEMA}")
        db.register(JOIN.format(n=first), name="first")
        feed(db, range(30), 50)
        db.register(JOIN.format(n=later), name="later")
        assert any("keeps the rows of s, t together with other joins" in line for line in explained(db, 11))
        feed(db, range(30, 60), 50)
        one, other = segments(db)
        assert one == other
        found = rows(db.query("later"))
        db.execute(f"DROP QUERY {'first' if first > later else 'later'}")
        feed(db, range(60, 90), 50)
        (left,) = segments(db)
        assert sum(db.engine.store.height(name) for name in left) <= 2 * 2 * 7 * 50
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET join_synopses = 'apart'; {SCHEMA}")
        db.register(JOIN.format(n=later), name="later")
        feed(db, range(60), 50)
        assert rows(db.query("later")) == found


def explained(db: ms.Database, size: int) -> list[str]:
    return str(db.explain(JOIN.format(n=size))).splitlines()


def test_what_was_kept_before_there_was_the_setting_goes_on(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"SET join_synopses = 'apart'; {SCHEMA}")
        db.register(JOIN.format(n=9), name="q")
        feed(db, range(20), 50)
        before = {*db.engine.snapshot.states}
        db.execute("SET join_synopses = 'shared'")
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert {*db.engine.snapshot.states} == before
        feed(db, range(20, 40), 50)
        assert {*db.engine.snapshot.states} == before
        found = rows(db.query("q"))
    with ms.connect(engine="inprocess") as db:
        db.execute(SCHEMA)
        db.register(JOIN.format(n=9), name="q")
        feed(db, range(40), 50)
        assert rows(db.query("q")) == found
