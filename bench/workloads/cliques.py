"""The workload of the just-in-time paper: clique joins of windows, as trees of its two kinds and by SteMs.

Every two inputs are joined by columns of their own, each a random number from 1 to d_max. Time is in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np
import polars as pl

from millstream.kernel.batch import END, START, WEIGHT
from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.just_in_time.tree_shape import Nesting, left_deep
from millstream.kernel.multiway.join_tree import JoinTree
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import Operator
from millstream.kernel.scalar.expressions import Call, Column, Expression, conjunction
from millstream.kernel.windows.time import Range
from millstream.plan import nodes as lo
from millstream.plan.cost import SourceStatistics
from millstream.plan.just_in_time import is_just_in_time_cheaper
from millstream.types import BIGINT, BOOLEAN, Field, Schema

# Table II
BUSHY: dict[int, Nesting] = {
    4: ((0, 1), (2, 3)),
    5: (((0, 1), (2, 3)), 4),
    6: (((0, 1), (2, 3)), (4, 5)),
    7: (((0, 1), (2, 3)), ((4, 5), 6)),
    8: (((0, 1), (2, 3)), ((4, 5), (6, 7))),
}


@dataclass(frozen=True)
class Clique:
    """So many sources of `rate` elements per second, windows in minutes; `wide` draws from a hundred times the values.
    Without `equal`, equality is said in a way that leaves only nested loops."""

    bushy: bool
    sources: int
    window: float
    rate: float
    values: int
    equal: bool = True
    seconds: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", round(self.window * 60))

    @property
    def shape(self) -> Nesting:
        return BUSHY[self.sources] if self.bushy else left_deep(self.sources)

    @property
    def wide(self) -> int | None:
        return None if self.bushy else min(3, self.sources - 1)

    @property
    def schemas(self) -> list[Schema]:
        return [tuple(Field(f"x{n}", BIGINT) for n in range(self.sources - 1))] * self.sources

    def condition(self, order: Sequence[int], pairs: Iterable[tuple[int, int]]) -> Expression:
        """What joins pairs of sources, over the row of sources in this order."""

        def column(source: int, other: int) -> Column:
            own = other - 1 if other > source else other
            return Column(BIGINT, order.index(source) * (self.sources - 1) + own, f"x{own}")

        parts: list[Expression] = []
        for one, other in pairs:
            sides = column(one, other), column(other, one)
            if self.equal:
                parts.append(Call(BOOLEAN, "=", sides))
            else:
                parts += (Call(BOOLEAN, "not", (Call(BOOLEAN, function, sides),)) for function in ("<", ">"))
        return conjunction(parts)

    def inputs(self) -> list[pl.DataFrame]:
        """For two windows: one that fills, and one that is measured."""
        return [self._input(source) for source in range(self.sources)]

    def _input(self, source: int) -> pl.DataFrame:
        rng, count = np.random.default_rng(source), round(2 * self.rate * self.seconds)
        starts = np.sort(rng.integers(0, 2 * self.seconds * 1000, count))
        most = 100 * self.values if source == self.wide else self.values
        columns = {f"c{n}": rng.integers(1, most + 1, count) for n in range(self.sources - 1)}
        ends = starts + self.seconds * 1000
        return pl.DataFrame(columns | {START: starts, END: ends, WEIGHT: np.ones(count, np.int64)})

    def operators(self) -> dict[str, Operator]:
        """REF is the tree without feedback, JIT the tree with it."""
        everyone = range(self.sources)
        schemas, condition = self.schemas, self.condition(everyone, combinations(everyone, 2))
        return {
            "REF": JoinTree(schemas, self.shape, condition),
            "JIT": JoinTree(schemas, self.shape, condition, jit=JustInTime()),
            "eddy": StemJoin(schemas, condition),
            "eddy, JIT": StemJoin(schemas, condition, jit=JustInTime()),
        }

    def is_planned(self) -> bool:
        """Whether the planner would choose JIT for the tree, knowing the rates and the numbers of values."""
        known = {
            str(source): SourceStatistics(
                self.rate / 1000, 0, (float(self.values) * (100 if source == self.wide else 1),) * (self.sources - 1)
            )
            for source in range(self.sources)
        }
        joins: list[lo.Join] = []

        def build(shape: Nesting) -> tuple[lo.Node, list[int]]:
            if isinstance(shape, int):
                scan = lo.StreamScan(str(shape), self.schemas[0], str(shape))
                return lo.Window(scan, Range(self.seconds * 1000)), [shape]
            (left, one), (right, other) = build(shape[0]), build(shape[1])
            order = [*one, *other]
            joins.insert(0, lo.Join(left, right, "inner", self.condition(order, product(one, other))))
            return joins[0], order

        build(self.shape)
        return is_just_in_time_cheaper(joins, known)
