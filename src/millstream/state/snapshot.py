"""What an epoch commits: the names of all segments, and how far time has come. Immutable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any, TypeVar

Names = tuple[str, ...]
Catalog = tuple[Mapping[str, Any], ...]
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class SparkBatch:
    """The last batch of a Spark source that was taken in."""

    query: str
    batch: int


@dataclass(frozen=True)
class SourceProgress:
    """A stream or table: how far it is final, how many rows it was offered, its last change, its last Spark batch, the
    last instant of which elements may have been shed, and the instant before which its history counts as gone (0 where
    nothing is); of files, how many were passed over, and in how many which column was missing or extra. Of a table of
    what could not be taken, up to which instants it has what windows leave out, by what these go by."""

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
    noted: Mapping[str, int] = field(default_factory=dict)


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
    `start`. Of a template, `spans` say from which instants on it is told of which queries."""

    until: int = -1
    deliveries: int = 0
    offered: int = -1
    start: int = -1
    spans: tuple[tuple[str, int, int, int], ...] = ()  # part, numbers from .. to - 1, instant


@dataclass(frozen=True)
class KeyedInsert:
    """An insert that had a key: which rows it had, as a digest, when it came, and what it was answered."""

    key: str
    digest: str
    at: float  # seconds since 1970
    accepted: int
    late: int


@dataclass(frozen=True)
class QueryTable:
    """The queries of a group, as rows: those that were admitted, those that wait to be, and those that have failed; and
    those that are equal to one of them, which operators do not see. The rows of a segment have their parameters in
    common types, and each says its shape."""

    admitted: Names = ()
    waiting: Names = ()
    failed: Names = ()
    equal: Names = ()

    def names(self) -> Names:
        return (*self.admitted, *self.waiting, *self.failed, *self.equal)


