"""The sub-tuples that are known not to be demanded (the paper's MNS buffer), and the marks on their parts.

Of a sub-tuple the code of its keys is kept, and that of its part on either side of the join. A row carries the mark of
a sub-tuple if it has the code of a part; a pair of rows that both carry marks is looked up by the code of both.

Codes are all that is needed: nothing opposite has the code, so that nothing opposite has any of the keys with it. A
sub-tuple is known until a partner with its code comes, or until no row carries its mark. Of those across the join only
some are kept, so that they do not take more than what is withheld would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import END
from millstream.kernel.columns import only
from millstream.kernel.just_in_time.blacklist import Flags
from millstream.kernel.just_in_time.variants.lattice import Ends
from millstream.kernel.keys import KEY, Codes, mixed, word_of
from millstream.kernel.operator import Segment
from millstream.kernel.storage.bloom import bloom_of
from millstream.kernel.storage.code_index import code_index
from millstream.kernel.storage.segments import codes_of, numbers
from millstream.kernel.storage.synopsis import merged, size_classes_to_merge

_MANY = 2_000  # codes above which a Bloom filter is asked first
PARTS = "_left", "_right"
NodeName = tuple[int, int]  # a demand, and a node


class Marks:
    """Those of one join, as they change during a step."""

    def __init__(self, kept: Mapping[NodeName, Sequence[Segment]], room: int) -> None:
        """`room` is for how many more that lie across the join: of the others there are no more than rows."""
        self.segments = {name: list(segments) for name, segments in kept.items()}
        self._room = room

    def knows(self, name: NodeName, codes: Codes) -> Flags:
        found = np.zeros(codes.size, np.bool_)
        for segment in self.segments.get(name, ()):
            if codes.size > _MANY:
                maybe = np.flatnonzero(bloom_of(segment, (KEY,)).may_have(codes))
                found[maybe] |= is_in(codes_of(segment), codes[maybe])
            else:
                found |= is_in(codes_of(segment), codes)
        return found

    def has_part(self, name: NodeName, side: int, codes: Codes) -> Flags:
        found = np.zeros(codes.size, np.bool_)
        again = mixed([codes])
        for segment in self.segments.get(name, ()):
            found |= is_in(code_index(segment, (PARTS[side],), ()).codes, again)
        return found

    def add(self, name: NodeName, codes: Codes, parts: tuple[Codes, Codes], ends: Ends, *, across: bool) -> int:
        """Sub-tuples that are not known yet; how many of them, from the first on, there was room for."""
        noted = min(codes.size, self._room) if across else codes.size
        if across:
            self._room -= noted
        if noted:
            order = np.argsort(codes[:noted])
            both = zip(PARTS, parts, strict=True)
            columns = [pl.Series(side, part[:noted][order].view(np.int64)) for side, part in both]
            ended = pl.Series(END, ends[:noted][order])
            segment = pl.DataFrame([pl.Series(KEY, codes[:noted][order]), *columns, ended])
            self.segments.setdefault(name, []).append(segment)
        return noted

    def remove(self, name: NodeName, codes: Codes) -> None:
        """Those that have one of the codes."""
        self._change(name, lambda segment: ~_at(codes_of(segment), codes))

    def forget(self, name: NodeName) -> None:
        self.segments.pop(name, None)

    def clear(self) -> None:
        self.segments = {}

    def _change(self, name: NodeName, keep: Callable[[Segment], Flags]) -> None:
        kept = [only(segment, keep(segment)) for segment in self.segments.get(name, ())]
        self.segments[name] = [segment for segment in kept if segment.height]

    def retained(
        self, horizon: int, carried: Callable[[NodeName, int, Codes], Ends]
    ) -> Iterator[tuple[NodeName, tuple[Segment, ...]]]:
        """What is kept of each node; `carried` says until when rows of a side carry the marks of parts."""
        for name, segments in self.segments.items():
            living = [self._living(name, segment, horizon, carried) for segment in segments]
            kept, merging = size_classes_to_merge([segment for segment in living if segment.height], 3)
            if kept or merging:
                yield name, (*kept, *([merged(merging)] if merging else []))

    @staticmethod
    def _living(
        name: NodeName, segment: Segment, horizon: int, carried: Callable[[NodeName, int, Codes], Ends]
    ) -> Segment:
        """Looked at once a quarter of it may have to go."""
        ends = numbers(segment, END)
        past = np.flatnonzero(ends <= horizon)
        if 4 * past.size < segment.height:
            return segment
        until = [carried(name, side, part_codes(segment, side)[past]) for side in (0, 1)]
        later = ends.copy()
        later[past] = np.minimum(*until)
        return only(segment.with_columns(pl.Series(END, later)), later > horizon)


def part_codes(segment: Segment, side: int) -> Codes:
    return numbers(segment, PARTS[side]).view(np.uint64)


def is_in(ordered: Codes, codes: Codes) -> Flags:
    """Which of the codes are among those that are in order."""
    if not ordered.size:
        return np.zeros(codes.size, np.bool_)
    found: Flags = ordered[np.minimum(ordered.searchsorted(codes), ordered.size - 1)] == codes
    return found


def _at(ordered: Codes, codes: Codes) -> Flags:
    """Which of those in order are among the codes."""
    found = codes[is_in(ordered, codes)]
    return is_in(np.unique(found), ordered) if found.size else np.zeros(ordered.size, np.bool_)


def codes_over(rows: Segment, columns: Sequence[str]) -> Codes:
    """Of all rows, by some of their columns."""
    return mixed([word_of(rows.get_column(name)) for name in columns])


def latest_ends(codes: Codes, columns: Sequence[str], segments: Sequence[Segment]) -> Ends:
    """The last end of any row that has each of the codes; -1 where none has."""
    known, which = np.unique(codes, return_inverse=True)
    ends = np.full(known.size, -1, np.int64)
    for segment in segments:
        found = codes_over(segment, columns)
        rows = np.flatnonzero(is_in(known, found))
        np.maximum.at(ends, known.searchsorted(found[rows]), numbers(segment, END)[rows])
    return ends[which]
