"""How many rows leave what operators keep: since they have ended, or were taken back. For EXPLAIN ANALYZE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.batch import WEIGHT


@dataclass(slots=True)
class GoneRows:
    count: int = 0


_gone: ContextVar[GoneRows | None] = ContextVar("gone", default=None)


@contextmanager
def counting_gone() -> Iterator[GoneRows]:
    """Counts the rows that leave state within the block."""
    counted = GoneRows()
    before = _gone.set(counted)
    try:
        yield counted
    finally:
        _gone.reset(before)


def note_gone(before: Sequence[pl.DataFrame], arrived: int, after: Sequence[pl.DataFrame]) -> None:
    """What was kept, and how many rows came to it, and what is kept of both."""
    counted = _gone.get()
    if counted is not None:
        held = sum([segment.height for segment in before]) + arrived - sum([segment.height for segment in after])
        counted.count += max(held, 0)


def note_ended(points: Iterable[pl.DataFrame]) -> None:
    """Change points that are no longer kept, since their instants have come: where rows end, they are negative. Each of
    those that are sums stands for what ends in its group."""
    counted = _gone.get()
    if counted is not None:
        for part in points:
            named = WEIGHT in part.columns
            counted.count += int(np.count_nonzero(part.get_column(WEIGHT).to_numpy() < 0)) if named else part.height
