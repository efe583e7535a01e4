"""The shared plan as the kernel runs it: operators in order, each reading edges and writing one.

An edge is named by what it carries: a source's name, or the fingerprint of the plan that makes it. Equal plans of
different queries have one edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.errors import EvaluationError
from millstream.kernel.batch import Batch
from millstream.kernel.operator import NO_STATE, Operator, Progress, State


@dataclass(frozen=True)
class Step:
    """One operator: reads the input edges, writes the edge of its own name."""

    name: str
    operator: Operator
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Pipeline:
    """Steps in an order in which every edge is written before it is read."""

    steps: tuple[Step, ...] = ()

    def edges_below(self, edge: str) -> set[str]:
        """The edge and all that it is made from."""
        by_name = {step.name: step for step in self.steps}
        found: set[str] = set()
        waiting = [edge]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting.extend(by_name[current].inputs if current in by_name else ())
        return found

    def only(self, edges: set[str]) -> Pipeline:
        return Pipeline(tuple(step for step in self.steps if step.name in edges))

    def with_steps(self, others: tuple[Step, ...]) -> Pipeline:
        """These steps and those of the others that are not among them."""
        known = {step.name for step in self.steps}
        return Pipeline(self.steps + tuple(step for step in others if step.name not in known))

    def replacing(self, others: tuple[Step, ...]) -> Pipeline:
        """These steps, and the others instead of those of the same name."""
        given = {step.name: step for step in others}
        return Pipeline(tuple(given.get(step.name, step) for step in self.steps)).with_steps(others)

    def frontiers(self, sources: Mapping[str, int]) -> dict[str, int]:
        """How far each edge is final, given how far each source is."""
        frontiers = dict(sources)
        for step in self.steps:
            frontiers[step.name] = min(frontiers[edge] for edge in step.inputs)
        return frontiers


@dataclass
class Outcome:
    """What a run made: batches per edge, new states per step, and the steps that failed."""

    batches: dict[str, Batch]
    states: dict[str, State] = field(default_factory=dict)
    failures: dict[str, EvaluationError] = field(default_factory=dict)


def run(
    pipeline: Pipeline,
    arrived: Mapping[str, Batch],
    states: Mapping[str, State],
    before: Mapping[str, int],
    after: Mapping[str, int],
) -> Outcome:
    """Push what arrived on the sources through all steps; `before` and `after` are the sources' frontiers.

    A step that fails on its data ends the steps that read it, and no others.
    """
    outcome = Outcome(dict(arrived))
    frontiers_before, frontiers_after = pipeline.frontiers(before), pipeline.frontiers(after)
    for step in pipeline.steps:
        broken = [outcome.failures[edge] for edge in step.inputs if edge in outcome.failures]
        if broken:
            outcome.failures[step.name] = broken[0]
            continue
        progress = Progress(
            tuple(frontiers_before[edge] for edge in step.inputs),
            tuple(frontiers_after[edge] for edge in step.inputs),
        )
        inputs = [outcome.batches[edge] for edge in step.inputs]
        try:
            batch, state = step.operator.step(inputs, states.get(step.name, NO_STATE), progress)
        except EvaluationError as error:
            outcome.failures[step.name] = error
            continue
        outcome.batches[step.name] = batch
        if state:
            outcome.states[step.name] = state
    return outcome
