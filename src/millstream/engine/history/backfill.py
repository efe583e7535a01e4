"""Backfills: the past of queries that come late.

    history ──slices of time──▶ state and results of its own ──the rest, under the lock──▶ one commit

Where the past is short there is nothing but the rest. A long one is worked through in the background: a job replays the
kept history, slice after slice, each as an epoch would have: rows up to an instant, and the frontiers of all sources up
to there. The engine's lock is not held meanwhile, so that epochs go on. What they bring is worked through in further
rounds, until there is so little left that it can be done under the lock; from the next epoch on the queries take part.
Rows beyond the heartbeats are taken in the order in which they came. Until then nobody sees anything of them. The
snapshot says which edges have no past yet, and every few seconds how far the run is: the next process goes on there,
and what was made after it is collected as all orphans are (`rounds`).

Of steps that other queries share the state is worked out as well, since what is above them needs their past, and then
left: the live one is the same. Queries of a group have a job of their own, for all that wait: it runs the group's plan
for them alone, and in the end what it holds for them and what the group holds for the others are put together. So does
a query that moves to another plan: it goes on by the one it has until the other one is as far (`move`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from millstream.engine.commits import Commits
from millstream.engine.epochs.runner import BackgroundRunner, Runner
from millstream.engine.groups.admission import Admission, NewQueries
from millstream.engine.groups.group import Group, RowsByShape, halves, numbers_of, only_queries
from millstream.engine.groups.groups import Groups
from millstream.engine.history.group_moves import GroupMoves
from millstream.engine.history.merge_producers import Merger, Newcomers
from millstream.engine.history.move import GroupMove, LeavingMove, Move, after_move
from millstream.engine.history.replay import HistoryRun, Replay
from millstream.engine.history.rounds import Rounds
from millstream.engine.past import Pasts, common
from millstream.engine.query_tables import failure_key
from millstream.engine.sources import Sources
from millstream.errors import Error, error_fields
from millstream.kernel.batch import INF
from millstream.kernel.first_counted import counting_from
from millstream.kernel.pipeline import Pipeline
from millstream.plan.grouping import QUERY_ROWS
from millstream.state.faults import reach
from millstream.state.snapshot import Catalog, RunProgress, Snapshot
from millstream.state.written import Written

_REST, _LONGEST_REST = 1.5, 2.0  # between slices: times as long as the last one, and seconds at most


@dataclass(frozen=True)
class BackfillProgress:
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
    """A run through the past for those who wait for it."""

    rounds: Rounds
    error: Error | None = None  # something else than the queries is wrong
    move: Move | None = None  # for a query that runs by another plan

    @property
    def run(self) -> HistoryRun:
        return self.rounds.run


class Backfills:
    """The backfills of an engine: those that wait and the one under way, in a thread of their own."""

    def __init__(
        self,
        commits: Commits,
        sources: Sources,
        replay: Replay,
        pasts: Pasts,
        groups: Groups,
        admission: Admission,
        merger: Merger,
        runner: Runner,
    ) -> None:
        self._commits, self._sources, self._replay, self._pasts = commits, sources, replay, pasts
        self._groups, self._admission, self._merger, self._runner = groups, admission, merger, runner
        self.group_moves = GroupMoves(commits, groups, admission)
        self._lock = threading.Lock()  # of what follows; taken after the engine's, never before
        self._waiting: dict[str, Pipeline] = {}  # by edge
        self._put_off: dict[str, Pipeline] = {}  # by edge: until an epoch comes, or somebody asks
        self._waiting_groups: dict[str, tuple[Group, list[set[int]]]] = {}  # all together, or in these parts
        self._moves: dict[str, Move] = {}  # by the edge that queries move to
        self._job: Job | None = None
        self._broken: dict[str, Error] = {}  # by edge: what stopped its backfill until the database is opened again
        self._thread: threading.Thread | None = None
        self._background_runner: BackgroundRunner | None = None
        self._is_started = self._is_closed = False
        self._closing = threading.Event()
        self._numbers = count(1)
        self.on_published: Callable[[], None] = lambda: None
        self.least_rows = 200_000  # of history that are worth a backfill
        self.first_slice = 50_000  # rows; what follows is as large as the time allows that a slice may take
        self.most_left = 50_000  # rows that may be left to be worked through under the lock
        self.saved_every = 10.0  # seconds after which a commit says how far a run is

    # What queries ask

    def __contains__(self, edge: str) -> bool:
        """Whether the past of an edge is still to be worked through."""
        with self._lock:
            waits = edge in self._waiting or edge in self._waiting_groups or edge in self._moves
            return waits or (self._job is not None and edge in self._job.run.shown)

    def is_put_off(self, edge: str) -> bool:
        """Whether the past of an edge is short, and nobody has asked for it yet."""
        return edge in self._put_off

    def pipeline_of(self, edge: str) -> Pipeline | None:
        with self._lock:
            if edge in self._put_off:
                return self._put_off[edge]
            if self._job is not None and edge in self._job.run.shown:
                return self._job.run.pipeline
            if edge in self._moves:
                return self._moves[edge].pipeline
            return self._waiting_groups[edge][0].pipeline if edge in self._waiting_groups else self._waiting.get(edge)

    def is_broken(self, edge: str, query: int | None = None) -> bool:
        """Whether something went wrong that has nothing to do with the query."""
        return (edge if query is None else failure_key(edge, query)) in self._broken

    def check(self, edge: str, query: int | None = None) -> None:
        if self.is_broken(edge, query):
            raise self._broken[edge if query is None else failure_key(edge, query)]

    def check_queries_of(self, edge: str) -> None:
        """Raise what went wrong for queries of a group and has nothing to do with them."""
        for key, error in [*self._broken.items()]:
            if key.partition("#")[0] == edge:
                raise error

    def progress(self, edge: str) -> BackfillProgress | None:
        """How far the backfill of an edge is; None where there is none."""
        pipeline = self.pipeline_of(edge)
        if pipeline is None:
            return None
        with self._lock:
            job = self._job
            run = job.run if job is not None and edge in job.run.shown else HistoryRun(pipeline, frozenset())
        snapshot = self._commits.snapshot
        frontiers = self._sources.frontiers(snapshot)
        read = [source for source in run.sources if not source.startswith(QUERY_ROWS)]
        left = self._replay.rows_left(run, snapshot)
        reached = min((run.after(source) for source in read), default=-1)
        return BackfillProgress(
            reached, min((frontiers[source] for source in read), default=-1), run.rows, run.rows + left
        )

    def needed_from(self, source: str) -> int:
        """The first instant of a source's history that a query still needs whose past is not worked through."""
        firsts, groups = self._pasts.firsts, self._groups
        waiting = [firsts[edge].get(source, 0) for edge in [*firsts] if edge in self or self.is_put_off(edge)]
        for group in groups:
            if group.filling or groups.is_waited_for(group):
                waiting += [past.kept.get(source, 0) for past in self._pasts.all_of(group.edge)] or [0]
        return min(waiting, default=INF)

    def is_due(self, pipeline: Pipeline, queries: Callable[[], RowsByShape] = dict) -> bool:
        """Whether the history that a pipeline reads, for some queries of a group, is too long to be worked through at
        once."""
        snapshot = self._commits.snapshot
        kept = sum(file.rows for source in pipeline.sources for file in snapshot.history.get(source, ()))
        if not kept or kept < self.least_rows:
            return False
        rows = self._replay.rows_left(HistoryRun(pipeline, frozenset(), queries=queries()), snapshot)
        return rows > 0 and rows >= self.least_rows

    # Coming and going

    def add(self, edge: str, pipeline: Pipeline) -> None:
        """Work through the past of an edge; the snapshot says already that it has none."""
        with self._lock:
            self._waiting[edge] = pipeline
            self._broken.pop(edge, None)
        if self._is_started:
            self._wake()

    def add_group(self, group: Group, parts: Sequence[RowsByShape] = ()) -> None:
        """Work through the past of the queries of a group that wait for it; apart, where one of them has failed."""
        with self._lock:
            known = self._waiting_groups.setdefault(group.edge, (group, []))[1]
            known += map(numbers_of, parts)
            self._broken.pop(group.edge, None)
        if self._is_started:
            self._wake()

    def move(self, move: Move) -> None:
        """Work through the past of a plan that a query is to go on by, and then have it do so."""
        with self._lock:
            self._moves |= dict.fromkeys(move.afters, move)
            self._pasts.firsts |= dict.fromkeys(move.afters, move.firsts)
        if self._is_started:
            self._wake()

    def start(self) -> None:
        """Begin: all that an earlier process has declared is there."""
        self._is_started = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            waits = self._waiting or self._waiting_groups or self._moves
            if self._thread is None and waits and not self._is_closed:
                self._thread = threading.Thread(target=self._work, name="millstream-backfill", daemon=True)
                self._thread.start()

    def cancel(self, edge: str) -> None:
        """Nobody asks for an edge any more, or wants to move to it."""
        self._runner.caution.forgive(_taking_part(edge))
        with self._lock:
            move = self._moves.get(edge)
            for after in () if move is None else move.afters:
                self._moves.pop(after, None)
                self._pasts.firsts.pop(after, None)
        if move is not None:
            move.ended(None)
        with self._lock:
            self._waiting.pop(edge, None)
            self._put_off.pop(edge, None)
            self._waiting_groups.pop(edge, None)
            self._broken.pop(edge, None)
            if self._job is None or edge not in self._job.run.shown:
                return
            self._job.run.shown -= {edge}
            is_over = not self._job.run.shown
        if is_over and self._background_runner is not None:
            self._background_runner.cancel()

    def close(self) -> None:
        """Stop, and wait for the thread. What it was at goes on when the database is opened next."""
        with self._lock:
            self._is_closed = True
            self._closing.set()
            thread = self._thread
        if self._background_runner is not None:
            self._background_runner.cancel()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    # Short pasts, under the engine's lock

    def fill(
        self, edges: Mapping[str, Pipeline], firsts: Mapping[str, int], changed: Callable[[Snapshot], Snapshot]
    ) -> None:
        """Work through the past of edges and let them take part at once, with what else is `changed` in the snapshot;
        raises what one of them fails with."""
        pipeline = Pipeline().with_steps(*(pipeline.steps for pipeline in edges.values()))
        run = HistoryRun(pipeline, frozenset(edges), firsts=firsts)
        for edge in edges:
            self._pasts.firsts.pop(edge, None)
        with self._commits.writing() as written:
            self._finish(run)
            written.add(run.names())
            for failure in run.failures.values():
                raise failure
            self._merger.admit(Newcomers(pipeline, run.shown, dict(run.states), run.results), changed)

    def begin(
        self, edges: Mapping[str, Pipeline], firsts: Mapping[str, int], catalog: Catalog, *, put_off: bool
    ) -> None:
        """Have edges with their past, by one commit with a catalog: in the background where it is long, else at once;
        or, where it may be put off, before the next epoch or when somebody asks, so that a query that comes to a group
        before that has not been run for nothing."""
        commits = self._commits
        long = {edge: pipeline for edge, pipeline in edges.items() if self.is_due(pipeline)}
        short = {edge: pipeline for edge, pipeline in edges.items() if edge not in long}
        waiting = {edge: pipeline for edge, pipeline in short.items() if put_off and self._has_past(pipeline)}
        now = {edge: pipeline for edge, pipeline in short.items() if edge not in waiting}

        def changed(snapshot: Snapshot) -> Snapshot:
            return snapshot.with_catalog(catalog).with_backfills({**long, **waiting})

        if now:
            self.fill(now, firsts, changed)
        else:
            commits.commit(changed(commits.snapshot))
        for edge, pipeline in long.items():
            self.add(edge, pipeline)
        self._put_off |= waiting

    def _has_past(self, pipeline: Pipeline) -> bool:
        return any(self._commits.snapshot.history.get(source) for source in pipeline.sources)

    def fill_put_off(self) -> None:
        """Work through what was put off, and let it take part."""
        while self._put_off:
            edge, pipeline = next(iter(self._put_off.items()))
            run = HistoryRun(pipeline, frozenset([edge]), firsts=self._pasts.firsts.get(edge, {}))
            with self._commits.writing() as written:
                self._finish(run)
                written.add(run.names())
                self._publish_edges(run, run.shown)
            del self._put_off[edge]
            self._pasts.firsts.pop(edge, None)

    def admit(self, waiting: Sequence[tuple[Group, RowsByShape]]) -> None:
        """Let queries of groups take part that wait and that nobody is busy with: all of them by one commit, but for
        those that fail."""
        parts = [(group, rows) for group, found in waiting for rows in self._groups.by_past(group, found)]
        with self._commits.writing() as written:
            runs = [self._run_through(group, rows, written) for group, rows in parts]
            filled = [
                NewQueries(group, rows, run.states, run.results.get(group.edge, ()), run.tables[group.selection])
                for (group, rows), run in zip(parts, runs, strict=True)
                if group.edge not in run.failures
            ]
            if filled:
                self._admission.admit(*filled)
        for (group, rows), run in zip(parts, runs, strict=True):
            if group.edge in run.failures:
                if run.has_common_failure or len(numbers_of(rows)) == 1:
                    self._admission.fail(group, self._still_waiting(group, rows), run.failures[group.edge])
                else:
                    for half in halves(rows):
                        self.admit([(group, self._still_waiting(group, half))])

    def _still_waiting(self, group: Group, rows: RowsByShape) -> RowsByShape:
        """The rows of queries that wait, as the last commit has them: of one that is gone there may be the words of
        another that is equal."""
        return only_queries(self._groups.tables.rows(group, "waiting"), numbers_of(rows))

    def _run_through(self, group: Group, rows: RowsByShape, written: Written) -> HistoryRun:
        """The past of queries of a group."""
        run = self._run_for(group, group.pipeline, rows, "admission/")
        written.add(run.names())
        # Over nothing there may be rows too, once instants are final: a COUNT of 0.
        begun = (source for source in run.sources if source in self._sources and self._sources.frontier(source) >= 0)
        if run.once or any(begun) or any(self._commits.snapshot.history.get(source) for source in run.sources):
            self._finish(run)
        written.add(run.names())
        return run

    def _run_for(
        self, group: Group, pipeline: Pipeline, rows: RowsByShape, owner: str = "", saved: RunProgress | None = None
    ) -> HistoryRun:
        """For some queries of a group; it may go on where another one was."""
        pasts = self._pasts.of(group.edge, numbers_of(rows)).values()
        pipeline = counting_from(pipeline, max((past.counted for past in pasts), default=0))
        run = HistoryRun(pipeline, frozenset([group.edge]), owner, common(pasts), group=group, queries=rows)
        if saved is not None and {*saved.queries} == numbers_of(rows) and saved.firsts == run.firsts:
            run.go_on(saved)
        elif rows:
            run.tables = {group.selection: self._groups.tables.written(rows.values())}
            run.once = self._admission.query_rows(group, rows)
        return run

    def _finish(self, run: HistoryRun) -> None:
        """What is left, rows beyond the frontiers included."""
        if run.shown - run.failures.keys():
            task = self._replay.rest(run, self._commits.snapshot, self._sources.frontiers())
            self._replay.take(run, task, self._runner.run(task))

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
            if self._is_closed or not (self._waiting or self._waiting_groups or self._moves):
                self._thread = None
                return None
            move = None
            if self._waiting:
                run = self._next_of_edges(owner)
            elif self._waiting_groups:
                run = self._next_of(next(iter(self._waiting_groups)), owner)
            else:
                move = next(iter(self._moves.values()))
                for after in move.afters:
                    self._moves.pop(after, None)
                run = self._run_of_move(move, owner)
            rounds = Rounds(self._commits, self._sources, self._replay, run, self.first_slice, self.most_left)
            self._job = job = Job(rounds, move=move)
            self._background_runner = rounds.runner = self._runner.background_runner(rounds.pause)
            rounds.is_over = partial(self._is_over, job)
            rounds.saved_every = self.saved_every if move is None else None
            return job

    def _next_of_edges(self, owner: str) -> HistoryRun:
        """For edges that wait and have the same past: those that an earlier process was at, or all."""
        waiting, firsts_of = self._waiting, self._pasts.firsts
        saved = self._saved(*waiting)
        begun = [] if saved is None else [edge for edge in saved.edges if edge in waiting]
        firsts = firsts_of.get(next(iter(begun or waiting)), {})
        alike = [edge for edge in begun or waiting if firsts_of.get(edge, {}) == firsts]
        pipeline = Pipeline()
        for edge in alike:
            pipeline = pipeline.with_steps(waiting.pop(edge).steps)
        run = HistoryRun(pipeline, frozenset(alike), owner, firsts)
        if saved is not None and saved.firsts == firsts:
            run.go_on(saved)
        return run

    def _saved(self, *edges: str) -> RunProgress | None:
        """How far a run for some of these edges had come."""
        runs = self._commits.snapshot.runs.values()
        return next((saved for saved in runs if not {*edges}.isdisjoint(saved.edges)), None)

    def _run_of_move(self, move: Move, owner: str) -> HistoryRun:
        if isinstance(move, GroupMove):
            return self.group_moves.run(move, owner)
        return HistoryRun(move.pipeline, frozenset(move.afters), owner, move.firsts)

    def _next_of(self, edge: str, owner: str) -> HistoryRun:
        """For the queries of a group that wait, or for a part of them."""
        groups, (group, parts) = self._groups, self._waiting_groups[edge]
        self._commits.commit_pending()
        rows, saved = groups.waiting(group, filling=True), self._saved(edge)
        if saved is not None and numbers_of(rows).issuperset(saved.queries):
            others = numbers_of(rows).difference(saved.queries)
            parts[:0] = [{*saved.queries}, *([others] if others else [])]
        if parts:
            rows = only_queries(rows, parts.pop(0))
        rows, *apart = groups.by_past(group, rows) or [rows]
        parts[:0] = map(numbers_of, apart)
        if not parts:
            del self._waiting_groups[edge]
        return self._run_for(group, group.fork_pipeline(), rows, owner, saved)

    def _end(self, job: Job) -> None:
        commits, run = self._commits, job.run
        with commits.lock:
            job.rounds.end()
            with self._lock:
                if job.error is not None and job.move is None and not self._is_over(job):
                    stuck = (
                        [*run.shown]
                        if run.group is None
                        else [failure_key(run.group.edge, query) for query in numbers_of(run.queries)]
                    )
                    self._broken.update(dict.fromkeys(stuck, job.error))
                # Of one that was cut short by the end its queries still wait: nobody may take them for filled.
                self._job, self._background_runner = self._job if self._is_closed else None, None
            for edge in run.shown:
                if edge not in self:
                    self._pasts.firsts.pop(edge, None)
            commits.sweep(run.names())
            if job.move is not None and not self._is_closed:
                job.move.ended(job.error)
        commits.notifier.notify()

    def _is_over(self, job: Job) -> bool:
        return self._is_closed or not job.run.shown

    def _run(self, job: Job) -> Iterator[None]:
        yield from job.rounds.slices(lambda: self._publish_guarded(job))
        if not self._is_over(job):
            self.on_published()
        elif self._is_closed and job.move is None:
            job.rounds.save()

    def _publish_guarded(self, job: Job) -> None:
        """What ends processes again and again is not tried for ever: the queries wait, and say why."""
        edge = min(job.run.shown, default="")
        with self._runner.caution.guarded(_taking_part(edge)):
            self._publish(job)

    def _publish(self, job: Job) -> None:
        """What is left, under the lock; then all of it counts."""
        run = job.run
        self._finish(run)
        self._commits.store.sync(name for name in run.names() if "@" in name)
        reach("backfill-finished")
        with self._lock:
            shown = run.shown
        with self._commits.without_runs(shown):
            if job.move is not None:
                self._publish_move(job, job.move)
            elif run.group is None:
                self._publish_edges(run, shown)
            elif shown:
                self._publish_queries(run, run.group)
        with self._lock:
            self._job = None

    def _publish_edges(self, run: HistoryRun, shown: frozenset[str]) -> None:
        made = shown - run.failures.keys()
        needed = run.pipeline.edges_below(*made)
        failed = {edge: error_fields(error) for edge, error in run.failures.items() if edge in shown}
        self._merger.admit(
            Newcomers(run.pipeline.only(needed), made, _only(run.states, needed), _only(run.results, made)),
            lambda snapshot: snapshot.with_failures(failed).without_backfills(shown),
        )

    def _publish_move(self, job: Job, move: Move) -> None:
        """From this commit on the query runs by its new plan; that of its past stays which the new one cannot tell."""
        run, failed = job.run, [job.run.failures[edge] for edge in move.afters if edge in job.run.failures]
        if failed:
            job.error = failed[0]
        elif run.shown >= {*move.afters} and (catalog := move.catalog()) is not None:
            if isinstance(move, GroupMove):
                if self.group_moves.publish(move, run, catalog, self._finish):
                    self._have_moved(move)
            else:
                with self._commits.as_one() if isinstance(move, LeavingMove) else nullcontext():
                    self._admit_move(run, move, catalog)
                    self._have_moved(move)

    def _admit_move(self, run: HistoryRun, move: Move, catalog: Catalog) -> None:
        with self._commits.writing() as written:
            self._merger.admit(
                Newcomers(run.pipeline, run.shown, dict(run.states), run.results),
                lambda snapshot: after_move(snapshot, move, self._commits.store, written).with_catalog(catalog),
            )

    def _have_moved(self, move: Move) -> None:
        with self._lock:
            self._job = None  # whoever asks for the edge need not wait any more
        reach("plan-moved")
        move.moved()

    def _publish_queries(self, run: HistoryRun, group: Group) -> None:
        """The queries that are still there take part, or have failed; where it may be one of several, they go on
        apart."""
        groups, queries = self._groups, numbers_of(run.queries)
        rows = only_queries(groups.waiting(group, filling=True), queries)
        if rows and group.edge in run.failures and not run.has_common_failure and len(numbers_of(rows)) > 1:
            self.add_group(group, halves(rows))
        else:
            if rows and group.edge in run.failures:
                self._admission.fail(group, rows, run.failures[group.edge])
            elif rows:
                self._admission.admit(NewQueries(group, rows, run.states, run.results.get(group.edge, ())))
            group.filling -= queries
        if group.edge in groups and groups.waiting(group, filling=True):
            self.add_group(group)  # some have come meanwhile


def _taking_part(edge: str) -> str:
    return f"what the past of {edge} takes part by"


def _only(found: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key in keys}
