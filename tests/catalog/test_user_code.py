"""Functions and aggregates that users write in Python."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow.compute as pc
import pytest

import millstream as ms


class Median:
    """An aggregate without retract: computed anew from what remains."""

    def initialize(self) -> list[int]:
        return []

    def iterate(self, state: list[int], batch: pl.Series) -> list[int]:
        return state + batch.drop_nulls().to_list()

    def terminate(self, state: list[int]) -> float | None:
        return float(pl.Series(state).median()) if state else None  # type: ignore[arg-type]


@pytest.fixture
def db() -> ms.Database:
    database = ms.connect(engine="inprocess")
    database.execute("CREATE STREAM S (k STRING, v INT) TIMESTAMP BY ts")
    return database


def rows(table: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_a_function_over_columns(db: ms.Database) -> None:
    db.create_function("score", lambda v: v * 10 + 1, returns="BIGINT")
    db.create_function("shout", lambda k: pc.utf8_upper(k), returns="STRING", columns="arrow")
    query = db.register("SELECT shout(k), score(v) AS s FROM S [RANGE 5] WHERE score(v) > 11")
    db.insert("S", [("a", 1, 1), ("b", 2, 2)])
    db.advance(to=5)
    assert rows(query.result(at=2)) == [("B", 21)]


def test_an_aggregate_over_a_window(db: ms.Database) -> None:
    db.create_aggregate("med", Median, returns="DOUBLE")
    query = db.register("SELECT k, med(v) FROM S [RANGE 2] GROUP BY k")
    db.insert("S", [("a", 1, 1), ("a", 5, 2), ("a", 9, 3)])
    db.advance(to=20)
    answers = [rows(query.result(at=t)) for t in range(8)]
    assert answers == [[], [("a", 1.0)], [("a", 3.0)], [("a", 5.0)], [("a", 7.0)], [("a", 9.0)], [], []]


def test_a_function_that_raises_stops_its_query_alone(db: ms.Database) -> None:
    def fails(v: pl.Series) -> pl.Series:
        raise ValueError("no luck")

    db.create_function("fails", fails, returns="INT")
    bad, good = db.register("SELECT fails(v) FROM S"), db.register("SELECT v FROM S")
    db.insert("S", [("a", 1, 1)])
    db.advance(to=1)
    assert rows(good.result()) == [(1, 1)]
    with pytest.raises(ms.EvaluationError, match="fails raised ValueError: no luck"):
        bad.result()


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (lambda db: db.create_function("f", abs, returns="INTEGRAL"), "unknown type"),
        (lambda db: db.create_function("_f", abs, returns="INT"), "cannot be a function's name"),
        (lambda db: db.create_function("f", abs, returns="INT", columns="pandas"), "columns is"),
        (lambda db: db.create_aggregate("f", int, returns="INT"), "has no method initialize"),
    ],
)
def test_wrong_definitions(db: ms.Database, work: Any, says: str) -> None:
    with pytest.raises(ms.Error, match=says):
        work(db)


def test_a_function_beside_dates_that_polars_may_give_up_on() -> None:
    with ms.connect(engine="inprocess") as db:
        db.create_function("same", lambda column: column, returns="string")
        db.execute("CREATE STREAM S (s STRING, day DATE) TIMESTAMP BY ts")
        query = db.register(
            "SELECT CASE WHEN same(s) LIKE '%b' THEN date_add(day, 1) ELSE day END AS x FROM S [NOW] "
            "WHERE date_add(day, 1) > DATE '2000-01-01' AND same(s) <> 'q'"
        )
        db.execute("INSERT INTO S VALUES ('ab', DATE '2020-01-01', 1), ('c', DATE '2020-02-02', 2), ('q', NULL, 2)")
        db.execute("ADVANCE S TO 2")
        found = [(row["_ts"], row["_weight"], str(row["x"])) for row in query.changes().to_pylist()]
        assert found == [(1, 1, "2020-01-02"), (2, -1, "2020-01-02"), (2, 1, "2020-02-02")]
