"""Who runs an epoch's task: this process, or Spark (in `millstream.spark`)."""

from __future__ import annotations

from typing import Protocol

from millstream.engine.task import EpochOutcome, EpochTask, execute
from millstream.state.store import Store


class Runner(Protocol):
    """Runs tasks over a store."""

    store: Store

    def run(self, task: EpochTask) -> EpochOutcome: ...

    def close(self) -> None: ...


class InProcessRunner:
    """The same functions called in one process: for tests and for the kernel's benchmarks."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def run(self, task: EpochTask) -> EpochOutcome:
        return execute(task, self.store)

    def close(self) -> None:
        """Nothing to stop."""
