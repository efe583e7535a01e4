"""An epoch's stages in threads of one process: all cores work, and no row has to leave the process on its way from one
shard to another.

Operators keep things in themselves and are not made for two threads. So each thread has a copy of the plan. What they
do takes place in numpy, Polars and Arrow, which let other threads run meanwhile, if there are rows enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from queue import SimpleQueue

from millstream.engine.epochs.exchange import Envelope
from millstream.engine.epochs.stages import StagePlan, first_tasks
from millstream.engine.epochs.task import EpochWork, ShardOutcome, run_stage, take_in
from millstream.state.store import Store, Writer

_Done = tuple[list[Envelope], list[ShardOutcome]]
_Part = Callable[[StagePlan], _Done]
Noted = Callable[[], AbstractContextManager[None]]
WORTH_THREADS = 50_000  # rows


def run_side_by_side(
    copies: Sequence[StagePlan], work: EpochWork, store: Store, noted: Noted = nullcontext
) -> list[ShardOutcome]:
    """All stages, on as many shards at a time as there are copies of the plan; the steps of each thread are `noted`."""
    plan = copies[0]
    tasks = first_tasks(plan, len(work.arrived))
    with store.file(f"e{work.epoch}", synced=work.synced) as writer, _Threads(copies, store, noted) as threads:
        run = _Run(work, store, writer, tasks)
        inboxes, outcomes = _delivered(plan, threads.do(run.first(task) for task in range(tasks)))
        for number in range(1, len(plan.stages)):
            parts = [run.further(number, shard, received) for shard, received in inboxes.items()]
            inboxes, further = _delivered(plan, threads.do(parts))
            outcomes += further
    return outcomes


@dataclass(frozen=True)
class _Run:
    """What the threads do, as functions of the plan that a thread has."""

    work: EpochWork
    store: Store
    writer: Writer
    tasks: int

    def first(self, task: int) -> _Part:
        def part(plan: StagePlan) -> _Done:
            received, taken = take_in(plan, self.work, task, self.tasks, self.store, self.writer)
            sent, outcome = run_stage(plan, 0, task, received, self.work, self.store, self.writer)
            return sent, [taken, outcome]

        return part

    def further(self, number: int, shard: int, received: list[Envelope]) -> _Part:
        def part(plan: StagePlan) -> _Done:
            sent, outcome = run_stage(plan, number, shard, received, self.work, self.store, self.writer)
            return sent, [outcome]

        return part


def _delivered(plan: StagePlan, done: Iterable[_Done]) -> tuple[dict[int, list[Envelope]], list[ShardOutcome]]:
    """What each shard was sent; a shard that was sent nothing must run as well."""
    inboxes: dict[int, list[Envelope]] = {shard: [] for shard in range(plan.shards)}
    outcomes: list[ShardOutcome] = []
    for sent, made in done:
        outcomes += made
        for envelope in sent:
            inboxes[envelope.shard].append(envelope)
    return inboxes, outcomes


@dataclass
class _Threads:
    """Threads, each with a plan of its own while it works; all have ended when the block does."""

    copies: Sequence[StagePlan]
    store: Store
    noted: Noted
    _free: SimpleQueue[StagePlan] = field(default_factory=SimpleQueue)

    def __enter__(self) -> _Threads:
        for plan in self.copies:
            self._free.put(plan)
        self._pool = ThreadPoolExecutor(len(self.copies), "stage")
        self._in_task = self.store.in_other_threads()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def do(self, parts: Iterable[_Part]) -> list[_Done]:
        """In the order of the parts. An error is raised when all have ended: it is the first one's."""
        begun: list[Future[_Done]] = [self._pool.submit(copy_context().run, self._do, part) for part in parts]
        wait(begun)
        return [part.result() for part in begun]

    def _do(self, part: _Part) -> _Done:
        plan = self._free.get()
        try:
            with self._in_task(), self.noted():
                return part(plan)
        finally:
            self._free.put(plan)
