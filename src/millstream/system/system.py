"""The system streams of a database: what is noticed goes into them, once somebody reads them.

    epochs, queries, sinks ──noted──▶ recorders ──an epoch of their own, in the background──▶ sys.epochs, ...

As long as nobody reads a system stream, nothing is written. Epochs that bring only system rows are not noticed, nor are
sinks that deliver them: otherwise each would be the cause of the next.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from millstream.catalog.objects import CatalogOfObjects
from millstream.connectors.sinks import Delivery
from millstream.engine.engine import Engine
from millstream.engine.epochs.lateness import admit
from millstream.engine.reports import EpochReport, bytes_of
from millstream.engine.sources import SourceRow
from millstream.errors import ClosedError
from millstream.query import Query
from millstream.state.snapshot import SourceProgress
from millstream.system import routing
from millstream.system.lags import lag_seconds
from millstream.system.recorder import Recorder, Row
from millstream.system.streams import (
    EPOCHS,
    OPERATORS,
    PREFIX,
    QUERIES,
    RETAIN,
    ROUTING,
    SINKS,
    STREAMS,
    SYSTEM_STREAMS,
    is_system,
)

MOST_OPERATORS = 1_000  # of an epoch that are listed: the costliest
_PHASES = ("wait", "admit", "prepare", "run", "commit", "finish")
_PATIENCE = 0.2  # seconds that who only looks waits for an epoch, before it does without the newest
_ROUTING_EVERY = 1.0  # seconds, at least, between two looks at what eddies have learnt,
_ROUTING_REST = 400  # and so many times as long as one takes
_REST = 99  # times as long as a feeding took: with what is noticed in epochs it is less than a fiftieth of all work


class SystemStreams:
    """Notices what happens, and feeds the streams. What is noted is noted under the engine's lock."""

    def __init__(self, engine: Engine, catalog: CatalogOfObjects, now: Callable[[], float] = time.time) -> None:
        self._engine, self._catalog, self._now = engine, catalog, now
        self._recorders = {stream.name: Recorder(stream) for stream in SYSTEM_STREAMS}
        for stream in SYSTEM_STREAMS:
            catalog.add(stream)
            engine.sources.add(stream.name, SourceRow(stream.columns, True, True, stream.retain))
        self._floor = max(engine.snapshot.progress(key).heartbeat for key in self._recorders)
        self._states: dict[str, tuple[str, str]] = {}  # of the queries that do not run: state and error
        self._routed: Mapping[str, tuple[str, ...]] = {}  # per eddy: the segments that are known
        self._routing_rests_until = 0.0
        self._is_read = False
        self._is_coming = False  # is a feeding asked for
        self._coming = threading.Lock()
        self._rests_until = 0.0  # what feeding costs must not be much beside the epochs that it tells of
        self.states: Callable[[], Mapping[str, tuple[str, str]]] = dict
        self.after_feeding: Callable[[], None] = lambda: None

    # What is noticed

    def epoch(self, report: EpochReport) -> None:
        """An epoch was committed."""
        moved = [source for source in report.progress if not is_system(source)]
        if not moved:
            return
        at = self._instant()
        # Whatever waits must not keep alive what the epoch was made of: its row is made now, where that costs little.
        self._note_rows(EPOCHS.name, at, [_epoch_row(report)])
        count = min(len(report.outcome.seconds), MOST_OPERATORS)
        self._note(OPERATORS.name, at, count, _operators(report, self._engine if self._is_read else None))
        declared = (source for source in moved if "." not in source)  # not the tables of their late elements
        self._note_rows(STREAMS.name, at, [self._stream_row(report, name, at) for name in declared])
        self._watch_routing()
        self._ask()

    def queries(self, state: str, queries: Sequence[Query]) -> None:
        """Queries have come or gone."""
        with self._engine.lock:
            rows = [(query.name, state, query.mode, "") for query in queries]
            self._note_rows(QUERIES.name, self._instant(), rows)
            if state == "dropped":
                for query in queries:
                    self._states.pop(query.name, None)
        self._ask()

    def delivery(self, given: Delivery) -> None:
        """A sink has delivered, or tried to."""
        sink = given.sink
        if any(map(is_system, sink.query.materialization.inputs)):
            return
        row = (sink.name, sink.query.name, sink.state, given.number, given.rows, 1e3 * given.seconds, sink.error or "")
        with self._engine.lock:
            self._note_rows(SINKS.name, self._instant(), [row])
        self._ask()

    def _note(self, stream: str, at: int, count: int, rows: Callable[[], Sequence[Row]]) -> None:
        self._recorders[stream].note(at, count, rows)

    def _note_rows(self, stream: str, at: int, rows: Sequence[Row]) -> None:
        self._note(stream, at, len(rows), lambda: rows)

    def _instant(self) -> int:
        """Now, and after all that was fed: the wall clock may go backwards, time in streams does not."""
        return max(int(self._now() * 1e6), self._floor + 1)

    def _stream_row(self, report: EpochReport, source: str, at: int) -> Row:
        progress, before = report.after.progress(source), report.before.progress(source)
        definition = self._catalog.of_edge(source)
        lag = lag_seconds(definition, progress.heartbeat, at / 1e6)
        return (
            source if definition is None else definition.name,
            report.after.epoch,
            progress.arrived - before.arrived,
            progress.arrived,
            progress.late,
            progress.malformed,
            progress.shed,
            progress.heartbeat,
            None if lag is None else 1e3 * lag,
        )

    def recent(self, stream: str, since: int, limit: int, until: int | None = None) -> list[dict[str, Any]]:
        """The last rows of a system stream that were noticed after an instant (microseconds), and up to another one, in
        the order of time. Nothing is fed for it: to look costs no epoch."""
        recorder = self._recorders[f"{PREFIX}{stream}"]
        if recorder.stream in (QUERIES, ROUTING) and self._engine.lock.acquire(timeout=_PATIENCE):
            try:
                self._note_states()
                self._note_routing()
            finally:
                self._engine.lock.release()
        return recorder.recent(since, limit, until)

    # Feeding

    def read(self, sources: Iterable[str]) -> None:
        """Somebody is going to read sources."""
        if any(map(is_system, sources)):
            self._is_read = True
            self._engine.background.do(self._feed)

    def _ask(self) -> None:
        """Have the streams fed soon, where somebody reads them."""
        if not self._is_read:
            return
        with self._coming:
            if self._is_coming:
                return
            self._is_coming = True
        pause = self._rests_until - time.monotonic()
        if pause <= 0:
            self._begin()
            return
        timer = threading.Timer(pause, self._begin)
        timer.daemon = True
        timer.start()

    def _begin(self) -> None:
        with suppress(ClosedError):
            self._engine.background.begin(self._feed_now)

    def _feed_now(self) -> None:
        with self._coming:
            self._is_coming = False
        begun = time.monotonic()
        with suppress(ClosedError):
            self._feed()
            self.after_feeding()
        ended = time.monotonic()
        self._rests_until = ended + _REST * (ended - begun)

    def _feed(self) -> None:
        with self._engine.lock:
            self._note_states()
            self._note_routing()
            now, snapshot = self._instant(), self._engine.snapshot
            arrived, progress = {}, dict[str, SourceProgress]()
            for key, recorder in self._recorders.items():
                frame, known = recorder.taken(now - RETAIN), snapshot.progress(key)
                if frame is not None:
                    arrival = admit(recorder.stream, frame, known, None)
                    arrived[key], known = self._engine.sources.part(key, arrival.accepted), arrival.progress
                progress[key] = replace(known, heartbeat=now)
            self._floor = now
            self._engine.epoch(arrived, progress, snapshot.clock)

    def _note_states(self) -> None:
        """Queries that fail, and those whose past is being worked through, are found by looking."""
        found, at = self.states(), self._instant()
        changed = {name: state for name, state in found.items() if self._states.get(name) != state}
        changed |= {name: ("running", "") for name in self._states if name not in found}
        rows = [(name, state, None, error) for name, (state, error) in changed.items()]
        self._note_rows(QUERIES.name, at, rows)
        self._states = dict(found)

    def _watch_routing(self) -> None:
        """How shares move is to be seen by who comes later, too."""
        begun = time.monotonic()
        if begun >= self._routing_rests_until:
            self._note_routing()
            ended = time.monotonic()
            self._routing_rests_until = ended + max(_ROUTING_EVERY, _ROUTING_REST * (ended - begun))

    def _note_routing(self) -> None:
        learnt = routing.learnt(self._engine.snapshot)
        new = {step: names for step, names in learnt.items() if self._routed.get(step) != names}
        self._note_rows(ROUTING.name, self._instant(), routing.rows(new, self._engine.store, self._engine.pipeline))
        self._routed = learnt


