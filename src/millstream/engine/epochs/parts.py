"""The rows that an epoch takes in, as parts: each is read whole by one task, and named by where it lies.

Rows that came through `insert` were judged at the door, and their part is a file of the source's history. Rows that
came through Spark are judged by the task that reads them: the driver knows how many elements came before each part and
how far those have raised the heartbeat, so that each part can be judged alone.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from millstream.engine.epochs import table_changes as tables
from millstream.engine.epochs.lateness import admit, with_times
from millstream.engine.epochs.periods import period_of
from millstream.engine.needs import EVERYTHING, Needs, as_condition
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
from millstream.kernel.columns import constant, frame_of
from millstream.kernel.hashing import mix
from millstream.kernel.scalar.value_size import MAX_VALUE_BYTES, first_too_long, largest_value, too_large
from millstream.plan.definitions import StreamDefinition
from millstream.state.snapshot import AsItCame, HistoryFile, SourceProgress
from millstream.state.store import Store
from millstream.types import AlteredField, Field, Schema, columns_at_first, stored_name, to_polars

LATE, MALFORMED, UNREADABLE, FILES = "_late", "_malformed", "_unreadable", "_files"
TIME = "_ts"
_SHEDDING = np.uint64(0x5DEECE66D)  # any number but those that seed SAMPLE


def late_key(source: str) -> str:
    """The table that keeps what came too late for a stream."""
    return f"{source}.{LATE}"


@dataclass(frozen=True)
class LatenessContext:
    """What is needed to judge a part's elements: the stream, what all elements before it did, the clock's tick under
    HEARTBEAT CLOCK, the instant at which late ones enter the table of those, and how many of 2^32 the coin drops."""

    stream: StreamDefinition
    progress: SourceProgress
    now: int | None
    late_at: int
    shed: int = 0


@dataclass(frozen=True)
class Cut:
    """What is taken of a history file: the rows with after < start <= until, of elements or of a table's rows, but for
    those that nobody needs; of elements those that are not among the first `seen` to arrive, but the first `among`."""

    after: int
    until: int
    elements: bool
    needs: Needs = EVERYTHING
    seen: int = 0
    among: int = INF

    @property
    def column(self) -> str:
        """What files call the start."""
        return TIME if self.elements else START

    def wanted(self, file: HistoryFile, time: str, names: list[str]) -> pl.Expr | None:
        """None where these are all rows of the file."""
        needed = as_condition(self.needs, names)
        conditions = [] if needed is None else [needed]
        if not (self.after < file.first and file.last <= self.until):
            conditions.append((pl.col(time) > self.after) & (pl.col(time) <= self.until))
        if self.seen:
            conditions.append(pl.col(ARRIVAL) >= self.seen)
        if self.among < INF:
            conditions.append(pl.col(ARRIVAL) < self.among)
        return reduce(and_, conditions) if conditions else None


@dataclass(frozen=True)
class Part:
    """Rows of a source: a history file whose rows are accepted, or what is cut of one, or a segment or Parquet file of
    rows still to be judged, in the stream's input columns, or a segment of a table's rows, which are there from `at`
    on, or one of rows as the kernel takes them."""

    kind: Literal["history", "segment", "parquet", "rows"]
    name: str
    rows: int
    schema: Schema
    file: HistoryFile | None = None
    lateness: LatenessContext | None = None
    at: int | None = None
    cut: Cut | None = None

    @property
    def is_judged(self) -> bool:
        """Whether it is known that all its rows are accepted, and they are kept already."""
        return self.file is not None or self.kind == "rows"


@dataclass(frozen=True)
class TakenPart:
    """What became of a part: rows of the source and of its late table, and the history file that was written."""

    accepted: Batch
    late: Batch | None = None
    file: HistoryFile | None = None
    shed: int = 0


def write_history(
    store: Store, source: str, period_length: int, epoch: int, batch: Batch, schema: Schema, *, apart: bool = False
) -> HistoryFile:
    """Keep accepted rows under the names that users gave to the columns, behind those that say when."""
    times = {START: TIME, ARRIVAL: ARRIVAL} if ARRIVAL in batch.columns else {name: name for name in INTERVAL_COLUMNS}
    shown = {**times, **{value_column(index): stored_name(field) for index, field in enumerate(schema)}}
    frame = frame_of([batch.get_column(name).alias(given) for name, given in shown.items()])
    first, last = _span(batch)
    name = store.write_history(source, period_of(last, period_length), f"e{epoch}", frame, apart=apart)
    return HistoryFile(name, batch.height, first, last, bytes=int(batch.estimated_size()))


def _span(rows: Batch) -> tuple[int, int]:
    """The first and the last instant."""
    instants = rows[START].to_numpy()
    return int(instants.min()), int(instants.max())


def read_history(store: Store, file: HistoryFile, schema: Schema, cut: Cut | None = None) -> Batch:
    """The rows of a history file, or what is cut of it, as the kernel takes them."""
    if file.as_it_came is not None:
        rows = _as_it_came(store.read_history(file.name), file.as_it_came, schema)
        wanted = None if cut is None else cut.wanted(file, START, value_columns(len(schema)))
        return rows if wanted is None else rows.filter(wanted)
    if any(isinstance(field, AlteredField) for field in schema):
        # What is asked for may not be in the file.
        rows = _as_kept(store.read_history(file.name), schema)
        wanted = None if cut is None else cut.wanted(file, START, value_columns(len(schema)))
        return rows if wanted is None else rows.filter(wanted)
    names = [field.name for field in schema]
    return _as_kept(store.read_history(file.name, None if cut is None else cut.wanted(file, cut.column, names)), schema)


def _as_kept(frame: pl.DataFrame, schema: Schema) -> Batch:
    """A file of our own as the kernel takes it."""
    values = [_stored(frame, field).alias(value_column(index)) for index, field in enumerate(schema)]
    if ARRIVAL not in frame.columns:
        return frame_of([*values, *(frame.get_column(name) for name in INTERVAL_COLUMNS)])
    starts = frame.get_column(TIME)
    ends, ones = pl.Series(END, starts.to_numpy() + 1), constant(WEIGHT, 1, frame.height)
    return frame_of([*values, starts.alias(START), ends, ones, frame.get_column(ARRIVAL)])


def _stored(frame: pl.DataFrame, field: Field) -> pl.Series:
    """A column of a file, or the default of one that was added later."""
    if not isinstance(field, AlteredField) or field.stored in frame.columns:
        return frame.get_column(stored_name(field))
    return pl.Series([field.default], dtype=to_polars(field.type)).new_from_index(0, frame.height)


def _as_it_came(frame: pl.DataFrame, raw: AsItCame, schema: Schema) -> Batch:
    """A user's Parquet file, of which every row was accepted."""
    found = {name.lower(): name for name in frame.columns}
    instants = frame[found[raw.timestamp.lower()]]
    if raw.tick is not None:
        instants = instants.dt.epoch("us") // raw.tick
    columns = _named(frame, schema).get_columns()
    batch = pl.DataFrame([column.alias(value_column(index)) for index, column in enumerate(columns)])
    return with_times(batch, instants.cast(pl.Int64), raw.arrival)


