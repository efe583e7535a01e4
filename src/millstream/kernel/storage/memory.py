"""The memory that operators may take beside what they are given, as whoever runs them says.

An operator asks before it merges segments, and before it keeps something beside one. Without room it does without: its
answers are the same, and its state means the same, in more segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import polars as pl


class Memory(Protocol):
    """Where the room is."""

    def room_for(self, size: int) -> bool:
        """Whether so many bytes may be taken for now."""
        ...

    def keep_index(self, segment: pl.DataFrame, size: int) -> bool:
        """Whether so many bytes may be taken for as long as the segment lasts."""
        ...


class Unlimited:
    def room_for(self, size: int) -> bool:
        return True

    def keep_index(self, segment: pl.DataFrame, size: int) -> bool:
        return True


_COPIES = 2  # of what is merged: the new segment, and what is written of it
_UNLIMITED = Unlimited()
_memory: ContextVar[Memory] = ContextVar("memory", default=_UNLIMITED)


@contextmanager
def using(memory: Memory) -> Iterator[None]:
    """Operators that run in the block take from this memory."""
    before = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(before)


def can_merge(segments: Sequence[pl.DataFrame]) -> bool:
    """Whether there is room for one segment in place of these."""
    return _memory.get().room_for(_COPIES * sum(int(segment.estimated_size()) for segment in segments))


def can_keep_index(segment: pl.DataFrame, size: int) -> bool:
    return _memory.get().keep_index(segment, size)
