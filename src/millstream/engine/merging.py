"""Keeps the number of files small: neighbours of like size become one, a few in every epoch.

History files stay in the order of arrival, and in their periods. Results are also brought up to date: rows that ended
before the first instant that can still be asked for are left out, and those that cancel each other are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TypeVar

import polars as pl

from millstream.engine.parts import read_history, write_history
from millstream.engine.periods import by_period
from millstream.kernel.batch import END, START, WEIGHT
from millstream.state.snapshot import HistoryFile, Names
from millstream.state.store import Store, Writer
from millstream.types import Schema

_Item = TypeVar("_Item")

FAN = 8  # so many of a size class become one
SMALLEST = 1 << 17  # bytes below which sizes do not matter
BUDGET = 1 << 28  # bytes that one merge takes at most
_ROW_BYTES = 32  # about what a row of history takes


@dataclass(frozen=True)
class HistoryMerge:
    """Neighbouring history files of a source and period."""

    source: str
    schema: Schema
    period_length: int
    files: tuple[HistoryFile, ...]
    made: tuple[HistoryFile, ...] = ()


@dataclass(frozen=True)
class ResultMerge:
    """Neighbouring result segments of an edge; instants before `first` are not asked for any more."""

    edge: str
    names: Names
    first: int
    made: Names = ()


Merge = HistoryMerge | ResultMerge


def history_merges(
    history: Mapping[str, tuple[HistoryFile, ...]], schemas: Mapping[str, Schema], lengths: Mapping[str, int]
) -> Iterator[HistoryMerge]:
    """At most one per source: in its newest period as in results, in older ones all that fits together."""
    for source, files in history.items():
        if len(files) > 1:
            *finished, newest = by_period(files, lengths[source])
            count = _mergeable([_bytes(file) for file in newest])
            chosen = newest[-count:] if count else _left_over(finished)
            if chosen:
                yield HistoryMerge(source, schemas[source], lengths[source], tuple(chosen))


def _left_over(periods: Sequence[Sequence[HistoryFile]]) -> list[HistoryFile]:
    """The first neighbours that are of one period, which gets no more, and small enough to be one file."""
    for files in periods:
        group: list[HistoryFile] = []
        for file in files:
            if group and sum(map(_bytes, group)) + _bytes(file) > BUDGET:
                if len(group) > 1:
                    return group
                group = []
            group.append(file)
        if len(group) > 1:
            return group
    return []


def _bytes(file: HistoryFile) -> int:
    return file.rows * _ROW_BYTES


def result_merges(results: Mapping[str, Names], first: Mapping[str, int], store: Store) -> Iterator[ResultMerge]:
    for edge, names in results.items():
        count = _mergeable([store.size(name) for name in names]) if len(names) >= FAN else 0
        if count:
            yield ResultMerge(edge, names[-count:], first[edge])


def perform(merge: Merge, store: Store, writer: Writer, epoch: int) -> Merge:
    """Do it; what was made of them is in what is given back."""
    if isinstance(merge, HistoryMerge):
        rows = pl.concat([read_history(store, file, merge.schema) for file in merge.files], rechunk=True)
        made = write_history(store, merge.source, merge.period_length, epoch, rows, merge.schema)
        return replace(merge, made=(made,))
    rows = pl.concat([store.read(name) for name in merge.names], rechunk=True)
    kept = current(rows, merge.first)
    return replace(merge, made=(writer.write(kept),) if kept.height else ())


def current(rows: pl.DataFrame, first: int) -> pl.DataFrame:
    """The same relation from the instant `first` on, in fewer rows."""
    if first > 0:
        rows = rows.filter(pl.col(END) > first).with_columns(pl.col(START).clip(lower_bound=first))
    if (rows[WEIGHT] < 0).any():
        identity = [name for name in rows.columns if name != WEIGHT]
        rows = rows.group_by(identity).agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) != 0).select(rows.columns)
    return rows


def with_merged(found: Sequence[_Item], old: Sequence[_Item], new: Sequence[_Item]) -> tuple[_Item, ...]:
    """The sequence with the run `old` in it replaced; what was added meanwhile stays."""
    place = list(found).index(old[0])
    return (*found[:place], *new, *found[place + len(old) :])


def _mergeable(sizes: Sequence[int]) -> int:
    """How many of the last items to make one: the most that are of one size class or smaller, if they are enough."""
    best, classes = 0, [_size_class(size) for size in sizes]
    for limit in range(max(classes, default=-1) + 1):
        larger = [place for place, size_class in enumerate(classes) if size_class > limit]
        first = larger[-1] + 1 if larger else 0
        if classes[first:].count(limit) >= FAN and sum(sizes[first:]) <= BUDGET:
            best = len(sizes) - first
    return best


def _size_class(size: int) -> int:
    return max(0, int(log(size / SMALLEST, FAN)) + 1) if size > SMALLEST else 0
