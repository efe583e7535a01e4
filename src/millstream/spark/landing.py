"""Lands the rows of a Spark batch: typed, in arrival order, as segments that the tasks of an epoch read.

Runs inside Spark's tasks. Rows go from there into the store; names, counts and greatest ticks go to the driver. Arrival
order is the order of (file, place in the file), or of (partition, row) where there are no files, however Spark dealt
them out to tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import polars as pl
import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame

from millstream.bounds import MAX_TICK
from millstream.engine.landed import RAW, REASON, Landed, LandedBatch
from millstream.plan.definitions import TimeDomain
from millstream.spark import formats
from millstream.spark.malformed import Grammar, as_text
from millstream.state.store import Store, Writer
from millstream.types import Schema, to_polars

_MOST_ROWS = 1 << 20  # per segment


@dataclass(frozen=True)
class Landing:
    """What a task must know: the columns, which one is the timestamp and how it is counted, what a table's changes may
    say in their last column, and how text is read."""

    store: Store
    columns: Schema
    timestamp: int | None = None
    domain: TimeDomain = field(default_factory=lambda: TimeDomain(None))
    operation: int | None = None
    operations: tuple[str, ...] = ()
    grammar: Grammar | None = None


class _Piece(NamedTuple):
    """A segment as the driver hears of it."""

    path: str
    block: int
    number: int
    name: str
    rows: int
    greatest: int
    malformed: bool


_PIECES = "path STRING, block BIGINT, number BIGINT, name STRING, rows BIGINT, greatest BIGINT, malformed BOOLEAN"
_ARROW = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.bool_())


def land(frame: DataFrame, landing: Landing) -> LandedBatch:
    """Run the landing job of a batch."""
    work = partial(_land, bytes(cloudpickle.dumps(landing)))  # type: ignore[no-untyped-call]
    pieces = sorted(_Piece(*row) for row in frame.mapInArrow(work, _PIECES).collect())
    good = tuple(Landed("segment", p.name, p.rows, p.greatest) for p in pieces if not p.malformed)
    return LandedBatch(good, tuple(Landed("segment", p.name, p.rows) for p in pieces if p.malformed))


def _land(payload: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    landing: Landing = cloudpickle.loads(payload)
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    with landing.store.file("landing") as writer:
        pieces = list(_pieces(landing, batches, partition, writer))
    columns = zip(*pieces, strict=True) if pieces else ((),) * len(_ARROW)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, _ARROW, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=list(_Piece._fields))


def _pieces(landing: Landing, batches: Iterator[pa.RecordBatch], partition: int, writer: Writer) -> Iterator[_Piece]:
    for number, rows in enumerate(_runs(batches)):
        path, block = _place(rows) or ("", partition)
        judged = rows.with_columns(_ticks(landing).alias("_tick")).with_columns(_reason(landing).alias(REASON))
        good, malformed = judged.filter(pl.col(REASON).is_null()), judged.filter(pl.col(REASON).is_not_null())
        if good.height:
            greatest = good["_tick"].max()
            name = writer.write(good.select(_typed(landing)))
            yield _Piece(path, block, number, name, good.height, greatest if isinstance(greatest, int) else -1, False)
        if malformed.height:
            name = writer.write(_explained(landing, malformed))
            yield _Piece(path, block, number, name, malformed.height, -1, True)


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Consecutive rows of one place, as many together as may be."""
    held: list[pl.DataFrame] = []
    for batch in batches:
        for rows in _cut(batch):
            if held and (sum(map(len, held)) >= _MOST_ROWS or _place(held[-1]) != _place(rows)):
                yield pl.concat(held)
                held = []
            held.append(rows)
    if held:
        yield pl.concat(held)


def _cut(batch: pa.RecordBatch) -> Iterator[pl.DataFrame]:
    rows = pl.from_arrow(pa.Table.from_batches([batch]))
    if not isinstance(rows, pl.DataFrame) or not rows.height:
        return
    if formats.PATH not in rows.columns:
        yield rows
        return
    place = pl.concat_str(pl.col(formats.PATH), pl.lit("@"), pl.col(formats.BLOCK))
    start = 0
    for length in rows.select(place.rle().struct.field("len")).to_series():
        yield rows.slice(start, length)
        start += length


def _place(rows: pl.DataFrame) -> tuple[str, int] | None:
    return (rows[formats.PATH][0], rows[formats.BLOCK][0]) if formats.PATH in rows.columns else None


def _typed(landing: Landing) -> list[pl.Expr]:
    typed = []
    for index, column in enumerate(landing.columns):
        value = pl.col(f"c{index}")
        if index == landing.operation:
            value = value.str.to_lowercase()
        typed.append(_cast(value, column.type.name, to_polars(column.type)).alias(column.name))
    return typed


def _cast(value: pl.Expr, name: str, kind: pl.DataType) -> pl.Expr:
    """Spark hands timestamps over in the session's time zone: the same instants, shown elsewhere."""
    return value.dt.convert_time_zone("UTC").cast(kind) if name == "TIMESTAMP" else value.cast(kind)


def _ticks(landing: Landing) -> pl.Expr:
    if landing.timestamp is None:
        return pl.lit(None, pl.Int64)
    value = pl.col(f"c{landing.timestamp}")
    if landing.domain.type.is_temporal:
        value = value.dt.epoch("us") // (landing.domain.tick or 1)
    return value.cast(pl.Int64)


def _reason(landing: Landing) -> pl.Expr:
    """Why a row cannot be taken, NULL where it can; a line that did not parse is explained later."""
    found = []
    if landing.grammar is not None:
        found.append(pl.when(pl.col(formats.RAW).is_not_null()).then(pl.lit("does not parse")))
    if landing.timestamp is not None:
        tick, name = pl.col("_tick"), landing.columns[landing.timestamp].name
        found.append(pl.when(tick.is_null()).then(pl.lit(f'timestamp "{name}" is NULL')))
        for wrong, word in ((tick < 0, "negative"), (tick > MAX_TICK, "absurd")):
            found.append(pl.when(wrong).then(pl.format(f'{word} timestamp "{name}": {{}} ticks', tick)))
    if landing.operation is not None:
        said, name = pl.col(f"c{landing.operation}").str.to_lowercase(), landing.columns[landing.operation].name
        shown = pl.format(f'"{name}" says {{}}', pl.col(f"c{landing.operation}").fill_null("NULL"))
        found.append(pl.when(~said.is_in(landing.operations).fill_null(False)).then(shown))
    return pl.coalesce(*found) if found else pl.lit(None, pl.String)


def _explained(landing: Landing, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the table of malformed ones: the text, or what came in its place, and the reason."""
    values = [f"c{index}" for index in range(len(landing.columns))]
    raws, reasons = [], []
    for row in rows.iter_rows(named=True):
        parsed, raw = [row[name] for name in values], row.get(formats.RAW)
        raws.append(as_text(landing.columns, parsed) if raw is None else raw)
        if landing.grammar is None or raw is None:
            reasons.append(row[REASON])
        else:
            reasons.append(landing.grammar.reason(raw, landing.columns, parsed))
    return pl.DataFrame({RAW: raws, REASON: reasons}, schema={RAW: pl.String, REASON: pl.String})
