"""Who runs an epoch's task: this process, or Spark (in `millstream.spark`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from millstream.engine.epochs.stages import StagePlanner
from millstream.engine.epochs.task import EpochOutcome, EpochTask, combine_outcomes, pausing, prepare, run_here
from millstream.state.store import Store


class Runner(Protocol):
    """Runs tasks over a store."""

    planner: StagePlanner
    runs_here: bool  # in this process, whatever the task

    @property
    def store(self) -> Store: ...

    def run(self, task: EpochTask) -> EpochOutcome: ...

    def fork(self) -> Runner:
        """One like it, for another thread."""
        ...

    def background_runner(self, pause: Callable[[], None]) -> BackgroundRunner:
        """Who runs tasks in the background, in another thread; `pause` waits for the epoch that runs, if one does."""
        ...

    def close(self) -> None: ...


class BackgroundRunner(Protocol):
    """Runs the tasks of a backfill on no more than one core."""

    @property
    def seconds(self) -> float:
        """That a task should take."""
        ...

    @property
    def most_seconds(self) -> float:
        """The same while no epoch comes."""
        ...

    busy: float  # seconds that the last task took, without those in which it gave way

    def run(self, task: EpochTask) -> EpochOutcome: ...

    def cancel(self) -> None:
        """The task that runs now is of no use any more: it may fail."""
        ...


class InProcessRunner:
    """The same functions called in one process: for tests and for the kernel's benchmarks."""

    runs_here = True

    def __init__(self, store: Store, shards: int = 1) -> None:
        self.store = store
        self.planner = StagePlanner(shards)

    def run(self, task: EpochTask) -> EpochOutcome:
        plan, work = prepare(task, self.planner)
        return combine_outcomes(plan, run_here(plan, work, plan.shards, self.store))

    def fork(self) -> InProcessRunner:
        return InProcessRunner(self.store, self.planner.shards)

    def background_runner(self, pause: Callable[[], None]) -> BackgroundRunner:
        return _InProcessBackground(self.store, self.planner.shards, pause)

    def close(self) -> None:
        """Nothing to stop."""


class _InProcessBackground(InProcessRunner):
    """With plans of its own, since two threads run. They share one interpreter, so that it gives way to epochs before
    every step and every file that it reads, and steps are short."""

    seconds, most_seconds = 0.02, 0.5

    def __init__(self, store: Store, shards: int, pause: Callable[[], None]) -> None:
        super().__init__(store, shards)
        self.busy = 0.0
        self._pause = pause

    def run(self, task: EpochTask) -> EpochOutcome:
        given, begun = 0.0, time.perf_counter()

        def pause() -> None:
            nonlocal given
            since = time.perf_counter()
            self._pause()
            given += time.perf_counter() - since

        with pausing(pause):
            outcome = super().run(replace(task, synced=False))  # it is of no use until it is published
        self.busy = time.perf_counter() - begun - given
        return outcome

    def cancel(self) -> None:
        """Slices are short."""
