"""What operators did and hold: for EXPLAIN ANALYZE and statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from millstream.engine.commits import Commits
from millstream.engine.epochs.exchange import Skew
from millstream.engine.epochs.task import EpochOutcome
from millstream.engine.shared_plan import SharedPlan
from millstream.kernel.just_in_time.tally import COUNTS, Tally
from millstream.kernel.pipeline import Pipeline
from millstream.state.pool import PROCESSES, PoolUse
from millstream.state.snapshot import Names, state_names
from millstream.state.store import Store

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class OperatorReport:
    """One operator since the database was opened: rows given, seconds spent on all shards, bytes of state held now and
    of memory taken in the last epoch, and how many queries share it."""

    name: str
    inputs: tuple[str, ...]
    rows: int
    seconds: float
    state: int
    memory: int
    queries: int
    counts: Mapping[str, int] = field(default_factory=dict)  # what else an operator counts, by name

    @property
    def share(self) -> float:
        """The seconds that one of the queries has to answer for."""
        return self.seconds / max(self.queries, 1)


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


class Reports:
    """What has been done since the database was opened."""

    def __init__(self, commits: Commits, plan: SharedPlan) -> None:
        self._commits, self._plan = commits, plan
        self._rows: Counter[str] = Counter()  # per step
        self._seconds: dict[str, float] = {}
        self._memory = MemoryReport()
        self.skew: dict[str, Skew] = {}  # per edge: the last epoch that was skewed

    def count(self, outcome: EpochOutcome) -> None:
        """An epoch was committed."""
        self._rows.update(outcome.rows)
        self._memory.count(outcome.memory, outcome.pools)
        self.skew.update({skew.edge: skew for skew in outcome.skew})
        for step, spent in outcome.seconds.items():
            self._seconds[step] = self._seconds.get(step, 0.0) + spent

    def operators(self, edge: str) -> list[OperatorReport]:
        """What the operators of an edge did and hold."""
        with self._commits.lock:
            done = self._rows, self._seconds, self._memory.operators, self._commits.snapshot.states
            return report(self._plan.pipeline, edge, *done, self._plan.shown, self._commits.store)

    def state_bytes(self) -> dict[str, int]:
        """What each step holds."""
        return self._commits.read(lambda snapshot: bytes_by_step(snapshot.states, self._commits.store))

    def memory(self) -> dict[str, Any]:
        """What operators took from the pools, and the pools: this process', and those of the tasks."""
        with self._commits.lock:
            steps = [step.name for step in self._plan.pipeline.steps]
            return self._memory.shown(self._commits.store.pool.use, steps)


def report(
    pipeline: Pipeline,
    edge: str,
    rows: Mapping[str, int],
    seconds: Mapping[str, float],
    memory: Mapping[str, int],
    states: Mapping[str, Mapping[str, Names]],
    shown: Mapping[str, int],
    store: Store,
) -> list[OperatorReport]:
    """The operators that an edge is made by, sources first."""
    below = pipeline.edges_below(edge)
    users = {other: pipeline.edges_below(other) for other in shown}
    found = []
    for step in pipeline.steps:
        if step.name in below:
            held = bytes_of(states.get(step.name, {}), store)
            queries = sum(count for other, count in shown.items() if step.name in users[other])
            spent = seconds.get(step.name, 0.0)
            given, used = rows.get(step.name, 0), memory.get(step.name, 0)
            counts = counts_of(states.get(step.name, {}), store)
            found.append(OperatorReport(step.name, step.read, given, spent, held, used, queries, counts))
    return found


def counts_of(synopses: Mapping[str, Names], store: Store) -> dict[str, int]:
    """What a step that holds rows back has counted, on all shards."""
    total: Counter[str] = Counter()
    for synopsis, names in synopses.items():
        if synopsis.endswith(f"/{COUNTS}"):
            total.update(Tally.of([store.read(name) for name in names]).shown())
    return dict(total)


def bytes_of(synopses: Mapping[str, Names], store: Store) -> int:
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
    header = ("operator", "rows", "seconds", "share", "state", "memory", "queries")
    lines = [
        (
            r.name,
            f"{r.rows:,}",
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
    return "\n".join([*table, *counted])


def _padded(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column else cell.ljust(width)


def shown_bytes(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"
