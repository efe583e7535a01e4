"""By what rows are ordered: partitions, keys, and what decides between rows of equal keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.columns import are_equal, is_plain, is_small
from millstream.kernel.keys import KEY, Positions, are_codes_exact


@dataclass(frozen=True)
class SortKey:
    """A column, and how its values are ordered. NaN is above all numbers, as Spark has it."""

    column: int
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class RowOrder:
    """The order of all rows of each partition. Rows of equal keys are peers; they are ordered by `ties`, ascending and
    NULLS FIRST, and what is equal in all columns is the same row, perhaps with several copies."""

    partition: tuple[int, ...]
    keys: tuple[SortKey, ...]
    ties: tuple[int, ...] = ()

    @property
    def columns(self) -> set[int]:
        return {*self.partition, *(key.column for key in self.keys), *self.ties}

    def moved(self, places: Mapping[int, int]) -> RowOrder:
        """The same order where columns are at other places."""
        keys = tuple(replace(key, column=places[key.column]) for key in self.keys)
        partition, ties = (tuple(places[column] for column in part) for part in (self.partition, self.ties))
        return RowOrder(partition, keys, ties)

    def complete(self, width: int) -> RowOrder:
        """The same order with all columns of a row in it, each once: what stands behind itself changes nothing."""
        keys: dict[int, SortKey] = {}
        for key in self.keys:
            if key.column not in self.partition:
                keys.setdefault(key.column, key)
        others = [column for column in dict.fromkeys((*self.ties, *range(width))) if column not in keys]
        ties = tuple(column for column in others if column not in self.partition)
        return replace(self, keys=tuple(keys.values()), ties=ties)

    def sorted_places(self, rows: pl.DataFrame) -> Positions:
        """Where the rows stand, by the codes of their partitions, then in their order; of all columns (`complete`)."""
        partition = [value_column(column) for column in self.partition]
        exact = are_codes_exact(rows, partition)
        keys = [*([] if exact else map(SortKey, self.partition)), *self.keys, *map(SortKey, self.ties)]
        columns = [rows.get_column(value_column(key.column)) for key in keys]
        codes = rows.get_column(KEY)
        if is_small(rows.height) and all(map(is_plain, columns)):
            arrays = [_ordered(column, key) for column, key in zip(columns, keys, strict=True)]
            return np.lexsort([*reversed(arrays), codes.to_numpy()])
        order = rows.select(
            pl.arg_sort_by(
                KEY,
                *(column.name for column in columns),
                descending=[False, *(key.descending for key in keys)],
                nulls_last=[False, *(not key.nulls_first for key in keys)],
            )
        )
        return order.to_series().to_numpy().astype(np.intp)


def _ordered(column: pl.Series, key: SortKey) -> Positions:
    """Integers that ascend as the key orders them."""
    values: Positions = column.to_numpy()
    return ~values if key.descending else values


def differ_from_last(rows: pl.DataFrame, columns: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Of each row whether it differs from the one before it in some column; the first one does."""
    differ = np.zeros(rows.height, np.bool_)
    differ[:1] = True
    for name in columns:
        column = rows.get_column(name)
        differ[1:] |= ~are_equal(column.slice(1), column.slice(0, max(rows.height - 1, 0)))
    return differ
