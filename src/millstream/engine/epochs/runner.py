"""Who runs an epoch's task: this process, or Spark (in `millstream.spark`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from millstream.engine.epochs.caution import Caution, NoCaution, TriedTask
from millstream.engine.epochs.side_by_side import run_side_by_side
from millstream.engine.epochs.stages import StagePlan, StagePlanner
from millstream.engine.epochs.task import (
    EpochOutcome,
    EpochTask,
    EpochWork,
    ShardOutcome,
    combine_outcomes,
    pausing,
    prepare,
    run_here,
)
from millstream.errors import EvaluationError
from millstream.state.store import DirectoryStore, Store


class Runner(Protocol):
    """Runs tasks over a store."""

    planner: StagePlanner
    caution: Caution
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

    def __init__(self, store: Store, shards: int = 1, caution: Caution | None = None) -> None:
        self.store = store
        self.planner = StagePlanner(shards)
        self.caution: Caution = caution or NoCaution()

    def run(self, task: EpochTask) -> EpochOutcome:
        plan, work = prepare(task, self.planner)
        return combine_outcomes(plan, run_carefully(task, plan, work, plan.shards, self.store, self.caution))

    def fork(self) -> InProcessRunner:
        return InProcessRunner(self.store, self.planner.shards, self.caution)

    def background_runner(self, pause: Callable[[], None]) -> BackgroundRunner:
        return _InProcessBackground(self.store, self.planner.shards, pause, self.caution)

    def close(self) -> None:
        """Nothing to stop."""


def run_carefully(
    task: EpochTask,
    plan: StagePlan,
    work: EpochWork,
    tasks: int,
    store: Store,
    caution: Caution,
    copies: Sequence[StagePlan] = (),
) -> list[ShardOutcome]:
    """What a task does in this process, with a thread for each of the `copies` of the plan: its steps are noted, and
    those that ended a process are tried in a child before they are run here. A step that ends that one too has
    failed."""
    culprits: dict[str, EvaluationError] = {}
    if isinstance(store, DirectoryStore):
        merges = [merge.name for merge in work.merges]
        work = work.without(caution.given_up(merges))
        directory, steps = store.directory, [*(step.name for stage in plan.stages for step in stage.steps), *merges]

        def tried() -> TriedTask:
            store.sync_tail()
            return TriedTask(directory, replace(task, merges=work.merges), plan.shards, tasks)

        culprits = caution.culprits(steps, tried)
    work = work.without(culprits)
    if copies:
        outcomes = run_side_by_side(copies, work, store, caution.noted)
    else:
        with caution.noted():
            outcomes = run_here(plan, work, tasks, store)
    return [ShardOutcome(failures=culprits), *outcomes] if culprits else outcomes


class _InProcessBackground(InProcessRunner):
    """With plans of its own, since two threads run. They share one interpreter, so that it gives way to epochs before
    every step and every file that it reads, and steps are short."""

    seconds, most_seconds = 0.02, 0.5

    def __init__(self, store: Store, shards: int, pause: Callable[[], None], caution: Caution) -> None:
        super().__init__(store, shards, caution)
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
