"""Random shapes, query tables and batches, and what each query selects by itself."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl
from hypothesis import note
from hypothesis import strategies as st

from millstream import types
from millstream.kernel.batch import batch_schema, value_column, value_columns
from millstream.kernel.operator import Progress, State
from millstream.kernel.scalar.evaluate import select_true
from millstream.kernel.scalar.expressions import Call, Cast, Column, Expression, InList, Literal, Parameter
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing.parameters import QUERIES, QUERY, SHAPE, packed, with_values
from millstream.types import Field, Schema, to_polars

NO_TIME = Progress((0,), (0,))
WIDE = types.decimal(30, 2)

SCHEMA: Schema = (
    Field("i", types.INT),
    Field("l", types.BIGINT),
    Field("d", types.DOUBLE),
    Field("f", types.FLOAT),
    Field("n", types.decimal(6, 2)),
    Field("w", WIDE),
    Field("s", types.STRING),
    Field("t", types.TIMESTAMP),
    Field("y", types.DATE),
    Field("b", types.BOOLEAN),
    Field("x", types.BINARY),
)
NAN = math.nan
VALUES: dict[types.DataType, list[Any]] = {
    types.INT: [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1],
    types.BIGINT: [-(2**63), -1, 0, 1, 2, 2**63 - 2, 2**63 - 1],
    types.DOUBLE: [-math.inf, -1.5, -0.0, 0.0, 1.0, 1.5, math.inf, NAN],
    types.FLOAT: [-math.inf, -0.5, -0.0, 0.0, 0.5, 1.5, math.inf, NAN],
    types.decimal(6, 2): [Decimal("-1.50"), Decimal("0.00"), Decimal("0.01"), Decimal("1.50"), Decimal("9999.99")],
    WIDE: [Decimal("-9" * 1 + "9" * 27 + ".99"), Decimal("0.00"), Decimal("0.01"), Decimal("9" * 28 + ".99")],
    types.STRING: ["", "a", "aa", "ab", "b", "B", "a%", "é", "\U0010ffff", "a\U0010ffff"],
    types.TIMESTAMP: [dt.datetime(2020, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)],
    types.DATE: [dt.date(2020, 1, day) for day in (1, 2, 3)],
    types.BOOLEAN: [False, True],
    types.BINARY: [b"", b"a", b"\x00", b"a\x00", b"\xff", b"\xff\xff"],
}


def column(index: int) -> Column:
    return Column(SCHEMA[index].type, index, SCHEMA[index].name)


@dataclass(frozen=True)
class Template:
    """A condition and the types of its parameters."""

    condition: Expression
    parameters: tuple[types.DataType, ...]


class _Builder:
    """Draws conditions; each constant is a literal or one more parameter."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.parameters: list[types.DataType] = []

    def constant(self, kind: types.DataType) -> Expression:
        if self.draw(st.booleans()):
            return Literal(kind, self.draw(values_of(kind)))
        self.parameters.append(kind)
        return Parameter(kind, len(self.parameters) - 1)

    def attribute(self) -> Expression:
        return column(self.draw(st.integers(0, len(SCHEMA) - 1)))

    def condition(self, depth: int) -> Expression:
        form = self.draw(st.sampled_from(["and", "or", "not", "atom", "atom"])) if depth else "atom"
        if form == "atom":
            return self.atom()
        if form == "not":
            return call("not", [self.condition(depth - 1)])
        return call(form, [self.condition(depth - 1), self.condition(depth - 1)])

    def atom(self) -> Expression:
        forms: list[Callable[[], Expression]] = [
            self.comparison,
            self.comparison,
            self.comparison,
            self.membership,
            self.null_test,
            self.pattern,
            self.flag,
            self.widened,
            self.two_columns,
            self.without_columns,
            lambda: Literal(types.BOOLEAN, self.draw(st.sampled_from([True, False, None]))),
        ]
        return self.draw(st.sampled_from(forms))()

    def comparison(self) -> Expression:
        attribute = self.attribute()
        operator = self.draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
        sides = [attribute, self.constant(attribute.type)]
        return call(operator, sides if self.draw(st.booleans()) else sides[::-1])

    def membership(self) -> Expression:
        attribute = self.attribute()
        count = self.draw(st.integers(1, 3))
        return InList(types.BOOLEAN, attribute, tuple(self.constant(attribute.type) for _ in range(count)))

    def null_test(self) -> Expression:
        return call(self.draw(st.sampled_from(["isnull", "isnotnull"])), [self.attribute()])

    def pattern(self) -> Expression:
        if self.draw(st.booleans()):
            return call("startswith", [column(6), self.constant(types.STRING)])
        patterns = ["a%", "%", "", "a", "_", "%a", "a%b", "\U0010ffff%", "a\\%", "a\\%%", None]
        return call("like", [column(6), Literal(types.STRING, self.draw(st.sampled_from(patterns)))])

    def flag(self) -> Expression:
        return column(9)

    def widened(self) -> Expression:
        """Comparisons of different types: the binder casts the column, the constant or both."""
        kinds = [types.BIGINT, types.DOUBLE, types.decimal(6, 2), types.INT, types.STRING]
        index = self.draw(st.integers(0, 4))
        kind = self.draw(st.sampled_from(kinds if index != 4 else kinds[:4]))
        if kind == types.STRING:
            return Call(types.BOOLEAN, "<", (Cast(types.STRING, column(index)), self.constant(kind)))
        return call(self.draw(st.sampled_from(["=", "<", ">="])), [column(index), self.constant(kind)])

    def two_columns(self) -> Expression:
        return call("<", [column(0), call("+", [Cast(types.DOUBLE, column(1)), self.constant(types.DOUBLE)])])

    def without_columns(self) -> Expression:
        return call("=", [self.constant(types.INT), self.constant(types.INT)])


