"""Who runs an epoch's task: this process, or Spark (in `millstream.spark`)."""

from __future__ import annotations

from typing import Protocol

from millstream.engine.stages import Planner
from millstream.engine.task import EpochOutcome, EpochTask, prepare, run_here, settle
from millstream.state.store import Store


class Runner(Protocol):
    """Runs tasks over a store."""

    store: Store
    planner: Planner
    runs_here: bool  # in this process, whatever the task

    def run(self, task: EpochTask) -> EpochOutcome: ...

    def close(self) -> None: ...


class InProcessRunner:
    """The same functions called in one process: for tests and for the kernel's benchmarks."""

    runs_here = True

    def __init__(self, store: Store, shards: int = 1) -> None:
        self.store = store
        self.planner = Planner(shards)

    def run(self, task: EpochTask) -> EpochOutcome:
        plan, work = prepare(task, self.planner)
        return settle(plan, run_here(plan, work, plan.shards, self.store))

    def close(self) -> None:
        """Nothing to stop."""
