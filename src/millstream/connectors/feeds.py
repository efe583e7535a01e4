"""Batches of sources, each taken in as one epoch together with Spark's number for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from millstream.catalog.objects import CatalogOfObjects
from millstream.engine.engine import Engine
from millstream.engine.epochs.parts import FILES, MALFORMED, UNREADABLE
from millstream.errors import StateError
from millstream.ingest.external import Feed
from millstream.ingest.insert import Inputs, files_key, with_files
from millstream.ingest.landed import FILE_COLUMNS, MALFORMED_COLUMNS, LandedBatch, judged, table_parts
from millstream.kernel.relational.change_log import DELETES, INSERTS, UPDATES
from millstream.plan.definitions import StreamDefinition, TableDefinition
from millstream.settings import Settings
from millstream.state.snapshot import SparkBatch

_LEAST_KEPT = 0.01


@dataclass
class Pace:
    """How a source keeps up: how long its last epoch took, or would have taken with all elements.

    While an epoch runs, the next batch waits: a source is behind by what its epochs take, unless it has paused since.
    """

    began: float = 0.0
    ended: float = 0.0
    needed: float = 0.0
    kept: float = 1.0

    def begin(self, now: float, lag: float) -> float:
        """Start an epoch; gives the share of the elements to keep so that it takes no longer than the lag."""
        if now - self.ended > lag:
            self.needed = 0.0
        self.began = now
        self.kept = 1.0 if self.needed <= lag else max(lag / self.needed, _LEAST_KEPT)
        return self.kept

    def end(self, now: float) -> None:
        self.ended, self.needed = now, max(now - self.began, 0.0) / self.kept


class Feeds:
    """The sources of a database, and the way their batches come in."""

    def __init__(
        self,
        engine: Engine,
        catalog: CatalogOfObjects,
        inputs: Inputs,
        settings: Callable[[], Settings],
        now: Callable[[], float],
    ) -> None:
        self.engine, self.catalog, self.inputs = engine, catalog, inputs
        self._settings, self._now = settings, now
        self._paces: dict[str, Pace] = {}
        self._may_shed = False
        self._lock = threading.Lock()

    def all(self) -> list[Feed]:
        found = [feed_of(d) for d in self.catalog.values() if isinstance(d, StreamDefinition | TableDefinition)]
        return [feed for feed in found if feed is not None]

    @property
    def max_value_bytes(self) -> int:
        return self._settings().max_value_bytes

    def begin_run(self, *, may_shed: bool) -> None:
        """What waits since before a run is not behind: only a run that follows its sources sheds."""
        with self._lock:
            self._paces, self._may_shed = {}, may_shed

    def check_checkpoint(self, feed: Feed, query: str | None) -> None:
        known = self.engine.snapshot.progress(feed.key).batch
        if known is not None and query != known.query:
            raise StateError(
                f"the checkpoint of {feed} was {'removed' if query is None else 'replaced'}",
                detail=f"rows were taken in up to batch {known.batch} of Spark's query {known.query}; "
                f"{'there is none now' if query is None else f'the checkpoint is of query {query}'}",
                hint=f"restore checkpoints/{feed.key} from a backup; or, to read the source from its start again, "
                f"drop {feed.kind} {feed.stream.name} and create it again",
            )

    def begin(self, feed: Feed) -> None:
        self._pace(feed).begin(self._now(), self._settings().of_stream(feed.stream.name.lower()).shedding_lag)

    def is_taken(self, feed: Feed, batch: SparkBatch) -> bool:
        known = self.engine.snapshot.progress(feed.key).batch
        expected = 0 if known is None else known.batch + 1
        self.check_checkpoint(feed, batch.query)
        if batch.batch > expected:
            raise StateError(
                f"the checkpoint of {feed} is ahead of the database",
                detail=f"it goes on with batch {batch.batch}, and the database has seen none after {expected - 1}",
                hint="restore the database directory as a whole, checkpoints included",
            )
        return batch.batch < expected

    def take(self, feed: Feed, landed: LandedBatch, batch: SparkBatch) -> None:
        """Make an epoch of a batch: its rows, what could not be read, and that it was taken."""
        stream, key = feed.stream, feed.key
        pace = self._pace(feed)
        shed = self._threshold(feed, pace)
        with self.engine.lock:
            snapshot = self.engine.snapshot
            progress = self.inputs.by_the_clock(stream, snapshot.progress(key))
            parts, progress = judged(stream, landed.parts, progress, self.inputs.clock_tick(stream), shed)
            unread = sum(part.rows for part in landed.malformed)
            progress = replace(with_files(progress, landed), malformed=progress.malformed + unread, batch=batch)
            if shed and landed.parts:
                progress = replace(progress, shed_until=max(progress.shed_until, landed.greatest, progress.heartbeat))
            clock = max(snapshot.clock, progress.heartbeat)
            arrived = {key: parts(self.inputs.late_instant(stream, clock))}
            progresses = {key: progress}
            if unread:
                rejected = malformed_key(feed)
                at = max(clock + 1, snapshot.progress(rejected).last_change)
                arrived[rejected] = table_parts(landed.malformed, MALFORMED_COLUMNS, at)
                progresses[rejected] = replace(snapshot.progress(rejected), last_change=at)
            if landed.skipped:
                files = files_key(key)
                at = max(clock + 1, snapshot.progress(files).last_change)
                arrived[files] = table_parts(landed.skipped, FILE_COLUMNS, at)
                progresses[files] = replace(snapshot.progress(files), last_change=at)
            self.engine.epoch(arrived, progresses, clock)
        pace.end(self._now())

    def _pace(self, feed: Feed) -> Pace:
        with self._lock:
            return self._paces.setdefault(feed.key, Pace())

    def _threshold(self, feed: Feed, pace: Pace) -> int:
        """How many of 2^32 elements are dropped."""
        if not self._may_shed or self._settings().of_stream(feed.stream.name.lower()).shedding == "off":
            pace.kept = 1.0
        return round((1.0 - pace.kept) * 2**32)


def feed_of(definition: StreamDefinition | TableDefinition) -> Feed | None:
    """What is read during `run`: streams and changes of tables with USING."""
    if definition.source is None:
        return None
    if isinstance(definition, StreamDefinition):
        return Feed(definition, definition.source)
    if definition.log is None:
        return None
    operations = (*INSERTS, *DELETES, *(UPDATES if definition.key else ()))
    return Feed(definition.feed, definition.source, operations, "table")


def malformed_key(feed: Feed) -> str:
    """The table of what could not be read: the changes of a table have one of their own kind already."""
    return f"{feed.key}.{UNREADABLE if feed.operations else MALFORMED}"


def unreadable_table(definition: StreamDefinition | TableDefinition) -> TableDefinition:
    """What a source gave and could not be read as rows: the text and the reason."""
    changes = isinstance(definition, TableDefinition) and definition.log is not None
    kept = UNREADABLE if changes else MALFORMED
    name, edge = f"{definition.name}.{kept}", f"{definition.edge}.{kept}"
    return TableDefinition(name, MALFORMED_COLUMNS, (), "APPEND ONLY", domain=definition.domain, identity=edge)


def files_table(definition: StreamDefinition | TableDefinition) -> TableDefinition:
    """The files of a source that were passed over, and why."""
    name, edge = f"{definition.name}.{FILES}", f"{definition.edge}.{FILES}"
    return TableDefinition(name, FILE_COLUMNS, (), "APPEND ONLY", domain=definition.domain, identity=edge)
