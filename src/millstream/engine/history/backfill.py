"""Backfills: the past of queries that come late, worked through beside the epochs.

    history ──slices of time──▶ state and results of its own ──the rest, under the lock──▶ one commit

A job runs the plans of such queries over the kept history, slice after slice, each as an epoch would have: rows up to
an instant, and the frontiers of all sources up to there. The engine's lock is not held meanwhile, so that epochs go on.
What they bring is worked through in further rounds, until there is so little left that it can be done under the lock;
from the next epoch on the queries take part. Rows beyond the heartbeats are taken in the order in which they came.
Until then nobody sees anything of them, and what a process that stops leaves behind is collected as all orphans are:
the snapshot only says which edges have no past yet, and the next process begins again.

Of steps that other queries share the state is worked out as well, since what is above them needs their past, and then
left: the live one is the same. Queries of a group have a job of their own, for all that wait: it runs the group's plan
for them alone, and in the end what it holds for them and what the group holds for the others are put together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from types import MappingProxyType
from typing import Any

from millstream.engine.commits import Commits
from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.runner import Beside, Runner
from millstream.engine.epochs.task import EpochOutcome, EpochTask, StateNames
from millstream.engine.groups.admission import Groups
from millstream.engine.groups.group import Group, Rows, halves, numbers_of, only_queries
from millstream.engine.history.merge_producers import Merger, Newcomers
from millstream.engine.history.slices import FileLeft, Spans, arrivals
from millstream.engine.needs import Needs, needs_of
from millstream.engine.past import Pasts, common
from millstream.engine.query_tables import failure_key
from millstream.engine.sources import Sources
from millstream.engine.tasks import Tasks
from millstream.errors import Error, EvaluationError, told
from millstream.kernel.batch import INF
from millstream.kernel.first_counted import counting_from
from millstream.kernel.pipeline import Pipeline
from millstream.plan.grouping import QUERY_ROWS
from millstream.state.faults import reach
from millstream.state.snapshot import HistoryFile, Names, Snapshot, state_names
from millstream.state.written import Written

_SMALLEST_SLICE, _LARGEST_SLICE = 1_000, 4_000_000  # rows
_SHRINKING = 0.7  # what is left must have become so much less in a round, or else ingest is as fast as we are
_GIVING_WAY = 0.5  # seconds that a slice waits for an epoch to end
_REST, _LONGEST_REST = 1.5, 2.0  # between slices: times as long as the last one, and seconds at most


@dataclass(frozen=True)
class Progress:
    """How far a backfill has come: instants and rows of history, of those there are by now."""

    reached: int
    until: int
    rows: int
    of_rows: int

    @property
    def fraction(self) -> float:
        return min(1.0, self.rows / self.of_rows) if self.of_rows else 1.0


@dataclass(eq=False)
class Job:
    """Plans whose past is worked through together; `shown` are the edges that queries wait for."""

    pipeline: Pipeline
    shown: frozenset[str]
    owner: str = ""
    states: StateNames = field(default_factory=dict)
    results: dict[str, Names] = field(default_factory=dict)
    failures: dict[str, EvaluationError] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)  # per source: the last instant whose rows were taken
    seen: dict[str, int] = field(default_factory=dict)  # per source: how many elements were taken, of any instant
    rows: int = 0
    error: Error | None = None  # something else than the queries is wrong
    group: Group | None = None
    queries: Rows = field(default_factory=dict)  # of the group
    tables: StateNames = field(default_factory=dict)  # the query tables that the job's selection reads
    once: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)  # what the query tables say as sources
    common_failure: bool = False  # whatever its queries ask
    firsts: Mapping[str, int] = field(default_factory=dict)  # per stream: the first instant of what counts of its past
    _needs: dict[str, Needs] = field(default_factory=dict)

    @property
    def sources(self) -> set[str]:
        return self.pipeline.sources

    def needs(self, source: str) -> Needs:
        """What it needs of a source's rows."""
        if source not in self._needs:
            self._needs[source] = needs_of(
                self.pipeline, source, self.shown or {self.pipeline.steps[-1].name}, self.queries
            )
        return self._needs[source]

    def after(self, source: str) -> int:
        return self.reached.get(source, -1)

    def names(self) -> list[str]:
        """All that it has written."""
        results = [name for names in self.results.values() for name in names]
        once = [part.name for parts in self.once.values() for part in parts]
        return [*state_names(self.states), *state_names(self.tables), *results, *once]


