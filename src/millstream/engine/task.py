"""The work of an epoch, as a plain function from segment names to segment names.

A task carries names and operators, never rows, so that it can be sent to any process that sees the store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from millstream.engine.merging import Merge, perform
from millstream.engine.parts import Part, late_key, take, write_history
from millstream.errors import EvaluationError
from millstream.kernel.batch import Batch, concat
from millstream.kernel.operator import Segment, State
from millstream.kernel.pipeline import Pipeline, run
from millstream.state.snapshot import HistoryFile, Names
from millstream.state.store import Store
from millstream.types import Schema

StateNames = Mapping[str, Mapping[str, Names]]


@dataclass(frozen=True)
class EpochTask:
    """Push the arrived parts of the sources through the pipeline, from one frontier to the next.

    `shown` are the edges whose rows are kept as results; `empty` gives the columns of sources that say nothing, and
    `late` the columns of the tables of late elements.
    """

    epoch: int
    pipeline: Pipeline
    arrived: Mapping[str, tuple[Part, ...]]
    empty: Mapping[str, Batch]
    states: StateNames
    before: Mapping[str, int]
    after: Mapping[str, int]
    shown: tuple[str, ...]
    late: Mapping[str, Schema] = field(default_factory=dict)
    merges: tuple[Merge, ...] = ()


@dataclass(frozen=True)
class EpochOutcome:
    """The names that the task wrote: the new states whole, the results and the history as additions; and what it
    counted: rows per edge, late and shed elements per source."""

    states: StateNames = field(default_factory=dict)
    results: Mapping[str, Names] = field(default_factory=dict)
    history: Mapping[str, tuple[HistoryFile, ...]] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    shed: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, EvaluationError] = field(default_factory=dict)
    merged: tuple[Merge, ...] = ()


@dataclass
class Arrived:
    """What the parts of an epoch gave."""

    batches: dict[str, list[Batch]] = field(default_factory=lambda: defaultdict(list))
    history: dict[str, tuple[HistoryFile, ...]] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    shed: dict[str, int] = field(default_factory=dict)


def take_parts(task: EpochTask, store: Store) -> Arrived:
    found = Arrived()
    for source, parts in task.arrived.items():
        for part in parts:
            if source in task.empty or part.file is None:
                _take_part(task, store, source, part, found)
    return found


def _take_part(task: EpochTask, store: Store, source: str, part: Part, found: Arrived) -> None:
    taken = take(part, store, source, task.epoch)
    found.batches[source].append(taken.accepted)
    if taken.file is not None:
        found.history[source] = (*found.history.get(source, ()), taken.file)
    if taken.shed:
        found.shed[source] = found.shed.get(source, 0) + taken.shed
    if taken.late is not None:
        key = late_key(source)
        found.batches[key].append(taken.late)
        found.late[source] = found.late.get(source, 0) + taken.late.height
        file = write_history(store, key, task.epoch, taken.late, task.late[key])
        found.history[key] = (*found.history.get(key, ()), file)


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
    taken = take_parts(task, store)
    arrived = {source: concat(taken.batches[source], like=like) for source, like in task.empty.items()}
    outcome = run(task.pipeline, arrived, states, task.before, task.after)
    with store.file(f"e{task.epoch}") as writer:

        def keep(segment: pl.DataFrame) -> str:
            return known.get(id(segment)) or writer.write(segment)

        new_states = {
            step: {synopsis: tuple(keep(segment) for segment in segments) for synopsis, segments in state.items()}
            for step, state in outcome.states.items()
        }
        shown = {edge: outcome.batches[edge] for edge in task.shown if edge in outcome.batches}
        results = {edge: (keep(batch),) for edge, batch in shown.items() if batch.height}
        merged = tuple(perform(merge, store, writer, task.epoch) for merge in task.merges)
    rows = {edge: batch.height for edge, batch in outcome.batches.items()}
    return EpochOutcome(new_states, results, taken.history, rows, taken.late, taken.shed, outcome.failures, merged)