def values_of(kind: types.DataType) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, *VALUES[kind]])


@st.composite
def templates(draw: st.DrawFn, depth: int = 3) -> Template:
    builder = _Builder(draw)
    condition = builder.condition(depth)
    note(str(condition))
    return Template(condition, tuple(builder.parameters))


@st.composite
def query_tables(draw: st.DrawFn, template: Template, numbers: Sequence[int]) -> tuple[pl.DataFrame, ...]:
    """Segments of a query table with these query numbers."""
    rows = [(number, *(draw(values_of(kind)) for kind in template.parameters)) for number in numbers]
    cut = draw(st.integers(0, len(rows)))
    schema = {QUERY: pl.Int64()} | {value_column(i): to_polars(kind) for i, kind in enumerate(template.parameters)}
    return tuple(pl.DataFrame(part, schema=schema, orient="row") for part in (rows[:cut], rows[cut:]))


@st.composite
def batches(draw: st.DrawFn, most: int = 8) -> pl.DataFrame:
    rows = draw(
        st.lists(
            st.tuples(*(values_of(field.type) for field in SCHEMA), st.integers(0, 2), st.integers(3, 4), WEIGHTS),
            max_size=most,
        )
    )
    return pl.DataFrame(rows, schema=batch_schema(SCHEMA), orient="row")


WEIGHTS = st.sampled_from([1, 1, 2, -1])


def bag(frame: pl.DataFrame, columns: Sequence[str]) -> Counter[tuple[object, ...]]:
    """Rows with their weights; NaN equals itself and -0.0 is not 0.0."""
    rows: Counter[tuple[object, ...]] = Counter()
    for row in frame.select(*columns, "_start", "_end", "_weight").iter_rows():
        rows[tuple(repr(value) if isinstance(value, float) else value for value in row[:-1])] += row[-1]
    return Counter({row: weight for row, weight in rows.items() if weight})


def selected(batch: pl.DataFrame, condition: Expression) -> Counter[tuple[object, ...]]:
    return bag(select_true(batch, condition), value_columns(len(SCHEMA)))


def of_each_query(
    batch: pl.DataFrame, template: Template, segments: Sequence[pl.DataFrame]
) -> dict[int, Counter[tuple[object, ...]]]:
    """What every query selects by its own condition, with its constants written in."""
    table = pl.concat(segments)
    return {row[0]: selected(batch, with_values(template.condition, row[1:])) for row in table.iter_rows()}


def query_state(tables: Mapping[str, Sequence[pl.DataFrame]]) -> State:
    """The state of a selection whose queries are in some tables, by shape; its segments have queries of all shapes."""
    named = [rows.with_columns(pl.lit(shape).alias(SHAPE)) for shape, found in tables.items() for rows in found]
    return {QUERIES: tuple(packed(named[::2]) + packed(named[1::2]))}


def by_query(output: pl.DataFrame, width: int = len(SCHEMA)) -> dict[int, Counter[tuple[object, ...]]]:
    """Rows that have their query in front, by it."""
    parts = output.partition_by("c0", as_dict=True)
    return {int(query): bag(part, value_columns(width + 1)[1:]) for (query,), part in parts.items()}


def filled(expected: dict[int, Counter[tuple[object, ...]]]) -> dict[int, Counter[tuple[object, ...]]]:
    """Without the queries that want nothing."""
    return {query: rows for query, rows in expected.items() if rows}
