"""Runs an epoch as a Spark job: one job for all queries and edges, with one shuffle per stage but the first.

The job carries segment names and operators, never rows: tasks read and write segments in the store, which every
executor must see. Only names and counts come back to the driver. An epoch of few rows is one task that runs all stages
on all shards, since a shuffle would cost more than the work; one without rows, which only tells a little state how late
it is, is run by the driver. The answers are the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from itertools import count

from pyspark.sql import SparkSession

from millstream.engine.epochs.stages import StagePlan, StagePlanner
from millstream.engine.epochs.task import (
    EpochOutcome,
    EpochTask,
    EpochWork,
    ShardOutcome,
    combine_outcomes,
    prepare,
    run_here,
)
from millstream.kernel.operator import EVERYWHERE
from millstream.spark.culprits import WorkerDied, has_user_code, run_without_culprits
from millstream.spark.jobs import OneTaskJob, can_tell_tasks, run_shuffled
from millstream.state.snapshot import state_names
from millstream.state.store import DirectoryStore

# Measured, in seconds: what a row costs in one task, what exchanging it adds, and what shuffles cost however few rows.
_ROW, _EXCHANGED_ROW, _SHUFFLES = 0.8e-6, 1.0e-6, 0.5
_SPLIT = 200_000  # rows that are worth several tasks where no shuffle is needed
_MOST = 10_000_000  # rows that one task may hold
_REMEMBERED = 16  # jobs of one task, by plan
_LITTLE = 1 << 20  # bytes of state that are read as fast as a job is started


class SparkRunner:
    """One job per epoch; all queries and edges are in it. There are as many shards as this machine has cores, unless
    said otherwise."""

    runs_here = False
    is_background = False

    def __init__(self, session: SparkSession, store: DirectoryStore, shards: int | None = None) -> None:
        self.session = session
        self.store = store
        self.planner = StagePlanner(shards or os.cpu_count() or 1)
        self.small_epoch: int | None = None  # rows below which one task does it all; None: by what it costs
        self._jobs: dict[StagePlan, OneTaskJob] = {}

    def run(self, task: EpochTask) -> EpochOutcome:
        plan, work = prepare(task, self.planner)
        if self._is_for_the_driver(task) and not has_user_code(plan):
            return combine_outcomes(plan, run_here(plan, work, 1, self.store))
        run = partial(self._run_job, plan, task.arriving < self._small(plan) and can_tell_tasks())
        try:
            outcomes = run(work)
        except WorkerDied:
            outcomes = run_without_culprits(run, work, self.store.segments)
        return combine_outcomes(plan, outcomes)

    def _run_job(self, plan: StagePlan, is_small: bool, work: EpochWork) -> list[ShardOutcome]:
        if is_small:
            return self._run_small(plan, work)
        return run_shuffled(self.session, plan, work, self.store)

    def _is_for_the_driver(self, task: EpochTask) -> bool:
        return _is_known_here(task) or (self.small_epoch is None and self._is_mere_time(task))

    def _is_mere_time(self, task: EpochTask) -> bool:
        """Whether nothing comes but a heartbeat, and what it passes over is less than a job's own description."""
        if task.arriving or task.merges:
            return False
        return sum(map(self.store.size, state_names(task.states))) <= _LITTLE

    def _small(self, plan: StagePlan) -> float:
        """The rows up to which one task is as fast as all cores with their shuffles."""
        if self.small_epoch is not None:
            return self.small_epoch
        if not plan.shuffles:
            return _SPLIT
        cores = min(plan.shards, self.session.sparkContext.defaultParallelism)
        gain = _ROW - (_ROW + _EXCHANGED_ROW) / cores
        return min(_SHUFFLES / gain, _MOST) if gain > 0 else _MOST

    def _run_small(self, plan: StagePlan, work: EpochWork) -> list[ShardOutcome]:
        if plan not in self._jobs:
            if len(self._jobs) >= _REMEMBERED:
                self._jobs.clear()
            self._jobs[plan] = OneTaskJob(self.session, plan, self.store, background=self.is_background)
        return self._jobs[plan].run(work)

    def fork(self) -> SparkRunner:
        runner = SparkRunner(self.session, self.store, self.planner.shards)
        runner.small_epoch = self.small_epoch
        return runner

    def background_runner(self, pause: Callable[[], None]) -> SparkBackgroundRunner:
        return SparkBackgroundRunner(self.session, self.store, self.planner.shards)

    def close(self) -> None:
        """The session belongs to whoever made it."""


class SparkBackgroundRunner(SparkRunner):
    """Jobs of one task each, so that all cores but one are left to the epochs, and that one too while they need it;
    with a tag of their own, by which they are cancelled."""

    is_background = True
    seconds = 1.0
    _numbers = count(1)

    def __init__(self, session: SparkSession, store: DirectoryStore, shards: int) -> None:
        super().__init__(session, store, shards)
        self.small_epoch = _MOST
        self.busy = 0.0
        self._tag = f"millstream-backfill-{os.getpid()}-{next(self._numbers)}"

    def run(self, task: EpochTask) -> EpochOutcome:
        context = self.session.sparkContext
        context.addJobTag(self._tag)
        begun = time.perf_counter()
        try:
            return super().run(task)
        finally:
            context.removeJobTag(self._tag)
            self.busy = time.perf_counter() - begun

    def cancel(self) -> None:
        self.session.sparkContext.cancelJobsWithTag(self._tag)


def _is_known_here(task: EpochTask) -> bool:
    """Whether there is nothing to read but what the driver itself has just written, and no state of other tasks:
    queries that are registered before their sources have rows."""
    parts = [part for parts in task.arrived.values() for part in parts]
    read = [names for step in task.states.values() for key, names in step.items() if not key.startswith(EVERYWHERE)]
    return not read and all(part.kind == "rows" for part in parts)
