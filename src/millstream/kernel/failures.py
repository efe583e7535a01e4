"""What fails, as rows: expressions that cannot be computed on a row make a row of another relation.

    Failing(R) = { (error of e(r), s, e, w) : (r, s, e, w) in R, e fails on r },
    Failures(E1, E2, ..) = { }, and it fails once E1 + E2 + .. has a row at an instant that is final

Equal rows fail in the same way. So errors of rows that are taken back are taken back too, and those that come to
nothing at every final instant were never there: whatever the batches, and however a plan made its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream.errors import EvaluationError
from millstream.kernel.batch import (
    INF,
    INTERVAL_COLUMNS,
    START,
    WEIGHT,
    Batch,
    changes,
    concat,
    empty_batch,
    net_changes,
    value_columns,
)
from millstream.kernel.distribution import Distribution, anywhere, by_key, same_columns
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.scalar.evaluate import failures, select_attempted
from millstream.kernel.scalar.expressions import TRUE, Expression
from millstream.kernel.scalar.program import DETAIL, HINT, PRIMARY, ROW
from millstream.types import STRING, Field, Schema

ERROR: Schema = tuple(Field(name, STRING) for name in (PRIMARY, DETAIL, HINT))
_COLUMNS = value_columns(len(ERROR))


class Failing(Operator):
    """The errors of expressions, on the rows on which `where`, which cannot fail, is true."""

    schema = ERROR

    def __init__(self, expressions: Sequence[Expression], where: Expression = TRUE) -> None:
        self.expressions = tuple(expressions)
        self.where = where

    @property
    def distribution(self) -> Distribution:
        return anywhere(())

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0] if self.where == TRUE else select_attempted(inputs[0], self.where)
        found = failures(batch, self.expressions)
        if found is None:
            return empty_batch(ERROR), NO_STATE
        said = [found[name].alias(column) for name, column in zip((PRIMARY, DETAIL, HINT), _COLUMNS, strict=True)]
        rows = batch[found[ROW].to_list()]
        return pl.DataFrame([*said, *(rows[name] for name in INTERVAL_COLUMNS)]), NO_STATE


class Failures(Operator):
    """Keeps how often there is each error after the frontier, as change points; `first` is the first instant that
    counts, `last` the last one."""

    schema: Schema = ()

    def __init__(self, first: int = 0, last: int = INF) -> None:
        self.first = first
        self.last = last

    @property
    def distribution(self) -> Distribution:
        return by_key([tuple(range(len(ERROR)))], ())

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        pending = state.get("pending", ())
        if not pending and not any(batch.height for batch in inputs):
            return empty_batch(()), NO_STATE
        arrived = changes(concat(inputs, empty_batch(ERROR)), _COLUMNS)
        points = net_changes(pl.concat([*pending, arrived]), _COLUMNS).sort(START, *_COLUMNS, nulls_last=False)
        low = min(progress.low, self.last)
        there = points.with_columns(
            pl.col(WEIGHT).cum_sum().over(_COLUMNS).alias("there"),
            pl.col(START).shift(-1).over(_COLUMNS).fill_null(INF).alias("until"),
        ).filter(pl.col("there") > 0, pl.col(START) <= low, pl.col("until") > self.first)
        if there.height:
            primary, detail, hint = there.row(0)[: len(ERROR)]
            raise EvaluationError(primary, detail=detail, hint=hint)
        kept = points.filter(pl.col(START) > progress.low)
        return empty_batch(()), {"pending": (kept,)} if kept.height else NO_STATE


class Checked(Operator):
    """Its input as it is: a step of its own, which fails with what is awaited."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return inputs[0], NO_STATE
