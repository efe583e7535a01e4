"""The answers of many queries that are made when they are asked, all at once: from the matches that a group keeps (mode
LAZY), or from history (mode NONE).

    answer(q) for each q of many  =  the rows of q in  above'(rows of all of them),  above' keeping the queries apart

What is done for one query is lifted as the plan of a group is, and run over the rows of many, which are read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from millstream.engine.groups.cells import combined
from millstream.engine.groups.group import Group, always_there
from millstream.engine.groups.many import Numbered, Numbers, rows_of_many
from millstream.engine.materialization import Lazy, Unmaterialized, last_instant
from millstream.engine.plans import lowered
from millstream.kernel.batch import INTERVAL_COLUMNS, Batch, concat, empty_batch, value_column, value_columns
from millstream.kernel.lazy import ranked_tree, tree_segments
from millstream.kernel.lazy.matches import bounds, is_time, shown
from millstream.kernel.lazy.postings import Postings
from millstream.kernel.pipeline import Pipeline
from millstream.kernel.relational.own_columns import made_for_many
from millstream.kernel.sharing.parameters import QUERY, SHAPE
from millstream.kernel.storage.segments import numbers
from millstream.plan import physical as ph
from millstream.plan.grouping import QUERY_ROWS, Split, splits
from millstream.plan.lifting import lifted_above
from millstream.plan.lowering.matches import TREE, part_name, reference
from millstream.plan.nodes import Node
from millstream.plan.shapes import Shape
from millstream.state.snapshot import Snapshot
from millstream.types import Schema, to_polars

_ASKED = f"{QUERY_ROWS}asked"  # the source that has a row for each query that is asked
_PAIRS = 1 << 21  # rows of queries that are looked at together
_TREES = 1 << 12  # queries whose trees are
_TESTED = 1 << 28  # rows of history times queries that are


class LazyOfMany:
    """Queries of a group with the same plan above its matches; how one of them is answered is known."""

    def __init__(self, one: Lazy) -> None:
        self._one, self._reader, self._plan = one, one.reader, one.plan
        self._schema: Schema = (ph.QUERY, *one.schema)

    @cached_property
    def _above(self) -> tuple[str, Pipeline] | None:
        return self._lifted(self._plan.above)

    @cached_property
    def _upper(self) -> tuple[str, Pipeline] | None:
        return None if self._plan.upper is None else self._lifted(self._plan.upper)

    def _lifted(self, plan: Node) -> tuple[str, Pipeline] | None:
        found = lifted_above(plan, _ASKED)
        return None if found is None else lowered(found, replace(self._one.options, lenient=True))

    @property
    def can_be_read(self) -> bool:
        """Whether what is done with the matches can be done for many queries at once."""
        return self._above is not None and (self._plan.upper is None or self._upper is not None)

    def rows(self, snapshot: Snapshot, queries: Numbered, since: int, until: int) -> Batch:
        """Their rows that hold at some instant of a span, the place of the query in front."""
        asked, like = np.unique(queries.numbers), empty_batch(self._schema)
        is_now = since == until >= 0 and self._upper is not None
        found = self._now(snapshot, asked, until) if is_now else self._within(snapshot, asked, since, until)
        return queries.placed(concat([*found], like))

    def _now(self, snapshot: Snapshot, asked: Numbers, at: int) -> Iterator[Batch]:
        """What trees say at an instant."""
        segments = self._reader.segments(self._one.edges[0], snapshot)
        first, last = reference(self._plan.parts[0].windows).span(at)
        for low, high in _pieces(tree_segments.ranges_of_many(segments, self._one.shape, asked)):
            some = asked[low:high]
            rows = ranked_tree.aggregate_of_many(segments, self._one.shape, first, last, at, some)
            yield self._made(self._upper, TREE, rows, some, at, at)

    def _within(self, snapshot: Snapshot, asked: Numbers, since: int, until: int) -> Iterator[Batch]:
        (part,), segments = self._plan.parts, self._reader.segments(self._one.edges[0], snapshot)
        like = _behind_query(self._one.read_of(0))
        if part.is_tree:
            for low in range(0, asked.size, _TREES):
                some = asked[low : low + _TREES]
                found = [tree_segments.leaves_of_many(segment, self._one.shape, some) for segment in segments]
                pieces = [_with_query(rows, some[owner]) for rows, owner in found]
                rows = shown(pieces, like, part.windows, since, until)
                yield self._made(self._above, part_name(0), rows, some, since, until)
            return
        between = bounds(part.windows, since, until)
        ranges = [Postings(segment).of_many(asked, *between) for segment in segments]
        counts = sum((each.counts for each in ranges), np.zeros(asked.size, np.int64))
        columns = self._one.read_of(0).columns
        for low, high in _pieces(counts):
            posted = [each.rows(low, high, columns) for each in ranges]
            pieces = [_with_query(rows, asked[owner]) for rows, owner in posted]
            rows = shown(pieces, like, part.windows, since, until)
            yield self._made(self._above, part_name(0), rows, asked[low:high], since, until)

    def _made(
        self, above: tuple[str, Pipeline] | None, source: str, rows: Batch, asked: Numbers, since: int, until: int
    ) -> Batch:
        if above is None:
            raise AssertionError("it is not done for many queries")
        always = always_there((ph.QUERY,), pl.Series(asked), max(since, 0))
        arrived = {source: rows, **({_ASKED: always} if _ASKED in above[1].sources else {})}
        final = dict.fromkeys(arrived, until)
        return self._reader.evaluation.computed(*above, arrived, final, until, self._schema)


def _behind_query(like: Batch) -> Batch:
    """Of rows with a query in front: their value columns come one later."""
    query = pl.Series(value_column(0), [], pl.Int64)
    return pl.DataFrame([query, *(like[name].alias(_moved(name)) for name in like.columns)])


def _with_query(rows: pl.DataFrame, query: Numbers) -> pl.DataFrame:
    first = pl.Series(value_column(0), query, pl.Int64)
    return pl.DataFrame([first, *(rows[name].alias(_moved(name)) for name in rows.columns)])


def _moved(name: str) -> str:
    return name if is_time(name) or name in INTERVAL_COLUMNS else value_column(int(name[1:]) + 1)


def _pieces(counts: Numbers) -> Iterator[tuple[int, int]]:
    """Neighbours that have no more than so many rows together, or one that has."""
    ends, low = np.cumsum(counts), 0
    while low < counts.size:
        before = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + _PAIRS, side="right")))
        yield low, high
        low = high


@dataclass(eq=False)
class UnmaterializedOfMany:
    """Queries of one template of which nothing is kept, by the values of their parameters; how one is answered."""

    one: Unmaterialized
    values: Sequence[tuple[object, ...]]

    @cached_property
    def _split(self) -> Split | None:
        return next(iter(splits(self.one.template)), None)

    @cached_property
    def _shape(self) -> Shape | None:
        split = self._split
        return None if split is None else Shape(split.condition, self.one.parameters, split.own_columns)

    @cached_property
    def _group(self) -> Group | None:
        """Which only this runs: nobody else is in it."""
        if self._split is None or self._shape is None:
            return None
        key = None if self._shape.key is None else self._shape.key[0]
        return Group(self._split, key, replace(self.one.options, lenient=True), {self._shape.name: self._shape})

    @cached_property
    def _table(self) -> pl.DataFrame:
        """The query table: they are numbered as they are given."""
        names = value_columns(len(self.one.parameters))
        kinds = {name: to_polars(kind) for name, kind in zip(names, self.one.parameters, strict=True)}
        rows = pl.DataFrame(self.values, schema=kinds, orient="row", strict=False)
        shape = "" if self._shape is None else self._shape.name
        number = pl.Series(QUERY, np.arange(len(self.values)), pl.Int64)
        return rows.with_columns(number, pl.lit(shape, pl.String).alias(SHAPE))

    def can_be_read(self, snapshot: Snapshot) -> bool:
        """Whether one plan can answer all of them."""
        group = self._group
        if group is None:
            return False
        # Rows for queries are no source that tasks know.
        return group.query_rows is None or self.one.reader.evaluation.is_small(group.pipeline, snapshot, {})

    def rows(self, snapshot: Snapshot, chosen: Numbers, since: int, until: int) -> Batch:
        """The rows of some of them that hold at some instant of a span, the number in front."""
        group, shape, evaluation = self._group, self._shape, self.one.reader.evaluation
        if group is None or shape is None:
            raise AssertionError("there is no plan for all of them")
        firsts, table = self.one.first_instants(since), self._table[pl.Series(np.sort(chosen))]
        last = last_instant(until)
        at_once = max(_TESTED // max(evaluation.height(group.pipeline, snapshot, firsts, last), 1), 256)
        tables = [table[low : low + at_once] for low in range(0, table.height, at_once)]
        like, most = empty_batch((ph.QUERY, *self.one.schema)), self.one.reader.limits.steps
        constants, found = self._table.select(value_columns(len(self.one.parameters))), list[Batch]()
        for own, frames in zip(tables, evaluation.answer_of_many(group, tables, snapshot, firsts, last), strict=True):
            queries = Numbered(own[QUERY].to_numpy(), own[QUERY].to_numpy())
            if group.lifted.upper is not None:
                rows = combined(group, queries, (own,), frames, since, until, most)
            else:
                kept = rows_of_many(group, queries, frames, since, until)
                rows = concat([*kept], empty_batch((ph.QUERY, *group.kept)))
            if shape.own_columns:
                at = numbers(rows, value_column(0))
                rows = made_for_many(rows, shape.own_columns, (ph.QUERY, *self.one.schema), constants, at)
            found.append(rows.select(like.columns))
        return concat(found, like)
