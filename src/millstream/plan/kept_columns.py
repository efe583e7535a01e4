"""What joins keep of their inputs (their SteMs), so that a new one can keep the same.

A join that reads fewer columns of some rows than another one keeps already is given those columns as well: then both
keep the same segments (`kernel.storage.shared_work`), and the new one adds nothing to them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field

from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.just_in_time.producers import Producer
from millstream.kernel.operator import Operator, Progress
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.relational.linear import Filter, Project
from millstream.kernel.scalar.expressions import Column
from millstream.kernel.windows.sample import Sample
from millstream.kernel.windows.streams import ChangeStream
from millstream.plan import nodes as lo
from millstream.plan.algebra.imposed_windows import as_elements, imposed_window
from millstream.plan.cost import KeptColumns
from millstream.plan.fingerprint import FORGETTING, fingerprint, producer_of

_MOST = 100  # of each source: a query's entry says what it was planned by


def kept_columns(pipeline: Pipeline) -> dict[str, tuple[KeptColumns, ...]]:
    """For each source what joins keep of it, the oldest first; only of rows that no other source takes part in."""
    steps = {step.name: step for step in pipeline.steps}
    found: dict[str, dict[KeptColumns, None]] = {}
    for step in pipeline.steps:
        joined = step.operator.schemas if isinstance(step.operator, InnerJoin | Producer) else ()
        for edge, schema in zip(step.inputs, joined, strict=bool(joined)):
            rows, columns = _columns(edge, len(schema), steps)
            source = _source(rows, steps)
            if source is not None and rows in steps:
                found.setdefault(source, {})[fingerprint_in(rows), columns] = None
            if source is not None and _are_elements(rows, steps):
                found.setdefault(source, {})[_elements_called(fingerprint_in(rows) or rows), columns] = None
    return {source: tuple(kept)[:_MOST] for source, kept in found.items()}


def elements_of(side: lo.Node) -> str | None:
    """What the rows of an input of a join are called where its window may be of any size; None for other rows."""
    if imposed_window(side) is None:
        return None
    rows, _ = as_elements(side)
    below = rows.input if isinstance(rows, lo.Window) else rows
    return _elements_called(below.name if isinstance(below, lo.StreamScan) else fingerprint(below))


def _elements_called(edge: str) -> str:
    """What the rows of an edge are called where they may be of windows of any size."""
    return f"elements-{edge}"


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
    there = {stem for step in known.steps for stem in stems(step)}
    steps = {step.name: step for step in new.steps}
    found = [stem for step in new.steps if step.name not in names for stem in stems(step) if stem in there]
    return sorted({source for stem in found if (source := _source(stem.edge, steps)) is not None})


@dataclass(frozen=True)
class Stem:
    """What a step keeps of an input, by its number and in a synopsis, such that others may keep the same."""

    edge: str
    arrangement: Hashable
    number: int = field(compare=False)
    synopsis: str = field(compare=False)


def stems(step: Step) -> list[Stem]:
    """What a step keeps of its inputs such that others may keep the same."""
    nowhere = (-1,) * len(step.timed)
    kept = step.operator.kept_inputs(Progress(nowhere, nowhere))
    return [Stem(step.inputs[number], one.arrangement, number, one.synopsis) for number, one in kept.items()]


def fingerprint_in(edge: str) -> str:
    """Of the plan that makes an edge, by the edge's name; whatever its windows have forgotten."""
    return edge.partition("-")[2].partition(FORGETTING)[0]


def _columns(edge: str, width: int, steps: Mapping[str, Step]) -> tuple[str, tuple[int, ...]]:
    """The rows that an edge of some columns has columns of, and which of theirs these are."""
    operator = steps[edge].operator if edge in steps else None
    chosen = _chosen(operator)
    if chosen is not None:
        return steps[edge].inputs[0], chosen
    return edge, tuple(range(width))


def _are_elements(edge: str, steps: Mapping[str, Step]) -> bool:
    """Whether rows are those of a stream, which joins impose windows of all sizes on."""
    while edge in steps and isinstance(steps[edge].operator, Filter | Project):
        (edge,) = steps[edge].inputs
    return edge not in steps or isinstance(steps[edge].operator, Sample | ChangeStream)


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
