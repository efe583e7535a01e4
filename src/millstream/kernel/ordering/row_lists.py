"""Stretches of partitions at instants, as lists of rows one after the other: what functions of OVER look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from millstream.kernel.ordering.ordered_rows import Bools

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowLists:
    """Copies of rows, list by list and in their order.

    `row` is which row of the ordered ones each copy is of, `peers` the first of these of equal keys, `number` that of
    its list, `place` its place in the partition, from 0, and `total` how many copies the partition has.
    """

    row: Int64s
    peers: Int64s
    number: Int64s
    place: Int64s
    total: Int64s

    @property
    def size(self) -> int:
        return self.row.size

    @cached_property
    def _is_first(self) -> Bools:
        first = np.ones(self.size, np.bool_)
        first[1:] = self.number[1:] != self.number[:-1]
        return first

    @cached_property
    def begin(self) -> Int64s:
        """Of each copy where its list begins."""
        return _begins(self._is_first)

    @cached_property
    def past(self) -> Int64s:
        """Of each copy where its list has ended."""
        return _ends(self._is_first)

    @cached_property
    def starts_peers(self) -> Bools:
        first = self._is_first.copy()
        first[1:] |= self.peers[1:] != self.peers[:-1]
        return first

    @cached_property
    def first_peer(self) -> Int64s:
        return _begins(self.starts_peers)

    @cached_property
    def last_peer(self) -> Int64s:
        return _ends(self.starts_peers) - 1


def _begins(is_first: Bools) -> Int64s:
    """Of each place where its own stretch begins."""
    found: Int64s = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    return found


def _ends(is_first: Bools) -> Int64s:
    """Of each place where the stretch after its own begins."""
    firsts = np.flatnonzero(is_first)
    found: Int64s = np.append(firsts[1:], is_first.size)[np.cumsum(is_first) - 1]
    return found
