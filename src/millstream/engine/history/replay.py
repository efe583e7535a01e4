"""Replay: the one way to run a plan over history.

    history ──as epochs would have──▶ states and results of the run's own, as far as some instant of each source

A run is taken as far as one likes, at once or slice by slice: each time its steps go on from the state of the time
before, with the rows after those that were taken and the frontiers that they raise. Whoever began it decides what comes
of it: a late query takes part with it (`backfill`), or it was a question, and nothing of it is kept (`evaluation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from millstream.engine.commits import Commits
from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.task import EpochOutcome, EpochTask, StateNames
from millstream.engine.groups.group import Group, RowsByShape, numbers_of
from millstream.engine.history.slices import FileLeft, RowsByTime
from millstream.engine.needs import EVERYTHING, Needs, needs_of
from millstream.engine.sources import Sources
from millstream.engine.tasks import Tasks
from millstream.errors import EvaluationError
from millstream.kernel.batch import INF
from millstream.kernel.pipeline import Pipeline
from millstream.state.snapshot import HistoryFile, Names, RunProgress, Snapshot, state_names
from millstream.state.store import MemoryStore
from millstream.state.written import Written

_FEW_SHAPES, _FEW_ROWS = 4, 100_000


@dataclass(eq=False)
class HistoryRun:
    """Plans on their way through history; `shown` are the edges whose rows are kept."""

    pipeline: Pipeline
    shown: frozenset[str]
    owner: str = ""
    firsts: Mapping[str, int] = field(default_factory=dict)  # per stream: the first instant of what counts of its past
    states: StateNames = field(default_factory=dict)
    results: dict[str, Names] = field(default_factory=dict)
    failures: dict[str, EvaluationError] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)  # per source: the last instant whose rows were taken
    seen: dict[str, int] = field(default_factory=dict)  # per source: how many elements were taken, of any instant
    rows: int = 0
    # For some queries of a group:
    group: Group | None = None
    queries: RowsByShape = field(default_factory=dict)
    tables: Mapping[str, Names] = field(default_factory=dict)  # the query table that the run's selection reads
    once: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)  # what the query tables say as sources
    has_common_failure: bool = False  # whatever its queries ask
    saved: RunProgress | None = None  # what the committed snapshot says of it
    _needs: dict[str, Needs] = field(default_factory=dict)

    @property
    def sources(self) -> set[str]:
        return self.pipeline.sources

    def needs(self, source: str) -> Needs:
        """What it needs of a source's rows."""
        if source not in self._needs:
            shown = self.shown or {self.pipeline.steps[-1].name}
            self._needs[source] = needs_of(self.pipeline, source, shown, self.queries)
        return self._needs[source]

    def after(self, source: str) -> int:
        return self.reached.get(source, -1)

    def names(self) -> list[str]:
        """All that it has written."""
        results = [name for names in self.results.values() for name in names]
        once = [part.name for parts in self.once.values() for part in parts]
        tables = [name for names in self.tables.values() for name in names]
        return [*state_names(self.states), *tables, *results, *once]

    def progress(self) -> RunProgress:
        """How far it is."""
        return RunProgress(
            tuple(sorted(self.shown)),
            dict(self.firsts),
            dict(self.reached),
            dict(self.seen),
            self.rows,
            self.states,
            dict(self.results),
            dict(self.tables),
            tuple(sorted(numbers_of(self.queries))),
        )

    def go_on(self, saved: RunProgress) -> None:
        """From where another one was, for some of its edges."""
        steps = self.pipeline.edges_below(*self.shown)
        self.states = {step: names for step, names in saved.states.items() if step in steps}
        self.results = {edge: names for edge, names in saved.results.items() if edge in self.shown}
        self.reached, self.seen, self.rows = dict(saved.reached), dict(saved.seen), saved.rows
        self.tables, self.saved = saved.tables, saved


