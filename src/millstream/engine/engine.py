"""The engine: one shared pipeline over all sources, stepped epoch by epoch, each epoch committed as a snapshot.

Between epochs the pipeline may change: that is how queries come and go. A query that comes late is first run over the
kept history, up to exactly the committed snapshot, and goes on from there.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from millstream.engine.runner import Runner
from millstream.engine.task import EpochTask
from millstream.errors import EvaluationError
from millstream.kernel.batch import Batch, empty_batch
from millstream.kernel.pipeline import Pipeline
from millstream.plan import logical as lo
from millstream.plan.cost import SourceStatistics
from millstream.plan.physical import CLOCK, Lowering, Options
from millstream.state.snapshot import Names, Snapshot, SourceProgress
from millstream.types import Schema


@dataclass(frozen=True)
class SourceRow:
    """A source as the engine sees it: its columns, and whether it has a heartbeat of its own (or follows the clock)."""

    schema: Schema
    has_heartbeat: bool
    counts_arrivals: bool


STATISTICS_ROWS = 50_000


class Engine:
    """Owns the committed snapshot and the pipeline. Every public method is safe from any thread."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.snapshot = Snapshot()
        self.pipeline = Pipeline()
        self.failures: dict[str, EvaluationError] = {}
        self.lock = threading.RLock()
        self._sources: dict[str, SourceRow] = {CLOCK: SourceRow((), False, False)}
        self._shown: Counter[str] = Counter()
        self._distinct: dict[str, tuple[float, ...]] = {}  # by history segment

    # Sources

    def add_source(self, name: str, row: SourceRow) -> None:
        with self.lock:
            self._sources[name] = row

    def drop_source(self, name: str) -> None:
        """Forget a source and its history; no query reads it any more."""
        with self.lock:
            self._sources.pop(name, None)
            self.runner.store.remove(self.snapshot.history.get(name, ()))
            self.snapshot = replace(
                self.snapshot,
                sources={key: value for key, value in self.snapshot.sources.items() if key != name},
                history={key: value for key, value in self.snapshot.history.items() if key != name},
            )

    def history(self, name: str) -> Batch:
        """All accepted rows of a source."""
        with self.lock:
            frames = [self.runner.store.read(segment) for segment in self.snapshot.history.get(name, ())]
            return pl.concat([self._empty(name), *frames])

    def frontier(self, source: str) -> int:
        if self._sources[source].has_heartbeat:
            return self.snapshot.progress(source).heartbeat
        return self.snapshot.clock

    def statistics(self) -> dict[str, SourceStatistics]:
        """What the planner should know: rates so far, and distinct values in the newest segment of each source."""
        with self.lock:
            return {name: self._statistics_of(name) for name, names in self.snapshot.history.items() if names}

    def _statistics_of(self, name: str) -> SourceStatistics:
        newest = self.snapshot.history[name][-1]
        if newest not in self._distinct:
            rows = self.runner.store.read(newest).head(STATISTICS_ROWS)
            columns = [column for column in rows.columns if not column.startswith("_")]
            self._distinct = {newest: tuple(float(rows[column].n_unique()) for column in columns)} | {
                segment: counts for segment, counts in self._distinct.items() if segment in self._newest()
            }
        rows_so_far = max(self.snapshot.progress(name).arrived, 1)
        return SourceStatistics(rows_so_far / max(self.snapshot.clock + 1, 1), rows_so_far, self._distinct[newest])

    def _newest(self) -> set[str]:
        return {names[-1] for names in self.snapshot.history.values() if names}

    # Epochs

    def epoch(self, arrived: Mapping[str, Batch], progress: Mapping[str, SourceProgress], clock: int) -> None:
        """Take new rows and heartbeats in, run what they concern, commit."""
        with self.lock:
            before = self._frontiers()
            names = {
                source: (self.runner.store.write(f"e{self.snapshot.epoch + 1}-{source}", batch),)
                for source, batch in arrived.items()
                if batch.height
            }
            committed = self.snapshot
            self.snapshot = replace(
                committed,
                clock=max(clock, committed.clock),
                sources={**committed.sources, **progress},
                history=_appended(committed.history, names),
            )
            try:
                self._run_epoch(names, before, sum(batch.height for batch in arrived.values()))
            except BaseException:
                self.snapshot = committed
                raise

    def _run_epoch(self, names: Mapping[str, Names], before: Mapping[str, int], arriving: int) -> None:
        after = self._frontiers()
        changed = {source for source in self._sources if source in names or after[source] != before[source]}
        concerned = self._downstream(changed)
        if not concerned:
            self.snapshot = replace(self.snapshot, epoch=self.snapshot.epoch + 1)
            return
        task = replace(
            self._task(self.pipeline, names, arriving),
            concerned=frozenset(concerned),
            # A step that is not concerned keeps its state.
            states={step: synopses for step, synopses in self.snapshot.states.items() if step in concerned},
            before=before,
            after=after,
            shown=tuple(edge for edge in self._shown if edge in concerned),
        )
        self._commit(task, concerned)

    def _commit(self, task: EpochTask, concerned: set[str]) -> None:
        outcome = self.runner.run(task)
        kept = {step: names for step, names in self.snapshot.states.items() if step not in concerned}
        states = {**kept, **outcome.states}
        stale = _all_names(self.snapshot.states) - _all_names(states)
        self.snapshot = replace(
            self.snapshot,
            epoch=task.epoch,
            states=states,
            results=_appended(self.snapshot.results, outcome.results),
        )
        self._fail(dict(outcome.failures))
        self.runner.store.remove(stale)

    def _fail(self, failures: dict[str, EvaluationError]) -> None:
        """Take failed steps out of the pipeline; the queries over them show the error."""
        if failures:
            self.failures.update(failures)
            self.pipeline = Pipeline(tuple(step for step in self.pipeline.steps if step.name not in failures))

    # Queries

    def show(self, plan: lo.Node, options: Options) -> str:
        """Keep a plan's rows as results from now on, its past included; gives the edge that carries them."""
        with self.lock:
            edge, backfill = self._prepare(plan, options)
            self._shown[edge] += 1
            # A query for all of a source has the source's history as its result.
            if edge not in self._sources and self._shown[edge] == 1:
                try:
                    self._backfill(edge, backfill)
                except BaseException:
                    del self._shown[edge]
                    raise
            return edge

    def evaluate(self, plan: lo.Node, options: Options, until: int) -> Batch:
        """A plan's rows from the kept history, final up to `until`; nothing is kept."""
        with self.lock:
            edge, pipeline = self._prepare(plan, options)
            if edge in self._sources:
                return self.history(edge)
            sources = dict.fromkeys(self._sources, -1)
            final = {source: max(until, self.frontier(source)) for source in self._sources}
            task = replace(
                self._history_task(pipeline),
                before=sources,
                after=final,
                shown=(edge,),
                epoch=self.snapshot.epoch,
            )
            outcome = self.runner.run(task)
            if edge in outcome.failures:
                raise outcome.failures[edge]
            names = outcome.results.get(edge, ())
            frames = [self.runner.store.read(name) for name in names]
            rows = pl.concat([empty_batch(plan.schema), *(f.select(empty_batch(plan.schema).columns) for f in frames)])
            self.runner.store.remove([*names, *_all_names(outcome.states)])
            return rows

    def hide(self, edge: str) -> None:
        """A query over the edge is gone; forget what no other one needs."""
        with self.lock:
            self._shown[edge] -= 1
            if self._shown[edge] > 0:
                return
            del self._shown[edge]
            needed = {below for shown in self._shown for below in self.pipeline.edges_below(shown)}
            self.pipeline = self.pipeline.only(needed)
            self.failures = {step: error for step, error in self.failures.items() if step in needed}
            dropped = self.snapshot.results.get(edge, ())
            states = {step: names for step, names in self.snapshot.states.items() if step in needed}
            stale = _all_names(self.snapshot.states) - _all_names(states)
            results = {key: names for key, names in self.snapshot.results.items() if key != edge}
            self.snapshot = replace(self.snapshot, states=states, results=results)
            self.runner.store.remove([*dropped, *stale])

    def check(self, edge: str) -> None:
        """Raise what stopped the edge, if something did."""
        if edge in self.failures:
            raise self.failures[edge]

    def rows(self, edge: str, schema: Schema) -> tuple[Batch, Snapshot]:
        """All rows that an edge has shown, and the snapshot they belong to."""
        with self.lock:
            self.check(edge)
            snapshot = self.snapshot
            like = empty_batch(schema)
            kept = snapshot.history if edge in self._sources else snapshot.results
            frames = [self.runner.store.read(name).select(like.columns) for name in kept.get(edge, ())]
        return pl.concat([like, *frames]), snapshot

    def inputs(self, edge: str) -> set[str]:
        """The sources that an edge is made from."""
        return {below for below in self.pipeline.edges_below(edge) if below in self._sources}

    def _prepare(self, plan: lo.Node, options: Options) -> tuple[str, Pipeline]:
        lowering = Lowering(plan, options)
        return lowering.edge, Pipeline(tuple(lowering.steps.values()))

    def _backfill(self, edge: str, pipeline: Pipeline) -> None:
        known = {step.name for step in self.pipeline.steps}
        frontiers = self._frontiers()
        task = replace(
            self._history_task(pipeline),
            before=dict.fromkeys(frontiers, -1),
            after=frontiers,
            shown=(edge,),
        )
        outcome = self.runner.run(task)
        if edge in outcome.failures:
            raise outcome.failures[edge]
        new = {step: names for step, names in outcome.states.items() if step not in known}
        self.runner.store.remove(_all_names(outcome.states) - _all_names(new))
        self.pipeline = self.pipeline.with_steps(pipeline.steps)
        self.snapshot = replace(
            self.snapshot,
            epoch=task.epoch,
            states={**self.snapshot.states, **new},
            results=_appended(self.snapshot.results, outcome.results),
        )

    def _history_task(self, pipeline: Pipeline) -> EpochTask:
        arriving = sum(progress.arrived for progress in self.snapshot.sources.values())
        return self._task(pipeline, self.snapshot.history, arriving)

    def _task(self, pipeline: Pipeline, names: Mapping[str, Names], arriving: int) -> EpochTask:
        """A task of all steps from nothing; callers say how far, from where, and what to show."""
        steps = frozenset(step.name for step in pipeline.steps)
        sources = {edge for step in pipeline.steps for edge in step.inputs} - steps
        return EpochTask(
            self.snapshot.epoch + 1,
            pipeline,
            steps,
            {source: segments for source, segments in names.items() if source in sources},
            arriving,
            {source: self._empty(source) for source in sources},
            {},
            {},
            {},
            (),
        )

    def _frontiers(self) -> dict[str, int]:
        return {source: self.frontier(source) for source in self._sources}

    def _downstream(self, sources: set[str]) -> set[str]:
        reached = set(sources)
        for step in self.pipeline.steps:
            if reached.intersection(step.inputs):
                reached.add(step.name)
        return reached - set(self._sources)

    def _empty(self, source: str) -> Batch:
        row = self._sources[source]
        return empty_batch(row.schema, arrival=row.counts_arrivals)


def _appended(names: Mapping[str, Names], more: Mapping[str, Names]) -> dict[str, Names]:
    return {**names, **{key: names.get(key, ()) + added for key, added in more.items()}}


def _all_names(states: Mapping[str, Mapping[str, Names]]) -> set[str]:
    return {name for synopses in states.values() for names in synopses.values() for name in names}
