"""The work of an epoch, as a plain function from segment names to segment names.

A task carries names and operators, never rows, so that it can be sent to any process that sees the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from millstream.errors import EvaluationError
from millstream.kernel.batch import Batch, concat
from millstream.kernel.operator import Segment, State
from millstream.kernel.pipeline import Pipeline, run
from millstream.state.snapshot import Names
from millstream.state.store import Store

StateNames = Mapping[str, Mapping[str, Names]]


@dataclass(frozen=True)
class EpochTask:
    """Push the arrived segments of the sources through the pipeline, from one frontier to the next.

    `shown` are the edges whose rows are kept as results; `empty` gives the columns of sources that say nothing.
    """

    epoch: int
    pipeline: Pipeline
    arrived: Mapping[str, Names]
    empty: Mapping[str, Batch]
    states: StateNames
    before: Mapping[str, int]
    after: Mapping[str, int]
    shown: tuple[str, ...]


@dataclass(frozen=True)
class EpochOutcome:
    """The names that the task wrote: the new states whole, the results as additions."""

    states: StateNames
    results: Mapping[str, Names]
    rows: Mapping[str, int]
    failures: Mapping[str, EvaluationError] = field(default_factory=dict)


def execute(task: EpochTask, store: Store) -> EpochOutcome:
    known: dict[int, str] = {}  # segments that are stored already, by identity

    def load(name: str) -> Segment:
        segment = store.read(name)
        known[id(segment)] = name
        return segment

    states: dict[str, State] = {
        step: {synopsis: tuple(load(name) for name in names) for synopsis, names in synopses.items()}
        for step, synopses in task.states.items()
    }
    arrived = {
        source: concat([store.read(name) for name in task.arrived.get(source, ())], like=like)
        for source, like in task.empty.items()
    }
    outcome = run(task.pipeline, arrived, states, task.before, task.after)

    def keep(prefix: str, segment: pl.DataFrame) -> str:
        return known.get(id(segment)) or store.write(f"e{task.epoch}-{prefix}", segment)

    new_states = {
        step: {synopsis: tuple(keep(step, segment) for segment in segments) for synopsis, segments in state.items()}
        for step, state in outcome.states.items()
    }
    shown = {edge: outcome.batches[edge] for edge in task.shown if edge in outcome.batches}
    results = {edge: (keep(f"result-{edge}", batch),) for edge, batch in shown.items() if batch.height}
    rows = {edge: batch.height for edge, batch in outcome.batches.items()}
    return EpochOutcome(new_states, results, rows, outcome.failures)
