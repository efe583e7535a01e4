"""Positions of rows that come and go: which row is the k-th at an instant, and how many stand before a row.

    before(x, i) = the copies of rows of rank < x at instant i,     nth(k, i) = the row of the k-th copy at instant i

The changes (rank, weight) of all partitions, by partition and time, are kept as a wavelet matrix: level by level, from
the highest bit of the ranks down, those with a 0 stand before those with a 1, each in their order. The changes of a
partition up to an instant are a range on the first level and, bit by bit, a range on each further one. So any number of
questions, about any partitions and instants, costs as many passes over arrays as a rank has bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Level:
    """How many zeros are among the first n changes, all of them, and what the first n of the level below weigh."""

    zeros: Int64s
    ones_from: int
    weights: Int64s


class Positions:
    """Of changes in the order of partitions and time. A question's `first` and `past` are the range of the changes of
    its partition up to its instant."""

    def __init__(self, ranks: Int64s, weights: Int64s) -> None:
        self._bits = int(ranks.max()).bit_length() if ranks.size else 0
        self._levels: list[_Level] = []
        self._weights = _sums(weights)
        for bit in reversed(range(self._bits)):
            is_one = ((ranks >> bit) & 1).astype(np.bool_)
            zeros = np.zeros(ranks.size + 1, np.int64)
            np.cumsum(~is_one, out=zeros[1:])
            order = np.concatenate((np.flatnonzero(~is_one), np.flatnonzero(is_one)))
            ranks, weights = ranks[order], weights[order]
            self._levels.append(_Level(zeros, int(zeros[-1]), _sums(weights)))

    def total(self, first: Int64s, past: Int64s) -> Int64s:
        """All copies."""
        found: Int64s = self._weights[past] - self._weights[first]
        return found

    def before(self, ranks: Int64s, first: Int64s, past: Int64s) -> tuple[Int64s, Int64s]:
        """The copies of lower rank, and those of the rank itself."""
        found = np.zeros(ranks.size, np.int64)
        ranks = np.minimum(ranks, 1 << self._bits)
        beyond = ranks >> self._bits != 0  # above all that there are
        for bit, level in zip(reversed(range(self._bits)), self._levels, strict=True):
            first_zero, past_zero = level.zeros[first], level.zeros[past]
            is_one = ((ranks >> bit) & 1).astype(np.bool_) | beyond
            found += np.where(is_one, level.weights[past_zero] - level.weights[first_zero], 0)
            first = np.where(is_one, level.ones_from + first - first_zero, first_zero)
            past = np.where(is_one, level.ones_from + past - past_zero, past_zero)
        last = self._levels[-1].weights if self._levels else self._weights
        own: Int64s = last[past] - last[first]
        return (found + np.where(beyond, own, 0), np.where(beyond, 0, own)) if beyond.any() else (found, own)

    def nth(self, places: Int64s, first: Int64s, past: Int64s) -> tuple[Int64s, Int64s]:
        """The ranks of the copies at these places, counted from 0, and how many copies of the same row stand before
        them. There must be as many copies."""
        ranks = np.zeros(places.size, np.int64)
        left = places.copy()
        for bit, level in zip(reversed(range(self._bits)), self._levels, strict=True):
            first_zero, past_zero = level.zeros[first], level.zeros[past]
            copies = level.weights[past_zero] - level.weights[first_zero]
            is_one = left >= copies
            left -= np.where(is_one, copies, 0)
            ranks |= is_one.astype(np.int64) << bit
            first = np.where(is_one, level.ones_from + first - first_zero, first_zero)
            past = np.where(is_one, level.ones_from + past - past_zero, past_zero)
        return ranks, left


def _sums(weights: Int64s) -> Int64s:
    sums = np.zeros(weights.size + 1, np.int64)
    np.cumsum(weights, out=sums[1:])
    return sums
