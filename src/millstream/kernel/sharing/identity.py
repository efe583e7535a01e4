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

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        made = make()
        with self._lock:
            if key not in self._held:
                self._held[key] = made
                self._total += self._size(made)
            while self._total > self._most and len(self._held) > 1:
                _, dropped = self._held.popitem(last=False)
                self._total -= self._size(dropped)
        return made
