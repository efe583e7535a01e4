"""Runs an epoch's task as a Spark job.

The task's closure carries segment names and operators, never rows: tasks read and write segments in the store, which
every executor must see. Only names and counts come back to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from millstream.engine.task import EpochOutcome, EpochTask, execute
from millstream.state.store import Store


class SparkRunner:
    """One job of one task per epoch; all queries and edges are in it."""

    def __init__(self, session: SparkSession, store: Store) -> None:
        self.session = session
        self.store = store

    def run(self, task: EpochTask) -> EpochOutcome:
        work = partial(_work, dumps((task, self.store)))
        frame = self.session.range(0, 1, 1, 1).mapInArrow(work, "outcome binary")
        outcome: EpochOutcome = cloudpickle.loads(frame.collect()[0].outcome)
        return outcome

    def close(self) -> None:
        """The session belongs to whoever made it."""


def dumps(value: object) -> bytes:
    """Pickled, users' own functions and classes by value: the workers need not be able to import them."""
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def _work(payload: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass  # the one row only calls for the work
    task, store = cloudpickle.loads(payload)
    outcome = execute(task, store)
    yield pa.RecordBatch.from_arrays([pa.array([dumps(outcome)], pa.binary())], names=["outcome"])
