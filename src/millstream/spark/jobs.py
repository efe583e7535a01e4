"""The jobs that run an epoch's stages, and what their tasks do in Spark's Python workers.

Workers live longer than tasks: they remember the plans that they unpickled.
"""

from __future__ import annotations

import base64
import os
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial

import pyarrow as pa
from pyspark import SparkContext, TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from millstream.engine.epochs.exchange import Envelope
from millstream.engine.epochs.side_by_side import WORTH_THREADS, run_side_by_side
from millstream.engine.epochs.stages import StagePlan, first_tasks, sums_of
from millstream.engine.epochs.task import EpochWork, ShardOutcome, run_here, run_stage, take_in
from millstream.errors import StateError
from millstream.spark import envelopes
from millstream.spark.culprits import WorkerDied
from millstream.spark.envelopes import EnvelopeKind, Sealed
from millstream.spark.messages import SPARK_ERRORS, cause_of, has_worker_died, is_jvm_gone
from millstream.state.store import Store

# Of processes that work in the background: they take one core at most, and that only while nobody else wants it.
_NICE = "MILLSTREAM_NICE"
_POLARS_THREADS = "POLARS_MAX_THREADS"
_IN_BACKGROUND = {_POLARS_THREADS: "1", "OMP_NUM_THREADS": "1", _NICE: "5"}
_making = threading.Lock()
_WORK = "millstream.work"  # the local property that tells a task of a reused job what is new


def can_tell_tasks() -> bool:
    """Whether properties reach the job that is run next: only where a thread of Python has a thread of the JVM."""
    return os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"


class OneTaskJob:
    """All stages on all shards in one task.

    Spark plans a job anew for every frame, which takes as long as running a small one. So the frame is made once per
    plan, and what changes from epoch to epoch, mere names, comes with the task as a property.
    """

    def __init__(
        self, session: SparkSession, plan: StagePlan, store: Store, threads: int = 1, *, background: bool = False
    ) -> None:
        """With so many threads where rows are many; in the `background`: in processes of its own, which leave them what
        they need of the machine."""
        self._context = session.sparkContext
        self._store = store
        self.threads = threads
        work = partial(_run_here, envelopes.dumps(plan), threads)
        environment = _IN_BACKGROUND if background else _of_threads(self._context, threads)
        with _spark_at_work(), _workers(self._context, environment):
            self._frame = session.range(0, 1, 1, 1).mapInArrow(work, envelopes.SCHEMA)

    def run(self, work: EpochWork) -> list[ShardOutcome]:
        packed = base64.b64encode(zlib.compress(envelopes.dumps((work, self._store)), level=1)).decode()
        with _spark_at_work():
            self._context.setLocalProperty(_WORK, packed)
            try:
                return _outcomes(self._frame)
            finally:
                self._context.setLocalProperty(_WORK, None)  # type: ignore[arg-type]  # which removes it


def _of_threads(context: SparkContext, threads: int) -> Mapping[str, str]:
    """Polars has threads of its own, of which there must not be fewer: they are for all threads that ask."""
    known = context.environment.get(_POLARS_THREADS)
    return {_POLARS_THREADS: str(threads)} if known is not None and int(known) < threads else {}


@contextmanager
def _workers(context: SparkContext, environment: Mapping[str, str]) -> Iterator[None]:
    """Frames that are made within the block are run by processes with these variables, and by no others: Spark tells
    its Python workers apart by their environment."""
    with _making:
        usual = context.environment
        context.environment = {**usual, **environment}
        try:
            yield
        finally:
            context.environment = usual


def run_shuffled(session: SparkSession, plan: StagePlan, work: EpochWork, store: Store) -> list[ShardOutcome]:
    """Stage 0 as tasks that share what arrived, every further stage as a task per shard.

    Not to be run twice by one frame: Spark would find the shuffled rows of the first time, and use them again.
    """
    payload = envelopes.dumps(plan), envelopes.dumps((work, store))
    tasks = first_tasks(plan, len(work.arrived))
    with _spark_at_work(), _workers(session.sparkContext, {}):
        frame = session.range(0, tasks, 1, tasks).mapInArrow(partial(_run_first, *payload, tasks), envelopes.SCHEMA)
        for number in range(1, len(plan.stages)):
            frame = frame.repartitionById(plan.shards, "shard")
            frame = frame.mapInArrow(partial(_run_stage, *payload, number), envelopes.SCHEMA)
    with _spark_at_work():
        return _outcomes(frame)


def _outcomes(frame: DataFrame) -> list[ShardOutcome]:
    outcomes = []
    for row in frame.collect():
        if row.kind == EnvelopeKind.ERROR.value:
            raise cloudpickle.loads(row.content)
        if row.kind == EnvelopeKind.OUTCOME.value:
            outcomes.append(cloudpickle.loads(row.content))
    return outcomes


