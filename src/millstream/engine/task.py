"""The work of an epoch, as plain functions from segment names to segment names.

A task carries names and operators, never rows, so that it can be sent to any process that sees the store. It is planned
as stages (`stages`), and a stage is run once per shard: it takes the flows that were sent to the shard, runs its steps
over them and the shard's state, and sends flows on. Only names, counts and failures come back to the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from millstream.engine.exchange import Envelope, Load, Skew, skews, split
from millstream.engine.stages import Planner, Send, StagePlan, StageStep
from millstream.errors import EvaluationError
from millstream.kernel.batch import Batch, concat
from millstream.kernel.operator import Progress, Segment, State
from millstream.kernel.pipeline import Pipeline
from millstream.state.snapshot import Names
from millstream.state.store import Store

StateNames = Mapping[str, Mapping[str, Names]]


class Writer(Protocol):
    """Where a task writes all its segments."""

    def write(self, prefix: str, frame: Segment) -> str: ...


@dataclass(frozen=True)
class EpochTask:
    """Push the arrived segments of the sources through the concerned steps, from one frontier to the next.

    `pipeline` has all that the concerned steps are made of, since that decides where their state is; `empty` the
    columns of its sources, `before` and `after` their frontiers. `arriving` is how many rows arrived. `shown` are the
    edges whose rows are kept as results.
    """

    epoch: int
    pipeline: Pipeline
    concerned: frozenset[str]
    arrived: Mapping[str, Names]
    arriving: int
    empty: Mapping[str, Batch]
    states: StateNames
    before: Mapping[str, int]
    after: Mapping[str, int]
    shown: tuple[str, ...]


@dataclass(frozen=True)
class EpochOutcome:
    """The names that the task wrote: the new states whole, the results as additions."""

    states: StateNames
    results: Mapping[str, Names]
    rows: Mapping[str, int]
    failures: Mapping[str, EvaluationError] = field(default_factory=dict)
    skew: tuple[Skew, ...] = ()


@dataclass(frozen=True)
class EpochWork:
    """What a stage must know of an epoch beside its plan."""

    epoch: int
    arrived: tuple[tuple[str, str], ...]  # sources and segments, in order of arrival
    states: StateNames
    before: Mapping[str, int]  # frontiers of all edges
    after: Mapping[str, int]
    shown: frozenset[str]


@dataclass
class ShardOutcome:
    """What a stage did on a shard."""

    states: dict[str, dict[str, Names]] = field(default_factory=dict)
    results: dict[str, Names] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    failures: dict[str, EvaluationError] = field(default_factory=dict)
    loads: dict[str, tuple[str, Load]] = field(default_factory=dict)


def prepare(task: EpochTask, planner: Planner) -> tuple[StagePlan, EpochWork]:
    speaking = {source for source, names in task.arrived.items() if names}
    plan = planner.plan(task.pipeline, task.empty, task.concerned, speaking)
    before, after = task.pipeline.frontiers(task.before), task.pipeline.frontiers(task.after)
    edges = {edge for stage in plan.stages for step in stage.steps for edge in step.edges}
    work = EpochWork(
        task.epoch,
        tuple((source, name) for source, names in task.arrived.items() for name in names),
        task.states,
        {edge: before[edge] for edge in edges},
        {edge: after[edge] for edge in edges},
        frozenset(task.shown),
    )
    return plan, work


def arrivals(work: EpochWork, task: int, tasks: int, store: Store) -> list[Envelope]:
    """The rows that one of the tasks of stage 0 begins with: its part of what arrived, each segment wholly in one."""
    return [
        Envelope(source, task, place, store.read(name))
        for place, (source, name) in enumerate(work.arrived)
        if place % tasks == task
    ]


def run_stage(
    plan: StagePlan,
    number: int,
    shard: int,
    received: Iterable[Envelope],
    work: EpochWork,
    store: Store,
    writer: Writer,
) -> tuple[list[Envelope], ShardOutcome]:
    """One stage on one shard. In stage 0 it is the number of the task, which is a shard's for what has to be alone."""
    return _StageRun(plan, shard, work, store, writer).run(number, received)


