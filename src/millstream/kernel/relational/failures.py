"""What fails, as rows: expressions that cannot be computed on a row make a row of another relation.

    Failing(R) = { (error of e(r), r, s, e, w) : (r, s, e, w) in R, e fails on r },
    Failures(E) = { }, and it fails once E has a row at an instant that is final

Equal rows fail in the same way. So errors of rows that are taken back are taken back too, and those that come to
nothing at every final instant were never there: whatever the batches, and however a plan made its rows. Where no row is
ever taken back an error is certain, and is only awaited until its instant is final (`Checked`).
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

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
    value_column,
    value_columns,
)
from millstream.kernel.distribution import Distribution, anywhere, by_value, same_columns
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.pending_errors import (
    ERROR,
    ERROR_COLUMNS,
    ERROR_QUERY,
    OPEN,
    PENDING,
    awaited,
    error_in,
    pending_of_queries,
)
from millstream.kernel.scalar.evaluate import failures, select_attempted
from millstream.kernel.scalar.expressions import TRUE, Expression
from millstream.kernel.scalar.program import DETAIL, HINT, PRIMARY, ROW
from millstream.kernel.sharing.expand import Expand
from millstream.kernel.sharing.keyed_selection import with_query
from millstream.kernel.sharing.lineage import BLOCK, LINEAGE
from millstream.types import Schema


class Failing(Operator):
    """The errors of expressions, on the rows on which `where`, which cannot fail, is true; with the `carried` columns
    of the rows, which say where they lie and tell them from others. Of rows with `lineage`, before those, each query
    that wants the row: an error of a group is that of a query.

    >>> remainder = call("%", [column(0), column(1)])
    >>> rows = batch((7, 2, 0, 10, +1), (8, 0, 4, 9, +1))
    >>> Run(Failing([remainder], carried=integers("v"))).step(rows, to=5)
    (remainder by zero in (c0 % c1), for c0 = 8, c1 = 0, use NULLIF(divisor, 0) to get NULL instead, 8, [4, 9), +1)
    """

    def __init__(
        self,
        expressions: Sequence[Expression],
        where: Expression = TRUE,
        carried: Schema = (),
        *,
        lineage: bool = False,
    ) -> None:
        self.carried = len(carried)
        self.lineage = lineage
        self.schema = (*ERROR, *with_query(carried)) if lineage else (*ERROR, *carried)
        self.expressions = tuple(expressions)
        self.where = where

    @property
    def distribution(self) -> Distribution:
        after = len(self.schema) - self.carried
        return anywhere(tuple((place, place + after) for place in range(self.carried)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0] if self.where == TRUE else select_attempted(inputs[0], self.where)
        found = failures(batch, self.expressions)
        if found is None:
            return empty_batch(self.schema), NO_STATE
        said = [found[name].alias(column) for name, column in zip((PRIMARY, DETAIL, HINT), ERROR_COLUMNS, strict=True)]
        rows = batch[found[ROW].to_list()]
        carried = (rows[value_column(place)].alias(value_column(place + len(ERROR))) for place in range(self.carried))
        errors = pl.DataFrame([*said, *carried, *(rows[name] for name in INTERVAL_COLUMNS)])
        return (self._by_query(errors, rows, progress) if self.lineage else errors), NO_STATE

    def _by_query(self, errors: Batch, rows: Batch, progress: Progress) -> Batch:
        with_lineage = pl.DataFrame([*errors.get_columns(), rows[BLOCK], rows[LINEAGE]])
        found, _ = Expand((*self.schema[: len(ERROR)], *self.schema[len(ERROR) + 1 :])).step(
            [with_lineage], NO_STATE, progress
        )
        query, *others = value_columns(len(self.schema))  # first, and is to come after the error
        order = [*others[: len(ERROR)], query, *others[len(ERROR) :]]
        named = zip(order, value_columns(len(self.schema)), strict=True)
        return found.select(*(pl.col(old).alias(new) for old, new in named), *INTERVAL_COLUMNS)


class Failures(Operator):
    """Keeps how often there is each error after the frontier, as change points; `first` is the first instant that
    counts.

    >>> run = Run(Failures(ERROR))
    >>> run.step(batch(("no", "", "", 5, 9, +1)), to=4)
    nothing
    >>> run.wait(to=5)
    Traceback (most recent call last):
        ...
    millstream.errors.EvaluationError: no
    """

    def __init__(self, errors: Schema, first: int = 0) -> None:
        self.schema: Schema = ()
        self.errors = errors
        self.first = first

    @property
    def distribution(self) -> Distribution:
        return by_value(len(self.errors))

    def of_queries(self, state: State, queries: pl.Series) -> State:
        return pending_of_queries(state, queries)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        pending = state.get(PENDING, ())
        if not pending and not any(batch.height for batch in inputs):
            return empty_batch(()), NO_STATE
        columns = value_columns(len(self.errors))
        arrived = changes(concat(inputs, empty_batch(self.errors)), columns)
        points = net_changes(pl.concat([*pending, arrived]), columns).sort(START, *columns, nulls_last=False)
        if self.first == OPEN:  # any instant may be the first that counts
            return empty_batch(()), {PENDING: (points,)} if points.height else NO_STATE
        if progress.low < self.first:
            return empty_batch(()), _kept(points, columns, progress.low)
        there = points.with_columns(
            pl.col(WEIGHT).cum_sum().over(columns).alias("there"),
            pl.col(START).shift(-1).over(columns).fill_null(INF).alias("until"),
        ).filter(pl.col("there") > 0, pl.col(START) <= progress.low, pl.col("until") > self.first)
        if there.height:
            raise error_in(there)
        return empty_batch(()), _kept(points, columns, progress.low)


def _kept(points: pl.DataFrame, columns: Sequence[str], low: int) -> State:
    """The change points ahead, and what there is of each error until then, as a change at the frontier."""
    before = points.filter(pl.col(START) <= low).group_by(columns, maintain_order=True).agg(pl.col(WEIGHT).sum())
    carried = before.filter(pl.col(WEIGHT) != 0).with_columns(pl.lit(low, pl.Int64).alias(START)).select(points.columns)
    kept = pl.concat([carried, points.filter(pl.col(START) > low)])
    return {PENDING: (kept,)} if kept.height else NO_STATE


class Checked(Operator):
    """Its first input as it is, and a failure with what is awaited; or once one of the errors that come on the others,
    which are of rows that are never taken back, is at a final instant. Without `rows` all inputs are such. In a group
    (`by_query`) errors have their query, and that of each is awaited.

    >>> run = Run(Checked(integers("v")))
    >>> run.step(batch((7, 0, 9, +1)), batch(("no", "", "", 5, 9, +1)), to=4)
    (7, [0, 9), +1)
    >>> run.wait(to=5)
    Traceback (most recent call last):
        ...
    millstream.errors.EvaluationError: no
    """

    def __init__(self, schema: Schema, first: int = 0, *, rows: bool = True, by_query: bool = False) -> None:
        self.schema = schema
        self.first = first
        self.rows = rows
        self.by_query = by_query

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)), ()) if self.rows else anywhere(())

    def of_queries(self, state: State, queries: pl.Series) -> State:
        return pending_of_queries(state, queries)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        of = [ERROR_QUERY] if self.by_query else []
        after = awaited(state, inputs[int(self.rows) :], self.first, progress.low, of)
        return inputs[0] if self.rows else empty_batch(()), after
