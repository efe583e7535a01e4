"""Selection for many queries that each require a key of their own.

    σ_Q(R) = { (q, r) : r in R, q in Q, key(r) = operand(q), rest of q's condition true on r }

Where queries ask for `user_id = ?`, a row is wanted by few of many: the queries are found by hashing, and the rest of
their conditions is evaluated on the pairs found. The rows come out once for each query, with the query in front.

Keeps errors of conditions until their instants are final; the query tables are the engine's, and the look-up table made
from them is kept in the process as long as they stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch, concat, value_column
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.keys import KEY, Positions, are_codes_exact, key_codes, stable_order
from millstream.kernel.operator import Operator, Progress, Segment, State
from millstream.kernel.pending_errors import ERROR_QUERY, awaited, pending_of_queries
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import (
    TRUE,
    Call,
    Expression,
    columns_used,
    conjunction,
    conjuncts,
    memoized,
)
from millstream.kernel.sharing.identity import Recent, number_of, serial_of
from millstream.kernel.sharing.normal_form import is_attribute
from millstream.kernel.sharing.parameters import (
    QUERIES,
    QUERY,
    by_shape,
    never_fails,
    parameters_as_columns,
    parameters_used,
)
from millstream.kernel.sharing.residual import holds
from millstream.kernel.storage.probing import equal_pairs, equal_values
from millstream.kernel.storage.segments import gather
from millstream.types import BIGINT, Field, Schema

_OPERAND, _PART, _ROW = "operand", "part", "row"


def equality_key(condition: Expression) -> tuple[Expression, Expression, Expression] | None:
    """(key, operand, rest): the first equality of an attribute with what each query has of its own, and all else."""
    return memoized(condition, "key", _found_key)[0]


def _found_key(condition: Expression) -> tuple[tuple[Expression, Expression, Expression] | None]:
    """Of a shape, which is asked again whenever another one comes to its group."""
    parts = conjuncts(condition)
    for place, part in enumerate(parts):
        if isinstance(part, Call) and part.function == "=":
            one, other = part.arguments
            for key, operand in ((one, other), (other, one)):
                if is_attribute(key) and _is_of_query(operand):
                    return ((key, operand, conjunction(parts[:place] + parts[place + 1 :])),)
    return (None,)


def _is_of_query(operand: Expression) -> bool:
    return bool(parameters_used(operand)) and not columns_used(operand) and never_fails(operand)


KeyedShapes = Mapping[str, tuple[Expression, Expression]]  # by name: the operand, and the rest of the condition


@dataclass(frozen=True)
class QueriesByKey:
    """The queries of all shapes by key: `found` has the operand, and which row of which part the query is."""

    found: Segment
    parts: tuple[tuple[Expression, pl.DataFrame], ...]


_tables: Recent[QueriesByKey] = Recent(1 << 29, lambda made: 64 + int(made.found.estimated_size()))


def queries_by_key(table: Sequence[Segment], shapes: KeyedShapes) -> QueriesByKey | None:
    """The queries of a query table; None where there are none."""
    tables = [(*shapes[shape], rows) for shape, found in by_shape(table, shapes).items() for rows in found]
    if not tables:
        return None
    numbers = tuple((number_of(operand), number_of(rest), serial_of(part)) for operand, rest, part in tables)
    return _tables.get(numbers, lambda: _table(tables))


def with_query(schema: Schema) -> Schema:
    """The schema of rows that have the query they belong to in front."""
    return (Field(QUERY, BIGINT), *schema)


def behind_query(width: int) -> Distribution:
    """Rows lie anywhere; their columns are behind the query in the output."""
    return anywhere(tuple((index, index + 1) for index in range(width)))


def expanded(queries: pl.Series, columns: Sequence[pl.Series]) -> Batch:
    """The rows with the query as c0 and their own value columns after it."""
    width = sum(not column.name.startswith("_") for column in columns)
    moved = {value_column(index): value_column(index + 1) for index in range(width)}
    return pl.DataFrame([queries.alias(value_column(0)), *(c.alias(moved.get(c.name, c.name)) for c in columns)])


class KeyedSelection(Operator):
    """Rows with their query in front, for queries of the shapes name -> (operand, rest of the condition).

    >>> of_key = KeyedSelection(integers("k", "v"), column(0), {"of": (parameter(0), TRUE)})
    >>> run = Run(of_key, queries(of={1: [5], 2: [8], 3: [5]}))
    >>> run.step(batch((5, 70, 0, 9, +1), (6, 80, 0, 9, +1)), to=2)
    (1, 5, 70, [0, 9), +1)
    (3, 5, 70, [0, 9), +1)
    """

    def __init__(self, schema: Schema, key: Expression, shapes: KeyedShapes) -> None:
        self.schema = with_query(schema)
        self.key = key
        self.shapes = dict(shapes)
        self.first = 0  # the first instant at which what fails counts
        self._width = len(schema)

    @property
    def distribution(self) -> Distribution:
        return behind_query(self._width)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        empty = expanded(pl.Series([], dtype=pl.Int64), batch.clear().get_columns())
        errors: list[Batch] = []
        table = queries_by_key(state.get(QUERIES, ()), self.shapes) if batch.height else None
        if table is None:
            return empty, awaited(state, errors, self.first, progress.low, [ERROR_QUERY])
        pieces = self._pieces(batch, table, errors)
        return concat(pieces, empty), awaited(state, errors, self.first, progress.low, [ERROR_QUERY])

    def of_queries(self, state: State, queries: pl.Series) -> State:
        return pending_of_queries(state, queries)

    def _pieces(self, batch: Batch, table: QueriesByKey, errors: list[Batch]) -> list[Batch]:
        probes = evaluate(batch, [self.key], [_OPERAND])
        known = np.flatnonzero(probes[_OPERAND].is_not_null().to_numpy())
        probes = pl.DataFrame(gather(probes, [_OPERAND], known))
        exact = are_codes_exact(probes, [_OPERAND]) and are_codes_exact(table.found, [_OPERAND])
        pieces = []
        for i, j in equal_pairs(table.found, key_codes(probes, [_OPERAND])):
            if not exact:
                equal = equal_values(probes, table.found, i, j, [_OPERAND], [_OPERAND])
                i, j = i[equal], j[equal]
            pieces.append(self._satisfying(batch, table, known[i], j, errors))
        return pieces

    def _satisfying(
        self, batch: Batch, table: QueriesByKey, rows: Positions, found: Positions, errors: list[Batch]
    ) -> Batch:
        part, row = (series.to_numpy()[found] for series in (table.found[_PART], table.found[_ROW]))
        kept = np.ones(rows.size, np.bool_)
        order = np.argsort(part, kind="stable")
        numbers, starts = np.unique(part[order], return_index=True)
        for number, here in zip(numbers, np.split(order, starts[1:]), strict=False):
            rest, segment = table.parts[number]
            if rest != TRUE:
                kept[here] = holds(rest, batch, rows[here], segment, row[here], self._width, errors)
        queries = table.found[QUERY][pl.Series(found[kept].astype(np.uint32))]
        return expanded(queries, gather(batch, batch.columns, rows[kept]))


def _table(tables: Sequence[tuple[Expression, Expression, Segment]]) -> QueriesByKey:
    frames = []
    for number, (operand, _, segment) in enumerate(tables):
        operands = evaluate(segment, [parameters_as_columns(operand, 0)], [_OPERAND]).to_series()
        rows = pl.Series(_ROW, np.arange(segment.height, dtype=np.int64))
        part = pl.repeat(number, segment.height, dtype=pl.Int32, eager=True).alias(_PART)
        frames.append(pl.DataFrame([operands, segment[QUERY], part, rows]))
    found = pl.concat(frames).drop_nulls(_OPERAND)
    codes = key_codes(found, [_OPERAND])
    order = stable_order(codes)
    arranged = pl.DataFrame([*gather(found, found.columns, order), pl.Series(KEY, codes[order])])
    return QueriesByKey(arranged, tuple((rest, segment) for _, rest, segment in tables))
