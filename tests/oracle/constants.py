"""Constant expressions of statements: rows of INSERT, instants of AT, ADVANCE and BEGIN .. END."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from tests.oracle import relational
from tests.oracle.relational import Row
from tests.oracle.times import Instant


def instant(expression: exp.Expr) -> Instant | None:
    """Ticks, or a timestamp (also as a string)."""
    select = exp.Select(expressions=[expression.copy()])
    text = relational.duckdb_text(relational.spark_tree(select))
    value: Instant | None = relational.evaluate(text)[0][0]
    return value


def rows(expressions: Sequence[Sequence[exp.Expr]], kinds: Sequence[str]) -> list[Row]:
    """Rows of constants, each cast to its column's DuckDB type; all rows in one question."""
    width = len(kinds)
    flat = [value.copy() for row in expressions for value in row]
    values = relational.duckdb_text(relational.spark_tree(exp.Select(expressions=flat)))
    names = [f"c{i}" for i in range(len(flat))]
    casts = ", ".join(f"CAST({name} AS {kinds[i % width]})" for i, name in enumerate(names))
    found = relational.evaluate(f"SELECT {casts} FROM ({values}) AS constants({', '.join(names)})")[0]
    return [found[start : start + width] for start in range(0, len(found), width)]
