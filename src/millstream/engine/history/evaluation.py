"""Questions about the kept history: plans are run over it in the background, and nothing of them is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType

import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.epochs.runner import Runner
from millstream.engine.epochs.task import EpochOutcome, StateNames
from millstream.engine.history.replay import HistoryRun, Replay
from millstream.engine.limits import Limits
from millstream.engine.plans import lowered
from millstream.engine.reports import OperatorReport, report
from millstream.engine.sources import Sources
from millstream.kernel.batch import START, Batch, empty_batch
from millstream.kernel.columns import only
from millstream.kernel.pipeline import Pipeline, run
from millstream.kernel.scalar.value_size import limited_values
from millstream.kernel.storage.segments import numbers
from millstream.plan import nodes as lo
from millstream.plan.lowering.lower import CLOCK, Options
from millstream.state.snapshot import HistoryFile, Snapshot
from millstream.state.written import Written
from millstream.types import Schema

HERE = 1_000_000  # rows of history that one process takes in; more are a job of the runner


class Evaluation:
    """Evaluates plans over history, in any thread."""

    def __init__(self, commits: Commits, sources: Sources, replay: Replay, runner: Runner, limits: Limits) -> None:
        self._commits, self._sources, self._replay, self._runner = commits, sources, replay, runner
        self._limits = limits

    def evaluate(
        self,
        plan: lo.Node,
        options: Options,
        until: int,
        firsts: Mapping[str, int] = MappingProxyType({}),
        read: Callable[[StateNames], None] = lambda states: None,
    ) -> Batch:
        """A plan's rows from the kept history, final up to `until`; no epoch waits. What the steps hold in the end can
        be read."""
        edge, pipeline = lowered(plan, options)  # operators of its own: many may read at a time
        if edge in self._sources:
            return self._commits.read(lambda snapshot: self._sources.history_in(edge, snapshot))
        with self._commits.reading(pipeline.sources) as snapshot:
            return self.evaluated(edge, pipeline, plan.schema, until, snapshot, firsts, read)

    def evaluated(
        self,
        edge: str,
        pipeline: Pipeline,
        schema: Schema,
        until: int,
        snapshot: Snapshot,
        firsts: Mapping[str, int] = MappingProxyType({}),
        read: Callable[[StateNames], None] = lambda states: None,
    ) -> Batch:
        """The same by the history of a snapshot, which must be there as long as it takes."""
        like = empty_batch(schema)
        with self._run(edge, pipeline, until, snapshot, firsts) as (run, _):
            read(run.states)
            names = run.results.get(edge, ())
            return pl.concat([like, *(self._commits.store.read(name).select(like.columns) for name in names)])

    def answer(
        self, edge: str, pipeline: Pipeline, schema: Schema, snapshot: Snapshot, firsts: Mapping[str, int]
    ) -> Batch:
        """A pipeline's rows from the history of a snapshot, from some instants on, as far as that is final: computed
        here from rows in memory, or by a job where these are too many for one process."""

        def is_needed(source: str, file: HistoryFile) -> bool:
            return file.last >= firsts.get(source, 0)

        read = pipeline.sources
        height = sum(f.rows for source in read for f in snapshot.history.get(source, ()) if is_needed(source, f))
        if not self._runner.runs_here and height > HERE:
            return self.evaluated(edge, pipeline, schema, -1, snapshot, firsts)
        arrived = {source: self._sources.kept_rows(source, snapshot, partial(is_needed, source)) for source in read}
        arrived = {source: _from(rows, firsts.get(source, 0)) for source, rows in arrived.items()}
        final = {source: self._sources.frontier(source, snapshot) for source in read}
        return computed(edge, pipeline, arrived, final, snapshot.clock, schema, self._limits.value_bytes)

    def measure(self, plan: lo.Node, options: Options, until: int) -> list[OperatorReport]:
        """What the operators of a plan do over the kept history."""
        edge, pipeline = lowered(plan, options)
        with (
            self._commits.reading(pipeline.sources) as snapshot,
            self._run(edge, pipeline, until, snapshot) as (_, outcome),
        ):
            done = outcome.rows, outcome.seconds, outcome.memory, outcome.states
            return report(pipeline, edge, *done, {edge: 1}, self._commits.store)

    @contextmanager
    def _run(
        self,
        edge: str,
        pipeline: Pipeline,
        until: int,
        snapshot: Snapshot,
        firsts: Mapping[str, int] = MappingProxyType({}),
    ) -> Iterator[tuple[HistoryRun, EpochOutcome]]:
        """A pipeline run over the history of a snapshot, final up to `until`; what it made is removed when the block
        ends. Epochs go on meanwhile."""
        final = {source: max(until, frontier) for source, frontier in self._sources.frontiers(snapshot).items()}
        run = HistoryRun(pipeline, frozenset([edge]), firsts=firsts)
        task = self._replay.rest(run, snapshot, final)
        with Written(self._commits.store) as written:
            outcome = self._runner.fork().run(task)
            written.add(outcome.names())
            self._replay.take(run, task, outcome)
            if edge in run.failures:
                raise run.failures[edge]
            yield run, outcome


def computed(
    edge: str,
    pipeline: Pipeline,
    arrived: Mapping[str, Batch],
    final: Mapping[str, int],
    clock: int,
    schema: Schema,
    most: int,
) -> Batch:
    """What a pipeline makes of rows in memory from nothing, without values of more than so many bytes."""
    like = empty_batch(schema)
    if CLOCK in pipeline.sources:
        arrived, final = {**arrived, CLOCK: empty_batch(())}, {**final, CLOCK: max(clock, 0)}
    with limited_values(most):
        outcome = run(pipeline, arrived, {}, dict.fromkeys(final, -1), final)
    if edge in outcome.failures:
        raise outcome.failures[edge]
    found = outcome.batches[edge]
    return found if found.columns == like.columns else found.select(like.columns)


def _from(rows: Batch, first: int) -> Batch:
    return only(rows, numbers(rows, START) >= first) if first > 0 else rows