class Backfills:
    """The backfills of an engine: those that wait and the one under way, in a thread of their own."""

    def __init__(
        self,
        commits: Commits,
        sources: Sources,
        tasks: Tasks,
        pasts: Pasts,
        groups: Groups,
        merger: Merger,
        runner: Runner,
    ) -> None:
        self._commits, self._sources, self._tasks, self._pasts = commits, sources, tasks, pasts
        self._groups, self._merger, self._runner = groups, merger, runner
        self._lock = threading.Lock()  # of what follows; taken after the engine's, never before
        self._waiting: dict[str, Pipeline] = {}  # by edge
        self._waiting_groups: dict[str, tuple[Group, list[set[int]]]] = {}  # all together, or in these parts
        self._job: Job | None = None
        self._broken: dict[str, Error] = {}  # by edge: what stopped its backfill until the database is opened again
        self._thread: threading.Thread | None = None
        self._beside: Beside | None = None
        self._is_started = self._is_closed = False
        self._closing = threading.Event()
        self._numbers = count(1)
        self.on_published: Callable[[], None] = lambda: None
        self.least_rows = 200_000  # of history that are worth a backfill
        self.first_slice = 20_000  # rows; what follows is as large as the time allows that a slice may take
        self.most_left = 50_000  # rows that may be left to be worked through under the lock

    # What queries ask

    def __contains__(self, edge: str) -> bool:
        """Whether the past of an edge is still to be worked through."""
        with self._lock:
            waits = edge in self._waiting or edge in self._waiting_groups
            return waits or (self._job is not None and edge in self._job.shown)

    def pipeline_of(self, edge: str) -> Pipeline | None:
        with self._lock:
            if self._job is not None and edge in self._job.shown:
                return self._job.pipeline
            return self._waiting_groups[edge][0].pipeline if edge in self._waiting_groups else self._waiting.get(edge)

    def is_broken(self, edge: str, query: int | None = None) -> bool:
        """Whether something went wrong that has nothing to do with the query."""
        return (edge if query is None else failure_key(edge, query)) in self._broken

    def check(self, edge: str, query: int | None = None) -> None:
        if self.is_broken(edge, query):
            raise self._broken[edge if query is None else failure_key(edge, query)]

    def progress(self, edge: str) -> Progress | None:
        """How far the backfill of an edge is; None where there is none."""
        pipeline = self.pipeline_of(edge)
        if pipeline is None:
            return None
        with self._lock:
            job = self._job if self._job is not None and edge in self._job.shown else Job(pipeline, frozenset())
        snapshot = self._commits.snapshot
        frontiers = self._sources.frontiers(snapshot)
        read = [source for source in job.sources if not source.startswith(QUERY_ROWS)]
        left = self._rows_left(job, snapshot)
        reached = min((job.after(source) for source in read), default=-1)
        return Progress(reached, min((frontiers[source] for source in read), default=-1), job.rows, job.rows + left)

    def needed_from(self, source: str) -> int:
        """The first instant of a source's history that a query still needs whose past is not worked through."""
        firsts, groups = self._pasts.firsts, self._groups
        waiting = [firsts[edge].get(source, 0) for edge in [*firsts] if edge in self]
        for group in groups:
            if group.filling or groups.is_waited_for(group):
                waiting += [past.kept.get(source, 0) for past in self._pasts.all_of(group.edge)] or [0]
        return min(waiting, default=INF)

    def is_due(self, pipeline: Pipeline, queries: Rows = MappingProxyType({})) -> bool:
        """Whether the history that a pipeline reads, for some queries of a group, is too long to be worked through at
        once."""
        rows = self._rows_left(Job(pipeline, frozenset(), queries=queries), self._commits.snapshot)
        return rows > 0 and rows >= self.least_rows

    # Coming and going

    def add(self, edge: str, pipeline: Pipeline) -> None:
        """Work through the past of an edge; the snapshot says already that it has none."""
        with self._lock:
            self._waiting[edge] = pipeline
            self._broken.pop(edge, None)
        if self._is_started:
            self._wake()

    def add_group(self, group: Group, parts: Sequence[Rows] = ()) -> None:
        """Work through the past of the queries of a group that wait for it; apart, where one of them has failed."""
        with self._lock:
            known = self._waiting_groups.setdefault(group.edge, (group, []))[1]
            known += map(numbers_of, parts)
            self._broken.pop(group.edge, None)
        if self._is_started:
            self._wake()

    def start(self) -> None:
        """Begin: all that an earlier process has declared is there."""
        self._is_started = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._thread is None and (self._waiting or self._waiting_groups) and not self._is_closed:
                self._thread = threading.Thread(target=self._work, name="millstream-backfill", daemon=True)
                self._thread.start()

    def cancel(self, edge: str) -> None:
        """Nobody asks for an edge any more."""
        with self._lock:
            self._waiting.pop(edge, None)
            self._waiting_groups.pop(edge, None)
            self._broken.pop(edge, None)
            if self._job is None or edge not in self._job.shown:
                return
            self._job.shown -= {edge}
            is_over = not self._job.shown
        if is_over and self._beside is not None:
            self._beside.cancel()

    def close(self) -> None:
        """Stop, and wait for the thread. What it was at is begun again when the database is opened next."""
        with self._lock:
            self._is_closed = True
            self._closing.set()
            thread = self._thread
        if self._beside is not None:
            self._beside.cancel()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    # The thread

    def _work(self) -> None:
        begun, epoch = time.perf_counter(), self._commits.snapshot.epoch
        for _ in self.slices():
            if self._commits.snapshot.epoch != epoch:
                # Epochs go on: a slice slows those down that run beside it, so that not all of them may have one.
                self._closing.wait(min(_REST * (time.perf_counter() - begun), _LONGEST_REST))
            begun, epoch = time.perf_counter(), self._commits.snapshot.epoch

    def slices(self) -> Iterator[None]:
        """All the work there is, slice by slice."""
        while (job := self._next_job()) is not None:
            try:
                yield from self._run(job)
            except Error as error:
                job.error = error
            except Exception as error:  # of whatever kind: the queries that wait must hear of it
                job.error = Error(f"the backfill has failed: {error!r}", hint="open the database again to repeat it")
            finally:
                self._end(job)

    def _next_job(self) -> Job | None:
        """All that wait, as one job, or all of a group; the thread ends where there is none."""
        owner = f"backfill {next(self._numbers)}/"
        with self._commits.lock, self._lock:
            if self._is_closed or not (self._waiting or self._waiting_groups):
                self._thread = None
                return None
            if self._waiting:
                # Those with the same past together.
                firsts = self._pasts.firsts.get(next(iter(self._waiting)), {})
                alike = [edge for edge in self._waiting if self._pasts.firsts.get(edge, {}) == firsts]
                pipeline = Pipeline()
                for edge in alike:
                    pipeline = pipeline.with_steps(self._waiting.pop(edge).steps)
                self._job = Job(pipeline, frozenset(alike), owner, firsts=firsts)
            else:
                self._job = self._job_of(next(iter(self._waiting_groups)), owner)
            self._beside = self._runner.beside(self._pause)
            return self._job

    def _job_of(self, edge: str, owner: str) -> Job:
        """For the queries of a group that wait, or for a part of them."""
        groups, (group, parts) = self._groups, self._waiting_groups[edge]
        self._commits.keep_held()
        rows = groups.waiting(group, filling=True)
        if parts:
            rows = only_queries(rows, parts.pop(0))
        rows, *others = groups.by_past(group, rows) or [rows]
        parts[:0] = map(numbers_of, others)
        if not parts:
            del self._waiting_groups[edge]
        pasts = self._pasts.of(edge, numbers_of(rows)).values()
        pipeline = counting_from(group.another_pipeline(), max((past.counted for past in pasts), default=0))
        job = Job(pipeline, frozenset([edge]), owner, group=group, queries=rows, firsts=common(pasts))
        if rows:
            job.tables = {group.selection: groups.written(rows)}
            job.once = groups.query_rows(group, rows)
        return job

    def _end(self, job: Job) -> None:
        commits = self._commits
        with commits.lock:
            commits.unpin(job)
            with self._lock:
                if job.error is not None and not self._is_over(job):
                    stuck = (
                        [*job.shown]
                        if job.group is None
                        else [failure_key(job.group.edge, query) for query in numbers_of(job.queries)]
                    )
                    self._broken.update(dict.fromkeys(stuck, job.error))
                # Of one that was cut short by the end its queries still wait: nobody may take them for filled.
                self._job, self._beside = self._job if self._is_closed else None, None
            for edge in job.shown:
                if edge not in self:
                    self._pasts.firsts.pop(edge, None)
            commits.sweep(job.names())
        commits.notifier.tell()

    def _is_over(self, job: Job) -> bool:
        return self._is_closed or not job.shown

    def _run(self, job: Job) -> Iterator[None]:
        """Rounds of slices, each round up to what is final when it begins."""
        commits, before = self._commits, INF
        wanted = float(self.first_slice)
        while not self._is_over(job):
            with commits.lock:
                snapshot = commits.snapshot
                left = self._rows_left(job, snapshot)
                if left <= min(self.most_left, wanted) or left > _SHRINKING * before:
                    self._finish(job)
                    break
                before = left
                commits.pin(job, (file.name for source in job.sources for file in snapshot.history.get(source, ())))
                frontiers = self._sources.frontiers(snapshot)
            wanted = yield from self._round(job, snapshot, frontiers, wanted)
            wanted = yield from self._beyond(job, snapshot, frontiers, wanted)
        if not self._is_over(job):
            self.on_published()

    def _round(
        self, job: Job, snapshot: Snapshot, frontiers: Mapping[str, int], wanted: float
    ) -> Generator[None, None, float]:
        """Slices up to the frontiers of a snapshot; gives how many rows the next one should have."""
        while not self._is_over(job) and any(job.after(source) < frontiers[source] for source in job.sources):
            after = self._slice(job, snapshot, frontiers, int(wanted))
            wanted = self._run_slice(job, self._task(job, snapshot, after, after), wanted)
            yield
        return wanted

    def _beyond(
        self, job: Job, snapshot: Snapshot, frontiers: Mapping[str, int], wanted: float
    ) -> Generator[None, None, float]:
        """Slices of the rows that lie beyond the frontiers of a snapshot, where they are many."""
        for source in sorted(job.sources):
            rows, arrived = self._left_of(job, source, snapshot), snapshot.progress(source).arrived
            if not self._sources.counts_arrivals(source) or rows <= min(self.most_left, wanted):
                continue
            for among in arrivals(job.seen.get(source, 0), arrived, rows, wanted):
                if self._is_over(job):
                    return wanted
                reached = {each: INF if each == source else job.after(each) for each in job.sources}
                task = self._task(job, snapshot, reached, {s: frontiers[s] for s in job.sources}, {source: among})
                wanted = self._run_slice(job, task, wanted)
                job.seen[source] = among
                yield
        return wanted

    def _run_slice(self, job: Job, task: EpochTask, wanted: float) -> float:
        """Gives how many rows the next one should have."""
        beside = self._beside
        assert beside is not None
        try:
            outcome = beside.run(task)
        except Error:
            if self._is_over(job):
                return wanted  # because it was cancelled
            raise
        self._take(job, task, outcome)
        reach("backfill-slice-run")
        change = beside.seconds / max(beside.busy, 1e-6)
        if task.arriving < wanted / 2 and change >= 1:
            return wanted
        smallest = min(_SMALLEST_SLICE, self.first_slice)
        return min(max(wanted * min(max(change, 0.25), 4.0), smallest), _LARGEST_SLICE)

    def _pause(self) -> None:
        """Wait for the epoch that runs, if one does, but not for ever: there may be one after the other."""
        if self._commits.lock.acquire(timeout=_GIVING_WAY):
            self._commits.lock.release()

    def _slice(self, job: Job, snapshot: Snapshot, frontiers: Mapping[str, int], wanted: int) -> dict[str, int]:
        """How far each source goes in a slice of about so many rows: all to the same instant, or as far as they are
        final."""
        behind = [source for source in job.sources if job.after(source) < frontiers[source]]
        low, high = min(job.after(source) for source in behind), max(frontiers[source] for source in behind)
        files = [FileLeft(file, job.after(s), frontiers[s]) for s in behind for file in self._files(job, s, snapshot)]
        high = Spans(files).last_within(low + 1, high, wanted)
        return {s: max(job.after(s), min(high, frontiers[s])) for s in job.sources}

    def _task(
        self,
        job: Job,
        snapshot: Snapshot,
        until: Mapping[str, int],
        frontiers: Mapping[str, int],
        among: Mapping[str, int] = MappingProxyType({}),
    ) -> EpochTask:
        """The rows after those that were taken, up to an instant of each source, with the frontiers that they raise; of
        some sources those among the first so many to arrive."""
        read = dict[str, tuple[Part, ...]]()
        for source in job.sources:
            after, up_to = job.after(source), until[source]
            read[source] = tuple(
                self._sources.history_part(
                    source,
                    file,
                    max(after, job.firsts.get(source, 0) - 1),
                    up_to,
                    job.needs(source),
                    job.seen.get(source, 0),
                    among.get(source, INF),
                )
                for file in self._files(job, source, snapshot)
                if file.last > after and file.first <= up_to and after < up_to
            )
        if not job.reached:
            read |= job.once
        task = self._tasks.from_nothing(job.pipeline, read)
        before = {source: job.after(source) for source in frontiers}
        states = {step: {**job.states.get(step, {}), **tables} for step, tables in job.tables.items()}
        return replace(
            task,
            states={**job.states, **states},
            before=before,
            after=dict(frontiers),
            shown=tuple(job.shown),
            owner=job.owner,
        )

    def _take(self, job: Job, task: EpochTask, outcome: EpochOutcome) -> None:
        """What a slice has made takes the place of what there was."""
        written = Written(self._commits.store)
        written.add([*job.names(), *outcome.names()])
        job.states = outcome.states
        for edge, names in outcome.results.items():
            job.results[edge] = (*job.results.get(edge, ()), *names)
        job.rows += task.arriving
        job.reached.update({source: until for source, until in task.after.items() if source in job.sources})
        if outcome.failures:
            self._fail(job, outcome.failures)
        written.keep_only(job.names())

    def _fail(self, job: Job, failures: Mapping[str, EvaluationError]) -> None:
        """Edges that failed need nothing any more; the others go on without the steps that only those needed."""
        if job.group is not None and not job.group.above & failures.keys():
            failures = {job.group.edge: next(iter(failures.values()))}  # not the queries' own: all have failed
            job.common_failure = True
        job.failures |= {edge: failures[edge] for edge in job.shown if edge in failures}
        going_on = job.shown - job.failures.keys()
        needed = {below for edge in going_on for below in job.pipeline.edges_below(edge)}
        job.pipeline = job.pipeline.only(needed)
        job.states = {step: names for step, names in job.states.items() if step in needed}
        job.results = {edge: names for edge, names in job.results.items() if edge in going_on}

    def _finish(self, job: Job) -> None:
        """What is left, under the lock, rows beyond the frontiers included; then all of it counts."""
        frontiers, snapshot = self._sources.frontiers(), self._commits.snapshot
        if job.shown - job.failures.keys():
            task = self._task(job, snapshot, dict.fromkeys(job.sources, INF), frontiers)
            self._take(job, task, self._runner.run(task))
        self._commits.store.sync(name for name in job.names() if "@" in name)
        reach("backfill-finished")
        with self._lock:
            shown = job.shown
        if job.group is not None:
            if shown:
                self._finish_group(job, job.group)
            with self._lock:
                self._job = None
            return
        made = shown - job.failures.keys()
        needed = {below for edge in made for below in job.pipeline.edges_below(edge)}
        failed = {edge: told(error) for edge, error in job.failures.items() if edge in shown}
        pipeline = job.pipeline.only(needed)
        self._merger.admit(
            Newcomers(pipeline, frozenset(made), _only(job.states, needed), _only(job.results, made)),
            lambda snapshot: snapshot.with_failures(failed).without_backfills(shown),
        )
        with self._lock:
            self._job = None

    def _finish_group(self, job: Job, group: Group) -> None:
        """The queries that are still there take part, or have failed; where it may be one of several, they go on
        apart."""
        groups = self._groups
        rows = only_queries(groups.waiting(group, filling=True), numbers_of(job.queries))
        if not rows:
            group.filling -= numbers_of(job.queries)
        elif group.edge not in job.failures:
            groups.publish(group, rows, job.states, job.results.get(group.edge, ()))
            group.filling -= numbers_of(job.queries)
        elif job.common_failure or sum(frame.height for frame in rows.values()) == 1:
            groups.fail(group, rows, job.failures[group.edge])
            group.filling -= numbers_of(job.queries)
        else:
            self.add_group(group, halves(rows))
        if group.edge in groups and groups.waiting(group, filling=True):
            self.add_group(group)  # some have come meanwhile

    def _rows_left(self, job: Job, snapshot: Snapshot) -> int:
        """About how many rows of history are still to be taken."""
        return int(sum(self._left_of(job, source, snapshot) for source in job.sources))

    def _left_of(self, job: Job, source: str, snapshot: Snapshot) -> float:
        left = sum(FileLeft(file, job.after(source)).left for file in self._files(job, source, snapshot))
        if source not in job.seen:
            return left
        return min(left, snapshot.progress(source).arrived - job.seen[source])

    def _files(self, job: Job, source: str, snapshot: Snapshot) -> list[HistoryFile]:
        first = job.firsts.get(source, 0)
        return [f for f in self._sources.needed_files(source, snapshot, job.needs(source)) if f.last >= first]


def _only(found: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key in keys}
