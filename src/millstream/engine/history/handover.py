"""Handing over state: a plan takes the place of another one that runs, without asking history.

    operators that both plans have, the inputs apart          go on with the state of the others
    inner joins that differ                                   are made of the rows that the old ones hold
    results                                                   stay

What joins have given is a part of the state of those above them already, so that all that a new join needs are the rows
that may still meet others: the windows as they are now. The old joins hold these, as long as no input of theirs is
ahead of another one that they do not ask for how long rows are of use. Else it is waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl

from millstream.engine.epochs import stages
from millstream.kernel.batch import INTERVAL_COLUMNS, Batch, value_columns
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.joins.stem import Arrangement
from millstream.kernel.multiway.join_tree import JoinTree
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import Operator, Progress
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.relational import linear
from millstream.kernel.windows.time import TimeWindow
from millstream.plan.grouping import QUERY_ROWS


class CannotHandOver(Exception):
    """Why state cannot be handed over; `is_early` where it may be later on."""

    def __init__(self, reason: str, *, is_early: bool = False) -> None:
        super().__init__(reason)
        self.is_early = is_early


@dataclass(frozen=True)
class Held:
    """Which step holds rows of an edge: under which name, those that lack no value in some columns, from which instant
    on, and of how many columns."""

    step: str
    synopsis: str
    required: tuple[str, ...]
    since: int
    width: int

    @property
    def columns(self) -> list[str]:
        return [*value_columns(self.width), *INTERVAL_COLUMNS]


@dataclass
class Handover:
    """By step of the new plan, the one whose state it takes; the joins that are made, and who holds what they read."""

    taken: dict[str, str] = field(default_factory=dict)
    made: list[Step] = field(default_factory=list)
    held: dict[str, list[Held]] = field(default_factory=dict)


class Comparison:
    """Two plans of a query, of which the old one runs."""

    def __init__(self, old: Pipeline, new: Pipeline, frontiers: Mapping[str, int]) -> None:
        self.old, self.new = old, new
        self.frontiers = old.frontiers(frontiers)
        self.handover = Handover()

    def compare(self, before: str, after: str) -> None:
        """Find what the state below an edge of the new plan is made of."""
        if before == after or after in self.handover.taken:
            return
        one, other = self.old.by_name.get(before), self.new.by_name.get(after)
        if before.startswith(QUERY_ROWS) and after.startswith(QUERY_ROWS):
            return  # the query table of a group, as a source
        if one is None or other is None:
            raise CannotHandOver("the plans read different streams")
        if _joins(self.old, before) and _joins(self.new, after):
            self._note_joins(before, after)
            return
        if not _equal(one.operator, other.operator) or len(one.needed) != len(other.needed):
            raise CannotHandOver("more than joins would be run in another way")
        self.handover.taken[after] = before
        for below, instead in zip(one.needed, other.needed, strict=True):
            self.compare(below, instead)

    def _note_joins(self, before: str, after: str) -> None:
        """Of inner joins that differ, with what picks columns and rows in between."""
        inside, made = _cluster(self.old, before, self.new), _cluster(self.new, after, self.old)
        names, made_names = {step.name for step in inside}, {step.name for step in made}
        # An input that is there twice has partners in itself.
        leaves = [edge for step in inside for edge in step.inputs if edge not in names]
        for edge in dict.fromkeys(edge for step in made for edge in step.inputs if edge not in made_names):
            self.handover.held[edge] = self._holders(edge, inside, leaves)
        known = {step.name for step in self.handover.made}
        self.handover.made += [_for_nobody(step) for step in made if step.name not in known]

    def _holders(self, edge: str, steps: Collection[Step], leaves: list[str]) -> list[Held]:
        """Who holds the rows of an edge that may still meet others: all of them together. Of an input that is joined in
        several roles, rows that lack a value for one of them are held for others only."""
        found: dict[tuple[str, ...], Held] = {}
        for step in steps:
            operator = step.operator
            if not isinstance(operator, InnerJoin | StemJoin):
                continue
            frontiers = tuple(self.frontiers[read] for read in step.inputs)
            kept = operator.kept_inputs(Progress(frontiers, frontiers))
            for role, read in enumerate(step.inputs):
                if read != edge:
                    continue
                own = kept.get(operator.stem_of[role] if isinstance(operator, StemJoin) else role)
                if own is None:
                    raise CannotHandOver("a join just in time holds rows back")
                self._check_horizon(step, role, leaves)
                required, since = _required(own.arrangement), own.horizons.after
                if required not in found or since < found[required].since:
                    found[required] = Held(step.name, own.synopsis, required, since, len(operator.schemas[role]))
        if not found:
            raise CannotHandOver(f"nobody holds {edge} as it is")
        return sorted(found.values(), key=lambda held: held.since)

    def _check_horizon(self, step: Step, role: int, leaves: list[str]) -> None:
        """Rows are held until the inputs of the join itself can bring nothing for them; others may be behind."""
        others = [*leaves]
        others.remove(step.inputs[role])
        asked = min(self.frontiers[edge] for number, edge in enumerate(step.inputs) if number != role)
        if asked > min(self.frontiers[edge] for edge in others):
            raise CannotHandOver("its streams are at different instants", is_early=True)

    # Where state lies

    def check_places(self, empty: Mapping[str, Batch], shards: int) -> None:
        """Refuse where rows would lie on other shards than the state that is taken over."""
        if shards == 1:
            return
        old, new = (_spreads(pipeline, empty, shards) for pipeline in (self.old, self.new))
        for edge in self.handover.held:
            if new.get(edge, stages.SCATTERED) != stages.SCATTERED:
                raise CannotHandOver("what its joins read lies on certain shards")
        for after, before in self.handover.taken.items():
            one, other = self.old.by_name[before], self.new.by_name[after]
            lying = (
                [old.get(edge, stages.SCATTERED) for edge in one.inputs],
                [new.get(edge, stages.SCATTERED) for edge in other.inputs],
            )
            if one.operator.distribution.keys is not None and lying[0] != lying[1]:
                raise CannotHandOver("what is above its joins would lie on other shards")


def _spreads(pipeline: Pipeline, empty: Mapping[str, Batch], shards: int) -> dict[str, stages.Spread]:
    placed: list[stages.PlacedStep] = stages.place(
        pipeline, {source: empty[source] for source in pipeline.sources}, shards, {}
    )
    return {each.step.name: each.spread for each in placed} | {"": stages.ON_ONE_SHARD}


def _is_row_wise(operator: Operator) -> bool:
    """Whether it picks columns and rows, or says how long they stay, and keeps nothing."""
    return type(operator) in (linear.Project, linear.Filter, linear.Stamp, linear.Shorten, TimeWindow)


def _joins(pipeline: Pipeline, edge: str) -> bool:
    """Whether an edge is what inner joins give, but for columns and rows that are picked."""
    step = pipeline.by_name.get(edge)
    while step is not None and _is_row_wise(step.operator):
        step = pipeline.by_name.get(step.inputs[0])
    return step is not None and isinstance(step.operator, InnerJoin | StemJoin | JoinTree)


def _for_nobody(step: Step) -> Step:
    """The same, whatever queries of a group want: what it gives is not taken."""
    operator = step.operator
    if isinstance(operator, InnerJoin | StemJoin) and operator.selections is not None:
        operator = copy(operator)
        operator.selections = None
    return Step(step.name, operator, step.inputs, widths=step.widths)


def _cluster(pipeline: Pipeline, edge: str, other: Pipeline) -> list[Step]:
    """Neighbouring inner joins below an edge that another plan does not have, in the order in which they are run."""
    found, waiting = set[str](), [edge]
    while waiting:
        name = waiting.pop()
        step = pipeline.by_name.get(name)
        if step is None or name in other.by_name or name in found:
            continue
        is_join = isinstance(step.operator, InnerJoin | StemJoin | JoinTree)
        if not is_join and not _is_row_wise(step.operator):
            raise CannotHandOver("more than joins would be run in another way")
        if is_join and not getattr(step.operator, "rows_come_whole", True):
            raise CannotHandOver("rows leave its windows by their numbers")
        if step.consumer_edges or step.awaited:
            raise CannotHandOver("its joins are asked by others")
        found.add(name)
        waiting += step.inputs
    return [step for step in pipeline.steps if step.name in found]


def _equal(one: object, other: object) -> bool:
    """Whether two operators, or what they are made of, do the same, whatever they read."""
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, pl.DataFrame | pl.Series):
        return one.equals(other)  # type: ignore[arg-type]
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)  # type: ignore[arg-type]
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if (
        type(one).__eq__ is object.__eq__
        and type(one).__module__.startswith("millstream.")
        and hasattr(one, "__dict__")
    ):
        given = {name: value for name, value in vars(one).items() if _is_given(one, name)}
        return all(hasattr(other, name) and _equal(value, getattr(other, name)) for name, value in given.items())
    return bool(one == other)


def _is_given(one: object, name: str) -> bool:
    """Whether an attribute is one that it was made with: others follow from these, and are there once asked for."""
    return not isinstance(getattr(type(one), name, None), cached_property)


def _required(arrangement: object) -> tuple[str, ...]:
    how = arrangement[0] if isinstance(arrangement, tuple) else arrangement
    if not isinstance(how, Arrangement):
        raise CannotHandOver("its joins keep rows in another way")
    return tuple(sorted(how.required))