@dataclass(frozen=True)
class RunProgress:
    """How far a run through history is that some edges wait for: from which instant of each stream on it reads, the
    last instants that it has read of each source, and how many elements; what its steps hold, and what it has shown.
    For queries of a group, also which these are, and their rows of the query table."""

    edges: Names
    firsts: Mapping[str, int]
    reached: Mapping[str, int]
    seen: Mapping[str, int]
    rows: int
    states: Mapping[str, Mapping[str, Names]]
    results: Mapping[str, Names]
    tables: Mapping[str, Names]
    queries: tuple[int, ...] = ()

    def names(self) -> Iterator[str]:
        yield from state_names(self.states)
        for found in (self.results, self.tables):
            for names in found.values():
                yield from names


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
    query_tables: Mapping[str, QueryTable] = field(default_factory=dict)  # per step that selects for a group
    backfills: Names = ()  # edges that queries show and whose past is still being worked through
    runs: Mapping[str, RunProgress] = field(default_factory=dict)  # how far that is, by the first edge of each run
    inserts: Mapping[str, tuple[KeyedInsert, ...]] = field(default_factory=dict)  # with keys, by what they go with
    catalog: Catalog = ()  # what was declared, in order; opaque here

    def progress(self, source: str) -> SourceProgress:
        return self.sources.get(source, SourceProgress())

    def names(self) -> Iterator[str]:
        """Everything that the snapshot needs from the store."""
        for files in self.history.values():
            yield from (file.name for file in files)
        yield from state_names(self.states)
        for names in self.results.values():
            yield from names
        for table in self.query_tables.values():
            yield from table.names()
        for run in self.runs.values():
            yield from run.names()

    def query_table(self, selection: str) -> QueryTable:
        return self.query_tables.get(selection, QueryTable())

    # Snapshots that differ from this one in one thing

    def with_catalog(self, catalog: Catalog | None) -> Snapshot:
        """Declaring something else; the same where that is None."""
        return self if catalog is None else replace(self, catalog=catalog)

    def with_next_epoch(self, clock: int = -1) -> Snapshot:
        """One epoch further; the clock never goes back."""
        return replace(self, epoch=self.epoch + 1, clock=max(clock, self.clock))

    def with_progress(self, progress: Mapping[str, SourceProgress]) -> Snapshot:
        """Some sources have come further."""
        return replace(self, sources={**self.sources, **progress}) if progress else self

    def with_history(self, added: Mapping[str, tuple[HistoryFile, ...]]) -> Snapshot:
        """More accepted rows, after those that are there."""
        return replace(self, history=_appended(self.history, added))

    def with_history_of(self, history: Mapping[str, tuple[HistoryFile, ...]]) -> Snapshot:
        """Other files in place of those of some sources."""
        return replace(self, history={**self.history, **history})

    def without_sources(self, sources: Collection[str]) -> Snapshot:
        """Nothing is known of some sources any more."""
        return replace(self, sources=_without(self.sources, sources), history=_without(self.history, sources))

    def with_states(self, states: Mapping[str, Mapping[str, Names]]) -> Snapshot:
        """Some steps hold what is given, and nothing else."""
        return replace(self, states={**self.states, **states})

    def without_states(self, steps: Collection[str]) -> Snapshot:
        """Some steps hold nothing."""
        return replace(self, states=_without(self.states, steps))

    def with_results(self, added: Mapping[str, Names]) -> Snapshot:
        """More results, after those that edges have shown."""
        return replace(self, results=_appended(self.results, added))

    def with_results_of(self, results: Mapping[str, Names]) -> Snapshot:
        """Other results in place of those of some edges."""
        return replace(self, results={**self.results, **results})

    def without_results(self, edges: Collection[str]) -> Snapshot:
        """Some edges show nothing."""
        return replace(self, results=_without(self.results, edges))

    def with_failures(self, failures: Mapping[str, Mapping[str, str]]) -> Snapshot:
        return replace(self, failures={**self.failures, **failures}) if failures else self

    def without_failures(self, steps: Collection[str]) -> Snapshot:
        return replace(self, failures=_without(self.failures, steps))

    def with_inserts(self, inserts: Mapping[str, tuple[KeyedInsert, ...]] | None) -> Snapshot:
        """With other keys of inserts, or with those that there are."""
        return self if inserts is None else replace(self, inserts=inserts)

    def with_sink(self, sink: str, cursor: SinkCursor) -> Snapshot:
        return replace(self, sinks={**self.sinks, sink: cursor})

    def without_sink(self, sink: str) -> Snapshot:
        return replace(self, sinks=_without(self.sinks, (sink,)))

    def with_number_of_queries(self, numbers: Mapping[str, int]) -> Snapshot:
        """Some groups have had so many queries."""
        return replace(self, queries={**self.queries, **numbers})

    def with_query_tables(self, tables: Mapping[str, QueryTable]) -> Snapshot:
        """Other query tables in place of those of some selections."""
        found = {**self.query_tables, **tables}
        return replace(self, query_tables={step: table for step, table in found.items() if table.names()})

    def with_backfills(self, edges: Collection[str]) -> Snapshot:
        """The past of edges is still to be worked through."""
        return replace(self, backfills=(*self.backfills, *edges))

    def without_backfills(self, edges: Collection[str]) -> Snapshot:
        return replace(self, backfills=tuple(edge for edge in self.backfills if edge not in edges))

    def with_run(self, run: RunProgress) -> Snapshot:
        """A run through history has come so far."""
        return replace(self, runs={**self.without_runs(run.edges).runs, run.edges[0]: run})

    def without_runs(self, edges: Collection[str]) -> Snapshot:
        """Nobody goes on with the runs that are for one of these edges."""
        gone = [key for key, run in self.runs.items() if not {*edges}.isdisjoint(run.edges)]
        return replace(self, runs=_without(self.runs, gone)) if gone else self

    def without_edges(self, edges: Collection[str], steps: Collection[str]) -> Snapshot:
        """Nobody shows some edges any more, nor needs some steps."""
        failed = [key for key in self.failures if key.partition("#")[0] in steps]
        found = self.without_states(steps).without_results(edges).without_failures(failed)
        backfills = tuple(edge for edge in self.backfills if edge not in edges)
        waiting = {*backfills, *(edge for run in self.runs.values() if run.queries for edge in run.edges)} - {*edges}
        return replace(
            found,
            queries=_without(self.queries, edges),
            query_tables=_without(self.query_tables, steps),
            backfills=backfills,
            runs={key: run for key, run in self.runs.items() if not waiting.isdisjoint(run.edges)},
        )

    def only(self, shown: Collection[str], needed: Collection[str]) -> Snapshot:
        """With what is kept for the edges that are shown, which need some steps. What stopped a query of a group is
        told under the name of the group's step, and a number."""
        return replace(
            self,
            states=_only(self.states, needed),
            results=_only(self.results, shown),
            failures={step: error for step, error in self.failures.items() if step.partition("#")[0] in needed},
            queries=_only(self.queries, shown),
            query_tables=_only(self.query_tables, needed),
            backfills=tuple(edge for edge in self.backfills if edge in shown),
            runs={key: run for key, run in self.runs.items() if not {*run.edges}.isdisjoint(shown)},
        )


