"""The shared plan as the kernel runs it: operators in order, each reading edges and writing one.

An edge is named by what it carries: a source's name, or the fingerprint of the plan that makes it. Equal plans of
different queries have one edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, count, takewhile

from millstream.errors import EvaluationError
from millstream.kernel.batch import Batch, value_column
from millstream.kernel.just_in_time.producers import Producer, ProducerOutput
from millstream.kernel.multiway.virtual_sources import JoinStep, LinkedJoin, virtual_sources
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.stepping import stepped


@dataclass(frozen=True)
class Step:
    """One operator: reads the input edges, writes the edge of its own name.

    The output of a producer is made of its inputs; what consumers ask by (`consumer_edges`) are further ones, which
    neither hold it up nor make it fail. Who takes its rows reads nothing else, but is final only as far as what it asks
    by (`awaited`) as well.
    """

    name: str
    operator: Operator
    inputs: tuple[str, ...]
    consumer_edges: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()
    table_of: str = ""  # the selection whose query table it reads too
    pairs: tuple[str, ...] = ()  # the join whose pairs it goes on with (`virtual_sources`)
    other_tables: tuple[str, ...] = ()  # the selections for which others go on with its pairs
    widths: tuple[int, ...] = ()  # of inputs that are sources: how many columns they had when the plan was made
    # What it was lowered from, for those who explain it; no part of what it is, and not sent to whom runs it.
    plan: object = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "plan": None}

    @property
    def read(self) -> tuple[str, ...]:
        """The edges whose rows come to the operator."""
        return (*self.inputs, *self.pairs, *self.consumer_edges)

    @property
    def needed(self) -> tuple[str, ...]:
        """The edges that the output is made from, and is final with."""
        return (*self.inputs, *self.awaited)

    @property
    def timed(self) -> tuple[str, ...]:
        """The edges whose frontiers the operator is told."""
        return (*self.read, *self.awaited)


@dataclass(frozen=True)
class Pipeline:
    """Steps in an order in which every edge is written before it is read. Producers are told who reads them."""

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _with_consumers(_with_virtual_sources(self.steps)))

    # Pipelines of many steps stay the same for many epochs, of which each concerns few: what is asked of a pipeline is
    # found once.

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.steps)

    def __getstate__(self) -> dict[str, object]:
        return {"steps": self.steps}

    @cached_property
    def by_name(self) -> dict[str, Step]:
        return {step.name: step for step in self.steps}

    @cached_property
    def _readers(self) -> dict[str, list[str]]:
        """The steps that rows of each edge come to."""
        readers: dict[str, list[str]] = {}
        for step in self.steps:
            for edge in step.read:
                readers.setdefault(edge, []).append(step.name)
        return readers

    @cached_property
    def _origins(self) -> dict[str, frozenset[str]]:
        """The sources that edges are made from, as far as somebody has asked."""
        return {}

    def edges_below(self, *edges: str) -> set[str]:
        """Some edges and all that they are made from."""
        found: set[str] = set()
        waiting = [*edges]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting.extend(self.by_name[current].needed if current in self.by_name else ())
        return found

    def downstream(self, edges: Iterable[str]) -> set[str]:
        """The steps that rows of some edges come to."""
        waiting = list(edges)
        steps: set[str] = set()
        while waiting:
            new = [step for step in self._readers.get(waiting.pop(), ()) if step not in steps]
            steps.update(new)
            waiting += new
        return steps

    @cached_property
    def sources(self) -> set[str]:
        """The edges that no step writes."""
        return self._readers.keys() - self.by_name.keys()

    def only(self, edges: set[str]) -> Pipeline:
        return Pipeline(tuple(step for step in self.steps if step.name in edges))

    def without(self, names: Iterable[str]) -> Pipeline:
        gone = set(names)
        return Pipeline(tuple(step for step in self.steps if step.name not in gone))

    def with_steps(self, *others: tuple[Step, ...]) -> Pipeline:
        """These steps and those of the others that are not among them."""
        found = {step.name: step for step in self.steps}
        for step in chain(*others):
            found.setdefault(step.name, step)
        return Pipeline(tuple(found.values()))

    def replacing(self, others: tuple[Step, ...]) -> Pipeline:
        """These steps, and the others instead of those of the same name."""
        given = {step.name: step for step in others}
        return Pipeline(tuple(given.get(step.name, step) for step in self.steps)).with_steps(others)

    def frontiers(self, sources: Mapping[str, int]) -> dict[str, int]:
        """How far each edge is final, given how far each source is."""
        frontiers = dict(sources)
        for step in self.steps:
            frontiers[step.name] = min(frontiers[edge] for edge in step.needed)
        return frontiers

    def frontiers_of(self, edges: Iterable[str], sources: Mapping[str, int]) -> dict[str, int]:
        """How far some edges are final, given how far each source is."""
        return {edge: min(sources[source] for source in self._sources_of(edge)) for edge in edges}

    def _sources_of(self, edge: str) -> frozenset[str]:
        if edge not in self._origins:
            self._origins[edge] = frozenset(self.edges_below(edge) - self.by_name.keys())
        return self._origins[edge]


def _with_consumers(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps, producers with the consumers that take their rows, after all that those ask by."""
    takers: dict[str, list[ProducerOutput]] = {}
    for step in steps:
        if isinstance(step.operator, ProducerOutput):
            takers.setdefault(step.inputs[0], []).append(step.operator)
    if not takers:
        return steps
    return _ordered([_for_consumers(step, takers[step.name]) if step.name in takers else step for step in steps])


