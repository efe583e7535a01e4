"""What operators did and hold: for EXPLAIN ANALYZE and statistics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.epochs.exchange import Exchanged, Skew
from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.task import EpochOutcome, EpochTask
from millstream.engine.measures import Measure, Measures
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sharers import Sharers
from millstream.kernel.just_in_time.tally import COUNTS, Tally
from millstream.kernel.pipeline import Pipeline
from millstream.state.pool import PROCESSES, PoolUse
from millstream.state.snapshot import Names, Snapshot, SourceProgress, state_names
from millstream.state.store import Store

_FEW = 1_000  # steps that are no more, of which something may be remembered
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class OperatorReport:
    """One operator since the database was opened: rows taken and given, seconds spent on all shards, rows that left its
    state, bytes of state held now and of memory taken in the last epoch, how many queries share it, and what came from
    other shards."""

    name: str
    inputs: tuple[str, ...]
    rows_in: int
    rows: int
    seconds: float
    expired: int
    state: int
    memory: int
    queries: int
    counts: Mapping[str, int] = field(default_factory=dict)  # what else an operator counts, by name
    exchanged: Exchanged = field(default_factory=Exchanged)

    @property
    def share(self) -> float:
        """The seconds that one of the queries has to answer for."""
        return self.seconds / max(self.queries, 1)

    @property
    def selectivity(self) -> float | None:
        """Rows given for each row taken; None where none came."""
        return self.rows / self.rows_in if self.rows_in else None


@dataclass
class MemoryReport:
    """The bytes that each operator took from the pools when it last ran, on all shards, and the pools themselves."""

    operators: dict[str, int] = field(default_factory=dict)
    pools: dict[str, PoolUse] = field(default_factory=dict)

    def count(self, used: Mapping[str, int], pools: Sequence[PoolUse]) -> None:
        self.operators.update(used)
        for pool in pools:
            self.pools.pop(pool.process, None)
            self.pools[pool.process] = pool
        # Workers come and go; those that were not heard of for the longest time are gone.
        for process in [*self.pools][:-PROCESSES]:
            del self.pools[process]

    def shown(self, here: PoolUse, steps: Iterable[str]) -> dict[str, Any]:
        """For people: with the pool of this process, and without operators that are no more."""
        pools = {**self.pools, here.process: here}
        return {
            "budget": here.budget * PROCESSES,
            "pools": [asdict(pool) for pool in pools.values()],
            "operators": {step: self.operators[step] for step in steps if step in self.operators},
        }


class Phases:
    """How long each part of a piece of work took, one after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begun = self._last = time.perf_counter()

    def end(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase], self._last = now - self._last, now

    @property
    def total(self) -> float:
        return self._last - self._begun


@dataclass(frozen=True, eq=False)
class EpochReport:
    """An epoch that was committed: what there was before and after it, what it had to do and what came of it."""

    before: Snapshot
    after: Snapshot
    task: EpochTask
    outcome: EpochOutcome
    progress: Mapping[str, SourceProgress]  # of the sources that have moved
    phases: Phases


class Reports:
    """What has been done since the database was opened."""

    def __init__(self, commits: Commits, plan: SharedPlan) -> None:
        self._commits, self._plan = commits, plan
        self.measures = Measures()
        self._memory = MemoryReport()
        self.epochs: Counter[str] = Counter()  # by who ran them
        self.tasks = 0  # of Spark, for epochs
        # By source that is being read: the rows that it has and that were not taken in yet, where it tells.
        self.behind: Mapping[str, int] = {}
        self.skew: dict[str, Skew] = {}  # per edge: the last epoch that was skewed

    def count(self, outcome: EpochOutcome, parts: Mapping[str, Sequence[Part]]) -> None:
        """An epoch was committed that these parts of sources came with."""
        self.epochs[outcome.ran_as] += 1
        self.tasks += outcome.tasks
        self._memory.count(outcome.memory, outcome.pools)
        self.skew.update({skew.edge: skew for skew in outcome.skew})
        if outcome.seconds or parts:
            count(self.measures, self._plan.pipeline, outcome, parts)
        if len(self.measures) > 2 * len(self._plan) + _FEW:
            self.measures.forget({*self._plan.names(), *self._plan.pipeline.sources})

    def operators(self, *edges: str) -> list[OperatorReport]:
        """What the operators of edges did and hold."""
        with self._commits.lock:
            states, shown = self._commits.snapshot.states, self._plan.shown
            done = self.measures, self._memory.operators, states
            return report(self._plan.pipeline, edges, *done, shown, self._commits.store)

    def shown_epochs(self) -> str:
        """Who ran the epochs: for people."""
        jobs = ", ".join(f"{times:,} {name}" for name, times in sorted(self.epochs.items()))
        return f"epochs: {jobs}; {self.tasks:,} tasks" if self.tasks else f"epochs: {jobs}" if jobs else ""

    def memory_of(self, step: str) -> int:
        """The bytes that a step took from the pools when it last ran."""
        return self._memory.operators.get(step, 0)

    def state_bytes(self) -> dict[str, int]:
        """What each step holds."""
        return self._commits.read(lambda snapshot: bytes_by_step(snapshot.states, self._commits.store))

    def memory(self) -> dict[str, Any]:
        """What operators took from the pools, and the pools: this process', and those of the tasks."""
        with self._commits.lock:
            steps = [step.name for step in self._plan.pipeline.steps]
            return self._memory.shown(self._commits.store.pool.use, steps)


