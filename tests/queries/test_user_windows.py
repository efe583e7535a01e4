"""Windows that users define in Python: in every mode, after a restart, and what is wrong with what they give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import millstream as ms
from millstream.database import Database

CREATE = "CREATE STREAM s (v INT) TIMESTAMP BY ts HEARTBEAT DELAY 5"


def as_long_as_v(values: pl.DataFrame, instants: pl.Series) -> dict[str, pl.Series]:
    """An element is in for v ticks."""
    return {"start": instants, "end": instants + values["v"]}


def twice(values: pl.DataFrame, instants: pl.Series) -> pl.DataFrame:
    """Even elements are in for a tick, and again ten ticks later; odd ones never."""
    rows = (values["v"] % 2 == 0).arg_true()
    starts = instants.gather(rows)
    return pl.DataFrame({"row": pl.concat([rows, rows]), "start": pl.concat([starts, starts + 10])}).with_columns(
        end=pl.col("start") + 1
    )


def declare(db: Database, mode: str) -> None:
    db.create_window("as_long_as_v", as_long_as_v)
    db.create_window("twice", twice)
    db.register("SELECT v FROM s [as_long_as_v]", name="longer", mode=mode)
    db.register("SELECT ISTREAM(v) FROM s [Twice] WHERE v > 0", name="twice", mode=mode)
    db.register(
        "SELECT COUNT(*) AS n FROM (SELECT ISTREAM(v) FROM s WHERE v > 2) [as_long_as_v]", name="derived", mode=mode
    )


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_elements_are_in_as_the_function_says(mode: str, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(CREATE)
        declare(db, mode)
        db.insert("s", [(4, 10), (3, 8)])  # out of order
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.create_window("twice", twice)  # which is there already
        db.insert("s", [(1, 9), (2, 30)])
        db.advance("s", to=50)
        changes = [(row["_ts"], row["_weight"], row["v"]) for row in db.query("longer").changes().to_pylist()]
        first = [(8, 1, 3), (9, 1, 1), (10, -1, 1), (10, 1, 4), (11, -1, 3), (14, -1, 4)]
        assert changes == [*first, (30, 1, 2), (32, -1, 2)]
        found = [(row["_ts"], row["v"]) for row in db.query("twice").result().to_pylist()]
        assert found == [(10, 4), (20, 4), (30, 2), (40, 2)]
        assert db.query("derived").result(at=10).to_pylist() == [{"n": 2}]


def test_a_late_query_is_told_that_nobody_knows_how_long_elements_stay() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (v INT) TIMESTAMP BY ts RETAIN 5")
        db.create_window("as_long_as_v", as_long_as_v)
        db.insert("s", [(3, t) for t in range(40)])
        db.insert("s", [(3, 50)])
        assert db.register("SELECT v FROM s [as_long_as_v]").notices


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda values, instants: {"start": instants - 1, "end": instants}, "before it came"),
        (lambda values, instants: {"start": instants}, "start and end"),
        (lambda values, instants: {"start": [1, 2, 3], "end": [4, 5, 6]}, "3 intervals for 1 elements"),
        (lambda values, instants: {"row": [7], "start": [99], "end": [100]}, "element 7 of 1"),
        (lambda values, instants: values["nosuch"], "raised ColumnNotFoundError"),
        (lambda values, instants: 5, "gave int"),
    ],
)
def test_a_function_that_gives_something_else_stops_its_query(body: Callable[..., Any], reason: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(CREATE)
        db.create_window("wrong", body)
        query = db.register("SELECT v FROM s [wrong]")
        other = db.register("SELECT v FROM s [NOW]")
        db.insert("s", [(1, 10)])
        db.advance("s", to=20)
        with pytest.raises(ms.EvaluationError, match=reason):
            query.result()
        assert other.result(at=10).num_rows == 1


def test_names() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(CREATE)
        with pytest.raises(ms.NameError, match='no window called "nosuch"'):
            db.register("SELECT v FROM s [nosuch]")
        with pytest.raises(ms.BindError, match="a window already"):
            db.create_window("hop", twice)
        db.create_window("twice", twice)
        with pytest.raises(ms.CatalogError, match='there is a window "Twice" already'):
            db.create_window("Twice", as_long_as_v)
        with pytest.raises(ms.BindError, match="does not slide by time"):
            db.register("SELECT window_end FROM s [twice]")
