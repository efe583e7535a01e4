"""Pairs of rows that no equality connects: a condition is tested on pairs of distinct values, not of rows.

The parts of the condition that read the same columns are taken together. Those that read the fewest are tested first,
on all pairs of values that the columns have on either side, and pairs of rows are as their values are. What is left is
tested on the pairs that remain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.keys import Positions, physical
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.evaluate import attempt
from millstream.kernel.scalar.expressions import TRUE, Expression, columns_used, conjunction, conjuncts
from millstream.kernel.storage.probing import Pairs
from millstream.kernel.storage.segments import gather

_CHUNK = 1 << 20  # pairs of rows looked at together
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Crossing:
    """A condition that cannot fail, as it is tested: the parts that come first, and the others."""

    first: Expression
    rest: Expression

    @classmethod
    def of(cls, condition: Expression) -> Crossing:
        by_columns: dict[frozenset[int], list[Expression]] = {}
        for part in conjuncts(condition):
            by_columns.setdefault(frozenset(columns_used(part)), []).append(part)
        chosen = min(by_columns, key=len)
        rest = [part for columns, parts in by_columns.items() if columns != chosen for part in parts]
        return cls(conjunction(by_columns[chosen]), conjunction(rest))

    def pairs(self, rows: pl.DataFrame, segment: Segment, flags: Flags | None) -> Iterator[Pairs]:
        """All (row, position in the segment) of those that count for which the condition holds, in chunks."""
        positions = np.arange(segment.height) if flags is None else np.flatnonzero(flags)
        if not positions.size:
            return
        other = _Distinct.of(segment, positions, self.first)
        for part in _parts(np.arange(rows.height), other.count):
            own = _Distinct.of(rows, part, self.first)
            # Each value of one side with all of the other.
            i, j = np.arange(own.count).repeat(other.count), np.tile(np.arange(other.count), own.count)
            truth = holds(self.first, (own.values, i), (other.values, j)).reshape(own.count, other.count)
            for some in _parts(np.arange(part.size), positions.size):
                i, j = np.divmod(np.flatnonzero(truth[own.numbers[some]][:, other.numbers]), positions.size)
                i, j = part[some[i]], positions[j]
                if self.rest != TRUE and i.size:
                    kept = holds(self.rest, (rows, i), (segment, j))
                    i, j = i[kept], j[kept]
                yield i, j


def _parts(positions: Positions, partners: int) -> Iterator[Positions]:
    """So many together that the pairs with the partners are not too many."""
    height = max(1, _CHUNK // partners)
    for low in range(0, positions.size, height):
        yield positions[low : low + height]


@dataclass(frozen=True)
class _Distinct:
    """The distinct values of some columns, and of each row which of them it has."""

    values: pl.DataFrame
    numbers: Positions

    @property
    def count(self) -> int:
        return self.values.height

    @classmethod
    def of(cls, frame: pl.DataFrame, positions: Positions, condition: Expression) -> _Distinct:
        """Of the columns that a condition reads, for some rows. Values that are not plain numbers count as different,
        and so do those of several columns."""
        columns = [name for name in _read(condition) if name in frame.columns]
        values = [frame.get_column(name) for name in columns]
        if positions.size < frame.height:
            values = gather(frame, columns, positions)
        plain = all(one.dtype.is_integer() or one.dtype.is_temporal() for one in values)
        if len(values) != 1 or not plain or values[0].null_count():
            return cls(pl.DataFrame(values), np.arange(positions.size))
        _, firsts, numbers = np.unique(physical(values[0]), return_index=True, return_inverse=True)
        return cls(pl.DataFrame([values[0][pl.Series(firsts)]]), numbers)


def _read(condition: Expression) -> list[str]:
    return [value_column(index) for index in sorted(columns_used(condition))]


def holds(condition: Expression, *sides: tuple[pl.DataFrame, Positions]) -> Flags:
    """For pairs of rows, given by their positions in either frame."""
    columns: list[pl.Series] = []
    for frame, positions in sides:
        columns += gather(frame, [name for name in _read(condition) if name in frame.columns], positions)
    truth = attempt(pl.DataFrame(columns), [condition], ["holds"]).to_series()
    flags: Flags = (truth.fill_null(value=False) if truth.null_count() else truth).to_numpy()
    return flags
