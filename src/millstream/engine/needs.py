"""What a pipeline needs of a source: the rows that its selections may let through.

    σ_p(W(S)) reads of S what satisfies p: windows of time and projections of columns do not look at other rows

So a file of history whose least and greatest values cannot satisfy p need not be read, nor can rows of it matter. Only
comparisons of whole numbers and texts with constants are used, and no conditions that may fail on a row: a query that
would have failed on what it came too late for must fail still.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import polars as pl

from millstream.kernel import linear
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Call, Column, Expression, InList, Literal, conjuncts
from millstream.kernel.window import TimeWindow

Value = int | str
Bounds = Mapping[str, tuple[Value, Value] | None]  # per column: None where nothing is known
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Within:
    """A column whose values lie between two, inclusive; None where there is no bound."""

    column: int
    low: Value | None
    high: Value | None

    def may_be_met(self, least: Value, greatest: Value) -> bool:
        if not isinstance(least, type(self.low if self.low is not None else self.high)):
            return True
        below = self.low is not None and greatest < self.low  # type: ignore[operator]
        return not below and not (self.high is not None and least > self.high)  # type: ignore[operator]


Need = tuple[Within, ...]  # all of them
Needs = tuple[Need, ...] | None  # one of them; None: everything is needed
EVERYTHING: Needs = None


def needs_of(pipeline: Pipeline, edge: str, shown: Collection[str]) -> Needs:
    """What of an edge's rows can matter to what is shown."""
    readers = [step for step in pipeline.steps if edge in step.inputs]
    if edge in shown or not readers:
        return EVERYTHING
    found: list[Need] = []
    for step in readers:
        needs = _needs_of_step(pipeline, step, shown)
        if needs is None:
            return EVERYTHING
        found += needs
    return tuple(dict.fromkeys(found))


def _needs_of_step(pipeline: Pipeline, step: Step, shown: Collection[str]) -> Needs:
    operator = step.operator
    if isinstance(operator, linear.Filter):
        if can_fail(operator.condition):
            return EVERYTHING
        within = tuple(w for part in conjuncts(operator.condition) if (w := _within(part)) is not None)
        return (within,) if within else EVERYTHING
    if isinstance(operator, TimeWindow):
        return needs_of(pipeline, step.name, shown)
    if isinstance(operator, linear.Project) and all(isinstance(e, Column) for e in operator.expressions):
        above = needs_of(pipeline, step.name, shown)
        columns = [e.index for e in operator.expressions if isinstance(e, Column)]
        return above and tuple(tuple(replace(w, column=columns[w.column]) for w in need) for need in above)
    return EVERYTHING


def _within(condition: Expression) -> Within | None:
    if isinstance(condition, InList) and isinstance(condition.argument, Column):
        kind = condition.argument.type
        known = [v.value for v in condition.values if isinstance(v, Literal) and v.type == kind and _is_known(v.value)]
        if not known or len(known) < len(condition.values):
            return None
        return Within(condition.argument.index, min(known), max(known))  # type: ignore[type-var, arg-type]
    if not (isinstance(condition, Call) and condition.function in _MIRRORED and len(condition.arguments) == 2):
        return None
    one, other, function = *condition.arguments, condition.function
    if isinstance(one, Literal):
        one, other, function = other, one, _MIRRORED[function]
    if not (isinstance(one, Column) and isinstance(other, Literal) and one.type == other.type):
        return None
    if not _is_known(other.value):
        return None
    low = other.value if function in ("=", ">", ">=") else None
    high = other.value if function in ("=", "<", "<=") else None
    return Within(one.index, low, high)  # type: ignore[arg-type]


def _is_known(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


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
    column = pl.col(names[within.column])
    if within.low is None:
        return column <= pl.lit(within.high)
    at_least = column >= pl.lit(within.low)
    return at_least if within.high is None else at_least & (column <= pl.lit(within.high))
