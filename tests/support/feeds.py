"""A database whose sources are rows in memory: batches come in as Spark's would, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import millstream as ms
from millstream.catalog.entries import Pickler
from millstream.connectors.feeds import Feeds
from millstream.engine.engine import Engine
from millstream.engine.epochs.runner import InProcessRunner
from millstream.ingest.landed import MALFORMED_COLUMNS, Landed, LandedBatch
from millstream.ingest.typed_rows import typed_table
from millstream.plan.definitions import StreamDefinition
from millstream.state.snapshot import SparkBatch
from millstream.state.store import MemoryStore


class AnySource:
    """Takes every source for good and reads none."""

    def check_feed(self, feed: Any) -> None: ...

    def check_sink(self, target: Any) -> None: ...


class Fed:
    """A database, and its sources' batches cut into parts at will."""

    def __init__(self, statements: str, now: Callable[[], float] = lambda: 0.0) -> None:
        engine = Engine(InProcessRunner(MemoryStore()))
        pickler = Pickler(lambda value: b"", lambda content: None)
        external: Any = AnySource()
        self.db = ms.Database(engine, lambda: None, pickler, now, external, Path("/nowhere"))
        self.db.execute(statements)
        self.feeds: Feeds = self.db._source_loop._feeds
        self.batches: Counter[str] = Counter()

    def take(self, name: str, parts: Sequence[Sequence[Any]], malformed: Sequence[tuple[str, str]] = ()) -> None:
        """One batch, whose rows come in these parts."""
        (feed,) = (feed for feed in self.feeds.all() if feed.stream.name == name)
        batch = SparkBatch("query", self.batches[name])
        self.batches[name] += 1
        assert not self.feeds.is_taken(feed, batch)
        self.feeds.begin(feed)
        self.feeds.take(feed, LandedBatch(self._landed(feed.stream, parts), self._malformed(malformed)), batch)

    def _landed(self, stream: StreamDefinition, parts: Sequence[Sequence[Any]]) -> tuple[Landed, ...]:
        landed = []
        for rows in parts:
            table = typed_table(rows, stream.input_columns, stream.name)
            stamps = [row[-1] for row in rows] if stream.heartbeat.kind != "CLOCK" else [-1]
            landed.append(Landed("segment", self._write(table), len(rows), max(stamps, default=-1)))
        return tuple(part for part in landed if part.rows)

    def _malformed(self, rows: Sequence[tuple[str, str]]) -> tuple[Landed, ...]:
        if not rows:
            return ()
        return (Landed("segment", self._write(typed_table(rows, MALFORMED_COLUMNS, "malformed")), len(rows)),)

    def _write(self, table: Any) -> str:
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        with self.db.engine.runner.store.file("landing") as writer:
            return writer.write(frame)