def _with_virtual_sources(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps, joins of more inputs after those whose pairs they go on with, as far as these are there."""
    found = virtual_sources([JoinStep(step.name, step.operator, step.inputs) for step in steps])
    if all(step.operator is found[step.name].operator for step in steps if step.name in found):
        return steps
    return _ordered([_linked(step, found[step.name]) if step.name in found else step for step in steps])


def _linked(step: Step, join: LinkedJoin) -> Step:
    return replace(step, operator=join.operator, pairs=join.pairs, other_tables=join.tables)


def _ordered(linked: Sequence[Step]) -> tuple[Step, ...]:
    """Steps after those that they read."""
    by_name, ordered = {step.name: step for step in linked}, dict[str, Step]()

    def add(step: Step) -> None:
        for edge in step.read:
            if edge in by_name and edge not in ordered:
                add(by_name[edge])
        ordered.setdefault(step.name, step)

    for step in linked:
        add(step)
    return tuple(ordered.values())


def _for_consumers(step: Step, takers: Iterable[ProducerOutput]) -> Step:
    operator = step.operator
    if not isinstance(operator, Producer) or operator.consumer_demand is None:
        raise AssertionError(f"{step.name} makes everything")
    alternatives = tuple(dict.fromkeys(each for taker in takers for each in taker.alternatives))
    if operator.consumer_demand.alternatives == alternatives:
        return step
    linked = operator.for_consumers(alternatives)
    return replace(step, operator=linked, consumer_edges=tuple(one.edge for one in linked.consumer_inputs))


def taken(inputs: list[Batch], widths: Sequence[int]) -> list[Batch]:
    """The inputs of a step, sources with the columns that they had when its plan was made: others were added behind."""
    return [*map(_as_wide, inputs, widths), *inputs[len(widths) :]] if widths else inputs


def _as_wide(batch: Batch, width: int) -> Batch:
    if not width or value_column(width) not in batch.columns:
        return batch
    return batch.drop(list(takewhile(set(batch.columns).__contains__, map(value_column, count(width)))))


@dataclass
class RunOutcome:
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
) -> RunOutcome:
    """Push what arrived on the sources through all steps; `before` and `after` are the sources' frontiers.

    A step that fails on its data ends the steps that read it, and no others.
    """
    outcome = RunOutcome(dict(arrived))
    frontiers_before, frontiers_after = pipeline.frontiers(before), pipeline.frontiers(after)
    for step in pipeline.steps:
        broken = [outcome.failures[edge] for edge in step.needed if edge in outcome.failures]
        if broken:
            outcome.failures[step.name] = broken[0]
            continue
        progress = Progress(
            tuple(frontiers_before[edge] for edge in step.timed),
            tuple(frontiers_after[edge] for edge in step.timed),
        )
        inputs = taken([outcome.batches[edge] for edge in step.read], step.widths)
        try:
            batch, state = stepped(step.operator, inputs, states.get(step.name, NO_STATE), progress, step.name)
        except EvaluationError as error:
            outcome.failures[step.name] = error
            continue
        outcome.batches[step.name] = batch
        if state:
            outcome.states[step.name] = state
    return outcome
