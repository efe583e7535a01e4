"""TPC-H's queries as they are specified, at every instant of tables that change, against DuckDB."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp, parse_one
from tests.tpch.data import changes, tables

import millstream as ms

HERE = Path(__file__).parent
QUERIES = sorted(path.stem for path in HERE.glob("q*.cql"))
TABLES = (HERE / "tables.cql").read_text()
INSTANTS = range(1, len(changes(tables())) + 1)
VIEW = "q15"


def texts(name: str) -> list[str]:
    """The statements of a query's file: that of Q15 makes a view first."""
    return [text.strip() for text in (HERE / f"{name}.cql").read_text().split(";\n") if text.strip()]


@cache
def expected() -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """The answer of each query at each instant."""
    duck = duckdb.connect()
    duck.execute(TABLES)
    duck.execute(texts(VIEW)[0])
    found = {}
    for instant, statements in enumerate(changes(tables()), 1):
        for statement in statements:
            duck.execute(statement)
        for name in QUERIES:
            found[name, instant] = duck.execute(in_total_order(texts(name)[-1])).fetchall()
    return found


def in_total_order(text: str) -> str:
    """The query with ties ordered by all of its columns, as ours are."""
    tree = parse_one(text, dialect="duckdb")
    order = tree.args.get("order")
    if order is not None:
        width = len(tree.expressions)
        numbers = [exp.Ordered(this=exp.Literal.number(place), nulls_first=True) for place in range(1, width + 1)]
        order.set("expressions", [*order.expressions, *numbers])
    return tree.sql(dialect="duckdb")


def same(one: object, other: object) -> bool:
    if isinstance(one, Decimal | float | int) and isinstance(other, Decimal | float | int):
        return math.isclose(float(one), float(other), rel_tol=1e-5, abs_tol=1e-5)
    return one == other


def check(found: Any, name: str, instant: int) -> None:
    rows, wanted = list(zip(*(column.to_pylist() for column in found.columns), strict=True)), expected()[name, instant]
    if "order by" not in texts(name)[-1]:
        assert len(wanted) == 1
    assert len(rows) == len(wanted), (name, instant, rows, wanted)
    for row, other in zip(rows, wanted, strict=True):
        assert all(map(same, row, other)), (name, instant, row, other)


def say(db: ms.Database, instants: range) -> None:
    for instant in instants:
        for statement in changes(tables())[instant - 1]:
            db.execute(f"{statement} AT {instant}")
        db.execute(f"ADVANCE TO {instant}")


def register(db: ms.Database, mode: str, names: list[str] = QUERIES) -> None:
    for name in names:
        *before, text = texts(name)
        for statement in before:
            db.execute(statement)
        db.register(text, name=name, mode=mode)


def test_every_query_has_answers_that_change() -> None:
    for name in QUERIES:
        answers = [expected()[name, instant] for instant in INSTANTS]
        assert any(row for answer in answers for row in answer if row[0] is not None), name
        assert any(one != other for one, other in pairwise(answers)), name


def check_all(db: ms.Database, instants: range) -> None:
    for name in QUERIES:
        for instant in instants:
            check(db.query(name).result(at=instant), name, instant)


def test_as_the_tables_change() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(TABLES)
        register(db, "eager")
        for instant in INSTANTS:
            say(db, range(instant, instant + 1))
            check_all(db, range(instant, instant + 1))


def test_late_and_after_a_restart_on_shards(tmp_path: Path) -> None:
    middle = len(INSTANTS) // 2
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("SET shards = 3")
        db.execute(TABLES)
        say(db, INSTANTS[:middle])
        register(db, "eager")
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        say(db, INSTANTS[middle:])
        check_all(db, INSTANTS)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lazy", "none"])
def test_in_other_modes(mode: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(TABLES)
        register(db, mode)
        say(db, INSTANTS)
        check_all(db, INSTANTS)


@pytest.mark.slow
def test_on_spark(session: Any) -> None:
    with ms.connect(spark=session) as db:
        db.execute("SET shards = 2")
        db.execute(TABLES)
        register(db, "eager")
        say(db, INSTANTS)
        check_all(db, INSTANTS)