@contextmanager
def _spark_at_work() -> Iterator[None]:
    """What Spark raises while it runs an epoch, in our words."""
    try:
        yield
    except SPARK_ERRORS as error:
        kind = WorkerDied if has_worker_died(error) else StateError
        raise kind("Spark could not run the epoch", detail=cause_of(error), hint=_hint(error)) from error


def _hint(error: BaseException) -> str:
    if is_jvm_gone(error):
        return "the last committed state is intact: close the database, and open it again to start a new Spark"
    return "nothing was committed: the last committed state is intact; Spark's log says more"


@lru_cache(maxsize=16)
def _copies(pickled: bytes, count: int) -> tuple[StagePlan, ...]:
    return tuple(cloudpickle.loads(pickled) for _ in range(count))


def _plan(pickled: bytes) -> StagePlan:
    return _copies(pickled, 1)[0]


def _run_here(plan: bytes, threads: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass  # the one row only calls for the work
    if (wanted := int(os.environ.get(_NICE, 0))) > (nice := os.nice(0)):
        os.nice(wanted - nice)
    context = TaskContext.get()
    packed = context.getLocalProperty(_WORK) if context else None
    if packed is None:
        raise AssertionError("a task without work")
    work, store = cloudpickle.loads(zlib.decompress(base64.b64decode(packed)))

    def outcomes() -> Iterator[Sealed]:
        # A trace says at which step a process was: it is at one.
        if threads > 1 and work.arriving >= WORTH_THREADS and not work.trace:
            done = run_side_by_side(_copies(plan, threads), work, store)
        else:
            done = run_here(_plan(plan), work, 1, store)
        for outcome in done:
            yield envelopes.seal_outcome(outcome, 0)

    yield from envelopes.to_arrow(envelopes.guarded(outcomes()))


def _run_first(
    pickled: bytes, payload: bytes, tasks: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    plan, (work, store) = _plan(pickled), cloudpickle.loads(payload)
    for task in [number for batch in batches for number in batch.column(0).to_pylist()]:
        yield from envelopes.to_arrow(envelopes.guarded(_first(plan, work, task, tasks, store)))
        if task == 0:
            yield from envelopes.to_arrow(envelopes.call(shard) for shard in range(plan.shards))


def _first(plan: StagePlan, work: EpochWork, task: int, tasks: int, store: Store) -> Iterator[Sealed]:
    with store.file(f"e{work.epoch}-t{task}") as writer:
        received, taken = take_in(plan, work, task, tasks, store, writer)
        sent, outcome = run_stage(plan, 0, task, received, work, store, writer)
    yield envelopes.seal_outcome(taken, task)
    yield from _sealed(sent, outcome, task)


def _run_stage(
    pickled: bytes, payload: bytes, number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    plan, (work, store) = _plan(pickled), cloudpickle.loads(payload)
    inboxes: dict[int, list[Sealed]] = {}
    passing: list[Sealed] = []
    for sealed in envelopes.from_arrow(batches):
        if sealed.kind in (EnvelopeKind.OUTCOME, EnvelopeKind.ERROR):
            passing.append(sealed)
        else:
            inboxes.setdefault(sealed.shard, []).append(sealed)
    yield from envelopes.to_arrow([*passing, *(envelopes.call(shard) for shard in inboxes)])
    for shard, inbox in inboxes.items():
        yield from envelopes.to_arrow(envelopes.guarded(_further(plan, number, shard, inbox, work, store)))


def _further(
    plan: StagePlan, number: int, shard: int, inbox: list[Sealed], work: EpochWork, store: Store
) -> Iterator[Sealed]:
    received = [envelopes.unseal(sealed) for sealed in inbox if sealed.kind is not EnvelopeKind.CALL]
    with store.file(f"e{work.epoch}-{number}-s{shard}") as writer:
        sent, outcome = run_stage(plan, number, shard, received, work, store, writer)
    yield from _sealed(sent, outcome, shard)


def _sealed(sent: list[Envelope], outcome: ShardOutcome, shard: int) -> Iterator[Sealed]:
    """What a stage sends, and its outcome, which says how many bytes that was."""
    travelling: Counter[str] = Counter()
    for envelope in sent:
        for sealed in envelopes.seal(envelope):
            travelling[envelope.flow] += len(sealed.content)
            yield sealed
    for flow, (_, load) in outcome.loads.items():
        load.exchanged.bytes = travelling[flow] + travelling[sums_of(flow)]
    yield envelopes.seal_outcome(outcome, shard)
