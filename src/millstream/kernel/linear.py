"""Selection, projection, union and negation: row by row, whatever the time.

    σ_p(R) = { (r, s, e, w) in R : p(r) },   π_f(R) = { (f(r), s, e, w) : (r, s, e, w) in R },   R + S,   -R

They keep nothing, and pass on every column that is not a value (interval, weight, arrival, lineage) as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream.kernel.batch import BORN, INTERVAL_COLUMNS, WEIGHT, Batch, batch_schema, value_columns
from millstream.kernel.distribution import Distribution, anywhere, same_columns
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.scalar.evaluate import evaluate, select_true
from millstream.kernel.scalar.expressions import Column, Expression
from millstream.types import Schema


class Filter(Operator):
    def __init__(self, schema: Schema, condition: Expression) -> None:
        self.schema = schema
        self.condition = condition

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return select_true(inputs[0], self.condition), NO_STATE


class Project(Operator):
    def __init__(self, schema: Schema, expressions: Sequence[Expression]) -> None:
        self.schema = schema
        self.expressions = tuple(expressions)

    @property
    def distribution(self) -> Distribution:
        columns = ((out, e.index) for out, e in enumerate(self.expressions) if isinstance(e, Column))
        return anywhere(tuple((index, out) for out, index in columns))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        values = evaluate(batch, self.expressions, value_columns(len(self.expressions)))
        rest = batch.select(name for name in batch.columns if name.startswith("_"))
        return pl.concat([values, rest], how="horizontal"), NO_STATE


class UnionAll(Operator):
    """Arrival numbers of different inputs cannot be compared, so they end here."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        columns = list(batch_schema(self.schema))
        if all(BORN in batch.columns for batch in inputs):
            columns.append(BORN)
        return pl.concat([batch.select(columns) for batch in inputs]), NO_STATE


class Negate(Operator):
    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return inputs[0].with_columns(-pl.col(WEIGHT)), NO_STATE


class OneRow(Operator):
    """The row without columns, from instant 0 on; its input is a source that never says anything."""

    schema: Schema = ()

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        first = progress.low_before < 0 <= progress.low
        rows = {name: [value] if first else [] for name, value in zip(INTERVAL_COLUMNS, (0, 2**63 - 1, 1), strict=True)}
        return pl.DataFrame(rows, schema=dict.fromkeys(INTERVAL_COLUMNS, pl.Int64)), NO_STATE
