"""Questions about the kept history: plans are run over it in the background, and nothing of them is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.epochs.runner import Runner
from millstream.engine.epochs.task import EpochOutcome, StateNames
from millstream.engine.history.replay import HistoryRun, Replay
from millstream.engine.plans import lowered
from millstream.engine.reports import OperatorReport, report
from millstream.engine.sources import Sources
from millstream.kernel.batch import Batch, empty_batch
from millstream.kernel.pipeline import Pipeline
from millstream.plan import nodes as lo
from millstream.plan.lowering.lower import Options
from millstream.state.snapshot import Snapshot
from millstream.state.written import Written
from millstream.types import Schema


class Evaluation:
    """Evaluates plans over history, in any thread."""

    def __init__(self, commits: Commits, sources: Sources, replay: Replay, runner: Runner) -> None:
        self._commits, self._sources, self._replay, self.runner = commits, sources, replay, runner

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
            outcome = self.runner.fork().run(task)
            written.add(outcome.names())
            self._replay.take(run, task, outcome)
            if edge in run.failures:
                raise run.failures[edge]
            yield run, outcome
