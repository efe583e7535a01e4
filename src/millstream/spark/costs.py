"""Where an epoch runs: in the driver, which starts at once, or as a job, which has all cores.

    in the driver    steps x shards + rows x steps + bytes of state that are to be read        its threads, no start
    as a job         start + the same / cores

Up to the point where both cost the same an epoch is the driver's. In a Spark of this process a job has no more cores
than the driver has threads: there it is the driver's as long as others who want the interpreter can wait for it. The
constants are measured; how far off they are is learnt for each plan, by what its steps took when it last ran, wherever
that was, and so is what a job takes to start.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from millstream.engine.epochs.side_by_side import WORTH_THREADS
from millstream.engine.epochs.stages import StagePlan
from millstream.engine.epochs.task import EpochTask
from millstream.state.snapshot import state_names
from millstream.state.store import Store

DRIVER, ONE_TASK, SHUFFLED = "driver", "one task", "shuffled"
_STEP, _ROW, _BYTE = 0.3e-3, 0.1e-6, 1e-9  # seconds: a step on a shard, a row in a step, a byte of state
_START = 0.12  # seconds that a job of one task takes, however little it does
_MOST = 0.5  # seconds for which the driver is kept from other work, at most
_LEARNT = 0.25  # the weight of what was measured last
_FURTHEST = 20.0  # times off, which a busy machine may be for once
_HELD = 0.14  # of the time of many rows one thread holds the interpreter, which no other can have meanwhile


class EpochCosts:
    """What epochs are expected to cost, by what they did before."""

    def __init__(self) -> None:
        self.start = _START
        self._off: WeakKeyDictionary[StagePlan, float] = WeakKeyDictionary()  # measured by estimated

    def here(self, plan: StagePlan, task: EpochTask, store: Store) -> float:
        """The seconds that one core needs for all stages."""
        return self._estimate(plan, task, store) * self._off.get(plan, 1.0)

    def is_for_the_driver(self, plan: StagePlan, task: EpochTask, store: Store, cores: int, threads: int = 1) -> bool:
        """Where a job would have so many cores, and the driver has so many threads."""
        here = self.here(plan, task, store)
        if cores <= threads:
            return here / speed(task, threads) <= _MOST
        return here <= min(self.start * cores / (cores - 1), _MOST)

    def learn(self, plan: StagePlan, task: EpochTask, store: Store, seconds: float, started: float | None) -> None:
        """The steps of an epoch took so many seconds, and a job of one task was `started` in some more."""
        off = seconds / self._estimate(plan, task, store)
        before = self._off.get(plan, 1.0)
        self._off[plan] = before + _LEARNT * (min(off, _FURTHEST) - before)
        if started is not None:
            # The first job of a plan is slow, and nothing to go by.
            self.start += _LEARNT * (min(max(started, 0.0), 2 * self.start) - self.start)

    def _estimate(self, plan: StagePlan, task: EpochTask, store: Store) -> float:
        steps = sum(len(stage.steps) for stage in plan.stages)
        held = sum(map(store.size, state_names(task.states)))
        return steps * (_STEP * plan.shards + _ROW * task.arriving) + _BYTE * held + _ROW


def speed(task: EpochTask, threads: int) -> float:
    """How much faster than one so many threads are."""
    return 1 / (_HELD + (1 - _HELD) / threads) if task.arriving >= WORTH_THREADS else 1.0
