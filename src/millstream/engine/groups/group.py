"""A group: queries that differ only in what they select, as rows of a query table over one shared plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl

from millstream.engine.groups.equal_queries import EqualQueries
from millstream.engine.plans import lowered
from millstream.kernel.aggregation.combined import CombinedAggregate
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_column
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.parameters import QUERY
from millstream.kernel.sharing.query_constants import QueryConstants
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.grouping import Split
from millstream.plan.lifting import Lifted, lift
from millstream.plan.lowering.lower import Lowering
from millstream.plan.lowering.options import Options
from millstream.plan.shapes import Shape
from millstream.types import Schema, to_polars


@dataclass(frozen=True)
class Upper:
    """What is done with the totals of cells when queries are asked: `rows` go in, the place of a query in front, and
    rows of its own schema come out, behind the place too."""

    edge: str
    pipeline: Pipeline
    rows: Schema
    schema: Schema

    @cached_property
    def combining(self) -> Step:
        """The first step, which puts the totals of each query together."""
        (step,) = (step for step in self.pipeline.steps if isinstance(step.operator, CombinedAggregate))
        return step

    @property
    def combined(self) -> CombinedAggregate:
        if not isinstance(self.combining.operator, CombinedAggregate):
            raise AssertionError("nothing is put together")
        return self.combining.operator

    @cached_property
    def with_constants(self) -> tuple[str, ...]:
        """The steps that read the query table."""
        return tuple(step.name for step in self.pipeline.steps if isinstance(step.operator, QueryConstants))

    @cached_property
    def rest(self) -> Pipeline:
        """What is done after it."""
        return Pipeline(tuple(step for step in self.pipeline.steps if step is not self.combining))


# What follows from the plan of a group.
_BY_PLAN = (
    *("core", "core_said", "shapes", "_conditions", "lifted", "edge", "selection", "steps", "above", "below"),
    *("query_rows", "pipeline"),
)
RowsByShape = Mapping[str, pl.DataFrame]  # of the query table, by shape


@dataclass(eq=False)
class Group:
    """The queries of one skeleton. `selection` is the step that selects for all of them, `above` what is the group's
    own: the selection and the steps that read it; `below` makes what it reads. None of the steps depends on which
    queries there are: the selection sees the shapes as they come and go."""

    split: Split
    key: Expression | None
    options: Options
    shapes: dict[str, Shape] = field(default_factory=dict)
    core: lo.Node | None = None  # by which plan the core is run, where that is not the one of the split
    core_said: Mapping[str, Any] | None = None  # by what that is made again, for the catalog
    identity: str = ""  # of the group, by whatever plan it is run: the edge that it has by that of the split
    following: int = 0  # the number of the next query
    filling: set[int] = field(default_factory=set)  # queries whose past is worked through in the background
    equal: EqualQueries = field(default_factory=EqualQueries)
    lifted: Lifted = field(init=False)
    edge: str = field(init=False)
    selection: str = field(init=False)
    steps: tuple[str, ...] = field(init=False)
    above: frozenset[str] = field(init=False)
    below: tuple[Step, ...] = field(init=False)
    query_rows: ph.QueryRows | None = field(init=False)
    pipeline: Pipeline = field(init=False)
    _conditions: dict[str, Expression] = field(init=False)  # of the shapes, as the selection has them

    def __post_init__(self) -> None:
        self._conditions = {name: shape.condition for name, shape in self.shapes.items()}
        self.lifted = self._lifted(self._conditions)
        lowering = Lowering(self.lifted.plan, self.options)
        self.identity = self.identity or lowering.edge
        self.pipeline = pipeline = Pipeline(tuple(lowering.steps.values()))
        self.edge, self.selection = lowering.edge, lowering.selection
        self.steps = tuple(step.name for step in pipeline.steps)
        self.above = _above(pipeline, self.selection)
        self.below = tuple(step for step in pipeline.steps if step.name not in self.above)
        rows = (node for node in self.lifted.plan.walk() if isinstance(node, ph.QueryRows))
        self.query_rows = next(rows, None)

    def _lifted(self, conditions: Mapping[str, Expression]) -> Lifted:
        split = self.split if self.core is None else replace(self.split, core=self.core)
        return lift(split, self.key, conditions, retracting=self.options.strategy != "upa")

    def by_core(self, core: lo.Node | None, said: Mapping[str, Any] | None) -> Group:
        """The same group with another plan for its core, or with that of the split."""
        return Group(self.split, self.key, self.options, dict(self.shapes), core, said, self.identity)

    def take_over(self, other: Group) -> None:
        """Go on by the plan of another one, which is of the same queries: whoever knows this group has that."""
        other.remove([name for name in other.shapes if name not in self.shapes])
        for shape in self.shapes.values():
            other.add(shape)
        for name in _BY_PLAN:
            setattr(self, name, getattr(other, name))
        self.__dict__.pop("upper", None)

    @property
    def kept(self) -> Schema:
        """The columns of the rows that its queries have, before they make columns of their own."""
        lifted = self.lifted
        return lifted.plan.schema[int(lifted.expanded) :] if lifted.upper is None else lifted.upper.schema[1:]

    def add(self, shape: Shape) -> None:
        if shape.name not in self.shapes:
            self.shapes[shape.name], self._conditions[shape.name] = shape, shape.condition

    def remove(self, shapes: Iterable[str]) -> None:
        """Shapes that no row of the query table has any more."""
        for name in shapes:
            self.shapes.pop(name, None)
            self._conditions.pop(name, None)

    def fork_pipeline(self) -> Pipeline:
        """The same steps, for another thread: selections remember what they made of their query tables, and shapes may
        come meanwhile."""
        lifted = self._lifted(dict(self._conditions))
        return Pipeline(tuple(Lowering(lifted.plan, self.options).steps.values()))

    def rows_of_queries(self, queries: pl.Series) -> dict[str, Batch]:
        """What the query table says as a source, where the plan reads it as one."""
        always = self.query_rows
        return {} if always is None else {always.group: always_there(always.schema, queries)}

    @cached_property
    def upper(self) -> Upper:
        """Of a group whose results are totals of cells."""
        plan = self.lifted.upper
        if plan is None:
            raise AssertionError("no totals of cells")
        (combined,) = (node for node in plan.walk() if isinstance(node, ph.Combined))
        steps = lowered(plan, replace(self.options, lenient=True))
        return Upper(*steps, combined.input.schema, plan.schema[1:])


def _above(pipeline: Pipeline, selection: str) -> frozenset[str]:
    found = {selection}
    for step in pipeline.steps:
        if found.intersection(step.inputs):
            found.add(step.name)
    return frozenset(found)


def always_there(schema: Schema, queries: pl.Series, first: int = 0) -> Batch:
    """A row of NULLs for each query, from an instant on."""
    nulls = (pl.lit(None, to_polars(f.type)).alias(value_column(i + 1)) for i, f in enumerate(schema[1:]))
    times = (pl.lit(value, pl.Int64).alias(name) for name, value in ((START, first), (END, INF), (WEIGHT, 1)))
    return pl.DataFrame({value_column(0): queries.cast(pl.Int64)}).with_columns(*nulls, *times)


def numbers_of(rows: RowsByShape) -> set[int]:
    """The queries of rows of query tables."""
    return {query for frame in rows.values() for query in frame[QUERY].to_list()}


def only_queries(rows: RowsByShape, queries: Iterable[int]) -> RowsByShape:
    wanted = pl.Series(list(queries), dtype=pl.Int64).implode()
    found = ((shape, frame.filter(frame[QUERY].is_in(wanted))) for shape, frame in rows.items())
    return {shape: frame for shape, frame in found if frame.height}


def halves(rows: RowsByShape) -> list[RowsByShape]:
    """The queries in two halves."""
    half = sum(frame.height for frame in rows.values()) // 2
    first: dict[str, pl.DataFrame] = {}
    second: dict[str, pl.DataFrame] = {}
    for shape, frame in rows.items():
        taken = min(half, frame.height)
        half -= taken
        for part, into in ((frame[:taken], first), (frame[taken:], second)):
            if part.height:
                into[shape] = part
    return [first, second]
