"""What lies outside of a database, as the database sees it: formats to read and to write. Spark knows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from millstream.ingest.landed import LandedBatch
from millstream.plan.definitions import ExternalData, StreamDefinition, TableDefinition
from millstream.state.snapshot import SparkBatch


@dataclass(frozen=True)
class Feed:
    """A stream, or the changes of a table, that is read from an external format."""

    stream: StreamDefinition
    source: ExternalData
    operations: tuple[str, ...] = ()  # what the last column of a table's changes may say
    kind: str = "stream"

    @property
    def key(self) -> str:
        return self.stream.edge

    def __str__(self) -> str:
        return f"{self.kind} {self.stream.name}"


class Taker(Protocol):
    """Who takes the batches of a feed in."""

    @property
    def max_value_bytes(self) -> int:
        """How large one value may be."""
        ...

    def check_checkpoint(self, feed: Feed, query: str | None) -> None:
        """Refuse a checkpoint other than the one whose batches were taken before."""
        ...

    def begin(self, feed: Feed) -> None:
        """A batch has come, and is about to be landed and taken in."""
        ...

    def is_taken(self, feed: Feed, batch: SparkBatch) -> bool:
        """Whether the batch was taken before, and comes again."""
        ...

    def take(self, feed: Feed, landed: LandedBatch, batch: SparkBatch) -> None: ...


class Reading(Protocol):
    """A source that is being read."""

    @property
    def is_active(self) -> bool: ...

    @property
    def error(self) -> Exception | None:
        """What ended it, if it did not end by itself."""
        ...

    @property
    def rows_behind(self) -> int | None:
        """The rows that the source has and that were not taken yet, as of its last batch; None where it does not
        tell."""
        ...

    def stop(self) -> None:
        """Let the batch under way finish, and take no other."""
        ...


class External(Protocol):
    """Reads and writes external formats."""

    def check_feed(self, feed: Feed) -> None:
        """Refuse a source whose columns are not those declared; reads no rows."""
        ...

    def read(self, table: TableDefinition, most: int) -> LandedBatch:
        """All rows of a table's files, once; those with a value of more than so many bytes are malformed."""
        ...

    def start(self, feed: Feed, taker: Taker, checkpoint: Path, *, until_idle: bool) -> Reading: ...

    def check_sink(self, target: ExternalData) -> None: ...

    def write(self, target: ExternalData, delivery: int, changes: pa.Table) -> None:
        """Write one delivery, over an earlier attempt at it where the format can."""
        ...
