"""Keeps the number of files small: neighbours of like size become one, in an epoch or beside it.

History files stay in the order of arrival, and in their periods. Results are also brought up to date: rows that ended
before the first instant that can still be asked for are left out, and those that cancel each other are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TypeVar

import polars as pl

from millstream.engine.epochs.parts import read_history, write_history
from millstream.engine.epochs.periods import by_period
from millstream.kernel.lazy import matches, postings, ranked_tree, tree_segments
from millstream.kernel.lazy.tree_segments import TreeShape
from millstream.kernel.sharing.lineage import of_equal_width
from millstream.kernel.stepping import note_step
from millstream.kernel.storage.coalescing import current
from millstream.state.faults import reach
from millstream.state.pool import Pool
from millstream.state.snapshot import HistoryFile, Names, Snapshot
from millstream.state.store import Store, Writer
from millstream.types import Schema

_Item = TypeVar("_Item")

_REMEMBERED = 100_000  # segments
FAN = 8  # so many of a size class become one
SMALLEST = 1 << 17  # bytes below which sizes do not matter
BUDGET = 1 << 28  # bytes that one merge takes in at most
_COPIES = 3  # of what a merge takes in are in memory at a time: as it was read, as one, and as it is written
_ROW_BYTES = 32  # about what a row of history takes


def history_merge_of(source: str) -> str:
    """What a merge is called."""
    return f"merge of the history of {source}"


def result_merge_of(edge: str) -> str:
    """What a merge is called."""
    return f"merge of {edge}"


@dataclass(frozen=True)
class HistoryMerge:
    """Neighbouring history files of a source and period."""

    source: str
    schema: Schema
    period_length: int
    files: tuple[HistoryFile, ...]
    made: tuple[HistoryFile, ...] = ()

    @property
    def name(self) -> str:
        """As it is noted while it is done."""
        return history_merge_of(self.source)

    def written(self) -> list[str]:
        """The names of what was made."""
        return [file.name for file in self.made]

    def bytes(self, store: Store) -> int:
        """That it takes in."""
        return sum(map(_bytes, self.files))

    def is_found_in(self, snapshot: Snapshot) -> bool:
        """Whether what it takes in is still there, as it was."""
        return _has_run(snapshot.history.get(self.source, ()), self.files)

    def names_read(self) -> list[str]:
        return [file.name for file in self.files]


@dataclass(frozen=True)
class ResultMerge:
    """Neighbouring result segments of an edge; instants before `first` are not asked for any more."""

    edge: str
    names: Names
    first: int
    tree: TreeShape | None = None
    made: Names = ()

    @property
    def name(self) -> str:
        """As it is noted while it is done."""
        return result_merge_of(self.edge)

    def written(self) -> list[str]:
        """The names of what was made."""
        return [*self.made]

    def bytes(self, store: Store) -> int:
        """That it takes in."""
        return sum(map(store.size, self.names))

    def is_found_in(self, snapshot: Snapshot) -> bool:
        """Whether what it takes in is still there, as it was."""
        return _has_run(snapshot.results.get(self.edge, ()), self.names)

    def names_read(self) -> list[str]:
        return [*self.names]


Merge = HistoryMerge | ResultMerge


def after_item(found: tuple[_Item, ...], item: _Item) -> tuple[_Item, ...]:
    """What comes after an item; all of it where that is not there."""
    return found[found.index(item) + 1 :] if item in found else found


def _has_run(found: Sequence[_Item], run: Sequence[_Item]) -> bool:
    if run[0] not in found:
        return False
    place = found.index(run[0])
    return tuple(found[place : place + len(run)]) == tuple(run)


def most_to_merge(pool: Pool) -> int:
    """The bytes that one merge takes in at most: the pool must have room for what is made of them too."""
    return min(BUDGET, pool.budget // _COPIES)


def history_merges(
    history: Mapping[str, tuple[HistoryFile, ...]],
    schemas: Mapping[str, Schema],
    lengths: Mapping[str, int],
    most: int = BUDGET,
) -> Iterator[HistoryMerge]:
    """At most one per source: in its newest period as in results, in older ones all that fits together."""
    for source, files in history.items():
        if len(files) > 1:
            *finished, newest = by_period(files, lengths[source])
            chosen = newest[_mergeable([_bytes(file) for file in newest], most)] or _left_over(finished, most)
            if chosen:
                yield HistoryMerge(source, schemas[source], lengths[source], tuple(chosen))


def _left_over(periods: Sequence[Sequence[HistoryFile]], most: int) -> Sequence[HistoryFile]:
    """The first neighbours that are of one period, which gets no more, and small enough to be one file."""
    found = (files[_fitting([_bytes(file) for file in files], most)] for files in periods if len(files) > 1)
    return next((files for files in found if files), ())


def _bytes(file: HistoryFile) -> int:
    return file.bytes or file.rows * _ROW_BYTES


class MatchEdges:
    """The edges that carry matches: how trees are to be rebuilt, and of which instants segments are."""

    def __init__(self) -> None:
        self.trees: dict[str, TreeShape | None] = {}  # None where there is no tree
        self._lasts: dict[str, int] = {}

    def expired(self, names: Names, first: int, store: Store) -> Names:
        """The oldest segments, as far as all their matches lie before an instant."""
        for place, name in enumerate(names):
            if name not in self._lasts:
                if len(self._lasts) >= _REMEMBERED:
                    self._lasts.clear()
                self._lasts[name] = _last_instant(store.read(name))
            if self._lasts[name] >= first:
                return names[:place]
        return names


def _last_instant(segment: pl.DataFrame) -> int:
    """Of the oldest elements of matches, the last."""
    if tree_segments.is_tree(segment):
        return tree_segments.last_instant(segment)
    return int((postings.Postings(segment).oldest if postings.is_packed(segment) else matches.oldest_of(segment))[-1])


def result_merges(
    results: Mapping[str, Names], first: Mapping[str, int], store: Store, matching: MatchEdges | None = None
) -> Iterator[ResultMerge]:
    most, matching = most_to_merge(store.pool), matching or MatchEdges()
    for edge, names in results.items():
        tree = matching.trees.get(edge)
        if edge in matching.trees and first[edge] > 0 and (gone := matching.expired(names, first[edge], store)):
            yield ResultMerge(edge, gone, first[edge], tree)
            continue
        chosen = names[_mergeable([store.size(name) for name in names], most)] if len(names) >= FAN else ()
        if chosen:
            yield ResultMerge(edge, chosen, first[edge], tree)


def perform(merge: Merge, store: Store, writer: Writer, epoch: int) -> Merge | None:
    """Do it; what was made of them is in what is given back. None where there is no room now: it is put off."""
    note_step(merge.name)
    if isinstance(merge, HistoryMerge):
        with store.pool.merge(_COPIES * merge.bytes(store)) as fits:
            if not fits:
                return None
            rows = pl.concat([read_history(store, file, merge.schema) for file in merge.files], rechunk=True)
            made = write_history(store, merge.source, merge.period_length, epoch, rows, merge.schema, apart=True)
            reach("files-merged")
            return replace(merge, made=(made,))
    with store.pool.merge(_COPIES * merge.bytes(store)) as fits:
        if not fits:
            return None
        kept = _merged([store.read_once(name) for name in merge.names], merge.first, merge.tree)
        results = (writer.write_packed(kept),) if kept.height else ()
        reach("files-merged")
        return replace(merge, made=results)


def _merged(segments: Sequence[pl.DataFrame], first: int, tree: TreeShape | None) -> pl.DataFrame:
    if tree is not None:
        return ranked_tree.merged(segments, tree, first)
    if postings.is_packed(segments[0]):
        return postings.merged(segments, first)
    if matches.is_matches(segments[0]):
        return matches.merged(segments, first)
    return current(pl.concat(of_equal_width(segments), rechunk=True), first)


def with_merged(found: Sequence[_Item], old: Sequence[_Item], new: Sequence[_Item]) -> tuple[_Item, ...]:
    """The sequence with the run `old` in it replaced; what was added meanwhile stays."""
    place = list(found).index(old[0])
    return (*found[:place], *new, *found[place + len(old) :])


def _mergeable(sizes: Sequence[int], most: int) -> slice:
    """Which items to make one: the most of the last that are of one size class or smaller, if they are enough; of
    them those that fit."""
    best, classes = slice(0), [_size_class(size) for size in sizes]
    for limit in range(max(classes, default=-1) + 1):
        larger = [place for place, size_class in enumerate(classes) if size_class > limit]
        first = larger[-1] + 1 if larger else 0
        if classes[first:].count(limit) >= FAN:
            fitting = _fitting(sizes[first:], most)
            if fitting.stop:
                best = slice(first + fitting.start, first + fitting.stop)
    return best


def _fitting(sizes: Sequence[int], most: int) -> slice:
    """The first run of several neighbours that are not too large together, as long as it can be."""
    first = total = 0
    for place, size in enumerate(sizes):
        if total + size > most:
            if place - first > 1:
                return slice(first, place)
            first, total = place, 0
        total += size
    return slice(first, len(sizes)) if len(sizes) - first > 1 and total <= most else slice(0, 0)


def _size_class(size: int) -> int:
    return max(0, int(log(size / SMALLEST, FAN)) + 1) if size > SMALLEST else 0