class Replay:
    """Takes runs through the history of snapshots."""

    def __init__(self, commits: Commits, sources: Sources, tasks: Tasks) -> None:
        self._commits, self._sources, self._tasks = commits, sources, tasks

    def task(
        self,
        run: HistoryRun,
        snapshot: Snapshot,
        until: Mapping[str, int],
        frontiers: Mapping[str, int],
        among: Mapping[str, int] = MappingProxyType({}),
    ) -> EpochTask:
        """The rows after those that were taken, up to an instant of each source, with the frontiers that they raise; of
        some sources those among the first so many to arrive."""
        read = dict[str, tuple[Part, ...]]()
        for source in run.sources:
            after, up_to = run.after(source), until[source]
            read[source] = tuple(
                self._sources.history_part(
                    source,
                    file,
                    max(after, run.firsts.get(source, 0) - 1),
                    up_to,
                    self._needs(run, source, snapshot),
                    run.seen.get(source, 0),
                    among.get(source, INF),
                )
                for file in self._files(run, source, snapshot)
                if file.last > after and file.first <= up_to and after < up_to
            )
        if not run.reached:
            read |= run.once
        return replace(
            self._tasks.from_nothing(run.pipeline, read),
            states=run.states,
            tables=run.tables,
            before={source: run.after(source) for source in frontiers},
            after=dict(frontiers),
            shown=tuple(run.shown),
            owner=run.owner,
        )

    def rest(self, run: HistoryRun, snapshot: Snapshot, frontiers: Mapping[str, int], last: int = INF) -> EpochTask:
        """All that is left up to an instant, with rows beyond the frontiers."""
        return self.task(run, snapshot, dict.fromkeys(run.sources, last), frontiers)

    def take(self, run: HistoryRun, task: EpochTask, outcome: EpochOutcome, *, elsewhere: bool = False) -> None:
        """What a task of the run has made takes the place of what there was; in the store, unless it lies elsewhere."""
        written = Written(MemoryStore() if elsewhere else self._commits.store)
        written.add([*run.names(), *outcome.names()])
        run.states = outcome.states
        for edge, names in outcome.results.items():
            run.results[edge] = (*run.results.get(edge, ()), *names)
        run.rows += task.arriving
        run.reached.update({source: until for source, until in task.after.items() if source in run.sources})
        if outcome.failures:
            _fail(run, outcome.failures)
        written.keep_only([*run.names(), *(() if run.saved is None else run.saved.names())])

    # How much is left

    def rows_left(self, run: HistoryRun, snapshot: Snapshot) -> int:
        """About how many rows of history are still to be taken."""
        return int(sum(self.left_of(run, source, snapshot) for source in run.sources))

    def left_of(self, run: HistoryRun, source: str, snapshot: Snapshot) -> float:
        left = sum(FileLeft(file, run.after(source)).left for file in self._files(run, source, snapshot))
        if source not in run.seen:
            return left
        return min(left, snapshot.progress(source).arrived - run.seen[source])

    def slice(self, run: HistoryRun, snapshot: Snapshot, frontiers: Mapping[str, int], wanted: int) -> dict[str, int]:
        """How far each source goes in a slice of about so many rows: all to the same instant, or as far as they are
        final."""
        behind = [source for source in run.sources if run.after(source) < frontiers[source]]
        low, high = min(run.after(source) for source in behind), max(frontiers[source] for source in behind)
        files = [FileLeft(file, run.after(s), frontiers[s]) for s in behind for file in self._files(run, s, snapshot)]
        high = RowsByTime(files).last_within(low + 1, high, wanted)
        return {s: max(run.after(s), min(high, frontiers[s])) for s in run.sources}

    def _files(self, run: HistoryRun, source: str, snapshot: Snapshot) -> list[HistoryFile]:
        first = run.firsts.get(source, 0)
        needs = self._needs(run, source, snapshot)
        return [f for f in self._sources.needed_files(source, snapshot, needs) if f.last >= first]

    def _needs(self, run: HistoryRun, source: str, snapshot: Snapshot) -> Needs:
        """What is taken of a source: what the run needs, but where finding that out costs more than to read it all."""
        if len(run.queries) > _FEW_SHAPES and sum(file.rows for file in snapshot.history.get(source, ())) < _FEW_ROWS:
            return EVERYTHING
        return run.needs(source)


def _fail(run: HistoryRun, failures: Mapping[str, EvaluationError]) -> None:
    """Edges that failed need nothing any more; the others go on without the steps that only those needed."""
    if run.group is not None and not run.group.above & failures.keys():
        failures = {run.group.edge: next(iter(failures.values()))}  # not the queries' own: all have failed
        run.has_common_failure = True
    run.failures |= {edge: failures[edge] for edge in run.shown if edge in failures}
    going_on = run.shown - run.failures.keys()
    needed = run.pipeline.edges_below(*going_on)
    run.pipeline = run.pipeline.only(needed)
    run.states = {step: names for step, names in run.states.items() if step in needed}
    run.results = {edge: names for edge, names in run.results.items() if edge in going_on}
