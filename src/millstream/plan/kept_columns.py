"""What joins keep of their inputs (their SteMs), so that a new one can keep the same.

A join that reads fewer columns of some rows than another one keeps already is given those columns as well: then both
keep the same segments (`kernel.storage.shared_work`), and the new one adds nothing to them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.just_in_time.producers import Producer
from millstream.kernel.operator import Operator, Progress
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.relational.linear import Project
from millstream.kernel.scalar.expressions import Column
from millstream.plan.cost import KeptColumns
from millstream.plan.fingerprint import FORGETTING, producer_of

_MOST = 100  # of each source: a query's entry says what it was planned by


def kept_columns(pipeline: Pipeline) -> dict[str, tuple[KeptColumns, ...]]:
    """For each source what joins keep of it, the oldest first; only of rows that no other source takes part in."""
    steps = {step.name: step for step in pipeline.steps}
    found: dict[str, dict[KeptColumns, None]] = {}
    for step in pipeline.steps:
        for edge in step.inputs if isinstance(step.operator, InnerJoin | Producer) else ():
            rows, columns = _columns(edge, steps)
            source = _source(rows, steps)
            if source is not None and rows in steps:
                found.setdefault(source, {})[fingerprint_in(rows), columns] = None
    return {source: tuple(kept)[:_MOST] for source, kept in found.items()}


def joins_made(pipeline: Pipeline, read: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The joins of sources that are read, by their plans; each is told with the first of its sources."""
    sources: dict[str, frozenset[str]] = {}
    found: dict[str, dict[str, None]] = {}
    for step in pipeline.steps:
        below = sources[step.name] = frozenset().union(*(sources.get(edge, {edge}) for edge in step.needed))
        if isinstance(step.operator, InnerJoin | Producer) and below.issubset(read):
            has_consumers = isinstance(step.operator, Producer) and step.operator.consumer_demand is not None
            name = fingerprint_in(step.name)
            found.setdefault(min(below), {})[producer_of(name) if has_consumers else name] = None
    return {source: tuple(made)[:_MOST] for source, made in found.items()}


def shared_stems(new: Pipeline, known: Pipeline) -> list[str]:
    """The sources of the rows that joins of a new plan keep, and joins of the known one as well."""
    names = {step.name for step in known.steps}
    there = {stem for step in known.steps for stem in _stems(step)}
    steps = {step.name: step for step in new.steps}
    found = [stem for step in new.steps if step.name not in names for stem in _stems(step) if stem in there]
    return sorted({source for edge, _ in found if (source := _source(edge, steps)) is not None})


def _stems(step: Step) -> list[tuple[str, Hashable]]:
    nowhere = (-1,) * len(step.inputs)
    kept = step.operator.kept_inputs(Progress(nowhere, nowhere))
    return [(step.inputs[number], each.arrangement) for number, each in kept.items()]


def fingerprint_in(edge: str) -> str:
    """Of the plan that makes an edge, by the edge's name; whatever its windows have forgotten."""
    return edge.partition("-")[2].partition(FORGETTING)[0]


def _columns(edge: str, steps: Mapping[str, Step]) -> tuple[str, tuple[int, ...]]:
    """The rows that an edge has columns of, and these."""
    operator = steps[edge].operator if edge in steps else None
    chosen = _chosen(operator)
    if chosen is not None:
        return steps[edge].inputs[0], chosen
    return edge, tuple(range(len(operator.schema))) if operator is not None else ()


def _chosen(operator: Operator | None) -> tuple[int, ...] | None:
    if not isinstance(operator, Project):
        return None
    columns = [each.index for each in operator.expressions if isinstance(each, Column)]
    return tuple(columns) if len(columns) == len(operator.expressions) else None


def _source(edge: str, steps: Mapping[str, Step]) -> str | None:
    while edge in steps:
        inputs = set(steps[edge].inputs)
        if len(inputs) != 1:
            return None
        (edge,) = inputs
    return edge
