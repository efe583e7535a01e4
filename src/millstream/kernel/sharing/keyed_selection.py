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
from itertools import count

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
    never_fails,
    parameters_as_columns,
    parameters_used,
    shapes_of,
)
from millstream.kernel.sharing.residual import holds
from millstream.kernel.storage.probing import equal_pairs, equal_values
from millstream.kernel.storage.segments import gather
from millstream.types import BIGINT, Field, Schema, to_polars

_OPERAND, _PART, _SHAPE, _ROW = "operand", "part", "shape", "row"


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


@dataclass(frozen=True, eq=False)
class _Operands:
    """The queries of a segment by what they want the key to be: `found` has the operand, and which row and shape of the
    segment the query is; `rests` are what else the shapes ask."""

    serial: int
    shapes: tuple[str, ...]
    conditions: tuple[Expression | None, ...]
    found: pl.DataFrame
    rests: tuple[Expression, ...]
    segment: Segment


@dataclass(frozen=True, eq=False)
class QueriesByKey:
    """The queries of all segments by key: `found` has the operand, and which row and shape of which part it is."""

    found: Segment
    parts: tuple[_Operands, ...]


_serials = count()
_operands: Recent[_Operands] = Recent(1 << 28, lambda made: 64 + int(made.found.estimated_size()))
_tables: Recent[QueriesByKey] = Recent(1 << 29, lambda made: 64 + int(made.found.estimated_size()))


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
    """Rows with their query in front, for queries of shapes that each ask for the key: name -> condition.

    >>> of_key = KeyedSelection(integers("k", "v"), column(0), {"of": call("=", [column(0), parameter(0)])})
    >>> run = Run(of_key, queries(of={1: [5], 2: [8], 3: [5]}))
    >>> run.step(batch((5, 70, 0, 9, +1), (6, 80, 0, 9, +1)), to=2)
    (1, 5, 70, [0, 9), +1)
    (3, 5, 70, [0, 9), +1)
    """

    def __init__(self, schema: Schema, key: Expression, shapes: Mapping[str, Expression]) -> None:
        self.schema = with_query(schema)
        self.key = key
        self.shapes = shapes
        self.first = 0  # the first instant at which what fails counts
        self._width = len(schema)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "shapes": dict(self.shapes)}  # others may come meanwhile

    @property
    def distribution(self) -> Distribution:
        return behind_query(self._width)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        empty = expanded(pl.Series([], dtype=pl.Int64), batch.clear().get_columns())
        errors: list[Batch] = []
        table = self.queries(state.get(QUERIES, ())) if batch.height else None
        if table is None:
            return empty, awaited(state, errors, self.first, progress.low, [ERROR_QUERY])
        pieces = self._pieces(batch, table, errors)
        return concat(pieces, empty), awaited(state, errors, self.first, progress.low, [ERROR_QUERY])

    def queries(self, table: Sequence[Segment]) -> QueriesByKey | None:
        """Those of a query table by key; None where there are none."""
        parts = [part for segment in table if (part := self._operands(segment)).found.height]
        return _tables.get(tuple([part.serial for part in parts]), lambda: _table(parts)) if parts else None

    def _operands(self, segment: Segment) -> _Operands:
        def is_of(made: _Operands) -> bool:
            return tuple(map(self.shapes.get, made.shapes)) == made.conditions

        return _operands.get((number_of(self.key), serial_of(segment)), lambda: self._found(segment), is_of)

    def _found(self, segment: Segment) -> _Operands:
        names, which = shapes_of(segment)
        conditions = tuple(map(self.shapes.get, names))
        asked = [None if condition is None else self._split(condition) for condition in conditions]
        frames = [
            pl.DataFrame(schema={_OPERAND: to_polars(self.key.type), QUERY: pl.Int64, _SHAPE: pl.Int64, _ROW: pl.Int64})
        ]
        for operand in dict.fromkeys(each[0] for each in asked if each is not None):
            shapes = np.array([each is not None and each[0] == operand for each in asked], np.bool_)
            rows = np.flatnonzero(shapes[which])
            own = segment[rows]
            operands = evaluate(own, [parameters_as_columns(operand, 0)], [_OPERAND]).to_series()
            places = (pl.Series(name, values, pl.Int64) for name, values in ((_SHAPE, which[rows]), (_ROW, rows)))
            frames.append(pl.DataFrame([operands, own[QUERY], *places]))
        found = pl.concat(frames).drop_nulls(_OPERAND)
        rests = tuple(TRUE if each is None else each[1] for each in asked)
        return _Operands(next(_serials), names, conditions, found, rests, segment)

    def _split(self, condition: Expression) -> tuple[Expression, Expression]:
        """What a shape wants the key to be equal to, and the rest of it."""
        found = equality_key(condition)
        if found is None or found[0] != self.key:
            raise AssertionError(f"{condition} does not ask for {self.key}")
        return found[1], found[2]

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
        part, shape, row = (table.found[name].to_numpy()[found] for name in (_PART, _SHAPE, _ROW))
        kept = np.ones(rows.size, np.bool_)
        order = np.lexsort((shape, part))
        part, shape = part[order], shape[order]
        starts = np.flatnonzero((np.diff(part, prepend=-1) != 0) | (np.diff(shape, prepend=-1) != 0))
        for number, of, here in zip(part[starts], shape[starts], np.split(order, starts[1:]), strict=False):
            asked = table.parts[number]
            rest = asked.rests[of]
            if rest != TRUE:
                kept[here] = holds(rest, batch, rows[here], asked.segment, row[here], self._width, errors)
        queries = table.found[QUERY][pl.Series(found[kept].astype(np.uint32))]
        return expanded(queries, gather(batch, batch.columns, rows[kept]))


def _table(parts: Sequence[_Operands]) -> QueriesByKey:
    numbered = [part.found.with_columns(pl.lit(number, pl.Int64).alias(_PART)) for number, part in enumerate(parts)]
    found = pl.concat(numbered)
    codes = key_codes(found, [_OPERAND])
    order = stable_order(codes)
    arranged = pl.DataFrame([*gather(found, found.columns, order), pl.Series(KEY, codes[order])])
    return QueriesByKey(arranged, tuple(parts))
