"""Work that several operators have in common is done once, and what comes of it is kept once.

SteMs are shared by this: joins that keep the same rows of an input in the same order are given the same segments, name
them by the same names in what they keep, and merge them once, whatever else they join them with. Nobody has to know who
else has a segment: it stays as long as somebody names it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import polars as pl

# What was made, by what it was made of; that is held as well, so that nothing else gets its identity meanwhile.
_Done = dict[Hashable, tuple[Sequence[pl.DataFrame], Any]]
_Made = TypeVar("_Made")
_done: ContextVar[_Done | None] = ContextVar("done", default=None)


@contextmanager
def in_common() -> Iterator[None]:
    """Within the block, equal work on the very same frames is done once."""
    before = _done.set({})
    try:
        yield
    finally:
        _done.reset(before)


def once(make: Callable[[], _Made], frames: Sequence[pl.DataFrame], *how: Hashable) -> _Made:
    """What is made of the frames in some way."""
    done = _done.get()
    if done is None:
        return make()
    key = (tuple(map(id, frames)), how)
    if key not in done:
        done[key] = tuple(frames), make()
    made: _Made = done[key][1]
    return made