class _StageRun:
    def __init__(self, plan: StagePlan, shard: int, work: EpochWork, store: Store, writer: Writer) -> None:
        self.plan, self.shard, self.work, self.store, self.writer = plan, shard, work, store, writer
        self.batches: dict[str, Batch] = {}
        self.failures: dict[str, EvaluationError] = {}
        self.outcome = ShardOutcome()
        self._known: dict[int, tuple[str, Segment]] = {}  # segments that are stored already, by identity

    def run(self, number: int, received: Iterable[Envelope]) -> tuple[list[Envelope], ShardOutcome]:
        self._open(received)
        stage = self.plan.stages[number]
        for step in stage.steps:
            self._step(step)
        return [envelope for send in stage.sends for envelope in self._send(send)], self.outcome

    def _open(self, received: Iterable[Envelope]) -> None:
        pieces: dict[str, list[Batch]] = {}
        for envelope in sorted(received, key=lambda envelope: envelope.origin):
            if isinstance(envelope.content, EvaluationError):
                self.failures.setdefault(envelope.flow, envelope.content)
            else:
                pieces.setdefault(envelope.flow, []).append(envelope.content)
        for flow, batches in pieces.items():
            like = self.plan.layouts[flow]
            self.batches[flow] = concat([batch.select(like.columns) for batch in batches], like)

    def _step(self, step: StageStep) -> None:
        broken = [self.failures[flow] for flow in step.inputs if flow in self.failures]
        if broken:
            self.failures[step.name] = broken[0]
            return
        state = self._load(step.name)
        inputs = [self.batches.get(flow, self.plan.layouts[flow]) for flow in step.inputs]
        # Whoever has all rows of an edge must also say what follows from there being none, once.
        called = self.shard == 0 if step.alone else bool(state) or any(batch.height for batch in inputs)
        if not called:
            return
        progress = Progress(
            tuple(self.work.before[edge] for edge in step.edges), tuple(self.work.after[edge] for edge in step.edges)
        )
        try:
            batch, state = step.operator.step(inputs, state, progress)
        except EvaluationError as error:
            self.failures[step.name] = self.outcome.failures[step.name] = error
            return
        self.batches[step.name] = batch
        self.outcome.rows[step.name] = batch.height
        self._keep(step.name, batch, state)

    def _load(self, step: str) -> State:
        mine = f"{self.shard}/"
        state: dict[str, tuple[Segment, ...]] = {}
        for synopsis, names in self.work.states.get(step, {}).items():
            if synopsis.startswith(mine):
                segments = [self.store.read(name) for name in names]
                self._known.update((id(s), (name, s)) for s, name in zip(segments, names, strict=True))
                state[synopsis.removeprefix(mine)] = tuple(segments)
        return state

    def _keep(self, step: str, batch: Batch, state: State) -> None:
        kept = {
            f"{self.shard}/{synopsis}": tuple(self._name(step, segment) for segment in segments)
            for synopsis, segments in state.items()
            if segments
        }
        if kept:
            self.outcome.states[step] = kept
        if step in self.work.shown and batch.height:
            self.outcome.results[step] = (self._write(f"result-{step}", batch),)

    def _name(self, step: str, segment: Segment) -> str:
        name, _ = self._known.get(id(segment), ("", segment))
        return name or self._write(step, segment)

    def _write(self, label: str, frame: Segment) -> str:
        # One process may run several shards of an epoch: the names must tell them apart.
        return self.writer.write(f"e{self.work.epoch}-{self.shard}-{label}", frame)

    def _send(self, send: Send) -> list[Envelope]:
        if send.edge in self.failures:
            everyone = range(self.plan.shards)
            return [Envelope(send.flow, shard, self.shard, self.failures[send.edge]) for shard in everyone]
        batch = self.batches.get(send.edge)
        if batch is None or not batch.height:
            return []
        if send.columns is None:
            return [Envelope(send.flow, self.shard % self.plan.shards, self.shard, batch)]
        parts, load = split(batch, send.columns, self.plan.shards)
        self.outcome.loads[send.flow] = send.edge, load
        return [Envelope(send.flow, shard, self.shard, rows) for shard, rows in parts]


def run_here(plan: StagePlan, work: EpochWork, tasks: int, store: Store, writer: Writer) -> list[ShardOutcome]:
    """All stages on all shards, one after the other in this process; stage 0 as so many tasks."""
    outcomes = []
    inboxes = {task: arrivals(work, task, tasks, store) for task in range(tasks)}
    for number in range(len(plan.stages)):
        following: dict[int, list[Envelope]] = {shard: [] for shard in range(plan.shards)}
        for shard, received in inboxes.items():
            sent, outcome = run_stage(plan, number, shard, received, work, store, writer)
            outcomes.append(outcome)
            for envelope in sent:
                following[envelope.shard].append(envelope)
        inboxes = following
    return outcomes


def settle(plan: StagePlan, work: EpochWork, outcomes: Sequence[ShardOutcome], store: Store) -> EpochOutcome:
    """What all shards did, put together. A step that failed on one of them failed, as did all that read it: what the
    others made of it is thrown away."""
    failures = _failures(plan, outcomes)
    states: dict[str, dict[str, Names]] = {}
    results: dict[str, Names] = {}
    rows: Counter[str] = Counter()
    orphans: set[str] = set()
    for outcome in outcomes:
        rows.update(outcome.rows)
        for step, synopses in outcome.states.items():
            if step in failures:
                orphans.update(name for names in synopses.values() for name in names)
            else:
                states.setdefault(step, {}).update(synopses)
        for step, names in outcome.results.items():
            if step in failures:
                orphans.update(names)
            else:
                results[step] = results.get(step, ()) + names
    # What was there before the epoch is still committed, and not ours to remove.
    committed = {name for synopses in work.states.values() for names in synopses.values() for name in names}
    store.remove(orphans - committed)
    return EpochOutcome(states, results, rows, failures, tuple(skews(outcome.loads for outcome in outcomes)))


def _failures(plan: StagePlan, outcomes: Sequence[ShardOutcome]) -> dict[str, EvaluationError]:
    failures: dict[str, EvaluationError] = {}
    for step in (step for stage in plan.stages for step in stage.steps):
        below = [failures[edge] for edge in step.edges if edge in failures]
        own = [outcome.failures[step.name] for outcome in outcomes if step.name in outcome.failures]
        if below or own:
            failures[step.name] = (below + own)[0]
    return failures
