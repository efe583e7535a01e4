"""Constants of queries as columns of their rows, from where on they are needed.

    C(R) = { (q, r, constants of q) : (q, r) in R, q in the query table }

Keeps nothing; the query table is the engine's. Rows of queries that are gone are nobody's, and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.columns import only
from millstream.kernel.distribution import Distribution, anywhere, same_columns
from millstream.kernel.operator import NO_STATE, Operator, Progress, Segment, State
from millstream.kernel.sharing.identity import Recent, serial_of
from millstream.kernel.sharing.parameters import QUERIES, QUERY
from millstream.kernel.storage.segments import gather, numbers
from millstream.types import Field, Schema, to_polars


@dataclass(frozen=True)
class _Constants:
    """Of each query, by its number."""

    queries: npt.NDArray[np.int64]  # sorted
    values: pl.DataFrame


_tables: Recent[_Constants] = Recent(1 << 28, lambda made: 64 + int(made.values.estimated_size()))


class QueryConstants(Operator):
    """`schema` in is that of rows with their query in front; out, the constants stand behind it: the fields of some
    parameters of the query table, by their places in it.

    >>> second = QueryConstants(integers("query", "v"), {1: Field("?2", BIGINT)})
    >>> run = Run(second, queries(of={1: [5, 50], 2: [8, 80]}))
    >>> run.step(batch((1, 7, 0, 9, +1), (2, 7, 0, 9, +1), (3, 7, 0, 9, +1)), to=2)
    (1, 7, 50, [0, 9), +1)
    (2, 7, 80, [0, 9), +1)
    """

    def __init__(self, schema: Schema, parameters: dict[int, Field]) -> None:
        self.schema = (*schema, *parameters.values())
        self.parameters = parameters
        self._width = len(schema)

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(self._width))

    def is_idle(self, state: State, progress: Progress) -> bool:
        return True

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch, known = inputs[0], self._known(state.get(QUERIES, ()))
        asked = numbers(batch, value_column(0))
        at = np.minimum(np.searchsorted(known.queries, asked), max(known.queries.size - 1, 0))
        there = known.queries[at] == asked if known.queries.size else np.zeros(asked.size, np.bool_)
        if not there.all():
            batch, at = only(batch, there), at[there]
        values = gather(known.values, known.values.columns, at)
        placed = (own.alias(value_column(self._width + place)) for place, own in enumerate(values))
        columns = batch.get_columns()
        return pl.DataFrame([*columns[: self._width], *placed, *columns[self._width :]]), NO_STATE

    def _known(self, table: Sequence[Segment]) -> _Constants:
        return _tables.get((*self.parameters, -1, *map(serial_of, table)), lambda: self._made(table))

    def _made(self, table: Sequence[Segment]) -> _Constants:
        names = [value_column(index) for index in self.parameters]
        kinds = {value_column(index): to_polars(field.type) for index, field in self.parameters.items()}
        empty = pl.DataFrame(schema={QUERY: pl.Int64(), **kinds})
        rows = pl.concat([empty, *(segment.select(QUERY, *names) for segment in table)]).sort(QUERY)
        return _Constants(rows[QUERY].to_numpy(), rows.select(names))
