"""The engine: one shared plan over all sources, stepped epoch by epoch, each epoch committed as a snapshot.

    commits      the snapshot that counts, its files, the lock      sources    columns, frontiers, history
    shared_plan  the steps that run, and who shows their edges      tasks      what is run, in an epoch or over history
    groups       queries that share a plan, as rows of a table      backfills  the past of queries that come late
    reader       results of a snapshot                              retention  what may be forgotten
    admitter     who comes to groups and goes                       background commits for those who read
    moves        queries that go on by other plans              merges     small files become one

Between epochs the shared plan may change: that is how queries come and go. A query that comes late is first run over
the kept history, up to exactly the committed snapshot, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from millstream.engine.admitter import Admitter
from millstream.engine.background import Background
from millstream.engine.commits import Commits
from millstream.engine.enforcement import Enforcement
from millstream.engine.epochs.commit import after_epoch
from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.runner import Runner
from millstream.engine.epochs.stages import StagePlanner
from millstream.engine.epochs.task import EpochOutcome
from millstream.engine.groups.admission import Admission
from millstream.engine.groups.failures import FailingQueries
from millstream.engine.groups.groups import Groups
from millstream.engine.groups.tables import QueryTables
from millstream.engine.history.backfill import Backfills
from millstream.engine.history.evaluation import Evaluation
from millstream.engine.history.merge_producers import Merger
from millstream.engine.history.replay import Replay
from millstream.engine.invocations import Invocations
from millstream.engine.life import Life
from millstream.engine.limits import Limits
from millstream.engine.lock import CommitLock
from millstream.engine.merges import Merges
from millstream.engine.moves import Moves
from millstream.engine.notifier import Notifier
from millstream.engine.past import Pasts
from millstream.engine.plans import Plans
from millstream.engine.query_tables import upgraded
from millstream.engine.reader import Reader
from millstream.engine.reports import EpochReport, Phases, Reports
from millstream.engine.retention import Retention
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.engine.tasks import Tasks
from millstream.engine.works import Works
from millstream.errors import EvaluationError, StateError
from millstream.kernel.batch import empty_batch
from millstream.kernel.distribution import HASH
from millstream.kernel.first_counted import found_from
from millstream.kernel.operator import Progress, Segment, State
from millstream.kernel.pipeline import Pipeline
from millstream.kernel.step_limits import wanted_for_good
from millstream.kernel.stepping import stepped
from millstream.plan import nodes as lo
from millstream.plan.lowering.options import Options
from millstream.state.faults import reach
from millstream.state.manifest import Journal, Layout, NoJournal
from millstream.state.snapshot import Catalog, KeyedInsert, Snapshot, SourceProgress
from millstream.state.store import Store


class Engine:
    """Puts the pieces together, and runs epochs. Every public method is safe from any thread."""

    def __init__(self, runner: Runner, journal: Journal | None = None, snapshot: Snapshot | None = None) -> None:
        self.runner = runner
        journal = journal or NoJournal(Layout(runner.planner.shards, HASH))
        self.life, self.limits, self.pasts, self.works = Life(), Limits(), Pasts(), Works()
        self.notifier, self.invocations = Notifier(self.life), Invocations()
        self.commits = Commits(journal, runner.store, self.life, self.notifier, snapshot or Snapshot())
        self.sources = Sources(self.commits)
        self.plans = Plans(self.sources)
        self.shared_plan = SharedPlan(self.sources)
        self.reports = Reports(self.commits, self.shared_plan)
        shared = self.commits, self.sources, self.shared_plan
        self._tasks = Tasks(self.commits, self.sources, self.limits)
        replay, merger = Replay(self.commits, self.sources, self._tasks), Merger(*shared, self._tasks, runner)
        self.evaluation = Evaluation(self.commits, self.sources, replay, runner, self.limits)
        self.commits.pending = self.query_tables = QueryTables(self.commits)
        self.groups = Groups(*shared, self.pasts, self.query_tables)
        admission = Admission(self.commits, self.shared_plan, self.pasts, self.query_tables)
        self._failing = FailingQueries(self.groups, admission, self.sources, self._tasks, runner)
        self.enforcement = Enforcement(self.limits, self.commits, self.shared_plan, self.groups, admission)
        self.backfills = Backfills(
            self.commits, self.sources, replay, self.pasts, self.groups, admission, merger, runner
        )
        self.background = Background(self.life, self.lock)
        self.admitter = Admitter(
            self.commits, self.shared_plan, self.pasts, self.groups, self.backfills, self.background
        )
        self.moves = Moves(*shared, self.backfills, self.admitter, runner)
        self.reader = Reader(
            self.commits,
            self.sources,
            self.plans,
            self.shared_plan,
            self.groups,
            self.backfills,
            self.admitter,
            self.evaluation,
            self.limits,
        )
        self.commits.on_commit = self.reader.forget
        self.on_epoch: list[Callable[[EpochReport], None]] = []
        self.retention = Retention(*shared, self.reader)
        self.merges = Merges(*shared, self.retention, runner.caution)

    @property
    def store(self) -> Store:
        return self.commits.store

    @property
    def journal(self) -> Journal:
        return self.commits.journal

    @property
    def lock(self) -> CommitLock:
        return self.commits.lock

    @property
    def snapshot(self) -> Snapshot:
        return self.commits.snapshot

    @property
    def pipeline(self) -> Pipeline:
        return self.shared_plan.pipeline

    def commit(self, snapshot: Snapshot) -> None:
        """Make a snapshot the one that counts."""
        self.commits.commit(snapshot)

    def stop(self) -> None:
        """Whoever waits need not any more, and work in the background ends."""
        self.notifier.notify()
        self.backfills.close()
        self.merges.background.close()

    def close(self) -> None:
        """Nothing is committed any more."""
        self.backfills.close()
        self.merges.background.close()
        self.background.close()
        if self.journal.directory is not None and not (self.life.is_over or self.life.is_elsewhere):
            # Another owner may have it, or the disk be full: nothing is lost.
            with suppress(StateError), self.runner.caution.noted():
                self.merges.settle_history()
        if self.evaluation.workers is not None:
            self.evaluation.workers.close()
        with self.lock:
            self.life.is_closing = self.life.is_over = True
        self.notifier.notify()
        self.runner.close()
        self.store.close()

    def upgrade(self) -> None:
        """Have what an earlier format laid out otherwise in its place."""
        with self.lock, self.commits.writing() as written:
            snapshot = upgraded(self.snapshot, self.store)
            if snapshot is not self.snapshot:
                written.add(snapshot.names())
                self.commit(snapshot)

    def place_on(self, shards: int) -> None:
        """Place rows on so many shards from now on; there is no state yet."""
        self.runner.planner = StagePlanner(shards)
        self.journal.layout = Layout(shards, HASH)

    # Epochs

    def epoch(
        self,
        arrived: Mapping[str, Sequence[Part]],
        progress: Mapping[str, SourceProgress],
        clock: int,
        catalog: Catalog | None = None,
        inserts: Mapping[str, tuple[KeyedInsert, ...]] | None = None,
    ) -> None:
        """Take new rows and heartbeats in, run what they concern, commit; with a catalog, or with keys of inserts,
        where these came with them."""
        phases = Phases()
        with self.lock:
            phases.end("wait")
            self.journal.check_current()  # rather than to find what another owner has removed
            self.admitter.admit()
            reach("epoch-started")
            phases.end("admit")
            before = self.snapshot
            parts = {source: tuple(found) for source, found in arrived.items()}
            files = {source: tuple(part.file for part in found if part.file) for source, found in parts.items()}
            moved = self.snapshot.with_next_epoch(clock).with_progress(progress).with_history(files)
            moved, outcome = moved.with_catalog(catalog).with_inserts(inserts), EpochOutcome()
            with self.commits.writing() as written:
                written.add(file.name for found in files.values() for file in found)
                task = self._tasks.of_epoch(self.shared_plan, parts, moved)
                task = replace(task, merges=self.merges.due(task.periods))
                phases.end("prepare")
                if task.concerned or task.merges or not all(p.is_judged for found in parts.values() for p in found):
                    outcome = self.runner.run(task)
                    written.add(file.name for found in outcome.history.values() for file in found)
                    written.add(outcome.names())
                if outcome.failures:
                    outcome, moved = self._failing.parted(task, outcome, moved, written)
                failed = self.shared_plan.failed_steps(outcome.failures)
                reach("epoch-run")
                phases.end("run")
                self.commit(after_epoch(moved, outcome, task.concerned, failed))
                phases.end("commit")
            with wanted_for_good():
                self.merges.have_counted(outcome.merged)
                self.reports.count(outcome, parts)
                self.shared_plan.fail(failed)
                self.enforcement.enforce(task.concerned)
                phases.end("finish")
                report = EpochReport(before, self.snapshot, task, outcome, progress, phases)
                for observe in self.on_epoch:
                    observe(report)

    def count_from(self, edge: str, first: int) -> None:
        """What fails for an edge counts from an instant that was not known until now: what was kept of it is looked at,
        and the edge ends where it should have."""
        with self.lock:
            below = self.pipeline.edges_below(edge)
            steps = found_from((step for step in self.pipeline.steps if step.name in below), first)
            if not steps or edge in self.snapshot.failures:
                return
            self.shared_plan.put(steps)
            low = min(self.sources.frontier(source) for source in below if source in self.sources)
            try:
                for step in steps:
                    for state in self._states_of(step.name):
                        nothing = [empty_batch(step.operator.schema)]
                        stepped(step.operator, nothing, state, Progress((low,), (low,)), step.name)
            except EvaluationError as error:
                self.enforcement.stop(edge, error)

    def _states_of(self, step: str) -> list[State]:
        """What a step holds, by shard."""
        found: dict[str, dict[str, tuple[Segment, ...]]] = {}
        for synopsis, names in self.snapshot.states.get(step, {}).items():
            shard, _, own = synopsis.partition("/")
            found.setdefault(shard, {})[own] = tuple(map(self.store.read, names))
        return [*found.values()]

    # Queries of their own

    def attach(self, plan: lo.Node, options: Options, firsts: Mapping[str, int] = MappingProxyType({})) -> None:
        """Go on with a plan that the snapshot holds the state and results of."""
        with self.lock:
            edge, pipeline = self.plans.lowered(plan, options)
            self.shared_plan.shown[edge] += 1
            if edge in self.snapshot.backfills:
                self.pasts.firsts[edge] = firsts
                self.backfills.add(edge, pipeline)
                return
            self.shared_plan.add(pipeline.steps, failed=self.snapshot.failures.keys())

    def show(
        self,
        plans: Sequence[lo.Node],
        options: Options,
        catalog: Catalog,
        firsts: Mapping[str, int] = MappingProxyType({}),
        *,
        put_off: bool = False,
    ) -> None:
        """Keep the rows of plans as results from now on, their past included, as far as that counts: by one commit.

        A long past is worked through in the background; a short one at once, or when it is needed.
        """
        with self.lock:
            found, shown = [self.plans.lowered(plan, options) for plan in plans], self.shared_plan.shown
            for edge, _ in found:
                if not shown[edge]:
                    self.backfills.cancel(edge)  # a query may be about to move there
                    self.pasts.firsts[edge] = firsts
            # A query for all of a source has the source's history as its result.
            new = {edge: steps for edge, steps in found if edge not in self.sources and not shown[edge]}
            self.backfills.begin(new, firsts, catalog, put_off=put_off)
            shown.update(edge for edge, _ in found)

    def forget_unshown(self) -> None:
        """Forget what no query shows: what a version that planned differently has left."""
        with self.lock:
            snapshot = self.snapshot.only(self.shared_plan.shown, self.admitter.needed(self.shared_plan.shown))
            if snapshot != self.snapshot:
                self.commit(snapshot)
