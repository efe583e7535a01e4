"""What a pipeline needs of a source: the rows that its selections may let through.

    σ_p(W(S)) reads of S what satisfies p: windows of time and projections of columns do not look at other rows

So a file of history whose least and greatest values cannot satisfy p need not be read, nor can rows of it matter. Only
comparisons of columns with constants are used, and no conditions that may fail on a row: a query that would have failed
on what it came too late for must fail still. Of a group p is what one of its queries asks; of many queries, what lies
between the least and the greatest of their constants.

NaN is greater than all other numbers, and no file says whether it has some: of floats a lower bound alone is of no use.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from types import MappingProxyType

import numpy as np
import polars as pl

from millstream.kernel.batch import value_columns
from millstream.kernel.lazy.matched_selection import MatchedSelection
from millstream.kernel.lazy.tree_selection import TreeSelection
from millstream.kernel.operator import Operator
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.relational import linear
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Call, Column, Expression, InList, Literal, conjuncts
from millstream.kernel.sharing.cells import CellSelection
from millstream.kernel.sharing.expanded_selection import ExpandedSelection
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.kernel.sharing.parameters import never_fails, with_values
from millstream.kernel.windows.bounds import WindowBounds
from millstream.kernel.windows.time import TimeWindow
from millstream.types import FLOAT, DataType, to_polars

Value = int | str | float | Decimal | dt.date
Bounds = Mapping[str, tuple[Value, Value] | None]  # per column: None where nothing is known
QueryConstants = Mapping[str, pl.DataFrame]  # the constants of queries of a group, by shape
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ONE_BY_ONE = 16  # queries of a group
_MANY = 64  # readers


@dataclass(frozen=True)
class Within:
    """A column whose values lie between two, inclusive; None where there is no bound."""

    column: int
    kind: DataType
    low: Value | None
    high: Value | None

    def may_be_met(self, least: Value, greatest: Value) -> bool:
        if type(least) is not type(self.low if self.low is not None else self.high):
            return True
        below = self.low is not None and greatest < self.low  # type: ignore[operator]
        return not below and not (self.high is not None and least > self.high)  # type: ignore[operator]


Need = tuple[Within, ...]  # all of them
Needs = tuple[Need, ...] | None  # one of them; None: everything is needed
EVERYTHING: Needs = None


def needs_of(
    pipeline: Pipeline, edge: str, shown: Collection[str], query_constants: QueryConstants = MappingProxyType({})
) -> Needs:
    """What of an edge's rows can matter to what is shown; where a group is, to the queries that are asked for."""
    readers = [step for step in pipeline.steps if edge in step.read]
    if edge in shown or not readers:
        return EVERYTHING
    found: list[Need] = []
    for step in readers:
        needs = _needs_of_step(pipeline, step, shown, query_constants)
        if needs is None:
            return EVERYTHING
        found += needs
    return _not_too_many(tuple(dict.fromkeys(found)))


def _not_too_many(needs: tuple[Need, ...]) -> Needs:
    """Of very many, what lies between the least and the greatest of all, by column."""
    if len(needs) <= _MANY:
        return needs
    everywhere = [{within.column: within for within in need} for need in needs]
    found = []
    for column, first in everywhere[0].items():
        given = [need[column] for need in everywhere if column in need]
        if len(given) == len(needs) and all(within.kind == first.kind for within in given):
            lows, highs = [within.low for within in given], [within.high for within in given]
            low, high = None if None in lows else min(lows), None if None in highs else max(highs)  # type: ignore[type-var]
            if low is not None or high is not None:
                found.append(Within(column, first.kind, low, high))
    return _one(_usable(found))


def _needs_of_step(pipeline: Pipeline, step: Step, shown: Collection[str], query_constants: QueryConstants) -> Needs:
    operator = step.operator
    if isinstance(operator, linear.Filter):
        return EVERYTHING if can_fail(operator.condition) else _one(_withins(operator.condition))
    if (conditions := _conditions(operator)) is not None:
        return _of_queries(conditions, query_constants)
    above = EVERYTHING
    if isinstance(operator, TimeWindow | linear.Stamp | WindowBounds):
        above = needs_of(pipeline, step.name, shown, query_constants)
    if isinstance(operator, linear.Stamp | WindowBounds):
        width = len(operator.schema) - (1 if isinstance(operator, linear.Stamp) else 2)  # what rows do not have yet
        return above if above and all(within.column < width for need in above for within in need) else EVERYTHING
    if isinstance(operator, linear.Project) and all(isinstance(e, Column) for e in operator.expressions):
        above = needs_of(pipeline, step.name, shown, query_constants)
        columns = [e.index for e in operator.expressions if isinstance(e, Column)]
        return above and tuple(tuple(replace(w, column=columns[w.column]) for w in need) for need in above)
    return above


def _one(need: Need) -> Needs:
    return (need,) if need else EVERYTHING


