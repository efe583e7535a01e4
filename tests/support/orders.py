"""The order of rows by its definition, a key at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cmp_to_key, partial
from typing import Any

from tests.support.instants import Bag

from millstream.kernel.ordering.sort_keys import RowOrder, SortKey
from millstream.kernel.ordering.top import Places

# Floats are compared as texts, so that NaN is equal to itself.
_FLOATS = {"nan": 9.0, "0.0": 0.0, "-0.0": 0.0, "1.5": 1.5}


def compared(keys: Sequence[SortKey], one: Sequence[Any], other: Sequence[Any]) -> int:
    """Below 0 where the one comes first, above where the other does."""
    for key in keys:
        a, b = (_FLOATS.get(row[key.column], row[key.column]) for row in (one, other))
        if a is None and b is None:
            continue
        if a is None or b is None:
            return -1 if (a is None) == key.nulls_first else 1
        if a != b:
            return -1 if (a < b) != key.descending else 1
    return 0


def first_rows_of(order: RowOrder, places: Places) -> Callable[[list[Bag]], Bag]:
    """What the first rows of each partition are, of all rows of an instant."""

    def first_rows(bags: list[Bag]) -> Bag:
        partitions: dict[tuple[object, ...], list[tuple[Any, ...]]] = {}
        for values, count in bags[0].items():
            same = tuple("0.0" if value == "-0.0" else value for value in values)
            partitions.setdefault(tuple(same[column] for column in order.partition), []).extend([same] * count)
        found: Bag = Counter()
        for rows in partitions.values():
            everything = (*order.keys, *map(SortKey, (*order.ties, *range(len(rows[0])))))
            rows.sort(key=cmp_to_key(partial(compared, everything)))
            last = places.last
            if places.with_ties and places.limit and last < len(rows):
                while last < len(rows) and not compared(order.keys, rows[places.last - 1], rows[last]):
                    last += 1
            found.update(rows[places.offset : last])
        return found

    return first_rows