def take(
    part: Part, store: Store, source: str, period_length: int, epoch: int, most: int = MAX_VALUE_BYTES
) -> TakenPart:
    """Read a part; judge its elements, and keep those accepted as history, where that was not done at the door. A file
    with a value of more than so many bytes is refused as a whole."""
    if part.file is not None:
        return TakenPart(read_history(store, part.file, part.schema, part.cut))
    if part.kind == "rows":
        return TakenPart(store.read_once(part.name))
    if part.at is not None:
        rows = tables.inserted(store.read_once(part.name).to_arrow(), part.at)
        return TakenPart(rows, file=write_history(store, source, period_length, epoch, rows, part.schema))
    if part.lateness is None:
        raise AssertionError(f"part {part.name} was never judged")
    lateness = part.lateness
    content = _file(part.name) if part.kind == "parquet" else None
    arrival = admit(lateness.stream, _rows(part, content, store, most), lateness.progress, lateness.now)
    accepted, shed = arrival.accepted, 0
    if lateness.shed:
        kept = accepted.filter(~_tossed(accepted, lateness.shed))
        accepted, shed = kept, accepted.height - kept.height
    late = late_rows(lateness.stream, arrival.late, lateness.late_at) if arrival.late.height else None
    file: HistoryFile | None = None
    if content is not None and accepted.height == part.rows and lateness.now is None:
        # Nothing was left out, so that the file says it all, and need not be written anew.
        raw = AsItCame(lateness.progress.arrived, lateness.stream.timestamp.name, lateness.stream.domain.tick)
        first, last = _span(accepted)
        name = store.adopt_history(source, period_of(last, period_length), f"e{epoch}", content)
        file = HistoryFile(name, accepted.height, first, last, raw, int(accepted.estimated_size()))
    elif accepted.height:
        file = write_history(store, source, period_length, epoch, accepted, part.schema)
    return TakenPart(accepted, late, file, shed)


