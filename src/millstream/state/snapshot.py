"""What an epoch commits: the names of all segments, and how far time has come. Immutable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Names = tuple[str, ...]


@dataclass(frozen=True)
class SparkBatch:
    """The last batch of a Spark source that was taken in."""

    query: str
    batch: int


@dataclass(frozen=True)
class SourceProgress:
    """A stream or table: how far it is final, how many rows it was offered, its last change, its last Spark batch, the
    last instant of which elements may have been shed, and the instant before which its history counts as gone (0 where
    nothing is); of files, how many were passed over, and in how many which column was missing or extra."""

    heartbeat: int = -1
    arrived: int = 0
    late: int = 0
    last_change: int = -1
    malformed: int = 0
    shed: int = 0
    batch: SparkBatch | None = None
    shed_until: int = -1
    cut: int = 0
    skipped_files: int = 0
    drift: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class AsItCame:
    """What a Parquet file of a user's does not say itself: the number of its first element, and which column has the
    timestamps, in how many microseconds a tick (None where they are ticks)."""

    arrival: int
    timestamp: str
    tick: int | None


@dataclass(frozen=True)
class HistoryFile:
    """Accepted rows of a source: the file, how many there are, their first and last instants, and the bytes that they
    take in memory (0 where that was not written down)."""

    name: str
    rows: int
    first: int
    last: int
    as_it_came: AsItCame | None = None
    bytes: int = 0


@dataclass(frozen=True)
class SinkCursor:
    """How far a sink has been served: the last instant, and how many deliveries that took. `offered` beyond it is the
    last instant of the delivery under way, fixed before it is first tried. The first one begins with all that holds at
    `start`."""

    until: int = -1
    deliveries: int = 0
    offered: int = -1
    start: int = -1


@dataclass(frozen=True)
class Snapshot:
    """The committed state after an epoch. A reader that holds one sees exactly that prefix of all inputs."""

    epoch: int = 0
    clock: int = -1
    sources: Mapping[str, SourceProgress] = field(default_factory=dict)
    history: Mapping[str, tuple[HistoryFile, ...]] = field(default_factory=dict)  # per source: its accepted rows
    states: Mapping[str, Mapping[str, Names]] = field(default_factory=dict)  # per step and synopsis
    results: Mapping[str, Names] = field(default_factory=dict)  # per edge that a query shows
    failures: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # per step: what stopped it
    sinks: Mapping[str, SinkCursor] = field(default_factory=dict)
    queries: Mapping[str, int] = field(default_factory=dict)  # per group: how many queries it has ever had
    backfills: Names = ()  # edges that queries show and whose past is still being worked through
    catalog: tuple[Mapping[str, Any], ...] = ()  # what was declared, in order; opaque here

    def progress(self, source: str) -> SourceProgress:
        return self.sources.get(source, SourceProgress())

    def names(self) -> Iterator[str]:
        """Everything that the snapshot needs from the store."""
        for files in self.history.values():
            yield from (file.name for file in files)
        yield from state_names(self.states)
        for names in self.results.values():
            yield from names


def state_names(states: Mapping[str, Mapping[str, Names]]) -> Iterator[str]:
    for synopses in states.values():
        for names in synopses.values():
            yield from names


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Without the catalog, which is kept apart since it changes seldom; nothing is copied that JSON takes as it is."""
    return {
        "epoch": snapshot.epoch,
        "clock": snapshot.clock,
        "sources": {name: asdict(progress) for name, progress in snapshot.sources.items()},
        "history": {name: [asdict(file) for file in files] for name, files in snapshot.history.items()},
        "states": snapshot.states,
        "results": snapshot.results,
        "failures": snapshot.failures,
        "sinks": {name: asdict(cursor) for name, cursor in snapshot.sinks.items()},
        "queries": snapshot.queries,
        "backfills": snapshot.backfills,
    }


def from_json(content: Mapping[str, Any], catalog: tuple[Mapping[str, Any], ...]) -> Snapshot:
    return Snapshot(
        epoch=content["epoch"],
        clock=content["clock"],
        sources={name: _progress(entry) for name, entry in content["sources"].items()},
        history={name: tuple(map(_history_file, files)) for name, files in content["history"].items()},
        states={
            step: {synopsis: tuple(names) for synopsis, names in synopses.items()}
            for step, synopses in content["states"].items()
        },
        results={edge: tuple(names) for edge, names in content["results"].items()},
        failures=content["failures"],
        sinks={name: SinkCursor(**cursor) for name, cursor in content["sinks"].items()},
        queries=content["queries"],
        backfills=tuple(content.get("backfills", ())),
        catalog=catalog,
    )


def _progress(entry: Mapping[str, Any]) -> SourceProgress:
    batch = entry["batch"]
    return SourceProgress(**{**entry, "batch": None if batch is None else SparkBatch(**batch)})


def _history_file(entry: Mapping[str, Any]) -> HistoryFile:
    raw = entry["as_it_came"]
    return HistoryFile(**{**entry, "as_it_came": None if raw is None else AsItCame(**raw)})
