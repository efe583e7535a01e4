"""Who runs an epoch's task: this process, or Spark (in `millstream.spark`)."""

from __future__ import annotations

from typing import Protocol

from millstream.engine.stages import Planner
from millstream.engine.task import EpochOutcome, EpochTask, prepare, run_here, settle
from millstream.state.store import MemoryStore, Store


class Runner(Protocol):
    """Runs tasks over a store."""

    store: Store

    def run(self, task: EpochTask) -> EpochOutcome: ...

    def close(self) -> None: ...


class InProcessRunner:
    """The same functions called in one process: for tests and for the kernel's benchmarks."""

    def __init__(self, shards: int = 1) -> None:
        self.store: Store = MemoryStore()
        self._planner = Planner(shards)

    def run(self, task: EpochTask) -> EpochOutcome:
        plan, work = prepare(task, self._planner)
        return settle(plan, work, run_here(plan, work, plan.shards, self.store, self.store), self.store)

    def close(self) -> None:
        """Nothing to stop."""
