"""Relation-to-relation: a SELECT over instantaneous relations, handed to DuckDB.

The tree that comes in is plain Spark SQL (windows and stream operators are gone, FROM items are leaves). It is printed,
read again by sqlglot's Spark dialect, which knows the functions, and printed for DuckDB with what differs replaced:
`/` on two integers truncates, division by zero fails, a cast to an integer cuts the fraction off.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import duckdb
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from tests.oracle.errors import OracleError

from millstream.language.dialect import CQL
from millstream.types import DataType

Row = tuple[Any, ...]

_MACROS = """
CREATE MACRO cql_remainder(a, b) AS CASE WHEN b = 0 AND a IS NOT NULL THEN error('division by zero') ELSE a % b END;
CREATE MACRO cql_whole(x BIGINT) AS x, (x DOUBLE) AS trunc(x), (x VARCHAR) AS x, (x BOOLEAN) AS x,
    (x TIMESTAMP) AS floor(epoch(x));
"""
_INTEGERS = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
_TIMESTAMPS = (exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)
_DIFFERENT = (exp.Div, exp.Mod, exp.Cast, exp.DataType, exp.TsOrDsAdd, exp.CountIf)
_REFUSED = ("rand", "random", "randn", "uuid", "now", "current_timestamp", "current_date", "localtimestamp")


class Column(NamedTuple):
    """A column of an instantaneous relation: its name and its type as DuckDB writes it."""

    name: str
    type: str


class StrictSpark(Spark):
    """Spark SQL in ANSI mode: CAST fails where TRY_CAST gives NULL."""

    class Parser(SparkParser):
        STRICT_CAST = True


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    """One for the process: it holds nothing but the macros."""
    opened = duckdb.connect(config={"threads": 1})
    # Without the optimizer, conditions are evaluated as written (`b <> 0 AND a / b > 1`), and small queries are faster.
    opened.execute("PRAGMA disable_optimizer")
    opened.execute("SET integer_division = true")  # `/` on two integers truncates
    opened.execute(_MACROS)
    return opened


def duckdb_type(kind: DataType) -> str:
    names = {"STRING": "VARCHAR", "BINARY": "BLOB", "TIMESTAMP_NTZ": "TIMESTAMP"}
    return names.get(str(kind), str(kind))


def spark_tree(tree: exp.Expr) -> exp.Expr:
    """The same query, its functions known by sqlglot."""
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() in _REFUSED:
            raise OracleError(f"{call.name} is refused: its answer depends on when it is asked")
    found = StrictSpark().parse(tree.sql(dialect=CQL))[0]
    assert found is not None
    return found


def duckdb_text(tree: exp.Expr) -> str:
    """The text of a Spark tree for DuckDB."""
    tree = tree.copy()
    for node in reversed(list(tree.find_all(*_DIFFERENT))):
        if isinstance(node, exp.Div):
            node.set("safe", False)  # division by zero is an error, not NULL
        elif isinstance(node, exp.Mod):
            node.replace(_call("cql_remainder", node.this, node.expression))
        elif isinstance(node, exp.Cast) and node.to.this in _INTEGERS:
            node.set("this", _whole(node.this))
        elif isinstance(node, exp.DataType) and node.this in _TIMESTAMPS:
            node.replace(exp.DataType.build("timestamp", dialect="duckdb"))
        elif isinstance(node, exp.TsOrDsAdd):  # a DATE, not the TIMESTAMP that DuckDB makes of it
            node.replace(exp.cast(node.copy(), "date"))
        elif isinstance(node, exp.CountIf):  # 0 over no rows, where DuckDB says NULL
            node.replace(_call("coalesce", node, exp.Literal.number(0)))
    return tree.sql("duckdb", identify=True)


def _whole(value: exp.Expr) -> exp.Expr:
    """What is cast to an integer, without its fraction. Macros cannot tell the type of an aggregate: it is a number."""
    if value.find(exp.AggFunc):
        return _call("trunc", exp.cast(value.copy(), "double"))
    return _call("cql_whole", value)


def _call(macro: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=macro, expressions=[argument.copy() for argument in arguments])


@functools.lru_cache(maxsize=1 << 16)
def evaluate(text: str, leaves: tuple[tuple[tuple[Column, ...], tuple[Row, ...]], ...] = ()) -> tuple[Row, ...]:
    """The rows of a query over leaves (columns and rows of each), which it calls leaf_0, leaf_1, ...

    The same question has the same answer in every database, so answers are remembered for all of them.
    """
    return _fetch(_with_leaves(text, leaves), [value for _, rows in leaves for row in rows for value in row])


@functools.lru_cache(maxsize=1 << 12)
def describe(text: str, leaves: tuple[tuple[Column, ...], ...]) -> tuple[Column, ...]:
    """The columns of a query over leaves."""
    found = _fetch("DESCRIBE " + _with_leaves(text, [(columns, ()) for columns in leaves]), [])
    return tuple(Column(name, kind) for name, kind, *_ in found)


def _with_leaves(text: str, leaves: Sequence[tuple[Sequence[Column], Sequence[Row]]]) -> str:
    tables = [f"leaf_{number} AS ({_leaf(columns, len(rows))})" for number, (columns, rows) in enumerate(leaves)]
    return f"WITH {', '.join(tables)} {text}" if tables else text


def _leaf(columns: Sequence[Column], count: int) -> str:
    places = ", ".join("?" * len(columns))
    values = ", ".join([f"({places})"] * count) or f"({', '.join(['NULL'] * len(columns))})"
    items = ", ".join(f'CAST(column{i} AS {kind}) AS "{name}"' for i, (name, kind) in enumerate(columns))
    return f"SELECT {items} FROM (VALUES {values}) AS leaf({_names(columns)})" + ("" if count else " WHERE false")


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(f"column{i}" for i in range(len(columns)))


def _fetch(text: str, parameters: list[Any]) -> tuple[Row, ...]:
    try:
        rows = connection().execute(text, parameters).fetchall()
    except duckdb.Error as error:
        raise OracleError(f"DuckDB: {str(error).splitlines()[0]}", detail=text) from None
    return tuple(tuple(canonical(value) for value in row) for row in rows)


def canonical(value: Any) -> Any:
    """One NaN for all, so that rows with NaN compare and hash as equal."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value
