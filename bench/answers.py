"""Ways to keep an answer up to date while its rows come and go: what the update-pattern paper compares.

All take batches of weighted intervals and the frontier they are final up to, hold the answer from there on, and give it
at the frontier as (values, count). They are values themselves: `updated` gives a new one and leaves the old as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import polars as pl

from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_columns
from millstream.kernel.join import gather

COUNT = "count"


class Answer(ABC):
    """An answer of so many columns, as of the last frontier."""

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

    A group stands for the ends of a `span` of time; rows are appended to it as they come. Rows with negative weights
    end as others do, and are summed with them when the answer is read.
    """

    width: int
    span: int
    groups: Mapping[int, tuple[pl.DataFrame, ...]] = field(default_factory=dict)
    frontier: int = -1

    def updated(self, batch: Batch, frontier: int) -> Self:
        past = (frontier + 1) // self.span
        groups = {group: parts for group, parts in self.groups.items() if group >= past}
        if batch.height:
            ends = batch.get_column(END).to_numpy()
            if (ends == INF).any():
                raise AssertionError("a row without an end can be in no expiry group")
            group = ends // self.span - past
            if group.max(initial=0) > np.iinfo(np.uint16).max:
                raise AssertionError("too many expiry groups")
            # Sorting small numbers is linear; what has ended already sorts first, and is left out.
            small = np.maximum(group + 1, 0).astype(np.uint16)
            order = np.argsort(small, kind="stable")
            columns = [*value_columns(self.width), START, END, WEIGHT]
            sorted_rows = pl.DataFrame(gather(batch.rechunk(), columns, order))
            bounds = np.cumsum(np.bincount(small))
            for number in range(1, bounds.size):
                low, high = int(bounds[number - 1]), int(bounds[number])
                if low < high:
                    key = past + number - 1
                    groups[key] = (*groups.get(key, ()), sorted_rows.slice(low, high - low))
        return replace(self, groups=groups, frontier=frontier)

    def rows(self) -> int:
        return sum(part.height for parts in self.groups.values() for part in parts)

    def read(self) -> pl.DataFrame:
        seen = (pl.col(START) <= self.frontier) & (pl.col(END) > self.frontier)
        parts = [part.lazy().filter(seen) for parts in self.groups.values() for part in parts]
        return _summed(pl.concat(parts).collect(), self.width) if parts else _nothing()


@dataclass(frozen=True)
class Scanned(Answer):
    """One list without order, looked through for what has ended at every step: the paper's direct approach."""

    width: int
    held: pl.DataFrame | None = None
    frontier: int = -1

    def updated(self, batch: Batch, frontier: int) -> Self:
        held = batch.select(*value_columns(self.width), START, END, WEIGHT)
        if self.held is not None:
            held = pl.concat([self.held, held])
        return replace(self, held=held.filter(pl.col(END) > frontier + 1), frontier=frontier)

    def rows(self) -> int:
        return 0 if self.held is None else self.held.height

    def read(self) -> pl.DataFrame:
        if self.held is None:
            return _nothing()
        seen = (pl.col(START) <= self.frontier) & (pl.col(END) > self.frontier)
        return _summed(self.held.filter(seen), self.width)


@dataclass(frozen=True)
class ByValue(Answer):
    """Counts by value, as negative tuples need them: what is taken back is found by what it says.

    Changes are gathered until they are as many as the values counted, and then summed up with these, so that a change
    costs two insertions into a hash table on average: cheaper than any table that is kept exact at every step. Ends
    that lie ahead wait, sorted by time in the groups of an `ExpiryGrouped`, and become changes when they are due.
    """

    width: int
    counted: pl.DataFrame | None = None
    changes: tuple[pl.DataFrame, ...] = ()
    ahead: tuple[pl.DataFrame, ...] = ()

    def updated(self, batch: Batch, frontier: int) -> Self:
        columns = value_columns(self.width)
        changes, ahead = [*self.changes], []
        instants = batch.get_column(START)
        if batch.height and (instants.max() > frontier or batch.get_column(END).min() < INF):  # type: ignore[operator]
            ends = batch.filter(pl.col(END) < INF).select(*columns, pl.col(END).alias(START), -pl.col(WEIGHT))
            ahead.append(pl.concat([batch.select(*columns, START, WEIGHT), ends]))
        elif batch.height:
            changes.append(batch.select(*columns, WEIGHT))
        waiting = []
        for part in (*self.ahead, *ahead):
            due = part.get_column(START) <= frontier
            if due.any():
                changes.append(part.filter(due).select(*columns, WEIGHT))
                part = part.filter(~due)
            if part.height:
                waiting.append(part)
        if len(waiting) > 32:
            waiting = [pl.concat(waiting)]
        known = 0 if self.counted is None else self.counted.height
        if sum(part.height for part in changes) < max(known, 1):
            return replace(self, changes=tuple(changes), ahead=tuple(waiting))
        parts = changes if self.counted is None else [self.counted, *changes]
        counted = pl.concat(parts).group_by(columns).agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) != 0)
        return replace(self, counted=counted, changes=(), ahead=tuple(waiting))

    def rows(self) -> int:
        parts = (*self.changes, *self.ahead)
        return sum(part.height for part in parts) + (0 if self.counted is None else self.counted.height)

    def read(self) -> pl.DataFrame:
        parts = [*self.changes] if self.counted is None else [self.counted, *self.changes]
        return _summed(pl.concat(parts), self.width) if parts else _nothing()


def _summed(rows: pl.DataFrame, width: int) -> pl.DataFrame:
    counts = rows.group_by(value_columns(width)).agg(pl.col(WEIGHT).sum().alias(COUNT))
    return counts.filter(pl.col(COUNT) != 0)


def _nothing() -> pl.DataFrame:
    return pl.DataFrame()
