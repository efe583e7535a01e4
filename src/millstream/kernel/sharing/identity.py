"""Numbers for objects that stay the same, and what is computed from them, kept while it is of use.

Segments are immutable and stay the same objects between steps, so what is made from them is found again by their
identity. An address may be used again, a serial number never is.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

import polars as pl

_serials = count()
_of_frames: dict[int, int] = {}
_of_values: dict[Hashable, int] = {}
_values: list[Hashable] = []
_lock = threading.Lock()

Made = TypeVar("Made")


def serial_of(frame: pl.DataFrame) -> int:
    """A number that no other frame ever has."""
    known = _of_frames.get(id(frame))
    if known is None:
        with _lock:
            known = _of_frames.setdefault(id(frame), next(_serials))
        weakref.finalize(frame, _of_frames.pop, id(frame), None)
    return known


def number_of(value: Hashable) -> int:
    """A number that equal values share; for what there are not many of, such as conditions and attributes."""
    known = _of_values.get(value)
    if known is None:
        with _lock:
            known = _of_values.setdefault(value, len(_values))
            if known == len(_values):
                _values.append(value)
    return known


def value_of(number: int) -> Hashable:
    return _values[number]


class Recent(Generic[Made]):
    """What was made last, up to a total size; the most recent thing is kept whatever its size."""

    def __init__(self, most: int, size: Callable[[Made], int]) -> None:
        self._most = most
        self._size = size
        self._held: OrderedDict[Hashable, Made] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Made], is_of_use: Callable[[Made], bool] = lambda _: True) -> Made:
        """What is held, where it is still of use, or else what is made now."""
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
        if held is not None and is_of_use(held):
            return held
        made = make()
        with self._lock:
            before = self._held.pop(key, None)
            self._total += self._size(made) - (0 if before is None else self._size(before))
            self._held[key] = made
            while self._total > self._most and len(self._held) > 1:
                _, dropped = self._held.popitem(last=False)
                self._total -= self._size(dropped)
        return made
