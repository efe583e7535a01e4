"""Questions about the kept history: plans are run over it in the background, and nothing of them is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.epochs.caution import Culprits
from millstream.engine.epochs.runner import Runner
from millstream.engine.epochs.task import EpochOutcome, EpochTask, StateNames
from millstream.engine.epochs.workers import Workers
from millstream.engine.groups.group import Group
from millstream.engine.history.replay import HistoryRun, Replay
from millstream.engine.limits import Limits
from millstream.engine.measures import Measures
from millstream.engine.plans import lowered
from millstream.engine.reports import FrameStore, OperatorReport, count, report
from millstream.engine.sources import Sources
from millstream.engine.works import Work, current_work
from millstream.errors import StateError
from millstream.kernel.batch import INF, Batch, empty_batch
from millstream.kernel.operator import Segment, State
from millstream.kernel.pipeline import Pipeline, run
from millstream.kernel.sharing.parameters import QUERIES, QUERY
from millstream.kernel.step_limits import StepLimits, limited
from millstream.plan import nodes as lo
from millstream.plan.grouping import QUERY_ROWS
from millstream.plan.lowering.lower import CLOCK
from millstream.plan.lowering.options import Options
from millstream.state.snapshot import Snapshot
from millstream.state.store import DirectoryStore
from millstream.state.written import Written
from millstream.types import Schema

HERE = 1_000_000  # rows of history that one process takes in; more are a job of the runner


ReadStates = Callable[[StateNames, Callable[[str], pl.DataFrame]], None]


@dataclass(frozen=True)
class _Made:
    """What a task has made, and where that lies."""

    task: EpochTask
    outcome: EpochOutcome
    store: FrameStore


class Evaluation:
    """Evaluates plans over history, in any thread."""

    def __init__(self, commits: Commits, sources: Sources, replay: Replay, runner: Runner, limits: Limits) -> None:
        self._commits, self._sources, self._replay, self._runner = commits, sources, replay, runner
        self._limits = limits
        self.workers: Workers | None = None  # who runs what is not trusted

    def compute_apart(self, processes: int, memory: int, dumps: Callable[[object], bytes]) -> None:
        """Have what is guarded computed by so many processes of so many bytes each, where others can read the store."""
        store = self._runner.store
        if isinstance(store, DirectoryStore) and processes and self.workers is None:
            self.workers = Workers(store.directory, processes, memory, dumps)

    def evaluate(
        self,
        plan: lo.Node,
        options: Options,
        until: int,
        firsts: Mapping[str, int] = MappingProxyType({}),
        read: ReadStates | None = None,
        last: int = INF,
    ) -> Batch:
        """A plan's rows from the kept history, final up to `until`, of which those up to `last` count; no epoch waits.
        What the steps hold in the end can be read."""
        edge, pipeline = lowered(plan, options)  # operators of its own: many may read at a time
        if edge in self._sources:
            return self._commits.read(lambda snapshot: self._sources.history_in(edge, snapshot))
        with self._commits.reading(pipeline.sources) as snapshot:
            return self.evaluated(edge, pipeline, plan.schema, until, snapshot, firsts, read, last)

    def evaluated(
        self,
        edge: str,
        pipeline: Pipeline,
        schema: Schema,
        until: int,
        snapshot: Snapshot,
        firsts: Mapping[str, int] = MappingProxyType({}),
        read: ReadStates | None = None,
        last: int = INF,
    ) -> Batch:
        """The same by the history of a snapshot, which must be there as long as it takes."""
        like = empty_batch(schema)
        run = HistoryRun(pipeline, frozenset([edge]), firsts=firsts)
        with self._run(run, until, snapshot, last, with_states=read is not None) as (run, made):
            if read is not None:
                read(run.states, made.store.read)
            names = run.results.get(edge, ())
            return pl.concat([like, *(made.store.read(name).select(like.columns) for name in names)])

    def answer(
        self, edge: str, pipeline: Pipeline, schema: Schema, snapshot: Snapshot, firsts: Mapping[str, int], last: int
    ) -> Batch:
        """A pipeline's rows from the history of a snapshot, from some instants on, up to the `last` one and as far as
        that is final: computed here from rows in memory, or by a job where these are too many for one process."""
        if not self.is_small(pipeline, snapshot, firsts, last):
            return self.evaluated(edge, pipeline, schema, -1, snapshot, firsts, last=last)
        arrived, final = self._kept(pipeline, snapshot, firsts, last)
        return self.computed(edge, pipeline, arrived, final, min(snapshot.clock, last), schema)

    def computed(
        self,
        edge: str,
        pipeline: Pipeline,
        arrived: Mapping[str, Batch],
        final: Mapping[str, int],
        clock: int,
        schema: Schema,
    ) -> Batch:
        """What a pipeline makes of rows in memory from nothing, in this process."""
        asked = ComputedAnswer(edge, pipeline, arrived, final, clock, schema, self._limits.steps)
        caution = self._runner.caution
        for error in caution.culprits((step.name for step in pipeline.steps), lambda: asked).values():
            raise error
        with caution.noted():
            return asked.rows()

    def answer_of_many(
        self, group: Group, tables: Sequence[Segment], snapshot: Snapshot, firsts: Mapping[str, int], last: int
    ) -> Iterator[Sequence[Batch]]:
        """What the pipeline of a group, which nobody else runs, shows for the queries of one query table, and of the
        next. Rows of history are read once."""
        pipeline, edge, most = group.pipeline, group.edge, self._limits.steps
        if not self.is_small(pipeline, snapshot, firsts, last):
            yield from (self._shown_by_job(group, table, snapshot, firsts, last) for table in tables)
            return
        arrived, final = self._kept(pipeline, snapshot, firsts, last)
        reading = [step for step in pipeline.steps if (step.table_of or step.name) == group.selection]
        for table in tables:
            given = {**arrived, **group.rows_of_queries(table[QUERY])}
            far = {**dict.fromkeys(given, max(final.values(), default=-1)), **final}
            states: dict[str, State] = {step.name: {QUERIES: (table,)} for step in reading}
            with self._runner.caution.noted():
                found = made(edge, pipeline, given, far, min(snapshot.clock, last), most, states)
            yield [found]

    def _shown_by_job(
        self, group: Group, table: Segment, snapshot: Snapshot, firsts: Mapping[str, int], last: int
    ) -> Sequence[Batch]:
        with self._commits.store.file("queries", synced=False) as writer:
            tables = {group.selection: (writer.write(table),)}
        run = HistoryRun(group.pipeline, frozenset([group.edge]), firsts=firsts, tables=tables)
        with self._run(run, -1, snapshot, last) as (run, made):
            return [made.store.read(name) for name in run.results.get(group.edge, ())]

    def is_small(self, pipeline: Pipeline, snapshot: Snapshot, firsts: Mapping[str, int], last: int = INF) -> bool:
        """Whether what a pipeline needs of history is computed here."""
        if self._guarding() is not None or self._runner.caution.suspected(step.name for step in pipeline.steps):
            return False
        return self._runner.runs_here or self.height(pipeline, snapshot, firsts, last) <= HERE

    def height(self, pipeline: Pipeline, snapshot: Snapshot, firsts: Mapping[str, int], last: int) -> int:
        """About how many rows of history a pipeline needs."""
        files = ((source, file) for source in pipeline.sources for file in snapshot.history.get(source, ()))
        return sum(file.rows for source, file in files if file.last >= firsts.get(source, 0) and file.first <= last)

    def _kept(
        self, pipeline: Pipeline, snapshot: Snapshot, firsts: Mapping[str, int], last: int
    ) -> tuple[dict[str, Batch], dict[str, int]]:
        """The rows of sources from some instants on, up to the last one, and how far these are final."""
        read = [source for source in pipeline.sources if not source.startswith(QUERY_ROWS)]
        arrived = {s: self._sources.kept_between(s, snapshot, firsts.get(s, 0), last) for s in read}
        return arrived, {source: min(self._sources.frontier(source, snapshot), last) for source in read}

    def measure(self, plan: lo.Node, options: Options, until: int) -> list[OperatorReport]:
        """What the operators of a plan do over the kept history."""
        edge, pipeline = lowered(plan, options)
        with (
            self._commits.reading(pipeline.sources) as snapshot,
            self._run(HistoryRun(pipeline, frozenset([edge])), until, snapshot, with_states=True) as (_, made),
        ):
            outcome = made.outcome
            count(measures := Measures(), pipeline, outcome, made.task.arrived)
            return report(pipeline, [edge], measures, outcome.memory, outcome.states, {edge: 1}, made.store)

    @contextmanager
    def _run(
        self, run: HistoryRun, until: int, snapshot: Snapshot, last: int = INF, *, with_states: bool = False
    ) -> Iterator[tuple[HistoryRun, _Made]]:
        """A run through the history of a snapshot up to the `last` instant, final up to `until`; what it made is
        removed when the block ends. Epochs go on meanwhile."""
        frontiers = self._sources.frontiers(snapshot)
        final = {source: min(max(until, frontier), last) for source, frontier in frontiers.items()}
        with Written(self._commits.store) as written:
            written.add(run.names())
            # Epochs go on, and sweep files in which nothing committed lies: what is of use only here has its own.
            task = replace(self._replay.rest(run, snapshot, final, last), synced=False)
            made = self._made(task, with_states)
            elsewhere = made.store is not self._commits.store
            written.add(() if elsewhere else made.outcome.names())
            self._replay.take(run, task, made.outcome, elsewhere=elsewhere)
            for error in run.failures.values():
                raise error
            yield run, made

    def _guarding(self) -> Work | None:
        """The work that this thread is at, where that is to be done by a process of its own."""
        work = current_work()
        return work if self.workers is not None and work is not None and work.guarded else None

    def _made(self, task: EpochTask, with_states: bool) -> _Made:
        store, work = self._commits.store, self._guarding()
        if work is None or self.workers is None:
            return _Made(task, self._runner.fork().run(task), store)
        if self._runner.runs_here or task.arriving <= HERE:
            return _Made(task, *self.workers.run(task, work, with_states=with_states))
        runner = self._runner.background_runner(work.check)
        with work.ended_by(runner.cancel):
            try:
                outcome = runner.run(task)
            except StateError:
                work.check()
                raise
        return _Made(task, outcome, store)


@dataclass(frozen=True)
class ComputedAnswer:
    """What a pipeline makes of rows in memory from nothing, within limits."""

    edge: str
    pipeline: Pipeline
    arrived: Mapping[str, Batch]
    final: Mapping[str, int]
    clock: int
    schema: Schema
    most: StepLimits

    def rows(self) -> Batch:
        like = empty_batch(self.schema)
        found = made(self.edge, self.pipeline, self.arrived, self.final, self.clock, self.most)
        return found if found.columns == like.columns else found.select(like.columns)

    def do(self, culprits: Culprits) -> None:
        """The same in a child process, which keeps nothing of it; the first culprit fails it, so that nothing is left
        to be done."""
        if not culprits:
            self.rows()


def made(
    edge: str,
    pipeline: Pipeline,
    arrived: Mapping[str, Batch],
    final: Mapping[str, int],
    clock: int,
    most: StepLimits,
    states: Mapping[str, State] = MappingProxyType({}),
) -> Batch:
    """The same with all columns; some steps have query tables."""
    if CLOCK in pipeline.sources:
        arrived, final = {**arrived, CLOCK: empty_batch(())}, {**final, CLOCK: max(clock, 0)}
    with limited(most):
        outcome = run(pipeline, arrived, states, dict.fromkeys(final, -1), final)
    if edge in outcome.failures:
        raise outcome.failures[edge]
    return outcome.batches[edge]
