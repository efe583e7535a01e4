"""Runs an epoch as a Spark job: one job for all queries and edges, with one shuffle per stage but the first.

The job's closures carry segment names and operators, never rows: tasks read and write segments in the store, which
every executor must see. Only names and counts come back to the driver. An epoch of few rows is one task that runs all
stages on all shards, since what a shuffle costs is not worth it; the answers are the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from millstream.engine.exchange import Envelope
from millstream.engine.stages import Planner, StagePlan
from millstream.engine.task import (
    EpochOutcome,
    EpochTask,
    EpochWork,
    arrivals,
    prepare,
    run_here,
    run_stage,
    settle,
)
from millstream.spark import envelopes
from millstream.spark.envelopes import Kind, Sealed
from millstream.state.store import DirectoryStore, Store

SMALL_EPOCH = 50_000  # rows; below, one task does it all


class SparkRunner:
    """One job per epoch; all queries and edges are in it."""

    def __init__(
        self,
        session: SparkSession,
        directory: Path,
        *,
        shards: int | None = None,
        small_epoch: int = SMALL_EPOCH,
    ) -> None:
        self.session = session
        self.store: Store = DirectoryStore(directory)
        self.small_epoch = small_epoch
        self._planner = Planner(shards or os.cpu_count() or 1)

    def run(self, task: EpochTask) -> EpochOutcome:
        plan, work = prepare(task, self._planner)
        small = task.arriving < self.small_epoch
        frame = self._one_task(plan, work) if small else self._all_stages(plan, work)
        outcomes = [cloudpickle.loads(row.content) for row in frame.collect() if row.kind == Kind.OUTCOME.value]
        return settle(plan, work, outcomes, self.store)

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


def _run_here(payload: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass  # the one row only calls for the work
    plan, work, store = cloudpickle.loads(payload)
    outcomes = run_here(plan, work, 1, store, store)
    yield from envelopes.to_arrow(envelopes.seal_outcome(outcome, 0) for outcome in outcomes)


def _run_first(payload: bytes, tasks: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    plan, work, store = cloudpickle.loads(payload)
    for task in [number for batch in batches for number in batch.column(0).to_pylist()]:
        received = arrivals(work, task, tasks, store)
        yield from envelopes.to_arrow(_run(plan, 0, task, received, work, store))
        if task == 0:
            yield from envelopes.to_arrow(envelopes.call(shard) for shard in range(plan.shards))


def _run_stage(payload: bytes, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    plan, work, store = cloudpickle.loads(payload)
    inboxes: dict[int, list[Sealed]] = {}
    for sealed in envelopes.from_arrow(batches):
        if sealed.kind is Kind.OUTCOME:
            yield from envelopes.to_arrow([sealed])
        else:
            inboxes.setdefault(sealed.shard, []).append(sealed)
    for shard, inbox in inboxes.items():
        received = [envelopes.unseal(sealed) for sealed in inbox if sealed.kind is not Kind.CALL]
        yield from envelopes.to_arrow(_run(plan, number, shard, received, work, store))
        yield from envelopes.to_arrow([envelopes.call(shard)])


def _run(
    plan: StagePlan, number: int, shard: int, received: list[Envelope], work: EpochWork, store: Store
) -> Iterator[Sealed]:
    sent, outcome = run_stage(plan, number, shard, received, work, store, store)
    for envelope in sent:
        yield from envelopes.seal(envelope)
    yield envelopes.seal_outcome(outcome, shard)
