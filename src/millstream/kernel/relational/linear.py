"""Selection, projection and union: row by row, whatever the time.

    σ_p(R) = { (r, s, e, w) in R : p(r) },   π_f(R) = { (f(r), s, e, w) : (r, s, e, w) in R },   R + S

They keep nothing, and pass on every column that is not a value (interval, weight, arrival, lineage) as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce

import numpy as np
import polars as pl

from millstream.kernel.batch import (
    BORN,
    END,
    INTERVAL_COLUMNS,
    START,
    Batch,
    batch_schema,
    concat,
    saturating_add,
    value_column,
    value_columns,
)
from millstream.kernel.columns import frame_of, only, with_columns
from millstream.kernel.distribution import Distribution, anywhere, same_columns
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.scalar.evaluate import attempt, select_attempted
from millstream.kernel.scalar.expressions import Column, Expression, taken_from
from millstream.kernel.storage.segments import numbers
from millstream.types import Schema


class Filter(Operator):
    """σ_p(R) = { (r, s, e, w) in R : p(r) }: rows on which the condition is neither false nor NULL.

    >>> above = call(">", [column(0), literal(7)])
    >>> Run(Filter(integers("v"), above)).step(batch((7, 0, 10, +1), (8, 2, 4, +1)), to=5)
    (8, [2, 4), +1)
    """

    def __init__(self, schema: Schema, condition: Expression) -> None:
        self.schema = schema
        self.condition = condition

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return select_attempted(inputs[0], self.condition), NO_STATE


class Project(Operator):
    """π_f(R) = { (f(r), s, e, w) : (r, s, e, w) in R }, f being a list of expressions.

    >>> twice = call("+", [column(0), column(0)])
    >>> Run(Project(integers("v", "twice"), [column(0), twice])).step(batch((7, 0, 10, +1)), to=5)
    (7, 14, [0, 10), +1)
    """

    def __init__(self, schema: Schema, expressions: Sequence[Expression]) -> None:
        self.schema = schema
        self.expressions = tuple(expressions)
        columns = [value_column(column.index) for e in expressions if (column := taken_from(e)) is not None]
        # Where nothing is computed, series change their names: a query of Polars would cost more.
        self._columns = columns if len(columns) == len(self.expressions) else None

    @property
    def distribution(self) -> Distribution:
        columns = ((out, e.index) for out, e in enumerate(self.expressions) if isinstance(e, Column))
        return anywhere(tuple((index, out) for out, index in columns))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch, names = inputs[0], value_columns(len(self.expressions))
        if self._columns is None:
            values = attempt(batch, self.expressions, names).get_columns()
        else:
            values = [batch[column].alias(name) for column, name in zip(self._columns, names, strict=True)]
        rest = [batch[name] for name in batch.columns if name.startswith("_")]
        return frame_of([*values, *rest]), NO_STATE


class Stamp(Operator):
    """{ (r s, s, e, w) : (r, s, e, w) in R }: the start of a row as its last value.

    >>> Run(Stamp(integers("v", "t"))).step(batch((7, 3, 10, +1)), to=5)
    (7, 3, [3, 10), +1)
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema) - 1))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch, values = inputs[0], value_columns(len(self.schema))
        rest = [batch[name] for name in batch.columns if name.startswith("_")]
        return frame_of([*batch[values[:-1]], batch[START].alias(values[-1]), *rest]), NO_STATE


class Shorten(Operator):
    """{ (r, s, min(e, r.c + n ...), w) : (r, s, e, w) in R } for pairs (column c, ticks n), what is left of it.

    >>> Run(Shorten(integers("v", "t"), ends=[(1, 4)])).step(batch((7, 3, 3, 10, +1), (8, 0, 5, 10, +1)), to=5)
    (7, 3, [3, 7), +1)
    """

    def __init__(self, schema: Schema, ends: Sequence[tuple[int, int]]) -> None:
        self.schema = schema
        self.ends = tuple(ends)

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        limits = (saturating_add(numbers(batch, value_column(column)), ticks) for column, ticks in self.ends)
        ends = reduce(np.minimum, limits, numbers(batch, END))
        return only(with_columns(batch, pl.Series(END, ends)), numbers(batch, START) < ends), NO_STATE


class UnionAll(Operator):
    """R + S: the rows of all inputs. Arrival numbers of different inputs cannot be compared, so they end here.

    >>> Run(UnionAll(integers("v"))).step(batch((7, 3, 10, +1)), batch((7, 4, 5, -1)), to=5)
    (7, [3, 10), +1)
    (7, [4, 5), -1)
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        columns = list(batch_schema(self.schema))
        if all(BORN in batch.columns for batch in inputs):
            columns.append(BORN)
        ordered = (frame_of([batch.get_column(name) for name in columns]) for batch in inputs)
        return concat(ordered, _nothing(self.schema, BORN in columns)), NO_STATE


@lru_cache(maxsize=1024)
def _nothing(schema: Schema, born: bool) -> Batch:
    return pl.DataFrame(schema=batch_schema(schema) | ({BORN: pl.Int64()} if born else {}))


class OneRow(Operator):
    """The row without columns, from instant 0 on; its input is a source that never says anything.

    >>> Run(OneRow()).step(batch(), to=0)
    ([0, INF), +1)
    """

    schema: Schema = ()

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        first = progress.low_before < 0 <= progress.low
        rows = {name: [value] if first else [] for name, value in zip(INTERVAL_COLUMNS, (0, 2**63 - 1, 1), strict=True)}
        return pl.DataFrame(rows, schema=dict.fromkeys(INTERVAL_COLUMNS, pl.Int64)), NO_STATE


class Values(Operator):
    """Rows of constants, (row, 0, INF, +1) for each; its input is a source that never says anything.

    >>> Run(Values(integers("a"), [[1], [2]])).step(batch(), to=0)
    (1, [0, INF), +1)
    (2, [0, INF), +1)
    """

    def __init__(self, schema: Schema, rows: Sequence[Sequence[object]]) -> None:
        self.schema = schema
        self.rows = rows

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        first = progress.low_before < 0 <= progress.low
        rows = [(*row, 0, 2**63 - 1, 1) for row in self.rows] if first else []
        return pl.DataFrame(rows, schema=batch_schema(self.schema), orient="row"), NO_STATE