def _appended(
    found: Mapping[str, tuple[_Value, ...]], more: Mapping[str, tuple[_Value, ...]]
) -> dict[str, tuple[_Value, ...]]:
    return {**found, **{key: found.get(key, ()) + added for key, added in more.items() if added}}


def _only(found: Mapping[str, _Value], keys: Collection[str]) -> dict[str, _Value]:
    return {key: value for key, value in found.items() if key in keys}


def _without(found: Mapping[str, _Value], keys: Collection[str]) -> Mapping[str, _Value]:
    gone = [key for key in keys if key in found]
    if not gone:
        return found
    kept = dict(found)
    for key in gone:
        del kept[key]
    return kept


def state_names(states: Mapping[str, Mapping[str, Names]]) -> Iterator[str]:
    for synopses in states.values():
        for names in synopses.values():
            yield from names


def _as_it_is(value: object) -> object:
    return value


# What a snapshot says in JSON: single values, and by section what each value of a mapping is. Without the catalog,
# which is kept apart since it changes seldom; nothing is copied that JSON takes as it is.
SINGLE = ("epoch", "clock", "backfills")
SECTIONS: Mapping[str, Callable[[Any], object]] = {
    "sources": asdict,
    "history": lambda files: [asdict(file) for file in files],
    "states": _as_it_is,
    "results": _as_it_is,
    "failures": _as_it_is,
    "sinks": asdict,
    "queries": _as_it_is,
    "query_tables": lambda table: _table_entry(table),
    "runs": asdict,
    "inserts": lambda inserts: [astuple(insert) for insert in inserts],
}


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    sections = {
        name: {key: plain(value) for key, value in getattr(snapshot, name).items()} for name, plain in SECTIONS.items()
    }
    return {name: getattr(snapshot, name) for name in SINGLE} | sections


def from_json(content: Mapping[str, Any], catalog: Catalog) -> Snapshot:
    return Snapshot(
        epoch=content["epoch"],
        clock=content["clock"],
        backfills=tuple(content.get("backfills", ())),
        catalog=catalog,
        **{name: section_from_json(name, content.get(name, {})) for name in SECTIONS},
    )


def section_from_json(name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _READ[name](value) for key, value in content.items()}


def _names(found: Mapping[str, Collection[str]]) -> dict[str, Names]:
    return {key: tuple(names) for key, names in found.items()}


def _states(found: Mapping[str, Mapping[str, Collection[str]]]) -> dict[str, dict[str, Names]]:
    return {step: _names(synopses) for step, synopses in found.items()}


def _run(entry: Mapping[str, Any]) -> RunProgress:
    content = {name: _names(entry[name]) for name in ("results", "tables")} | {"states": _states(entry["states"])}
    return RunProgress(**{**entry, **content, "edges": tuple(entry["edges"]), "queries": tuple(entry["queries"])})


def _progress(entry: Mapping[str, Any]) -> SourceProgress:
    batch = entry["batch"]
    return SourceProgress(**{**entry, "batch": None if batch is None else SparkBatch(**batch)})


def _sink_cursor(entry: Mapping[str, Any]) -> SinkCursor:
    spans = ((part, first, past, start) for part, first, past, start in entry.get("spans", ()))
    return SinkCursor(**{**entry, "spans": tuple(spans)})


def _table_entry(table: QueryTable) -> dict[str, Names]:
    equal = {"equal": table.equal} if table.equal else {}
    return {"admitted": table.admitted, "waiting": table.waiting, "failed": table.failed, **equal}


def _query_table(entry: Mapping[str, Any]) -> QueryTable:
    return QueryTable(**{kind: tuple(names) for kind, names in entry.items()})


def _history_file(entry: Mapping[str, Any]) -> HistoryFile:
    raw = entry["as_it_came"]
    return HistoryFile(**{**entry, "as_it_came": None if raw is None else AsItCame(**raw)})


_READ: Mapping[str, Callable[[Any], Any]] = {
    "sources": _progress,
    "history": lambda files: tuple(map(_history_file, files)),
    "states": lambda synopses: _names(synopses),
    "results": tuple,
    "failures": _as_it_is,
    "sinks": _sink_cursor,
    "queries": _as_it_is,
    "query_tables": _query_table,
    "runs": _run,
    "inserts": lambda inserts: tuple(KeyedInsert(*insert) for insert in inserts),
}