def _rows_of(report: EpochReport, source: str) -> int:
    return report.after.progress(source).arrived - report.before.progress(source).arrived


def _epoch_row(report: EpochReport) -> Row:
    phases = report.phases
    return (
        report.after.epoch,
        sum(_rows_of(report, source) for source in report.progress),
        sum(report.after.progress(s).late - report.before.progress(s).late for s in report.progress),
        len(report.task.concerned),
        len(report.outcome.failures),
        *(1e3 * phases.seconds.get(phase, 0.0) for phase in _PHASES),
        1e3 * phases.total,
    )


def _operators(report: EpochReport, engine: Engine | None) -> Callable[[], Sequence[Row]]:
    """The rows of the operators of an epoch; with the bytes of their state where there is an engine to ask."""
    epoch, outcome, steps = report.after.epoch, report.outcome, report.task.pipeline.by_name
    rows, seconds, memory, states = outcome.rows, outcome.seconds, outcome.memory, outcome.states
    costly = (
        heapq.nlargest(MOST_OPERATORS, seconds, key=seconds.__getitem__)
        if len(seconds) > MOST_OPERATORS
        else [*seconds]
    )
    held = {} if engine is None else {name: bytes_of(states.get(name, {}), engine.store) for name in costly}
    kinds = {name: type(steps[name].operator).__name__ if name in steps else "" for name in costly}
    return lambda: [
        (epoch, name, kinds[name], rows.get(name, 0), 1e3 * seconds[name], memory.get(name, 0), held.get(name))
        for name in costly
    ]
