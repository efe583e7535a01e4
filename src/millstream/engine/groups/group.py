"""A group: queries that differ only in what they select, as rows of a query table over one shared plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl

from millstream.engine.groups.equal_queries import EqualQueries
from millstream.engine.plans import lowered
from millstream.kernel.aggregation.combined import CombinedAggregate
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.parameters import QUERY
from millstream.plan import physical as ph
from millstream.plan.grouping import Shape, Split
from millstream.plan.lifting import Lifted, lift
from millstream.plan.lowering.lower import Lowering, Options
from millstream.types import Schema


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
    def rest(self) -> Pipeline:
        """What is done after it."""
        return Pipeline(tuple(step for step in self.pipeline.steps if step is not self.combining))


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
        self.lifted = lift(self.split, self.key, self._conditions)
        lowering = Lowering(self.lifted.plan, self.options)
        self.pipeline = pipeline = Pipeline(tuple(lowering.steps.values()))
        self.edge, self.selection = lowering.edge, lowering.selection
        self.steps = tuple(step.name for step in pipeline.steps)
        self.above = _above(pipeline, self.selection)
        self.below = tuple(step for step in pipeline.steps if step.name not in self.above)
        rows = (node for node in self.lifted.plan.walk() if isinstance(node, ph.QueryRows))
        self.query_rows = next(rows, None)

    @property
    def kept(self) -> Schema:
        """The columns of the rows that its queries have, before they make columns of their own."""
        lifted = self.lifted
        return lifted.plan.schema[int(lifted.expanded) :] if lifted.upper is None else lifted.upper.schema[1:]

    def add(self, shape: Shape) -> None:
        if shape.name not in self.shapes:
            self.shapes[shape.name], self._conditions[shape.name] = shape, shape.condition

    def fork_pipeline(self) -> Pipeline:
        """The same steps, for another thread: selections remember what they made of their query tables, and shapes may
        come meanwhile."""
        lifted = lift(self.split, self.key, dict(self._conditions))
        return Pipeline(tuple(Lowering(lifted.plan, self.options).steps.values()))

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


def numbers_of(rows: RowsByShape) -> set[int]:
    """The queries of rows of query tables."""
    return {query for frame in rows.values() for query in frame[QUERY]}


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
