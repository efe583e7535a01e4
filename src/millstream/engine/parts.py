"""The rows that an epoch takes in, as parts: each is read whole by one task, and named by where it lies.

Rows that came through `insert` were judged at the door, and their part is a file of the source's history. Rows that
came through Spark are judged by the task that reads them: the driver knows how many elements came before each part and
how far those have raised the heartbeat, so that each part can be judged alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from millstream.engine import tables
from millstream.engine.ingest import admit
from millstream.errors import InputError
from millstream.kernel.batch import (
    ARRIVAL,
    END,
    INF,
    INTERVAL_COLUMNS,
    START,
    WEIGHT,
    Batch,
    value_column,
    value_columns,
)
from millstream.kernel.hashing import mix
from millstream.plan.definitions import StreamDefinition
from millstream.state.snapshot import HistoryFile, SourceProgress
from millstream.state.store import Store
from millstream.types import Schema, arrow_schema

LATE, MALFORMED, UNREADABLE = "_late", "_malformed", "_unreadable"
TIME = "_ts"
_SHEDDING = np.uint64(0x5DEECE66D)  # any number but those that seed SAMPLE


def late_key(source: str) -> str:
    """The table that keeps what came too late for a stream."""
    return f"{source}.{LATE}"


@dataclass(frozen=True)
class Admission:
    """What is needed to judge a part's elements: the stream, what all elements before it did, the clock's tick under
    HEARTBEAT CLOCK, the instant at which late ones enter the table of those, and how many of 2^32 the coin drops."""

    stream: StreamDefinition
    progress: SourceProgress
    now: int | None
    late_at: int
    shed: int = 0


@dataclass(frozen=True)
class Part:
    """Rows of a source: a history file whose rows are accepted, or a segment or Parquet file of rows still to be
    judged, in the stream's input columns, or a segment of a table's rows, which are there from `at` on."""

    kind: Literal["history", "segment", "parquet"]
    name: str
    rows: int
    schema: Schema
    file: HistoryFile | None = None
    admission: Admission | None = None
    at: int | None = None


@dataclass(frozen=True)
class Taken:
    """What became of a part: rows of the source and of its late table, and the history file that was written."""

    accepted: Batch
    late: Batch | None = None
    file: HistoryFile | None = None
    shed: int = 0


def write_history(store: Store, source: str, epoch: int, batch: Batch, schema: Schema) -> HistoryFile:
    """Keep accepted rows under the names that users gave to the columns, behind those that say when."""
    times = {START: TIME, ARRIVAL: ARRIVAL} if ARRIVAL in batch.columns else {name: name for name in INTERVAL_COLUMNS}
    values = [pl.col(value_column(index)).alias(field.name) for index, field in enumerate(schema)]
    frame = batch.select(*(pl.col(name).alias(shown) for name, shown in times.items()), *values)
    bounds = batch.select(pl.col(START).min().alias("first"), pl.col(START).max().alias("last")).row(0)
    return HistoryFile(store.write_history(source, f"e{epoch}", frame), batch.height, *bounds)


def read_history(store: Store, file: HistoryFile, schema: Schema) -> Batch:
    """The rows of a history file as the kernel takes them."""
    frame = store.read_history(file.name)
    values = [pl.col(field.name).alias(value_column(index)) for index, field in enumerate(schema)]
    if ARRIVAL not in frame.columns:
        return frame.select(*values, *INTERVAL_COLUMNS)
    start = pl.col(TIME).alias(START)
    return frame.select(*values, start, (start + 1).alias(END), pl.lit(1, pl.Int64).alias(WEIGHT), ARRIVAL)


def take(part: Part, store: Store, source: str, epoch: int) -> Taken:
    """Read a part; judge its elements, and keep those accepted as history, where that was not done at the door."""
    if part.file is not None:
        return Taken(read_history(store, part.file, part.schema))
    if part.at is not None:
        rows = tables.inserted(store.read_once(part.name).to_arrow(), part.at)
        return Taken(rows, file=write_history(store, source, epoch, rows, part.schema))
    if part.admission is None:
        raise AssertionError(f"part {part.name} was never judged")
    admission = part.admission
    arrival = admit(admission.stream, _rows(part, store), admission.progress, admission.now)
    accepted, shed = arrival.accepted, 0
    if admission.shed:
        kept = accepted.filter(~_tossed(accepted, admission.shed))
        accepted, shed = kept, accepted.height - kept.height
    late = late_rows(admission.stream, arrival.late, admission.late_at) if arrival.late.height else None
    file = write_history(store, source, epoch, accepted, part.schema) if accepted.height else None
    return Taken(accepted, late, file, shed)


def late_rows(stream: StreamDefinition, late: Batch, at: int) -> Batch:
    """Late elements as rows of the stream's `_late` table, from `at` on."""
    missed = pl.col(START)
    if stream.domain.type.is_temporal:
        zone = "UTC" if stream.domain.type.name == "TIMESTAMP" else None
        missed = (missed * (stream.domain.tick or 1)).cast(pl.Datetime("us", zone))
    width = len(stream.columns)
    return late.select(
        *value_columns(width),
        missed.alias(value_column(width)),
        pl.lit(at, pl.Int64).alias(START),
        pl.lit(INF, pl.Int64).alias(END),
        WEIGHT,
    )


def _rows(part: Part, store: Store) -> pa.Table:
    if part.kind == "segment":
        return store.read_once(part.name).to_arrow()
    columns = part.admission.stream.input_columns if part.admission else part.schema
    wanted = arrow_schema(columns)
    try:
        with pq.ParquetFile(part.name) as file:
            found = {name.lower(): name for name in file.schema_arrow.names}
            names = [found[name.lower()] for name in wanted.names]
            return file.read(columns=names).select(names).rename_columns(wanted.names).cast(wanted)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{part.name} cannot be read: {error}") from None


def _tossed(rows: Batch, shed: int) -> pl.Series:
    """Which elements the coin drops: by their arrival number, so that a repeated attempt drops the same ones."""
    toss = mix(rows[ARRIVAL].to_numpy().astype(np.uint64) ^ _SHEDDING) >> np.uint64(32)
    return pl.Series(toss < np.uint64(shed))
