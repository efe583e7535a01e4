"""The order of rows by its definition, a key at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.kernel.ordering.sort_keys import SortKey

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
