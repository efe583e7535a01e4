"""Pairs of rows that some query wants, found without looking at the others.

Signatures (`input_lineage`) that the same queries want are of one class. Of two inputs it is known which classes some
query wants together. Stored rows are found by key and class, so that a row meets only those that are wanted with it; or
by key and query, where rows are wanted by few queries, and these are of many classes. A pair that several queries want
is found for each of them then, and made for the first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import START
from millstream.kernel.keys import KEY, Codes, Positions, Ticks, stable_order
from millstream.kernel.operator import Segment
from millstream.kernel.sharing.lineage import Bitmaps, Flags
from millstream.kernel.storage.memory import can_keep_index
from millstream.kernel.storage.probing import equal_pairs, equal_runs, is_worth_halving, pairs_of_runs
from millstream.kernel.storage.segments import codes_of, numbers
from millstream.kernel.storage.time_spans import Span, within

SIGNATURE = "_signature"
_PROBES = 1 << 18  # look-ups that are made together
_PROBE_COST = 0.8  # what a look-up costs, by what it costs to look at a pair
_WORTH_IT = 1.0  # of the cost of looking at all pairs
_SALT = np.uint64(0x9E3779B97F4A7C15)
_POSITION, _CODE, _CLASS = "_position", "_code", "_class"

Signatures = npt.NDArray[np.int64]
ClassedPairs = tuple[Positions, Positions, Positions]
When = Callable[[], Span | None]  # rows that are stored in order of time would have to start


@dataclass(frozen=True)
class ClassMarks:
    """By what rows of each class are found: the marks of class after class, and how many each class has."""

    marks: Positions
    counts: Positions

    @property
    def firsts(self) -> Positions:
        return self.counts.cumsum() - self.counts

    def of(self, rows: Positions, classes: Positions) -> tuple[Positions, Positions]:
        """(row, mark) for each mark of the class of each row."""
        counts = self.counts[classes]
        ends = counts.cumsum()
        within = np.arange(int(ends[-1]) if ends.size else 0) - (ends - counts).repeat(counts)
        return rows.repeat(counts), self.marks[self.firsts[classes].repeat(counts) + within]


@dataclass(frozen=True)
class IndexWay:
    """A way to find stored rows of one input: by which marks they are known, and by which others look for them."""

    name: str
    known: ClassMarks
    looked_for: ClassMarks


class SignatureClasses:
    """The classes of the signatures of two inputs, and which queries want each: the flags of (class, query)."""

    def __init__(self, of_left: Positions, of_right: Positions, left: Flags, right: Flags) -> None:
        self._of, self._all = (of_left, of_right), (left, right)
        common = np.flatnonzero(left.any(axis=0) & right.any(axis=0))
        left, right = left[:, common], right[:, common]
        # As numbers that are exact: how many queries want both classes.
        self._together = left.astype(np.float32) @ right.T.astype(np.float32) > 0
        self._wants = left, right
        by_query = [_marks(flags) for flags in (left, right)]
        self._ways = [
            [
                IndexWay("class", _themselves(wanted.shape[1]), _marks(wanted)),
                IndexWay("query", by_query[source], by_query[1 - source]),
            ]
            for source, wanted in enumerate((self._together.T, self._together))
        ]

    def candidates(
        self, probe: Segment, stored: Segment, source: int, looked_at: float, when: When | None = None
    ) -> Iterator[ClassedPairs] | None:
        """(row of the probe, stored row of the input, place of their classes), as far as some query wants both; None
        where it costs less to look at all of them, which are about so many."""
        looking, found = self._of[1 - source][numbers(probe, SIGNATURE)], self._of[source][numbers(stored, SIGNATURE)]
        chosen, least = None, _WORTH_IT * looked_at
        for way, part in zip(self._ways[source], self._parts(looking, found, source), strict=True):
            cost = float(way.looked_for.counts[looking].sum()) * _PROBE_COST + part * looked_at
            if cost < least:
                chosen, least = way, cost
        return None if chosen is None else self._found(probe, stored, looking, found, chosen, source, when)

    def _places(self, looking: Positions, found: Positions, source: int) -> Positions:
        """Of pairs of classes among all: those of the left input one after the other."""
        left, right = (looking, found) if source == 1 else (found, looking)
        return left * len(self._wants[1]) + right

    @property
    def count(self) -> int:
        """Pairs of classes."""
        return int(self._together.size)

    def lineage(self) -> Bitmaps:
        """The bits of the queries of a single block that want rows of two classes, by their place."""
        left, right = (np.packbits(flags, axis=1, bitorder="little").view(np.uint64) for flags in self._all)
        return (left[:, None] & right[None]).reshape(-1, left.shape[1])

    @cached_property
    def _first(self) -> Positions:
        """Of each pair of classes the first query that wants both; where there is none, one that does not exist."""
        left, right = self._wants
        first = np.full((left.shape[0], right.shape[0]), left.shape[1], np.intp)
        for query in range(left.shape[1] - 1, -1, -1):
            first[np.ix_(left[:, query], right[:, query])] = query
        return first

    def _parts(self, looking: Positions, found: Positions, source: int) -> tuple[float, float]:
        """Of all pairs, the part that is looked at by class, and by query."""
        wanted = self._together if source == 1 else self._together.T
        shares = [
            np.bincount(classes, minlength=size) / max(classes.size, 1)
            for classes, size in zip((looking, found), wanted.shape, strict=True)
        ]
        queries = shares[0] @ self._wants[1 - source], shares[1] @ self._wants[source]
        return float(shares[0] @ wanted @ shares[1]), float(queries[0] @ queries[1])

    def _index(self, stored: Segment, classes: Positions, way: IndexWay) -> _ClassIndex:
        known = _class_indexes.get(id(stored))
        if known is None or known.made_by is not self or known.way is not way:
            made = self._indexed(stored, classes, way)
            if known is None:
                weakref.finalize(stored, _class_indexes.pop, id(stored), None)
            if known is not None or can_keep_index(stored, int(made.rows.estimated_size())):
                _class_indexes[id(stored)] = made
            return made
        return known

    def _indexed(self, stored: Segment, classes: Positions, way: IndexWay) -> _ClassIndex:
        rows, marks = way.known.of(np.arange(stored.height), classes)
        codes = codes_of(stored)[rows]
        salted = codes ^ _salts(marks)
        order = stable_order(salted)
        rows, codes, salted = rows[order], codes[order], salted[order]
        is_exact = bool((codes[1:] == codes[:-1])[salted[1:] == salted[:-1]].all())  # and so of one mark
        # What is looked at for each pair lies in the order in which pairs are found.
        index = pl.DataFrame(
            {
                KEY: salted,
                _POSITION: rows.astype(np.uint32),
                _CODE: codes,
                _CLASS: classes[rows].astype(np.uint32),
            }
        )
        return _ClassIndex(self, way, index, is_exact, numbers(stored, START) if START in stored.columns else None)

    def _found(
        self,
        probe: Segment,
        stored: Segment,
        looking: Positions,
        found: Positions,
        way: IndexWay,
        source: int,
        when: When | None = None,
    ) -> Iterator[ClassedPairs]:
        index = self._index(stored, found, way)
        own, ends = codes_of(probe), way.looked_for.counts[looking].cumsum()
        span = when() if when is not None and way.name == "class" and index.is_exact else None
        low = 0
        while low < probe.height:
            # As many rows as have so many marks to look for, and at least one.
            high = max(int(ends.searchsorted((ends[low - 1] if low else 0) + _PROBES, side="right")), low + 1)
            rows, marks = way.looked_for.of(np.arange(low, high), looking[low:high])
            if way.name == "class" and index.is_exact:
                yield from index.of_runs(own[rows], marks, rows, self._places(looking[rows], marks, source), span)
            else:
                yield from self._each_looked_at(index, own, looking, rows, marks, source)
            low = high

    def _each_looked_at(
        self,
        index: _ClassIndex,
        own: Codes,
        looking: Positions,
        rows: Positions,
        marks: Positions,
        source: int,
    ) -> Iterator[ClassedPairs]:
        """Pairs are looked at one by one: a row may be found by several queries, or by a code that is another's."""
        other, positions, found = (index.rows[name].to_numpy() for name in (_CODE, _POSITION, _CLASS))
        # Rows that a single query may want are found by that one.
        are_found_once = index.way.name == "class" or index.way.looked_for.counts[looking[rows]].max(initial=0) < 2
        for asked, places in equal_pairs(index.rows, own[rows] ^ _salts(marks)):
            i = rows[asked]
            classes = self._places(looking[i], found[places].astype(np.intp), source)
            kept = own[i] == other[places]
            if not are_found_once:
                kept &= self._first.take(classes) == marks[asked]
            if not kept.all():
                i, places, classes = i[kept], places[kept], classes[kept]
            yield i, positions[places].astype(np.intp), classes


