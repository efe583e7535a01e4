"""The jobs that run an epoch's stages, and what their tasks do in Spark's Python workers.

Workers live longer than tasks: they remember the plans they unpickled and the segments they mapped.
"""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Iterator
from functools import lru_cache, partial

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from millstream.engine.exchange import Envelope
from millstream.engine.stages import StagePlan
from millstream.engine.task import EpochWork, ShardOutcome, arrivals, run_here, run_stage
from millstream.spark import envelopes
from millstream.spark.envelopes import Kind, Sealed
from millstream.state.cache import CachedStore
from millstream.state.store import Store

_PIECES = 16  # handed to Spark at a time
_WORK = "millstream.work"  # the local property that tells a task of a reused job what is new


def can_tell_tasks() -> bool:
    """Whether properties reach the job that is run next: only where a thread of Python has a thread of the JVM."""
    return os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"


class OneTaskJob:
    """All stages on all shards in one task.

    Spark plans a job anew for every frame, which takes as long as running a small one. So the frame is made once per
    plan, and what changes from epoch to epoch, mere names, comes with the task as a property.
    """

    def __init__(self, session: SparkSession, plan: StagePlan, store: Store) -> None:
        self._context = session.sparkContext
        work = partial(_run_here, envelopes.dumps(plan), envelopes.dumps(store))
        self._frame = session.range(0, 1, 1, 1).mapInArrow(work, envelopes.SCHEMA)

    def run(self, work: EpochWork) -> list[ShardOutcome]:
        packed = base64.b64encode(zlib.compress(envelopes.dumps(work), level=1)).decode()
        self._context.setLocalProperty(_WORK, packed)
        try:
            return _outcomes(self._frame)
        finally:
            self._context.setLocalProperty(_WORK, None)  # type: ignore[arg-type]  # which removes it


def run_shuffled(session: SparkSession, plan: StagePlan, work: EpochWork, store: Store) -> list[ShardOutcome]:
    """Stage 0 as tasks that share what arrived, every further stage as a task per shard.

    Not to be run twice by one frame: Spark would find the shuffled rows of the first time, and use them again.
    """
    payload = envelopes.dumps(plan), envelopes.dumps(work), envelopes.dumps(store)
    tasks = min(plan.shards, max(1, len(work.arrived)))
    frame = session.range(0, tasks, 1, tasks).mapInArrow(partial(_run_first, *payload, tasks), envelopes.SCHEMA)
    for number in range(1, len(plan.stages)):
        frame = frame.repartitionById(plan.shards, "shard")
        frame = frame.mapInArrow(partial(_run_stage, *payload, number), envelopes.SCHEMA)
    return _outcomes(frame)


def _outcomes(frame: DataFrame) -> list[ShardOutcome]:
    return [cloudpickle.loads(row.content) for row in frame.collect() if row.kind == Kind.OUTCOME.value]


@lru_cache(maxsize=16)
def _plan(pickled: bytes) -> StagePlan:
    plan: StagePlan = cloudpickle.loads(pickled)
    return plan


@lru_cache(maxsize=4)
def _store(pickled: bytes) -> CachedStore:
    return CachedStore(cloudpickle.loads(pickled))


def _run_here(plan: bytes, store: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass  # the one row only calls for the work
    context = TaskContext.get()
    packed = context.getLocalProperty(_WORK) if context else None
    if packed is None:
        raise AssertionError("a task without work")
    work: EpochWork = cloudpickle.loads(zlib.decompress(base64.b64decode(packed)))
    outcomes = run_here(_plan(plan), work, 1, _store(store), _store(store))
    yield envelopes.to_arrow([envelopes.seal_outcome(outcome, 0) for outcome in outcomes])


def _run_first(
    plan: bytes, work: bytes, store: bytes, tasks: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    epoch: EpochWork = cloudpickle.loads(work)
    for task in numbers:
        yield from _run(_plan(plan), 0, task, arrivals(epoch, task, tasks, _store(store)), epoch, _store(store))
        if task == 0:
            yield envelopes.to_arrow([envelopes.call(shard) for shard in range(_plan(plan).shards)])


def _run_stage(
    plan: bytes, work: bytes, store: bytes, number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    epoch: EpochWork = cloudpickle.loads(work)
    inboxes: dict[int, list[Envelope]] = {}
    passing: list[Sealed] = []
    for sealed in envelopes.from_arrow(batches):
        if sealed.kind is Kind.OUTCOME:
            passing.append(sealed)
        else:
            inbox = inboxes.setdefault(sealed.shard, [])
            if sealed.kind is not Kind.CALL:
                inbox.append(envelopes.unseal(sealed))
    yield envelopes.to_arrow([*passing, *(envelopes.call(shard) for shard in inboxes)])
    for shard, received in inboxes.items():
        yield from _run(_plan(plan), number, shard, received, epoch, _store(store))


def _run(
    plan: StagePlan, number: int, shard: int, received: list[Envelope], work: EpochWork, store: Store
) -> Iterator[pa.RecordBatch]:
    sent, outcome = run_stage(plan, number, shard, received, work, store, store)
    sealed = [
        *(piece for envelope in sent for piece in envelopes.seal(envelope)),
        envelopes.seal_outcome(outcome, shard),
    ]
    for start in range(0, len(sealed), _PIECES):
        yield envelopes.to_arrow(sealed[start : start + _PIECES])
