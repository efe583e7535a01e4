"""The two sides of a join in a tree: the rows of each during a step, and how they are paired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import polars as pl

from millstream.kernel.batch import BORN, END, INTERVAL_COLUMNS, START, WEIGHT, Batch
from millstream.kernel.joins.graph import Access, JoinGraph
from millstream.kernel.joins.stem import Probe
from millstream.kernel.just_in_time.active_spans import ActiveSpans
from millstream.kernel.just_in_time.blacklist import Flags
from millstream.kernel.just_in_time.tree_shape import TreeJoin, inputs_of
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.evaluate import select_attempted
from millstream.kernel.scalar.expressions import TRUE, Expression, conjunction
from millstream.kernel.step_limits import make_rows
from millstream.kernel.storage.segments import gather, numbers


@dataclass(frozen=True)
class Pair:
    """What joins the two sides of a join: how either finds the other's rows, and what is tested then."""

    accesses: tuple[Access, Access]  # to the left side's rows, and to the right side's
    condition: Expression
    columns: tuple[str, ...]
    empty: tuple[Batch, Batch]  # without `_born`, and with it

    @classmethod
    def of(cls, graph: JoinGraph, join: TreeJoin, schema: dict[str, pl.DataType]) -> Pair:
        """`schema` has the columns that both sides give together."""
        left, right = (inputs_of(side) for side in join.sides)
        below = [side.inputs for side in join.sides if isinstance(side, TreeJoin)]
        conditions = [
            condition.expression
            for condition in graph.conditions
            if condition.inputs <= left | right and not any(condition.inputs <= lower for lower in below)
        ]
        accesses = graph.between(left, right), graph.between(right, left)
        columns = tuple(name for name in schema if name not in INTERVAL_COLUMNS)
        empty = pl.DataFrame(schema=schema), pl.DataFrame(schema=schema | {BORN: pl.Int64()})
        return cls(accesses, conjunction(conditions), columns, empty)

    @staticmethod
    def matching(
        probe: Probe, probing: Segment, stored: Segment, i: Positions, j: Positions
    ) -> tuple[Positions, Positions]:
        """Those of the pairs (row, stored row) that live at the same time and have equal keys."""
        starts, ends = ([numbers(frame, name) for frame in (probing, stored)] for name in (START, END))
        lives = np.maximum(starts[0][i], starts[1][j]) < np.minimum(ends[0][i], ends[1][j])
        kept = probe.agreeing(stored, i, j, np.flatnonzero(lives))
        return i[kept], j[kept]

    def combined(self, probing: Segment, stored: Segment, i: Positions, j: Positions) -> Iterator[Batch]:
        """The rows of pairs (row, stored row), as far as the condition holds."""
        if i.size:
            starts, ends = ([numbers(frame, name) for frame in (probing, stored)] for name in (START, END))
            start, end = np.maximum(starts[0][i], starts[1][j]), np.minimum(ends[0][i], ends[1][j])
            weight = numbers(probing, WEIGHT)[i] * numbers(stored, WEIGHT)[j]
            values = {
                series.name: series
                for frame, rows in ((probing, i), (stored, j))
                for series in gather(frame, [name for name in self.columns if name in frame.columns], rows)
            }
            columns = [values[name] for name in self.columns]
            columns += [pl.Series(START, start), pl.Series(END, end), pl.Series(WEIGHT, weight)]
            born = [numbers(frame, BORN)[rows] for frame, rows in ((probing, i), (stored, j)) if BORN in frame.columns]
            if born:
                columns.append(pl.Series(BORN, reduce(np.maximum, born)))
            frame = pl.DataFrame(columns)
            made = frame if self.condition == TRUE else select_attempted(frame, self.condition)
            make_rows(made.height, made.width)
            yield made


@dataclass
class StoredRows:
    """Rows of a side from before: which of them are in (None: all), and when they were, as far as that is kept; `part`
    is their number in a blacklist."""

    rows: Segment
    flags: Flags | None = None
    spans: ActiveSpans | None = None
    part: int | None = None

    @property
    def ever(self) -> Flags | None:
        """Which have been in."""
        return self.flags if self.part is None or self.spans is None else self.spans.ever


@dataclass
class Side:
    """The rows of an input or a join during a step: those from before, and the new ones; of these, those that were in
    `again` and again, with their spans, apart from those that are for the `first` time."""

    before: list[StoredRows]
    new: Segment
    first: Segment
    again: Sequence[tuple[Segment, ActiveSpans]] = ()

    @property
    def coming(self) -> list[StoredRows]:
        return [StoredRows(self.first), *(StoredRows(rows, None, spans) for rows, spans in self.again)]