@dataclass(frozen=True)
class _ClassIndex:
    """Rows of a segment by key and mark, as classes have it made; `is_exact` where no two of these have one code."""

    made_by: SignatureClasses
    way: IndexWay
    rows: Segment
    is_exact: bool
    starts: Ticks | None  # of the rows as they lie in the segment

    @cached_property
    def _starts(self) -> Ticks:
        assert self.starts is not None
        ordered: Ticks = self.starts[self.rows[_POSITION].to_numpy()]
        return ordered

    def of_runs(
        self, codes: Codes, marks: Positions, rows: Positions, classes: Positions, span: Span | None
    ) -> Iterator[ClassedPairs]:
        """Pairs of rows with these codes, and of what is found by key and mark: all rows of one have both, and stand as
        they do in their segment, by time if that is asked for."""
        first, past = equal_runs(self.rows, codes ^ _salts(marks))
        (some,) = (past > first).nonzero()
        some = some[self.rows[_CODE].to_numpy()[first[some]] == codes[some]]
        rows, classes, runs = rows[some], classes[some], (first[some], past[some])
        if span is not None and is_worth_halving(runs):
            runs = within(self._starts, runs, Span(None if span.low is None else span.low[rows], span.high[rows]))
        positions = self.rows[_POSITION].to_numpy()
        for asked, places in pairs_of_runs(*runs):
            yield rows[asked], positions[places].astype(np.intp), classes[asked]


def _marks(flags: Flags) -> ClassMarks:
    return ClassMarks(np.nonzero(flags)[1], np.count_nonzero(flags, axis=1))


def _themselves(count: int) -> ClassMarks:
    return ClassMarks(np.arange(count), np.ones(count, np.intp))


def _salts(marks: Positions) -> npt.NDArray[np.uint64]:
    return (marks.astype(np.uint64) + np.uint64(1)) * _SALT


_class_indexes: dict[int, _ClassIndex] = {}  # by the identity of the segment whose rows they have
