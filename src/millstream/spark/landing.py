"""Lands the rows of a Spark batch: typed, in arrival order, as segments that the tasks of an epoch read.

Runs inside Spark's tasks. Rows go from there into the store; names, counts and greatest ticks go to the driver. Arrival
order is the order of (file, place in the file), or of (partition, row) where there are no files, however Spark dealt
them out to tasks.

Whatever is wrong with a row makes that row malformed: texts are looked at before anybody works with them, and where a
batch cannot be judged as a whole its rows are judged one by one.
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
from millstream.errors import StateError
from millstream.ingest import utf8
from millstream.ingest.landed import RAW, REASON
from millstream.kernel.scalar.outcome import by_column
from millstream.kernel.scalar.value_size import MAX_VALUE_BYTES, list_sizes, too_long
from millstream.plan.definitions import NO_RULES, ColumnRules, TimeDomain
from millstream.spark import formats
from millstream.spark.half_characters import MARK, has_halves
from millstream.spark.malformed import Grammar, as_text
from millstream.state.store import Store, Writer
from millstream.types import BINARY, STRING, TIMESTAMP, DataType, Schema, to_polars

_MOST_ROWS = 1 << 20  # per segment
_BROKEN = "_broken"  # where a text of the row was not UTF-8
_REPLACEMENT = "\ufffd"  # what decoders put in the place of bytes that they do not understand
_NOT_THE_ROWS = (OSError, MemoryError, StateError)  # what the machine does: the task is tried again


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
    most: int = MAX_VALUE_BYTES  # that one value may have
    decoded: bool = False  # whether bytes were made texts by who puts U+FFFD for what it does not understand
    rules: ColumnRules = NO_RULES


class Piece(NamedTuple):
    """A segment as the driver hears of it, in the order of its place."""

    path: str
    block: int
    number: int
    name: str
    rows: int
    greatest: int
    malformed: bool
    nulls: bytes  # one for each column that is NULL in all its rows
    halves: bool  # whether texts may be what became of halves of characters


_PIECES = (
    "path STRING, block BIGINT, number BIGINT, name STRING, rows BIGINT, greatest BIGINT, malformed BOOLEAN, "
    "nulls BINARY, halves BOOLEAN"
)
_ARROW = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.bool_(), pa.binary(), pa.bool_())


def land(frame: DataFrame, landing: Landing) -> list[Piece]:
    """Run the landing job of a batch, or of some of its files."""
    work = partial(_land, bytes(cloudpickle.dumps(landing)))  # type: ignore[no-untyped-call]
    return sorted(Piece(*row) for row in frame.mapInArrow(work, _PIECES).collect())


def _land(payload: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    landing: Landing = cloudpickle.loads(payload)
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    with landing.store.file("landing") as writer:
        pieces = list(_pieces(landing, batches, partition, writer))
    columns = zip(*pieces, strict=True) if pieces else ((),) * len(_ARROW)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, _ARROW, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=list(Piece._fields))


def _pieces(landing: Landing, batches: Iterator[pa.RecordBatch], partition: int, writer: Writer) -> Iterator[Piece]:
    searched: dict[tuple[str, int], bool] = {}
    for number, rows in enumerate(_runs(landing, batches)):
        path, block = _place(rows) or ("", partition)
        good, malformed = _sorted_out(landing, rows)
        if _may_have_halves(landing, good) and (path, block) not in searched and landing.grammar is not None:
            names = landing.grammar.names(landing.columns)
            searched[path, block] = has_halves(path, block, rows[formats.LENGTH][0], names)
        halves = searched.get((path, block), False)
        if good.height:
            greatest = good["_tick"].max()
            values = good.drop("_tick")
            tick = greatest if isinstance(greatest, int) else -1
            nulls = bytes(column.null_count() == values.height for column in values.get_columns())
            yield Piece(path, block, number, writer.write(values), good.height, tick, False, nulls, halves)
        if malformed.height:
            yield Piece(path, block, number, writer.write(malformed), malformed.height, -1, True, b"", halves)


def _may_have_halves(landing: Landing, good: pl.DataFrame) -> bool:
    """Whether a text has the `?` that Spark puts for half a character."""
    if landing.grammar is None or landing.grammar.marked or not landing.grammar.finds_halves:
        return False
    texts = [good[field.name] for field in landing.columns if field.type == STRING]
    return any(bool(column.str.contains("?", literal=True).any()) for column in texts)


def _sorted_out(landing: Landing, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that can be taken, with their ticks, and the others as rows of the table of malformed ones."""
    try:
        return _judged(landing, rows)
    except _NOT_THE_ROWS:
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # whatever some row makes of what looks at it
        if rows.height == 1:
            return _judged(landing, rows.clear())[0], _refused(landing, rows, error)
        halves = rows.head(rows.height // 2), rows.tail(-(rows.height // 2))
        good, malformed = zip(*(_sorted_out(landing, half) for half in halves), strict=True)
        return pl.concat(good), pl.concat(malformed)


def _judged(landing: Landing, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    judged = rows.with_columns(_ticks(landing).alias("_tick")).with_columns(_reason(landing).alias(REASON))
    good = judged.filter(pl.col(REASON).is_null()).select(*_typed(landing), "_tick")
    return good, _explained(landing, judged.filter(pl.col(REASON).is_not_null()))


def _refused(landing: Landing, rows: pl.DataFrame, error: BaseException) -> pl.DataFrame:
    """A row that cannot even be looked at."""
    said = str(error).strip().partition("\n")[0]
    try:
        texts = rows.select(pl.col(f"c{index}").cast(pl.String) for index in range(len(landing.columns))).row(0)
        raw = as_text(landing.columns, texts)
    except (Exception, pl.exceptions.PanicException):
        raw = None  # nothing of it can be shown: the reason says so
    reason = f"{type(error).__name__}: {said}" + ("" if raw is not None else "; the row cannot be shown")
    return pl.DataFrame({RAW: [raw], REASON: [reason]}, schema={RAW: pl.String, REASON: pl.String})


def _runs(landing: Landing, batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Consecutive rows of one place, as many together as may be."""
    held: list[pl.DataFrame] = []
    for batch in batches:
        for rows in _cut(_with_texts(landing, batch)):
            if held and (sum(map(len, held)) >= _MOST_ROWS or _place(held[-1]) != _place(rows)):
                yield pl.concat(held)
                held = []
            held.append(rows)
    if held:
        yield pl.concat(held)


def _with_texts(landing: Landing, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with all its texts in UTF-8, and a column that says of which rows one was not."""
    texts = {f"c{index}": field.name for index, field in enumerate(landing.columns) if field.type == STRING}
    arrays: list[pa.Array] = []
    notes: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in texts or name == formats.RAW:
            column, broken = utf8.readable(column)
            where = f'column "{texts[name]}"' if name in texts else "the line"
            notes |= {row: f"{where} is not UTF-8: {utf8.shown(value)}" for row, value in broken}
        arrays.append(column)
    said = pa.array([notes.get(row) for row in range(batch.num_rows)], pa.string()) if notes else None
    arrays.append(pa.nulls(batch.num_rows, pa.string()) if said is None else said)
    return pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, _BROKEN])


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
        typed.append(_cast(value, column.type).alias(column.name))
    return typed


def _cast(value: pl.Expr, kind: DataType) -> pl.Expr:
    """Spark hands timestamps over in the session's time zone: the same instants, shown elsewhere."""
    if kind.element is not None:
        return value.list.eval(_cast(pl.element(), kind.element)).cast(to_polars(kind))
    shown = value.dt.convert_time_zone("UTC") if kind == TIMESTAMP else value
    return shown.cast(to_polars(kind))


def _bytes(value: pl.Expr, kind: DataType) -> pl.Expr:
    """How large a text, a binary or a list is."""
    if kind.is_list:
        return by_column(lambda column: pl.Series(list_sizes(column)), [value], pl.Int64())
    return value.cast(pl.Binary).bin.size()


def _ticks(landing: Landing) -> pl.Expr:
    if landing.timestamp is None:
        return pl.lit(None, pl.Int64)
    value = pl.col(f"c{landing.timestamp}")
    if landing.domain.type.is_temporal:
        value = value.dt.epoch("us") // (landing.domain.tick or 1)
    return value.cast(pl.Int64)


def _reason(landing: Landing) -> pl.Expr:
    """Why a row cannot be taken, NULL where it can; a line that did not parse is explained later."""
    found = [pl.col(_BROKEN)]
    if landing.grammar is not None:
        found.append(pl.when(pl.col(formats.RAW).is_not_null()).then(pl.lit("does not parse")))
    if landing.decoded:
        for index, column in enumerate(landing.columns):
            if column.type == STRING:
                lost = pl.col(f"c{index}").str.contains(_REPLACEMENT, literal=True)
                found.append(pl.when(lost).then(pl.lit(f'column "{column.name}" has bytes that cannot be decoded')))
    for index, column in enumerate(landing.columns):
        if column.type in (STRING, BINARY) or column.type.is_list:
            size = _bytes(pl.col(f"c{index}"), column.type)
            words = f'column "{column.name}": {{}} bytes are more than the {landing.most:,} that a value may have'
            found.append(pl.when(size > landing.most).then(pl.format(words, size)))
        if (long := too_long(pl.col(f"c{index}"), column.type)) is not None:
            found.append(pl.concat_str(pl.lit(f'column "{column.name}": '), long))
        if landing.rules.is_required(column.name) and index != landing.timestamp:
            found.append(pl.when(pl.col(f"c{index}").is_null()).then(pl.lit(f'column "{column.name}" is NOT NULL')))
    if landing.timestamp is not None:
        tick, name = pl.col("_tick"), landing.columns[landing.timestamp].name
        found.append(pl.when(tick.is_null()).then(pl.lit(f'timestamp "{name}" is NULL')))
        for wrong, word in ((tick < 0, "negative"), (tick > MAX_TICK, "absurd")):
            found.append(pl.when(wrong).then(pl.format(f'{word} timestamp "{name}": {{}} ticks', tick)))
    if landing.operation is not None:
        said, name = pl.col(f"c{landing.operation}").str.to_lowercase(), landing.columns[landing.operation].name
        shown = pl.format(f'"{name}" says {{}}', pl.col(f"c{landing.operation}").fill_null("NULL"))
        found.append(pl.when(~said.is_in(landing.operations).fill_null(False)).then(shown))
    return pl.coalesce(*found)


def _explained(landing: Landing, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the table of malformed ones: the text, or what came in its place, and the reason."""
    values = [f"c{index}" for index in range(len(landing.columns))]
    raws, reasons = [], []
    for row in rows.iter_rows(named=True):
        parsed, raw = [row[name] for name in values], row.get(formats.RAW)
        shown = raw.removeprefix(MARK) if raw and landing.grammar and landing.grammar.marked else raw
        raws.append(as_text(landing.columns, parsed) if shown is None else shown)
        if landing.grammar is None or raw is None or row[_BROKEN] is not None:
            reasons.append(row[REASON])
        else:
            reasons.append(landing.grammar.reason(raw, landing.columns, parsed))
    return pl.DataFrame({RAW: raws, REASON: reasons}, schema={RAW: pl.String, REASON: pl.String})