def _conditions(operator: Operator) -> Mapping[str, Expression] | None:
    """Of a selection for many queries: what they ask, by shape."""
    if isinstance(operator, ExpandedSelection | CellSelection | MatchedSelection | TreeSelection):
        operator = operator.selection
    return operator.shapes if isinstance(operator, GroupedSelection | KeyedSelection) else None


def _of_queries(conditions: Mapping[str, Expression], query_constants: QueryConstants) -> Needs:
    found: list[Need] = []
    for shape, constants in query_constants.items():
        condition = conditions.get(shape)
        if condition is None or not never_fails(condition):
            return EVERYTHING
        parts = conjuncts(condition)
        needs = [_need_between(parts, *values) for values in _constants(constants)]
        if not all(needs):
            return EVERYTHING
        found += needs
    return tuple(dict.fromkeys(found)) if found else EVERYTHING


def _constants(table: pl.DataFrame) -> Iterator[tuple[list[object], list[object]]]:
    """The constants of each query, twice; of many, the least and the greatest ones of all."""
    columns = [table.get_column(name) for name in value_columns(table.width) if name in table.columns]
    if not columns:
        yield [], []  # without constants all queries of the shape ask the same; a frame without columns has no rows
        return
    if table.height <= _ONE_BY_ONE:
        yield from (([*row], [*row]) for row in table.select(columns).iter_rows())
        return
    unknown = [bool(c.null_count()) or (c.dtype.is_float() and bool(c.is_nan().any())) for c in columns]
    known = list(zip(columns, unknown, strict=True))
    yield [None if no else c.min() for c, no in known], [None if no else c.max() for c, no in known]


def _need_between(parts: Sequence[Expression], least: Sequence[object], greatest: Sequence[object]) -> Need:
    """What rows must satisfy, given that constants lie between two."""
    found = []
    for part in parts:
        low, high = _within(with_values(part, least)), _within(with_values(part, greatest))
        if low is not None and high is not None:
            found.append(replace(low, high=high.high))
    return _usable(found)


def _withins(condition: Expression) -> Need:
    return _usable([within for part in conjuncts(condition) if (within := _within(part)) is not None])


def _usable(found: Sequence[Within]) -> Need:
    """All of them, one for each column."""
    columns: dict[int, Within] = {}
    for within in found:
        known = columns.get(within.column)
        columns[within.column] = within if known is None else _both(known, within)
    return tuple(within for within in columns.values() if within.high is not None or not within.kind.is_fractional)


def _both(one: Within, other: Within) -> Within:
    lows = [within.low for within in (one, other) if within.low is not None]
    highs = [within.high for within in (one, other) if within.high is not None]
    return replace(one, low=max(lows, default=None), high=min(highs, default=None))


def _within(condition: Expression) -> Within | None:
    if isinstance(condition, InList) and isinstance(condition.argument, Column):
        kind = condition.argument.type
        values = [_value(v) for v in condition.values if isinstance(v, Literal) and v.type == kind]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(condition.values):
            return None
        return Within(condition.argument.index, kind, min(known), max(known))
    if not (isinstance(condition, Call) and condition.function in _MIRRORED and len(condition.arguments) == 2):
        return None
    one, other, function = *condition.arguments, condition.function
    if isinstance(one, Literal):
        one, other, function = other, one, _MIRRORED[function]
    if not (isinstance(one, Column) and isinstance(other, Literal) and one.type == other.type):
        return None
    value = _value(other)
    if value is None:
        return None
    low, high = function in ("=", ">", ">="), function in ("=", "<", "<=")
    return Within(one.index, one.type, value if low else None, value if high else None)


def _value(constant: Literal) -> Value | None:
    """As the footers of files have it; None where it cannot be compared."""
    value, kind = constant.value, constant.type
    if kind.is_fractional and isinstance(value, int | float) and not isinstance(value, bool):
        number = float(np.float32(value)) if kind == FLOAT else float(value)
        return None if np.isnan(number) else number
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal | dt.date):
        return None
    return value


def may_have(needs: Needs, bounds: Bounds, names: list[str]) -> bool:
    """Whether rows whose columns lie within bounds may be needed."""
    if needs is None:
        return True

    def possible(within: Within) -> bool:
        found = bounds.get(names[within.column])
        return found is None or within.may_be_met(*found)

    return any(all(possible(within) for within in need) for need in needs)


def as_condition(needs: Needs, names: list[str]) -> pl.Expr | None:
    """The same for single rows; None where all are needed."""
    if needs is None:
        return None
    each = [reduce(lambda a, b: a & b, (_condition(within, names) for within in need)) for need in needs]
    return reduce(lambda a, b: a | b, each)


def _condition(within: Within, names: list[str]) -> pl.Expr:
    column, dtype = _column(names[within.column]), to_polars(within.kind)
    if within.low is None:
        return column <= pl.lit(within.high, dtype)
    at_least = column >= pl.lit(within.low, dtype)
    return at_least if within.high is None else at_least & (column <= pl.lit(within.high, dtype))


def _column(name: str) -> pl.Expr:
    """A column of that very name: to Polars `*` and `^..$` are patterns."""
    return pl.col(name if name.isidentifier() else f"^{re.escape(name)}$")