def late_rows(stream: StreamDefinition, late: Batch, at: int) -> Batch:
    """Late elements as rows of the stream's `_late` table, from `at` on."""
    missed = pl.col(START)
    if stream.domain.type.is_temporal:
        zone = "UTC" if stream.domain.type.name == "TIMESTAMP" else None
        missed = (missed * (stream.domain.tick or 1)).cast(pl.Datetime("us", zone))
    first, width = columns_at_first(stream.columns), len(stream.columns)
    return late.select(
        *value_columns(first),
        missed.alias(value_column(first)),
        *(pl.col(value_column(place)).alias(value_column(place + 1)) for place in range(first, width)),
        pl.lit(at, pl.Int64).alias(START),
        pl.lit(INF, pl.Int64).alias(END),
        WEIGHT,
    )


def _rows(part: Part, content: bytes | None, store: Store, most: int) -> pl.DataFrame:
    if content is None:
        return store.read_once(part.name)
    columns = part.lateness.stream.input_columns if part.lateness else part.schema
    try:
        found = {name.lower(): name for name in pl.read_parquet_schema(io.BytesIO(content))}
        frame = pl.read_parquet(io.BytesIO(content), columns=[found[field.name.lower()] for field in columns])
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{part.name} cannot be read: {error}") from None
    rows = _named(frame, columns)
    for column, field in zip(rows.get_columns(), columns, strict=True):
        if (long := first_too_long(column, field.type)) is not None:
            raise InputError(f'{part.name}: row {long[0] + 1}, column "{column.name}": {long[1]}')
        if (largest := largest_value(column)) > most:
            raise too_large(f'{part.name}: column "{column.name}": a value of {largest:,} bytes', most, InputError)
    return rows


def _named(frame: pl.DataFrame, columns: Schema) -> pl.DataFrame:
    """A user's file, as the columns are declared."""
    found = {name.lower(): name for name in frame.columns}

    def column(field: Field) -> pl.Series:
        place = found.get(field.name.lower(), found.get(stored_name(field).lower()))
        if place is None and isinstance(field, AlteredField):
            return _stored(frame, field)
        return frame[found[field.name.lower()] if place is None else place].cast(to_polars(field.type))

    return pl.DataFrame([column(field).alias(field.name) for field in columns])


def _file(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None


def _tossed(rows: Batch, shed: int) -> pl.Series:
    """Which elements the coin drops: by their arrival number, so that a repeated attempt drops the same ones."""
    toss = mix(rows[ARRIVAL].to_numpy().astype(np.uint64) ^ _SHEDDING) >> np.uint64(32)
    return pl.Series(toss < np.uint64(shed))
