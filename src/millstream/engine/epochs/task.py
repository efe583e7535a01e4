"""The work of an epoch, as plain functions from segment names to segment names.

A task carries names and operators, never rows, so that it can be sent to any process that sees the store. It is planned
as stages (`stages`), and a stage is run once per shard: it takes the flows that were sent to the shard, runs its steps
over them and the shard's state, and sends flows on. Only names, counts and failures come back to the driver.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce

from millstream.engine.epochs.exchange import Envelope, Exchanged, Load, Skew, skews, split
from millstream.engine.epochs.merging import Merge, ResultMerge, perform
from millstream.engine.epochs.parts import Part, late_key, take, write_history
from millstream.engine.epochs.stages import Send, StagePlan, StagePlanner, StageStep
from millstream.engine.epochs.traces import trace
from millstream.errors import EvaluationError
from millstream.kernel.batch import ARRIVAL, BORN, INSTANT, Batch, concat
from millstream.kernel.columns import chosen, frame_of
from millstream.kernel.eddy.policies import routing_by
from millstream.kernel.operator import EVERYWHERE, Horizons, KeptInput, Progress, Segment, State
from millstream.kernel.pipeline import Pipeline, taken
from millstream.kernel.sharing.lineage import of_equal_width
from millstream.kernel.sharing.parameters import QUERIES
from millstream.kernel.sharing.selections_of_groups import other_table
from millstream.kernel.step_limits import StepLimits, limited
from millstream.kernel.stepping import stepped
from millstream.kernel.storage import memory
from millstream.kernel.storage.expiries import GoneRows, counting_gone
from millstream.kernel.storage.shared_work import in_common
from millstream.kernel.storage.synopsis import have_same_rows
from millstream.state.pool import Account, PoolUse
from millstream.state.snapshot import HistoryFile, Names, state_names
from millstream.state.store import Store, Writer
from millstream.types import Schema

StateNames = Mapping[str, Mapping[str, Names]]
_pause: ContextVar[Callable[[], None]] = ContextVar("pause", default=lambda: None)
COMPARED_EVERY = 61  # epochs; a prime, so that those come to it too that run in every second or third one only


@dataclass(frozen=True)
class EpochTask:
    """Push the arrived parts of the sources through the concerned steps, from one frontier to the next.

    `pipeline` has all that the concerned steps are made of, since that decides where their state is; `empty` the
    columns of its sources, `late` those of the tables of late elements, `before` and `after` the sources' frontiers.
    `shown` are the edges whose rows are kept as results, `merges` what is to be tidied up by the way, `periods` the
    lengths of those by which the history of each source is laid out. `owner` tells a task that works in the background
    on state of its own, under the names of steps that may be theirs too.
    """

    epoch: int
    pipeline: Pipeline
    concerned: frozenset[str]
    arrived: Mapping[str, tuple[Part, ...]]
    empty: Mapping[str, Batch]
    states: StateNames = field(default_factory=dict)
    tables: Mapping[str, Names] = field(default_factory=dict)  # per selection: its query table
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    late: Mapping[str, Schema] = field(default_factory=dict)
    merges: tuple[Merge, ...] = ()
    periods: Mapping[str, int] = field(default_factory=dict)
    owner: str = ""
    synced: bool = True  # what is written is on disk in the end
    limits: StepLimits = field(default_factory=StepLimits)
    routing: str = ""  # the policy that all eddies go by, where it is not their own
    run_by: str = "auto"  # "driver" or "spark", where that is not left to what it costs

    @property
    def arriving(self) -> int:
        """How many rows arrive."""
        return sum(part.rows for parts in self.arrived.values() for part in parts)


@dataclass(frozen=True)
class EpochOutcome:
    """The names that the task wrote: the new states whole, the results and the history as additions; what it counted:
    rows, seconds, memory and expiries per step, late and shed elements per source; and the pools it took from."""

    states: StateNames = field(default_factory=dict)
    results: Mapping[str, Names] = field(default_factory=dict)
    history: Mapping[str, tuple[HistoryFile, ...]] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    expired: Mapping[str, int] = field(default_factory=dict)  # rows that left what a step keeps
    late: Mapping[str, int] = field(default_factory=dict)
    shed: Mapping[str, int] = field(default_factory=dict)
    merged: tuple[Merge, ...] = ()
    failures: Mapping[str, EvaluationError] = field(default_factory=dict)
    skew: tuple[Skew, ...] = ()
    orphans: tuple[str, ...] = ()  # written for steps that failed, and of no use to anyone
    pools: tuple[PoolUse, ...] = ()  # one per process
    exchanged: Mapping[str, Exchanged] = field(default_factory=dict)  # what steps were sent by other shards
    ran_as: str = "process"  # or how Spark's driver had it run
    tasks: int = 0  # of Spark

    def names(self) -> list[str]:
        """All segments that were written or kept: of states, of results, and of merged results."""
        results = [name for names in self.results.values() for name in names]
        merged = [name for merge in self.merged if isinstance(merge, ResultMerge) for name in merge.made]
        return [*state_names(self.states), *results, *merged, *self.orphans]


@dataclass(frozen=True)
class EpochWork:
    """What a stage must know of an epoch beside its plan."""

    epoch: int
    arrived: tuple[tuple[str, Part], ...]  # in order of arrival
    late: Mapping[str, Schema]
    merges: tuple[Merge, ...]
    states: StateNames
    tables: Mapping[str, Names]
    before: Mapping[str, int]  # frontiers of all edges
    after: Mapping[str, int]
    shown: frozenset[str]
    periods: Mapping[str, int]
    owner: str
    synced: bool
    limits: StepLimits
    routing: str
    culprits: Mapping[str, EvaluationError] = field(default_factory=dict)  # steps that kill whoever runs them
    trace: str = ""  # where to write down which step is run

    @property
    def arriving(self) -> int:
        """How many rows arrive."""
        return sum(part.rows for _, part in self.arrived)

    def share(self, task: int, tasks: int) -> Iterator[tuple[int, tuple[str, Part]]]:
        """The parts, and their places, that one of the tasks takes in: those behind one another, so that what came in
        order stays so, and by rows, so that no task has much more to do than the others."""
        rows, before = self.arriving, 0
        for place, (source, part) in enumerate(self.arrived):
            # The task in whose share the middle of the part lies.
            if min((2 * before + part.rows) * tasks // (2 * rows or 1), tasks - 1) == task:
                yield place, (source, part)
            before += part.rows

    def without(self, culprits: Mapping[str, EvaluationError]) -> EpochWork:
        """The same, but for steps and merges that kill whoever runs them."""
        if not culprits:
            return self
        merges = tuple(merge for merge in self.merges if merge.name not in culprits)
        return replace(self, culprits={**self.culprits, **culprits}, merges=merges)


@dataclass
class ShardOutcome:
    """What a task did: a stage on a shard, or taking parts in before stage 0."""

    states: dict[str, dict[str, Names]] = field(default_factory=dict)
    results: dict[str, Names] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)
    failures: dict[str, EvaluationError] = field(default_factory=dict)
    loads: dict[str, tuple[str, Load]] = field(default_factory=dict)
    history: list[tuple[int, str, HistoryFile]] = field(default_factory=list)  # each with the place of its part
    late: Counter[str] = field(default_factory=Counter)
    shed: Counter[str] = field(default_factory=Counter)
    merged: list[Merge] = field(default_factory=list)
    pool: PoolUse | None = None


def prepare(task: EpochTask, planner: StagePlanner) -> tuple[StagePlan, EpochWork]:
    unjudged = {source for source, parts in task.arrived.items() if not all(part.is_judged for part in parts)}
    speaking = {source for source, parts in task.arrived.items() if parts} | {late_key(source) for source in unjudged}
    plan = planner.plan(task.pipeline, task.empty, task.concerned, speaking & task.empty.keys())
    edges = {edge for stage in plan.stages for step in stage.steps for edge in step.edges}
    before, after = (task.pipeline.frontiers_of(edges, of) for of in (task.before, task.after))
    work = EpochWork(
        task.epoch,
        tuple((source, part) for source, parts in task.arrived.items() for part in parts),
        task.late,
        task.merges,
        task.states,
        task.tables,
        before,
        after,
        frozenset(task.shown),
        {source: task.periods[source] for source in (*task.arrived, *task.late)},
        task.owner,
        task.synced,
        task.limits,
        task.routing,
    )
    return plan, work


def take_in(
    plan: StagePlan, work: EpochWork, task: int, tasks: int, store: Store, writer: Writer
) -> tuple[list[Envelope], ShardOutcome]:
    """The rows that one of the tasks of stage 0 begins with: its share of what arrived, each part wholly in one task.

    Judging elements, keeping history and merging small files are done on the way.
    """
    envelopes, outcome = [], ShardOutcome()
    for place, (source, part) in work.share(task, tasks):
        # Rows that were judged before are of no use to anyone but the steps that read them.
        if part.is_judged and source not in plan.layouts:
            continue
        _pause.get()()
        taken = take(part, store, source, work.periods[source], work.epoch, work.limits.value_bytes)
        rows = {source: taken.accepted}
        if taken.file is not None:
            outcome.history.append((place, source, taken.file))
        if taken.shed:
            outcome.shed[source] += taken.shed
        if taken.late is not None:
            key = late_key(source)
            outcome.late[source] += taken.late.height
            file = write_history(store, key, work.periods[key], work.epoch, taken.late, work.late[key])
            outcome.history.append((place, key, file))
            rows[key] = taken.late
        envelopes += [Envelope(flow, task, place, batch) for flow, batch in rows.items() if flow in plan.layouts]
    merged = (perform(merge, store, writer, work.epoch) for merge in work.merges[task::tasks])
    outcome.merged = [merge for merge in merged if merge is not None]
    outcome.pool = store.pool.use
    return envelopes, outcome


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


@dataclass(frozen=True)
class _Shared:
    """What a step keeps of an input, as others do: until when, and where the first one of those that keep the most has
    it."""

    horizons: Horizons
    kept_input: KeptInput
    first: str
    synopsis_there: str


class _StageRun:
    def __init__(self, plan: StagePlan, shard: int, work: EpochWork, store: Store, writer: Writer) -> None:
        self.plan, self.shard, self.work, self.store, self.writer = plan, shard, work, store, writer
        self.batches: dict[str, Batch] = {}
        self.failures: dict[str, EvaluationError] = dict(work.culprits)
        self.outcome = ShardOutcome()
        self._trace = trace(work.trace)
        self._shared: dict[str, dict[int, _Shared]] = {}  # by step and the number of the input
        self._progress: dict[str, Progress] = {}  # by step
        self._gone = GoneRows()
        self._read: dict[str, Segment] = {}
        self._known: dict[int, tuple[str, Segment]] = {}  # segments that are stored already, by identity

    def run(self, number: int, received: Iterable[Envelope]) -> tuple[list[Envelope], ShardOutcome]:
        self._open(received)
        stage = self.plan.stages[number]
        self._share(stage.steps)
        with (
            in_common(),
            limited(self.work.limits),
            routing_by(self.work.routing),
            counting_gone() as self._gone,
        ):
            for step in stage.steps:
                self._step(step)
        self._trace.done()
        self.outcome.pool = self.store.pool.use
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
            self.batches[flow] = concat(of_equal_width([chosen(batch, like.columns) for batch in batches]), like)

    def _share(self, steps: Sequence[StageStep]) -> None:
        """Find the inputs that several steps keep in the same way: they keep them for as long as the last one needs."""
        found: dict[Hashable, list[tuple[str, int, KeptInput]]] = {}
        before, after = self.work.before, self.work.after
        for step in steps:
            progress = Progress(tuple([before[e] for e in step.edges]), tuple([after[e] for e in step.edges]))
            self._progress[step.name] = progress
            for number, kept in step.operator.kept_inputs(progress).items():
                found.setdefault((step.inputs[number], kept.arrangement), []).append((step.name, number, kept))
        for members in found.values():
            if len(members) > 1:
                least = reduce(Horizons.least, (kept.horizons for _, _, kept in members))
                first, _, model = min(members, key=lambda member: member[2].horizons.before)
                for step_name, number, kept in members:
                    own = self._shared.setdefault(step_name, {})
                    own[number] = _Shared(least, kept, first, model.synopsis)
        for name, inputs in self._shared.items():
            horizons = {number: shared.horizons for number, shared in inputs.items()}
            self._progress[name] = replace(self._progress[name], shared=horizons)

    def _like_the_first(self, step: str, state: State) -> State:
        """The state, with the segments of the first step that keeps the same: a step that came later has its own ones
        of the same rows, or of some of them. To compare them costs more than to keep both for some epochs."""
        if self.work.epoch % COMPARED_EVERY:
            return state
        changed = dict(state)
        for found in self._shared.get(step, {}).values():
            known = self.work.states.get(found.first, {})
            names = known.get(f"{self.shard}/{found.synopsis_there}", ())
            own = state.get(found.kept_input.synopsis, ())
            if step != found.first and any(self._known[id(segment)][0] not in names for segment in own):
                there = tuple(map(self._segment, names))
                if _is_kept_by(found.kept_input, there, own):
                    changed[found.kept_input.synopsis] = there
                    for other in found.kept_input.others:
                        changed[other] = tuple(map(self._segment, known.get(f"{self.shard}/{other}", ())))
        return changed

    def _step(self, step: StageStep) -> None:
        if step.name in self.failures:
            return
        self._trace.at(step.name)
        if self.failures and (broken := step.breaking(self.failures, step.inputs)):
            self.failures[step.name] = broken[0]
            return
        _pause.get()()
        state = self._like_the_first(step.name, self._load(step))
        given = [self.batches.get(flow, self.plan.layouts[flow]) for flow in step.inputs]
        inputs = taken(given, step.widths)
        if step.sums in self.batches:
            inputs.append(self.batches[step.sums])
        has_rows = any(batch.height for batch in inputs)
        # Whoever has all rows of an edge must also say what follows from there being none, once.
        called = self.shard == 0 if step.on_first_shard else bool(state) or has_rows
        if not called:
            return
        progress = self._progress[step.name]
        if not has_rows and step.operator.is_idle(state, progress):
            self._stay(step.name)
            return
        begun, account, before, gone = time.perf_counter(), Account(self.store.pool), state, self._gone.count
        try:
            with memory.using(account):
                batch, state = stepped(step.operator, inputs, state, progress, step.name)
        except EvaluationError as error:
            self.failures[step.name] = self.outcome.failures[step.name] = error
            return
        self.batches[step.name] = batch
        self.outcome.memory[step.name] = self._used(before) + account.most
        self.outcome.rows[step.name] = batch.height
        if self._gone.count > gone:
            self.outcome.expired[step.name] = self._gone.count - gone
        self.outcome.seconds[step.name] = time.perf_counter() - begun
        self._keep(step.name, batch, state)

    def _load(self, loaded: StageStep) -> State:
        step, selection, mine = loaded.name, loaded.table_of or loaded.name, f"{self.shard}/"
        state: dict[str, tuple[Segment, ...]] = {}
        for synopsis, names in self._synopses(step).items():
            self.store.pool.only(f"{self.work.owner}{step}/{synopsis}", names)
            segments = tuple(self._segment(name) for name in names)
            state[synopsis.removeprefix(mine).removeprefix(EVERYWHERE)] = segments
        if table := self.work.tables.get(selection):
            if not self.work.owner:  # others have some of its queries, which stay in memory until they are admitted
                self.store.pool.only(f"{selection}/{QUERIES}", table)
            state[QUERIES] = tuple(map(self._segment, table))
        for other in loaded.other_tables:
            state[other_table(other)] = tuple(map(self._segment, self.work.tables.get(other, ())))
        return state

    def _synopses(self, step: str) -> dict[str, Names]:
        """What a step has on this shard, and everywhere."""
        known = self.work.states.get(step)
        if not known:
            return {}
        here = f"{self.shard}/", EVERYWHERE
        return {synopsis: names for synopsis, names in known.items() if synopsis.startswith(here)}

    def _stay(self, step: str) -> None:
        """The step keeps what it has."""
        if kept := self._synopses(step):
            self.outcome.states[step] = kept

    def _segment(self, name: str) -> Segment:
        """The same object for all steps that have it, also where there is no room to keep it in the pool."""
        if name not in self._read:
            segment = self._read[name] = self.store.read(name)
            self._known[id(segment)] = name, segment
        return self._read[name]

    def _used(self, state: State) -> int:
        """The bytes of segments that a step was given, and of what lies beside them."""
        found = [segment for segments in state.values() for segment in segments]
        read = sum(self.store.size(self._known[id(segment)][0]) for segment in found)
        return read + sum(map(self.store.pool.index_bytes, found))

    def _keep(self, step: str, batch: Batch, state: State) -> None:
        kept = {
            synopsis if synopsis.startswith(EVERYWHERE) else f"{self.shard}/{synopsis}": tuple(
                map(self._name, segments)
            )
            for synopsis, segments in state.items()
            if segments
        }
        if kept:
            self.outcome.states[step] = kept
        if step in self.work.shown and batch.height:
            # Whoever asks for answers asks for values and intervals.
            shown = frame_of([column for column in batch.get_columns() if column.name not in (ARRIVAL, BORN, INSTANT)])
            self.outcome.results[step] = (self.writer.write_packed(shown),)

    def _name(self, segment: Segment) -> str:
        if id(segment) not in self._known:
            self._known[id(segment)] = self.writer.write_packed(segment), segment
        return self._known[id(segment)][0]

    def _send(self, send: Send) -> list[Envelope]:
        if send.edge in self.failures:
            everyone = range(self.plan.shards)
            return [Envelope(send.flow, shard, self.shard, self.failures[send.edge]) for shard in everyone]
        batch = self.batches.get(send.edge)
        if batch is None or not batch.height:
            return []
        if send.columns is None:
            return [Envelope(send.flow, self.shard % self.plan.shards, self.shard, batch)]
        sums = None if send.combiner is None else send.combiner.sums(batch)
        sent = batch if sums is None else sums
        if sums is None and send.combiner is not None:
            sent = send.combiner.consolidated(batch)
        parts, load = split(sent, send.columns, self.plan.shards)
        load.exchanged = Exchanged(batch.height, sent.height, int(sent.estimated_size()))
        self.outcome.loads[send.flow] = send.edge, load
        flow = send.flow if sums is None else send.sums
        return [Envelope(flow, shard, self.shard, rows) for shard, rows in parts]


def _is_kept_by(kept: KeptInput, there: Sequence[Segment], own: Sequence[Segment]) -> bool:
    if kept.is_kept_by is not None:
        return kept.is_kept_by(there, own)
    return have_same_rows(there, own, kept.horizons.before)


@contextmanager
def pausing(pause: Callable[[], None]) -> Iterator[None]:
    """What this thread runs within the block gives way before each step, by calling `pause`."""
    before = _pause.set(pause)
    try:
        yield
    finally:
        _pause.reset(before)


def run_here(plan: StagePlan, work: EpochWork, tasks: int, store: Store) -> list[ShardOutcome]:
    """All stages on all shards, one after the other in this process; stage 0 as so many tasks."""
    with store.file(f"e{work.epoch}", synced=work.synced) as writer:
        begun = [take_in(plan, work, task, tasks, store, writer) for task in range(tasks)]
        outcomes = [outcome for _, outcome in begun]
        inboxes = {task: received for task, (received, _) in enumerate(begun)}
        for number in range(len(plan.stages)):
            following: dict[int, list[Envelope]] = {shard: [] for shard in range(plan.shards)}
            for shard, received in inboxes.items():
                sent, outcome = run_stage(plan, number, shard, received, work, store, writer)
                outcomes.append(outcome)
                for envelope in sent:
                    following[envelope.shard].append(envelope)
            inboxes = following
    return outcomes


def combine_outcomes(plan: StagePlan, outcomes: Sequence[ShardOutcome]) -> EpochOutcome:
    """What all shards did, put together. A step that failed on one of them failed, as did all that read it: what the
    others made of it is left out."""
    failures = _failures(plan, outcomes)
    states: dict[str, dict[str, Names]] = {}
    results: dict[str, Names] = {}
    history: dict[str, tuple[HistoryFile, ...]] = {}
    rows: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    memory_used: Counter[str] = Counter()
    expired: Counter[str] = Counter()
    late: Counter[str] = Counter()
    shed: Counter[str] = Counter()
    orphans: list[str] = []
    for outcome in outcomes:
        for total, counted in (
            (rows, outcome.rows),
            (memory_used, outcome.memory),
            (expired, outcome.expired),
            (late, outcome.late),
            (shed, outcome.shed),
        ):
            total.update(counted)
        for step, spent in outcome.seconds.items():
            seconds[step] += spent  # type: ignore[assignment]
        for step, synopses in outcome.states.items():
            if step in failures:
                orphans += [name for names in synopses.values() for name in names]
            else:
                own = states.setdefault(step, {})
                for synopsis, names in synopses.items():
                    together = (*own.get(synopsis, ()), *names)
                    own[synopsis] = tuple(dict.fromkeys(together)) if synopsis.startswith(EVERYWHERE) else names
        for step, names in outcome.results.items():
            if step in failures:
                orphans += names
            else:
                results[step] = results.get(step, ()) + names
    for _, source, file in sorted((place for outcome in outcomes for place in outcome.history), key=lambda p: p[:2]):
        history[source] = (*history.get(source, ()), file)
    merged = tuple(merge for outcome in outcomes for merge in outcome.merged)
    skew = tuple(skews(outcome.loads for outcome in outcomes))
    pools = {outcome.pool.process: outcome.pool for outcome in outcomes if outcome.pool is not None}
    used = {*state_names(states)}  # by another step that keeps the same
    return EpochOutcome(
        states,
        results,
        history,
        rows,
        seconds,
        memory_used,
        expired,
        late,
        shed,
        merged,
        failures,
        skew,
        tuple(name for name in orphans if name not in used),
        tuple(pools.values()),
        _exchanged(plan, outcomes),
    )


def _exchanged(plan: StagePlan, outcomes: Sequence[ShardOutcome]) -> dict[str, Exchanged]:
    """By step; what several of them read is counted for each."""
    by_flow: dict[str, Exchanged] = {}
    for outcome in outcomes:
        for flow, (_, load) in outcome.loads.items():
            by_flow.setdefault(flow, Exchanged()).add(load.exchanged)
    found: dict[str, Exchanged] = {}
    for step in (step for stage in plan.stages for step in stage.steps) if by_flow else ():
        for flow in step.inputs:
            if flow in by_flow:
                found.setdefault(step.name, Exchanged()).add(by_flow[flow])
    return found


def _failures(plan: StagePlan, outcomes: Sequence[ShardOutcome]) -> dict[str, EvaluationError]:
    """What a step awaits may run after it."""
    failures: dict[str, EvaluationError] = {}
    known = -1
    while known < len(failures):
        known = len(failures)
        for step in (step for stage in plan.stages for step in stage.steps if step.name not in failures):
            below = step.breaking(failures, step.edges)
            own = [outcome.failures[step.name] for outcome in outcomes if step.name in outcome.failures]
            if below or own:
                failures[step.name] = (below + own)[0]
    return failures
