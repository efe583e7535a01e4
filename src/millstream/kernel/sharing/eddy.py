"""The eddy: chunks of rows on their way through the grouped filters of a block.

A row's bits start as all queries of the block; every module takes some away. A row need not go to a module that is
relevant to none of the queries still interested in it: it leaves the eddy when this is so for all modules that are
left, be it that no query wants it or that those which do have no further question.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millstream.kernel.eddy.filters import Draws, EddyMemory, FilterExperience, FilterProspects
from millstream.kernel.eddy.policies import Policy
from millstream.kernel.keys import Positions
from millstream.kernel.sharing.index import BlockFilter, IndexedBlock
from millstream.kernel.sharing.lineage import Bitmaps, Flags, any_bit

# A chunk: its bitmaps stay in the cache, and it is large enough that what is done once for it does not count.
_BYTES, _MOST_ROWS = 1 << 20, 1 << 13
_SAMPLE = 64  # rows of a chunk that the eddy learns from
_RAREST_LESSON = 32  # chunks from one lesson to the next, while nothing changes
_SURPRISE = 0.2  # a change in the part of the rows that leave
# Rows that leave are taken out where each row is expected to be spared so much of a module: looking for them costs.
_WORTH_WHILE = 0.4


class Eddy:
    """Routes rows through blocks. `entered` counts the rows that each module was given, for those who measure it.

    It learns from some chunks and sends those after them the same way; the more seldom, the longer nothing changed.
    """

    def __init__(self, policy: Policy, memory: EddyMemory, seed: int | None = None) -> None:
        self.policy = policy
        self.memory = memory
        self.draws = Draws(memory.seed() if seed is None else seed)
        self.entered: dict[str, int] = {}
        self._orders: dict[tuple[str, ...], list[int]] = {}
        self._buffer = np.empty(_BYTES // 8, np.uint64)
        self._pause = 0  # chunks until the next lesson
        self._longest = _RAREST_LESSON // 4 if memory else 1  # what is known need not be learnt anew

    def route(self, block: IndexedBlock, ranks: Sequence[Positions], bits: Bitmaps) -> Flags:
        """Write the bits of each row into `bits`, given its rank on each axis; which rows have any."""
        height, width = bits.shape
        wanted = np.empty(height, np.bool_)
        size = min(_BYTES // (8 * width), _MOST_ROWS)
        buffer = self._buffer[: size * width].reshape(size, width)
        modules = tuple(each.module for each in block.filters)
        passage = _Passage(block, self.policy, [self.memory.of(module) for module in modules], self.draws)
        for low in range(0, height, size):
            part = slice(low, min(low + size, height))
            chunk = _Chunk(block, ranks, part, bits[part], buffer)
            order = self._orders.get(modules)
            if self._pause and order is not None and self.policy.is_steady:
                self._pause -= 1
                if passage.follow(chunk, order):
                    self._pause, self._longest = 0, 1
            else:
                self._orders[modules], surprising = passage.learn(chunk)
                self._longest = 1 if surprising else min(2 * self._longest, _RAREST_LESSON)
                self._pause = self._longest - 1
            wanted[part] = any_bit(bits[part])  # while they are in the cache
        for module, entered in zip(modules, passage.entered, strict=True):
            self.entered[module] = self.entered.get(module, 0) + entered
        return wanted


def passed_through(block: IndexedBlock, ranks: Sequence[Positions], bits: Bitmaps) -> Flags:
    """Write the bits of rows into `bits` that go through all filters, one after the other; which rows have any."""
    chunk = _Chunk(block, ranks, slice(0, len(bits)), bits, np.empty_like(bits))
    for each in block.filters:
        chunk.apply(each)
    chunk.finish()
    return any_bit(bits)


class _Passage:
    """The way of chunks through one block: its filters by their places, and what is known of them."""

    def __init__(self, block: IndexedBlock, policy: Policy, known: Sequence[FilterExperience], draws: Draws) -> None:
        self.block = block
        self.policy = policy
        self.known = known
        self.draws = draws
        self.entered = [0] * len(known)
        self._pending: dict[tuple[int, ...], Bitmaps | None] = {}

    def follow(self, chunk: _Chunk, order: Sequence[int]) -> bool:
        """Send a chunk in a given order; whether it went otherwise than expected."""
        surprising = False
        for left, place in zip(range(len(order) - 1, -1, -1), order, strict=True):
            entered = len(chunk.current)
            self.entered[place] += entered
            chunk.apply(self.block.filters[place])
            expected = self.known[place].leaving
            if expected * left >= _WORTH_WHILE:
                chunk.keep(self._pending_of(order[-left:]))
                surprising |= abs(1 - chunk.height / entered - expected) > _SURPRISE
                if not chunk.height:
                    break
        chunk.finish()
        return surprising

    def learn(self, chunk: _Chunk) -> tuple[list[int], bool]:
        """Send a chunk as the policy chooses, step by step; the order, and whether something is not as it was."""
        left, order, surprising = list(range(len(self.known))), [], False
        while left and chunk.height:
            place = left[0] if len(left) == 1 else self._chosen(left, chunk)
            left.remove(place)
            order.append(place)
            before = self.known[place].leaving
            self._visit(chunk, place, left)
            surprising |= abs(self.known[place].leaving - before) > _SURPRISE
        chunk.finish()
        for place in left:
            self.known[place].learn(0, 0, 0, 0)
        return order + left, surprising

    def _chosen(self, left: Sequence[int], chunk: _Chunk) -> int:
        def leaving(place: int) -> int:
            others = [other for other in left if other != place]
            return chunk.leaving(self.block.filters[place], self._pending_of(others))

        return self.policy.choose(left, FilterProspects(self.known, self.draws, leaving))

    def _visit(self, chunk: _Chunk, place: int, left: Sequence[int]) -> None:
        each, known, entered = self.block.filters[place], self.known[place], chunk.height
        self.entered[place] += entered
        pending = self._pending_of(left)
        before = chunk.sampled(each.relevant)
        chunk.apply(each)
        decided = (before - chunk.sampled(each.relevant)) * entered
        known.learn(entered, decided, 1 - chunk.sampled_staying(pending), entered * len(each.lookups))
        if known.leaving * len(left) >= _WORTH_WHILE:
            chunk.keep(pending)

    def _pending_of(self, left: Sequence[int]) -> Bitmaps | None:
        """The queries that the modules left have something to say about; None for all of them."""
        key = tuple(sorted(left))
        if key not in self._pending:
            found = np.zeros_like(self.block.members)
            for place in key:
                found |= self.block.filters[place].relevant
            everyone = not left or bool((found == self.block.members).all())
            self._pending[key] = None if everyone else found
        return self._pending[key]


class _Chunk:
    """Rows that travel together. `bits` has the bits of all of them, `current` those of the rows still on their way."""

    def __init__(
        self, block: IndexedBlock, ranks: Sequence[Positions], part: slice, bits: Bitmaps, buffer: Bitmaps
    ) -> None:
        self.members = block.members
        self.ranks = ranks
        self.first = part.start
        self.part: slice | Positions = part  # which of the ranks are those of the current rows
        self.bits = bits
        self.buffer = buffer
        self.current = bits
        self.rows: Positions | None = None  # None while all are on their way
        self.is_new = True

    @property
    def height(self) -> int:
        return len(self.current)

    def apply(self, each: BlockFilter) -> None:
        if self.is_new:
            self._accepted(each, self.current)
            self.is_new = False
        else:
            np.bitwise_and(self.current, self._accepted(each, self.buffer[: self.height]), out=self.current)

    def _accepted(self, each: BlockFilter, into: Bitmaps) -> Bitmaps:
        first = each.lookups[0]
        # Clipping, since the check of bounds would go through a copy.
        first.bits.take(first.rows(self.ranks[first.axis][self.part]), axis=0, out=into, mode="clip")
        for lookup in each.lookups[1:]:
            into |= lookup.bits.take(lookup.rows(self.ranks[lookup.axis][self.part]), axis=0)
        return into

    def keep(self, pending: Bitmaps | None) -> None:
        """Let all rows leave that no pending query wants."""
        stay = np.flatnonzero(_wanted(self.current, pending))
        if stay.size == self.height:
            return
        if self.rows is None:
            self.rows = stay
        else:
            self.bits[self.rows] = self.current
            self.rows = self.rows[stay]
        self.part = self.rows + self.first
        self.current = self.current[stay]

    def finish(self) -> None:
        if self.is_new:
            self.bits[:] = self.members
        elif self.rows is not None:
            self.bits[self.rows] = self.current

    def leaving(self, each: BlockFilter, pending: Bitmaps | None) -> int:
        """How many rows would leave after a module."""
        accepted = self._accepted(each, self.buffer[: self.height])
        bits = accepted if self.is_new else accepted & self.current
        return self.height - int(np.count_nonzero(_wanted(bits, pending)))

    def sampled(self, queries: Bitmaps) -> float:
        """How many of these queries want a row, on average."""
        if self.is_new:
            return float(np.bitwise_count(queries & self.members).sum())
        sample = self._sample()
        return float(np.bitwise_count(sample & queries).sum()) / len(sample)

    def sampled_staying(self, pending: Bitmaps | None) -> float:
        wanted = _wanted(self._sample(), pending)
        return float(np.count_nonzero(wanted)) / wanted.size

    def _sample(self) -> Bitmaps:
        return self.current[:: max(1, self.height // _SAMPLE)]


def _wanted(bits: Bitmaps, pending: Bitmaps | None) -> Flags:
    return any_bit(bits if pending is None else bits & pending)
