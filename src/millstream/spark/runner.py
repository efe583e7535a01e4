"""Runs an epoch as a Spark job: one job for all queries and edges, with one shuffle per stage but the first.

The job carries segment names and operators, never rows: tasks read and write segments in the store, which every
executor must see. Only names and counts come back to the driver. An epoch is one task that runs all stages on all
shards, with threads for as many cores as it may have, as long as a shuffle would cost more than further cores gain; one
that takes no longer than a job takes to start is run by the driver (`costs`), and in a Spark of this process, where the
driver may have as many threads, one of up to half a second. The answers are the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from weakref import WeakKeyDictionary

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from millstream.engine.epochs.caution import Caution, NoCaution
from millstream.engine.epochs.exchange import Exchanged
from millstream.engine.epochs.runner import BackgroundRunner, InProcessRunner, run_carefully
from millstream.engine.epochs.side_by_side import WORTH_THREADS
from millstream.engine.epochs.stages import StagePlan, StagePlanner, first_tasks
from millstream.engine.epochs.task import (
    EpochOutcome,
    EpochTask,
    EpochWork,
    ShardOutcome,
    combine_outcomes,
    prepare,
)
from millstream.kernel.operator import EVERYWHERE
from millstream.spark import envelopes
from millstream.spark.costs import DRIVER, ONE_TASK, SHUFFLED, EpochCosts, speed
from millstream.spark.culprits import WorkerDied, has_user_code, run_without_culprits
from millstream.spark.jobs import OneTaskJob, can_tell_tasks, run_shuffled
from millstream.spark.session import task_threads
from millstream.state.store import DirectoryStore

# Measured, in seconds: what a row costs in one task, what exchanging it adds, it and its bytes, and what shuffles cost
# however few rows.
_ROW, EXCHANGED_ROW, EXCHANGED_BYTE, SHUFFLES = 0.8e-6, 0.15e-6, 8e-9, 0.5
_BYTES = 16  # of a row, before any was exchanged
_SPLIT = 200_000  # rows that are worth several tasks where no shuffle is needed
_MOST = 10_000_000  # rows that one task may hold
_REMEMBERED = 16  # jobs of one task, by plan
_BEGUN = 2_000_000  # rows of a backfill that the driver takes before there are jobs


class SparkRunner:
    """One job per epoch; all queries and edges are in it. There are as many shards as this machine has cores, unless
    said otherwise."""

    runs_here = False
    is_background = False

    def __init__(
        self,
        session: SparkSession,
        store: DirectoryStore,
        shards: int | None = None,
        caution: Caution | None = None,
    ) -> None:
        self.session = session
        self.caution: Caution = caution or NoCaution()
        self.store = store
        self.planner = StagePlanner(shards or os.cpu_count() or 1)
        self.small_epoch: int | None = None  # rows below which one task does it all; None: by what it costs
        self.costs = EpochCosts()
        self._cores = 0
        # By plan: what exchanging costs for each row that arrives. Combiners may leave hardly any.
        self._exchanging: WeakKeyDictionary[StagePlan, float] = WeakKeyDictionary()
        self._jobs: dict[StagePlan, OneTaskJob] = {}
        self._copies: WeakKeyDictionary[StagePlan, tuple[StagePlan, ...]] = WeakKeyDictionary()

    def run(self, task: EpochTask) -> EpochOutcome:
        plan, work = prepare(task, self.planner)
        if self._is_for_the_driver(plan, task):
            return self._learnt(plan, task, DRIVER, partial(self._run_here, task, plan, work))
        is_small = task.arriving < self._small(plan) and can_tell_tasks()
        run = partial(self._run_job, plan, is_small)

        def without_culprits() -> list[ShardOutcome]:
            try:
                return run(work)
            except WorkerDied:
                return run_without_culprits(run, work, self.store.segments)
            finally:
                self.caution.survived(self.caution.suspected(_steps(plan)))

        return self._learnt(plan, task, ONE_TASK if is_small else SHUFFLED, without_culprits)

    def _run_here(self, task: EpochTask, plan: StagePlan, work: EpochWork) -> list[ShardOutcome]:
        threads = self._threads(plan) if task.arriving >= WORTH_THREADS else 1
        copies = self._copies_of(plan, threads) if threads > 1 else ()
        return run_carefully(task, plan, work, 1, self.store, self.caution, copies)

    def _copies_of(self, plan: StagePlan, count: int) -> tuple[StagePlan, ...]:
        """One for each thread; they last as long as the plan."""
        found = self._copies.get(plan)
        if found is None or len(found) != count:
            packed = envelopes.dumps(plan)
            found = self._copies[plan] = tuple(cloudpickle.loads(packed) for _ in range(count))
        return found

    def _run_job(self, plan: StagePlan, is_small: bool, work: EpochWork) -> list[ShardOutcome]:
        self.store.sync_tail()
        if is_small:
            return self._run_small(plan, work)
        return run_shuffled(self.session, plan, work, self.store)

    def _learnt(
        self, plan: StagePlan, task: EpochTask, ran_as: str, run: Callable[[], list[ShardOutcome]]
    ) -> EpochOutcome:
        """What came of running it; what it took says where the next one is run."""
        begun = time.perf_counter()
        outcome = combine_outcomes(plan, run())
        took, worked = time.perf_counter() - begun, sum(outcome.seconds.values())
        threads = self._threads(plan)
        is_alone = task.arriving < WORTH_THREADS or threads == 1  # or steps ran at the same time
        started = max(took - worked, 0.0) if ran_as == ONE_TASK and is_alone else None
        if task.arriving and plan.shuffles:
            self._exchanging[plan] = sum(map(_exchanging, outcome.exchanged.values())) / task.arriving
        worked = took * speed(task, threads) if ran_as == DRIVER else worked
        self.costs.learn(plan, task, self.store, worked, started)
        return replace(outcome, ran_as=ran_as, tasks=_tasks(plan, task, ran_as))

    def _is_for_the_driver(self, plan: StagePlan, task: EpochTask) -> bool:
        if task.run_by == "driver":
            return True
        if has_user_code(plan) or self.caution.suspected(_steps(plan)):
            return False
        if _is_known_here(task):
            return True
        if task.run_by == "spark" or self.is_background or self.small_epoch is not None:
            return False
        return self.costs.is_for_the_driver(plan, task, self.store, self.cores, self._threads(plan))

    @property
    def cores(self) -> int:
        """How many tasks run at a time; a cluster may grow, but to ask it takes as long as a small epoch."""
        if not self._cores:
            self._cores = self.session.sparkContext.defaultParallelism
        return self._cores

    def _small(self, plan: StagePlan) -> float:
        """The rows up to which one task is as fast as all cores with their shuffles."""
        if self.small_epoch is not None:
            return self.small_epoch
        threads = self._threads(plan)
        if not plan.shuffles:
            return _MOST if threads >= self.cores else _SPLIT
        cores = min(plan.shards, self.cores)
        exchanging = self._exchanging.get(plan, EXCHANGED_ROW + _BYTES * EXCHANGED_BYTE)
        gain = _ROW / threads - (_ROW + exchanging) / cores
        return min(SHUFFLES / gain, _MOST) if gain > 0 else _MOST

    def _threads(self, plan: StagePlan) -> int:
        """Of a task. What users wrote is not asked to be fit for several."""
        if self.is_background or has_user_code(plan):
            return 1
        return min(plan.shards, task_threads(self.session.sparkContext))

    def _run_small(self, plan: StagePlan, work: EpochWork) -> list[ShardOutcome]:
        if plan not in self._jobs:
            if len(self._jobs) >= _REMEMBERED:
                self._jobs.clear()
            threads = self._threads(plan)
            self._jobs[plan] = OneTaskJob(self.session, plan, self.store, threads, background=self.is_background)
        return self._jobs[plan].run(work)

    def jobs(self) -> list[OneTaskJob]:
        """Those of one task that are remembered."""
        return list(self._jobs.values())

    def fork(self) -> SparkRunner:
        runner = SparkRunner(self.session, self.store, self.planner.shards, self.caution)
        runner.small_epoch, runner.costs, runner._exchanging = self.small_epoch, self.costs, self._exchanging
        return runner

    def background_runner(self, pause: Callable[[], None]) -> SparkBackgroundRunner:
        return SparkBackgroundRunner(self.session, self.store, self.planner.shards, pause, self.caution)

    def close(self) -> None:
        """The session belongs to whoever made it."""


class SparkBackgroundRunner(SparkRunner):
    """Jobs of one task each, so that all cores but one are left to the epochs, and that one too while they need it;
    with a tag of their own, by which they are cancelled.

    Before all of that has started, the driver would have worked through a million rows: so it begins, as it would
    without Spark, and what is longer is handed over to jobs."""

    is_background = True
    _numbers = count(1)

    def __init__(
        self,
        session: SparkSession,
        store: DirectoryStore,
        shards: int,
        pause: Callable[[], None],
        caution: Caution | None = None,
    ) -> None:
        super().__init__(session, store, shards, caution)
        self.small_epoch = _MOST
        self.busy = 0.0
        self._here: BackgroundRunner | None = InProcessRunner(store, shards, caution).background_runner(pause)
        self._begun = 0  # rows that the driver has taken
        self._tag = f"millstream-backfill-{os.getpid()}-{next(self._numbers)}"

    @property
    def seconds(self) -> float:
        return 1.0 if self._here is None else self._here.seconds

    @property
    def most_seconds(self) -> float:
        return 4.0 if self._here is None else self._here.most_seconds

    def run(self, task: EpochTask) -> EpochOutcome:
        if self._here is not None and self._is_to_begin(task):
            outcome = self._here.run(task)
            self.busy = self._here.busy
            self._begun += task.arriving
            return replace(outcome, ran_as=DRIVER)
        self._here = None
        context = self.session.sparkContext
        context.addJobTag(self._tag)
        begun = time.perf_counter()
        try:
            return super().run(task)
        finally:
            context.removeJobTag(self._tag)
            self.busy = time.perf_counter() - begun

    def _is_to_begin(self, task: EpochTask) -> bool:
        """Whether the driver takes it. Code of users may end the process that runs it."""
        if task.run_by == "spark" or self._begun + task.arriving > _BEGUN:
            return False
        plan = prepare(task, self.planner)[0]
        return not has_user_code(plan) and not self.caution.suspected(_steps(plan))

    def cancel(self) -> None:
        if self._here is None:
            self.session.sparkContext.cancelJobsWithTag(self._tag)


def _steps(plan: StagePlan) -> Iterator[str]:
    return (step.name for stage in plan.stages for step in stage.steps)


def _exchanging(found: Exchanged) -> float:
    """The seconds that it takes to have rows on other shards."""
    return found.sent * EXCHANGED_ROW + found.bytes * EXCHANGED_BYTE


def _tasks(plan: StagePlan, task: EpochTask, ran_as: str) -> int:
    """Of Spark: there is one job, if any."""
    if ran_as == SHUFFLED:
        return first_tasks(plan, sum(map(len, task.arrived.values()))) + plan.shuffles * plan.shards
    return int(ran_as == ONE_TASK)


def _is_known_here(task: EpochTask) -> bool:
    """Whether there is nothing to read but what the driver itself has just written, and no state of other tasks:
    queries that are registered before their sources have rows."""
    parts = [part for parts in task.arrived.values() for part in parts]
    read = [names for step in task.states.values() for key, names in step.items() if not key.startswith(EVERYWHERE)]
    return not read and all(part.kind == "rows" for part in parts)
