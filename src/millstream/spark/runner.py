"""Runs an epoch as a Spark job: one job for all queries and edges, with one shuffle per stage but the first.

The job carries segment names and operators, never rows: tasks read and write segments in the store, which every
executor must see. Only names and counts come back to the driver. An epoch of few rows is one task that runs all stages
on all shards, since a shuffle would cost more than the work; the answers are the same.
"""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from millstream.engine.stages import Planner, StagePlan
from millstream.engine.task import EpochOutcome, EpochTask, EpochWork, ShardOutcome, prepare, settle
from millstream.spark.jobs import OneTaskJob, can_tell_tasks, run_shuffled
from millstream.state.store import Store

SMALL_EPOCH = 200_000  # rows; below, one task does it all in about the time that shuffles take by themselves
_REMEMBERED = 16  # jobs of one task, by plan


class SparkRunner:
    """One job per epoch; all queries and edges are in it. There are as many shards as this machine has cores, unless
    said otherwise."""

    def __init__(
        self, session: SparkSession, store: Store, shards: int | None = None, small_epoch: int = SMALL_EPOCH
    ) -> None:
        self.session = session
        self.store = store
        self.small_epoch = small_epoch
        self.planner = Planner(shards or os.cpu_count() or 1)
        self._jobs: dict[StagePlan, OneTaskJob] = {}

    def run(self, task: EpochTask) -> EpochOutcome:
        plan, work = prepare(task, self.planner)
        if task.arriving < self.small_epoch and can_tell_tasks():
            outcomes = self._run_small(plan, work)
        else:
            outcomes = run_shuffled(self.session, plan, work, self.store)
        return settle(plan, outcomes)

    def _run_small(self, plan: StagePlan, work: EpochWork) -> list[ShardOutcome]:
        if plan not in self._jobs:
            if len(self._jobs) >= _REMEMBERED:
                self._jobs.clear()
            self._jobs[plan] = OneTaskJob(self.session, plan, self.store)
        return self._jobs[plan].run(work)

    def close(self) -> None:
        """The session belongs to whoever made it."""
