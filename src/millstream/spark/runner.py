"""Runs an epoch as a Spark job: one job for all queries and edges, with one shuffle per stage but the first.

The job's closures carry segment names and operators, never rows: tasks read and write segments in the store, which
every executor must see. Only names and counts come back to the driver. An epoch of few rows is one task that runs all
stages on all shards, since what a shuffle costs is not worth it; the answers are the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from millstream.engine.exchange import Envelope
from millstream.engine.stages import Planner, StagePlan
from millstream.engine.task import (
    EpochOutcome,
    EpochTask,
    EpochWork,
    ShardOutcome,
    prepare,
    run_here,
    run_stage,
    settle,
    take_in,
)
from millstream.errors import StateError
from millstream.spark import envelopes
from millstream.spark.envelopes import Kind, Sealed
from millstream.state.store import Store

SMALL_EPOCH = 50_000  # rows; below, one task does it all


class SparkRunner:
    """One job per epoch; all queries and edges are in it."""

    def __init__(
        self, session: SparkSession, store: Store, shards: int | None = None, small_epoch: int = SMALL_EPOCH
    ) -> None:
        self.session = session
        self.store = store
        self.small_epoch = small_epoch
        self.planner = Planner(shards or os.cpu_count() or 1)

    def run(self, task: EpochTask) -> EpochOutcome:
        plan, work = prepare(task, self.planner)
        small = task.arriving < self.small_epoch
        frame = self._one_task(plan, work) if small else self._all_stages(plan, work)
        outcomes = []
        for row in _collected(frame):
            if row.kind == Kind.ERROR.value:
                raise cloudpickle.loads(row.content)
            if row.kind == Kind.OUTCOME.value:
                outcomes.append(cloudpickle.loads(row.content))
        return settle(plan, outcomes)

    def _one_task(self, plan: StagePlan, work: EpochWork) -> DataFrame:
        payload = envelopes.dumps((plan, work, self.store))
        return self.session.range(0, 1, 1, 1).mapInArrow(partial(_run_here, payload), envelopes.SCHEMA)

    def _all_stages(self, plan: StagePlan, work: EpochWork) -> DataFrame:
        payload = envelopes.dumps((plan, work, self.store))
        tasks = min(plan.shards, max(1, len(work.arrived)))
        frame = self.session.range(0, tasks, 1, tasks).mapInArrow(partial(_run_first, payload, tasks), envelopes.SCHEMA)
        for number in range(1, len(plan.stages)):
            frame = frame.repartitionById(plan.shards, "shard")
            frame = frame.mapInArrow(partial(_run_stage, payload, number), envelopes.SCHEMA)
        return frame

    def close(self) -> None:
        """The session belongs to whoever made it."""


def _collected(frame: DataFrame) -> list[Row]:
    try:
        return frame.collect()
    except (PySparkException, Py4JError) as error:
        raise StateError(
            "Spark could not run the epoch",
            detail=str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__,
            hint="nothing was committed: the last committed state is intact; Spark's log says more",
        ) from error


def _run_here(payload: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass  # the one row only calls for the work
    plan, work, store = cloudpickle.loads(payload)

    def outcomes() -> Iterator[Sealed]:
        for outcome in run_here(plan, work, 1, store):
            yield envelopes.seal_outcome(outcome, 0)

    yield from envelopes.to_arrow(envelopes.guarded(outcomes()))


def _run_first(payload: bytes, tasks: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    plan, work, store = cloudpickle.loads(payload)
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


def _run_stage(payload: bytes, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    plan, work, store = cloudpickle.loads(payload)
    inboxes: dict[int, list[Sealed]] = {}
    for sealed in envelopes.from_arrow(batches):
        if sealed.kind in (Kind.OUTCOME, Kind.ERROR):
            yield from envelopes.to_arrow([sealed])
        else:
            inboxes.setdefault(sealed.shard, []).append(sealed)
    for shard, inbox in inboxes.items():
        yield from envelopes.to_arrow(envelopes.guarded(_further(plan, number, shard, inbox, work, store)))
        yield from envelopes.to_arrow([envelopes.call(shard)])


def _further(
    plan: StagePlan, number: int, shard: int, inbox: list[Sealed], work: EpochWork, store: Store
) -> Iterator[Sealed]:
    received = [envelopes.unseal(sealed) for sealed in inbox if sealed.kind is not Kind.CALL]
    with store.file(f"e{work.epoch}-{number}-s{shard}") as writer:
        sent, outcome = run_stage(plan, number, shard, received, work, store, writer)
    yield from _sealed(sent, outcome, shard)


def _sealed(sent: list[Envelope], outcome: ShardOutcome, shard: int) -> Iterator[Sealed]:
    for envelope in sent:
        yield from envelopes.seal(envelope)
    yield envelopes.seal_outcome(outcome, shard)