class FrameStore(Protocol):
    """Where a run has put what it made."""

    def read(self, name: str) -> pl.DataFrame: ...

    def size(self, name: str) -> int: ...


def report(
    pipeline: Pipeline,
    edges: Sequence[str],
    measures: Measures,
    memory: Mapping[str, int],
    states: Mapping[str, Mapping[str, Names]],
    shown: Mapping[str, int],
    store: FrameStore,
) -> list[OperatorReport]:
    """The operators that edges are made by, sources first."""
    below, sharers, found = pipeline.edges_below(*edges), Sharers(pipeline.steps, shown), []
    for step in (step for step in pipeline.steps if step.name in below):
        held, counts = bytes_of(states.get(step.name, {}), store), counts_of(states.get(step.name, {}), store)
        done, used = measures.get(step.name) or Measure(), memory.get(step.name, 0)
        counted = done.rows_in, done.rows_out, done.seconds, done.expired
        shared = sharers.count([step.name]), counts, replace(done.exchanged)
        found.append(OperatorReport(step.name, step.read, *counted, held, used, *shared))
    return found


def count(measures: Measures, pipeline: Pipeline, outcome: EpochOutcome, parts: Mapping[str, Sequence[Part]]) -> None:
    """What an epoch did; of elements that were still to be judged, those count that were accepted."""
    lost = Counter(outcome.late)
    lost.update(outcome.shed)
    arrived = {source: sum(part.rows for part in found) - lost[source] for source, found in parts.items() if found}
    steps = pipeline.by_name
    measures.count(lambda name: steps[name].read if name in steps else (), arrived, outcome)


def counts_of(synopses: Mapping[str, Names], store: FrameStore) -> dict[str, int]:
    """What a step that holds rows back has counted, on all shards."""
    total: Counter[str] = Counter()
    for synopsis, names in synopses.items():
        if synopsis.endswith(f"/{COUNTS}"):
            kept = [segment for name in names if Tally.is_of(segment := store.read(name))]
            total.update(Tally.of(kept).shown() if kept else {})
    return dict(total)


def bytes_of(synopses: Mapping[str, Names], store: FrameStore) -> int:
    """What a step holds."""
    return sum(store.size(name) for names in synopses.values() for name in names)


def bytes_by_step(states: Mapping[str, Mapping[str, Names]], store: Store) -> dict[str, int]:
    """What each step holds; of what several steps hold, each an equal part."""
    holders = Counter(name for synopses in states.values() for name in {*state_names({"": synopses})})
    return {
        step: sum(store.size(name) // holders[name] for name in {*state_names({"": synopses})})
        for step, synopses in states.items()
    }


def as_text(reports: Sequence[OperatorReport]) -> str:
    """A table of operators, the result last; below it what some of them count."""
    header = (
        *("operator", "rows in", "rows out", "selectivity", "expired"),
        *("seconds", "share", "state", "memory", "queries"),
    )
    lines = [
        (
            r.name,
            f"{r.rows_in:,}",
            f"{r.rows:,}",
            "" if r.selectivity is None else f"{r.selectivity:.3g}",
            f"{r.expired:,}",
            f"{r.seconds:.3f}",
            f"{r.share:.3f}",
            shown_bytes(r.state),
            shown_bytes(r.memory),
            str(r.queries),
        )
        for r in reports
    ]
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]
    table = ["  ".join(map(_padded, line, widths, range(len(line)))) for line in (header, *lines)]
    counted = [f"{r.name}: {', '.join(f'{name} {n:,}' for name, n in r.counts.items())}" for r in reports if r.counts]
    sent = [f"{r.name}: {_exchanged(r.exchanged)}" for r in reports if r.exchanged.rows]
    return "\n".join([*table, *_own_share(reports), *counted, *sent])


def _exchanged(found: Exchanged) -> str:
    """What a step was sent, for people."""
    together = f" as {found.sent:,}" if found.sent < found.rows else ""
    return f"{found.rows:,} rows came from other shards{together}, {found.bytes / found.rows:.3g} bytes each"


def _own_share(reports: Sequence[OperatorReport]) -> list[str]:
    """What one query has to answer for of the work that it shares."""
    spent, own = sum(r.seconds for r in reports), sum(r.share for r in reports)
    return [f"share of the work: {own:.3f} of {spent:.3f} seconds ({own / spent:.1%})"] if spent else []


def _padded(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column else cell.ljust(width)


def shown_bytes(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"
