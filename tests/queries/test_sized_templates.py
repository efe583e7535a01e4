"""Templates with parameters in their windows: sizes, slides, rows. Expected answers are made in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import millstream as ms

ROWS = [(n % 3, n, n // 2) for n in range(40)]  # k, v, ts
NOW = 19


def opened(path: Path | None = None) -> ms.Database:
    db = ms.connect(path, engine="inprocess")
    assert isinstance(db, ms.Database)
    return db


def in_range(size: int, slide: int = 1) -> list[tuple[int, int]]:
    last = NOW // slide * slide
    return [(k, v) for k, v, t in ROWS if last - size <= t <= last]


def in_tumble(size: int) -> list[tuple[int, int]]:
    complete = NOW // size * size
    return [(k, v) for k, v, t in ROWS if complete - size <= t < complete]


CASES: dict[str, tuple[str, list[tuple[int, ...]], Callable[..., list[tuple[int, int]]]]] = {
    "range": ("RANGE ?", [(5,), (9,), (5,)], in_range),
    "slide": ("RANGE ? SLIDE ?", [(6, 3), (9, 1), (4, 4)], in_range),
    "rows": ("ROWS ?", [(4,), (7,)], lambda size: [(k, v) for k, v, _ in ROWS[-size:]]),
    "tumble": ("TUMBLE ?", [(5,), (4,)], in_tumble),
}


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
@pytest.mark.parametrize("case", CASES)
def test_parameters_in_windows(case: str, mode: str, tmp_path: Path) -> None:
    window, sizes, expected = CASES[case]
    values = [(*size, k) for size in sizes for k in range(3)]
    text = f"SELECT k, v FROM s [{window}] WHERE k = ?"
    wanted = [(*size, k, v) for *size, k in values for found, v in expected(*size) if found == k]

    def found(db: ms.Database) -> list[tuple[int, ...]]:
        table = db.template("sized").result()
        assert table.column_names[:2] == ["_query", "_p1"]
        return sorted(tuple(row.values())[1:] for row in table.drop_columns(["k"]).to_pylist())

    with opened(tmp_path / "db") as db:
        db.execute("CREATE STREAM s (k INT, v INT, ts BIGINT) TIMESTAMP BY ts")
        db.insert("s", ROWS[:20])
        db.register_many(text, values, mode=mode, template="sized")
        db.insert("s", ROWS[20:])
        db.advance(to=NOW)
        assert found(db) == sorted(wanted)
    with opened(tmp_path / "db") as db:
        assert found(db) == sorted(wanted)


def test_units_stand_behind_the_parameter() -> None:
    with opened() as db:
        db.execute("CREATE STREAM t (a INT, at TIMESTAMP) TIMESTAMP BY at")
        db.execute("INSERT INTO t VALUES (1, TIMESTAMP '2024-01-01 00:00:00'), (2, TIMESTAMP '2024-01-01 00:04:00')")
        queries = db.register_many("SELECT COUNT(*) AS n FROM t [RANGE ? MINUTES]", [3, 4])
        db.advance(to="2024-01-01 00:04:00")
        assert [query.result()["n"].to_pylist() for query in queries] == [[1], [2]]
        assert "[RANGE 4 MINUTES]" in queries[1].cql


@pytest.mark.parametrize("size", [-5, None, "x", 1.5])
def test_sizes_that_no_window_has_are_refused_before_anything_is_registered(size: object) -> None:
    with opened() as db:
        db.execute("CREATE STREAM s (k INT, v INT, ts BIGINT) TIMESTAMP BY ts")
        rows = [(5, 1), (size, 2)] if isinstance(size, int) else [(size, 2)]
        with pytest.raises(ms.Error):
            db.register_many("SELECT k FROM s [RANGE ?] WHERE v > ?", rows, template="sized")
        assert not db.queries()
        assert not db.templates()


def test_a_single_query_has_no_parameters() -> None:
    with opened() as db:
        db.execute("CREATE STREAM s (k INT, v INT, ts BIGINT) TIMESTAMP BY ts")
        with pytest.raises(ms.BindError, match="size is a parameter"):
            db.register("SELECT k FROM s [RANGE ?]")
        with pytest.raises(ms.BindError, match="size is a parameter"):
            db.execute("SELECT k FROM s [ROWS ?]")
