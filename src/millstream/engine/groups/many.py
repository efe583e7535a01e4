"""The rows of many queries of a group, by one pass over what the group has shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.engine.groups.group import Group
from millstream.kernel.batch import END, INTERVAL_COLUMNS, START, Batch, value_column, value_columns
from millstream.kernel.columns import only
from millstream.kernel.keys import Positions
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.sharing.expand import Expand
from millstream.kernel.sharing.lineage import (
    BLOCK,
    BLOCK_SIZE,
    LINEAGE,
    WORDS,
    any_bit,
    bit_of,
    lineage_of,
    lineage_series,
    word_of,
)
from millstream.kernel.storage.segments import gather, numbers
from millstream.types import Schema

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Numbered:
    """Queries of a group: the numbers of their rows in its query table, sorted, and the place of each query among those
    that are read together. Equal queries have the same row."""

    numbers: Numbers
    places: Numbers

    @staticmethod
    def of(queries: Numbers, places: Numbers) -> Numbered:
        order = np.argsort(queries, kind="stable")
        return Numbered(queries[order], places[order])

    def only(self, places: Numbers) -> Numbered:
        """Those of some places."""
        kept = np.isin(self.places, places)
        return self if kept.all() else Numbered(self.numbers[kept], self.places[kept])

    @cached_property
    def _are_different(self) -> bool:
        return bool((self.numbers[1:] > self.numbers[:-1]).all())

    def find(self, asked: Numbers) -> tuple[Positions, Numbers]:
        """The queries that have rows that are asked for: (position of the row among these, place of the query)."""
        begin = np.searchsorted(self.numbers, asked)
        if self._are_different:
            begin = np.minimum(begin, len(self.numbers) - 1)
            rows = np.flatnonzero(self.numbers[begin] == asked) if len(self.numbers) else np.zeros(0, np.intp)
            return rows, self.places[begin[rows]]
        counts = np.searchsorted(self.numbers, asked, side="right") - begin
        rows = np.arange(len(asked)).repeat(counts)
        within = np.arange(rows.size) - (np.cumsum(counts) - counts).repeat(counts)
        return rows, self.places[begin.repeat(counts) + within]

    def placed(self, rows: Batch) -> Batch:
        """Rows behind their rows of the query table, as rows behind the places of the queries that have these."""
        wanted, places = self.find(numbers(rows, value_column(0)))
        return pl.DataFrame([pl.Series(value_column(0), places, pl.Int64), *gather(rows, rows.columns[1:], wanted)])


def rows_of_many(
    group: Group, queries: Numbered, frames: Iterable[pl.DataFrame], since: int, until: int
) -> Iterator[Batch]:
    """The rows of queries with the place of the query in front, of those that end after an instant and begin by
    another."""
    schema = group.kept
    for frame in frames:
        near = only(frame, (numbers(frame, START) <= until) & (numbers(frame, END) > since))
        rows = _own(near, len(schema)) if group.lifted.expanded else _expanded(near, schema, queries)
        yield queries.placed(rows)


def _own(frame: pl.DataFrame, width: int) -> pl.DataFrame:
    """Rows that have their query in front already."""
    return frame[[*value_columns(width + 1), *INTERVAL_COLUMNS]]


def _expanded(frame: pl.DataFrame, schema: Schema, queries: Numbered) -> Batch:
    """Rows with lineage, once for each of the queries that wants them."""
    frame = frame[[*value_columns(len(schema)), *INTERVAL_COLUMNS, BLOCK, LINEAGE]]
    lineage, blocks = lineage_of(frame), frame[BLOCK].to_numpy()
    masks = np.zeros((max(int(queries.numbers[-1]) // BLOCK_SIZE, int(blocks.max(initial=0))) + 1, WORDS), np.uint64)
    np.bitwise_or.at(masks, (queries.numbers // BLOCK_SIZE, word_of(queries.numbers)), bit_of(queries.numbers))
    lineage = lineage & masks[blocks, : lineage.shape[1]]
    kept = any_bit(lineage) if frame.height else np.zeros(0, np.bool_)
    wanted = only(frame.with_columns(lineage_series(lineage)), kept)
    found, _ = Expand(schema).step([wanted], NO_STATE, Progress((), ()))
    return _own(found, len(schema))
