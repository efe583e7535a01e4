"""The answers of queries whose sums are kept by cell: put together from the cells that a query is in, when asked."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.engine.groups.group import Group, Upper
from millstream.engine.groups.many import Numbered, Numbers
from millstream.kernel.aggregation.combined import PartialTotals
from millstream.kernel.batch import END, INF, INTERVAL_COLUMNS, START, WEIGHT, Batch, concat, empty_batch, value_column
from millstream.kernel.columns import constant, only, with_columns
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Segment, State
from millstream.kernel.pipeline import run
from millstream.kernel.sharing.cells import CELL, SPAN, bitmaps_of, by_span, cells_of, members_of
from millstream.kernel.sharing.parameters import QUERIES
from millstream.kernel.step_limits import StepLimits, limited
from millstream.kernel.storage.memory import can_keep_index
from millstream.kernel.storage.segments import gather, numbers
from millstream.plan.cells import CELLS
from millstream.plan.physical import QUERY


def combined(
    group: Group,
    queries: Numbered,
    table: Sequence[Segment],
    frames: Sequence[pl.DataFrame],
    since: int,
    until: int,
    most: StepLimits,
) -> Batch:
    """The rows of queries of a query table with the place of each in front, right from an instant to another, from what
    the group has shown; without values of more than so many bytes."""
    rows = _answers(group.upper, np.unique(queries.numbers), table, frames, max(since, 0), until, most)
    if len(queries.numbers) == 1:  # all of them are its own
        return with_columns(rows, constant(value_column(0), int(queries.places[0]), rows.height))
    return queries.placed(rows)


def _answers(
    upper: Upper,
    queries: Numbers,
    table: Sequence[Segment],
    frames: Sequence[pl.DataFrame],
    since: int,
    until: int,
    most: StepLimits,
) -> Batch:
    """The same with the numbers of queries in front, which are different."""
    if since == until:  # all rows hold, and nothing changes
        rows, source, pipeline = _at(upper, queries, frames, until), upper.combining.name, upper.rest
    else:
        rows, source, pipeline = _totals(upper, queries, frames, since, until), CELLS, upper.pipeline
    if source == upper.edge:
        return rows
    states: dict[str, State] = {name: {QUERIES: tuple(table)} for name in upper.with_constants}
    with limited(most):
        outcome = run(pipeline, {source: rows}, states, {source: -1}, {source: until})
    if upper.edge in outcome.failures:
        raise outcome.failures[upper.edge]
    return outcome.batches[upper.edge][empty_batch((QUERY, *upper.schema)).columns]


def _at(upper: Upper, queries: Numbers, frames: Sequence[pl.DataFrame], at: int) -> Batch:
    """The totals of queries put together, of one instant."""
    if len(queries) != 1:
        return upper.combined.of_many([*_parts_of_many(upper, queries, frames, at, at)], queries, at)
    found: list[tuple[PartialTotals, Positions]] = []
    for frame in frames:
        rows = cells_of(frame, int(queries[0]))
        rows = rows[(numbers(frame, START)[rows] <= at) & (numbers(frame, END)[rows] > at)]
        if rows.size:
            found.append((_parts_of(upper, frame), rows))
    return upper.combined.at(found, int(queries[0]), at)


def _parts_of_many(
    upper: Upper, queries: Numbers, frames: Sequence[pl.DataFrame], since: int, until: int
) -> Iterator[tuple[PartialTotals, Positions, Positions]]:
    """Totals that hold from an instant to another, with a row and the place of a query for each cell and query that is
    in it."""
    for frame in frames:
        for span, cells in by_span(only(frame, _holds(frame, since, until))):
            rows, wanting = members_of(cells, span, queries)
            if rows.size:
                yield _made_parts(upper, cells), rows, np.searchsorted(queries, wanting)


def _holds(frame: pl.DataFrame, since: int, until: int) -> npt.NDArray[np.bool_]:
    """Which rows are there all the time from an instant to another."""
    held: npt.NDArray[np.bool_] = (numbers(frame, START) <= since) & (numbers(frame, END) > until)
    return held


_parts: dict[int, PartialTotals] = {}


def _parts_of(upper: Upper, frame: pl.DataFrame) -> PartialTotals:
    """Made once for a segment, where there is room."""
    known = _parts.get(id(frame))
    if known is None:
        known = _made_parts(upper, frame)
        if can_keep_index(frame, known.size):
            _parts[id(frame)] = known
            weakref.finalize(frame, _parts.pop, id(frame), None)
    return known


def _made_parts(upper: Upper, frame: pl.DataFrame) -> PartialTotals:
    columns = (frame.get_column(value_column(index)) for index in range(len(CELL), len(CELL) + len(upper.rows) - 1))
    named = [column.alias(value_column(index + 1)) for index, column in enumerate(columns)]
    return upper.combined.parts_of(pl.DataFrame([*named, frame.get_column(WEIGHT)]))


def _totals(upper: Upper, queries: Numbers, frames: Sequence[pl.DataFrame], since: int, until: int) -> Batch:
    """The totals of the cells that queries are in, each behind the query. What is there all the time is added up for
    many queries before: most of it is, and what changes is little. Extremes are not: which of them counts changes."""
    like, combined = empty_batch(upper.rows), upper.combined
    found: list[Batch] = []
    if len(queries) > 1 and not combined.extremes:
        found.append(combined.added_up([*_parts_of_many(upper, queries, frames, since, until)], queries, since))
        frames = [only(frame, ~_holds(frame, since, until)) for frame in frames]
    found += [batch for frame in frames for batch in _sums(frame, queries, since, until)]
    if combined.always:
        found.append(_nothing(like, queries, since))
    return concat(found, like)


def count_of(frames: Sequence[pl.DataFrame], query: int) -> int:
    """How many sums are kept in which a query has a part."""
    return sum(cells_of(frame, query).size for frame in frames)


def rows_beyond(
    group: Group,
    table: Sequence[Segment],
    frames: Sequence[pl.DataFrame],
    least: float,
    size: int,
    most: StepLimits,
) -> Numbers:
    """How many rows the answers of queries, numbered up to a size, have held in all, of those that hold no less than
    so many. A query has no more of them than there are sums in which it has a part, so others need not be asked."""
    parts = np.zeros(size + SPAN, np.int64)
    for span, rows in (found for frame in frames for found in by_span(frame)):
        bits = np.unpackbits(bitmaps_of(rows).view(np.uint8), axis=1, bitorder="little")
        parts[span * SPAN : span * SPAN + bits.shape[1]] += bits.sum(axis=0, dtype=np.int64)
    near = np.flatnonzero(parts + int(group.upper.combined.always) >= least)
    if not near.size:
        return np.zeros(size, np.int64)
    until = max(int(numbers(frame, START).max()) for frame in frames)
    held = _answers(group.upper, near, table, frames, 0, until, most)
    return np.bincount(numbers(held, value_column(0)), minlength=size)


def _sums(frame: pl.DataFrame, queries: Numbers, since: int, until: int) -> Iterator[Batch]:
    """The totals of the cells of queries, cut to a span of time."""
    is_near = (numbers(frame, START) <= until) & (numbers(frame, END) > since)
    if len(queries) == 1:
        rows = cells_of(frame, int(queries[0]))
        rows = rows[is_near[rows]]
        if rows.size:
            yield _placed(frame, rows, queries.repeat(rows.size), since, until)
        return
    for span, cells in by_span(only(frame, is_near)):
        rows, wanting = members_of(cells, span, queries)
        if rows.size:
            yield _placed(cells, rows, wanting, since, until)


def _placed(frame: pl.DataFrame, rows: Positions, queries: Numbers, since: int, until: int) -> Batch:
    """Totals behind the queries that want them."""
    width = frame.width - len(INTERVAL_COLUMNS)
    columns = gather(frame, [value_column(index) for index in range(2, width)], rows)
    start = np.maximum(numbers(frame, START)[rows], since)
    end = numbers(frame, END)[rows]
    intervals = {START: start, END: np.where(end > until, INF, end), WEIGHT: numbers(frame, WEIGHT)[rows]}
    return pl.DataFrame(
        [
            pl.Series(value_column(0), queries, pl.Int64),
            *(column.alias(value_column(index + 1)) for index, column in enumerate(columns)),
            *(pl.Series(name, values) for name, values in intervals.items()),
        ]
    )


def _nothing(like: Batch, queries: Numbers, since: int) -> Batch:
    """Totals of nothing, which are there always."""
    known = {value_column(0): queries}
    known |= {name: np.full(len(queries), value) for name, value in ((START, since), (END, INF), (WEIGHT, 1))}
    empty = (
        pl.Series(name, known[name], kind)
        if name in known
        else pl.Series(name, [None], kind).new_from_index(0, len(queries))
        for name, kind in like.schema.items()
    )
    return pl.DataFrame([*empty])
