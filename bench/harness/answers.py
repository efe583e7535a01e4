"""Ways to keep an answer up to date while its rows come and go: what the update-pattern paper compares.

All take batches of weighted intervals and the frontier they are final up to, hold the answer from there on, and give it
at the frontier as (values, count). They are values themselves: `updated` gives a new one and leaves the old as it was,
so that a run can be repeated from where it was warm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import polars as pl

from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, changes, value_columns
from millstream.kernel.keys import KEY, key_codes, stable_order
from millstream.kernel.storage import time_queue
from millstream.kernel.storage.segments import gather
from millstream.kernel.storage.time_queue import TIME

COUNT = "count"


class Answer(ABC):
    """An answer as of the last frontier."""

    @abstractmethod
    def updated(self, batch: Batch, frontier: int) -> Self:
        """With more rows, and without those that nobody can see any more."""

    @abstractmethod
    def rows(self) -> int:
        """How many rows are held."""

    @abstractmethod
    def read(self) -> pl.DataFrame:
        """The values and how often each occurs, at the frontier."""


@dataclass(frozen=True)
class ExpiryGrouped(Answer):
    """The paper's partitioned structure: rows by when they end, a group dropped whole once its time has passed.

    A group stands for the ends within a `span` of time; rows are appended to it as they come. Rows with negative
    weights end as others do, and are summed with them when the answer is read.
    """

    width: int
    span: int
    groups: Mapping[int, tuple[pl.DataFrame, ...]] = field(default_factory=dict)
    frontier: int = -1

    def updated(self, batch: Batch, frontier: int) -> Self:
        current = (frontier + 1) // self.span
        groups = {group: parts for group, parts in self.groups.items() if group >= current}
        if batch.height:
            # Group 0 are the rows that have ended already: nobody will see them.
            number = np.maximum(batch.get_column(END).to_numpy() // self.span - current + 1, 0)
            if number.max() > np.iinfo(np.uint16).max:
                raise ValueError("a row that ends beyond all expiry groups")
            number = number.astype(np.uint16)
            columns = [*value_columns(self.width), START, END, WEIGHT]
            # Sorting small numbers takes linear time.
            ordered = pl.DataFrame(gather(batch.rechunk(), columns, np.argsort(number, kind="stable")))
            bounds = np.cumsum(np.bincount(number))
            for index in np.flatnonzero(np.diff(bounds)):
                part = ordered.slice(int(bounds[index]), int(bounds[index + 1] - bounds[index]))
                groups[current + int(index)] = (*groups.get(current + int(index), ()), part)
        return replace(self, groups=groups, frontier=frontier)

    def rows(self) -> int:
        return sum(part.height for parts in self.groups.values() for part in parts)

    def read(self) -> pl.DataFrame:
        parts = [part for parts in self.groups.values() for part in parts]
        return _counted(pl.concat(parts).filter(_seen_at(self.frontier)), self.width) if parts else _counted(None, 0)


@dataclass(frozen=True)
class Scanned(Answer):
    """One list without order, looked through for what has ended at every step: the paper's direct approach."""

    width: int
    held: pl.DataFrame | None = None
    frontier: int = -1

    def updated(self, batch: Batch, frontier: int) -> Self:
        held = batch.select(*value_columns(self.width), START, END, WEIGHT)
        held = held if self.held is None else pl.concat([self.held, held])
        return replace(self, held=held.filter(pl.col(END) > frontier), frontier=frontier)

    def rows(self) -> int:
        return 0 if self.held is None else self.held.height

    def read(self) -> pl.DataFrame:
        return _counted(None if self.held is None else self.held.filter(_seen_at(self.frontier)), self.width)


@dataclass(frozen=True)
class ByValue(Answer):
    """Counts by value, as negative tuples need them: what is taken back is found by what it says.

    Changes are gathered until they are as many as the values counted, and summed up with these then: a change takes
    part in about two sorts, which is far cheaper than counts that are exact after every step. Ends that lie ahead wait,
    sorted by time, and become changes when they are due.
    """

    width: int
    counts: pl.DataFrame | None = None
    changes: tuple[pl.DataFrame, ...] = ()
    ahead: tuple[pl.DataFrame, ...] = ()
    frontier: int = -1

    def updated(self, batch: Batch, frontier: int) -> Self:
        columns, new, ahead = value_columns(self.width), [*self.changes], self.ahead
        due = time_queue.due(ahead, self.frontier, frontier)
        new += [part.select(*columns, WEIGHT) for part in due]
        ahead = time_queue.advanced(ahead, frontier)
        if batch.height and _is_settled(batch, frontier):
            new.append(batch.select(*columns, WEIGHT))
        elif batch.height:
            points = changes(batch, columns)
            is_due = points.get_column(START) <= frontier
            new.append(points.filter(is_due).select(*columns, WEIGHT))
            ahead = time_queue.pushed(ahead, points.filter(~is_due).rename({START: TIME}), frontier)
        if sum(part.height for part in new) < (self.counts.height if self.counts is not None else 1):
            return replace(self, changes=tuple(new), ahead=ahead, frontier=frontier)
        return replace(self, counts=self._summed(new), changes=(), ahead=ahead, frontier=frontier)

    def _summed(self, new: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Sorted by the codes of the values: three times as fast as Polars' group_by over several columns."""
        columns = value_columns(self.width)
        keyed = [part.with_columns(pl.Series(KEY, key_codes(part, columns))) for part in new]
        rows = pl.concat([*([] if self.counts is None else [self.counts]), *keyed], rechunk=True)
        codes = rows.get_column(KEY).to_numpy()
        order = stable_order(codes)
        first = np.append(True, codes[order[1:]] != codes[order[:-1]])[: order.size]
        same = np.flatnonzero(~first)
        for column in columns:
            held = rows.get_column(column).to_numpy()
            if (held[order[same]] != held[order[same - 1]]).any():
                raise NotImplementedError("two values with one code")
        firsts = np.flatnonzero(first)
        weights = np.add.reduceat(rows.get_column(WEIGHT).to_numpy()[order], firsts) if firsts.size else firsts
        kept = np.flatnonzero(weights)
        values = gather(rows, columns, order[firsts[kept]])
        return pl.DataFrame([*values, pl.Series(WEIGHT, weights[kept]), pl.Series(KEY, codes[order[firsts[kept]]])])

    def rows(self) -> int:
        parts = (*self.changes, *self.ahead)
        return sum(part.height for part in parts) + (0 if self.counts is None else self.counts.height)

    def read(self) -> pl.DataFrame:
        counts = [] if self.counts is None else [self.counts.drop(KEY)]
        parts = [*counts, *self.changes]
        return _counted(pl.concat(parts), self.width) if parts else _counted(None, 0)


def _is_settled(batch: Batch, frontier: int) -> bool:
    """Whether all rows begin by the frontier and have no end: they are changes as they stand."""
    starts, ends = batch.get_column(START).to_numpy(), batch.get_column(END).to_numpy()
    return bool(starts.max() <= frontier and ends.min() == INF)


def _seen_at(instant: int) -> pl.Expr:
    return (pl.col(START) <= instant) & (pl.col(END) > instant)


def _counted(rows: pl.DataFrame | None, width: int) -> pl.DataFrame:
    if rows is None:
        return pl.DataFrame(schema={COUNT: pl.Int64})
    counts = rows.group_by(value_columns(width)).agg(pl.col(WEIGHT).sum().alias(COUNT))
    return counts.filter(pl.col(COUNT) != 0)
