"""Envelopes as rows of Spark: `(kind, flow, shard, origin, content)`, whatever is in them.

The content of rows is an Arrow IPC stream, which the JVM passes on unread: packed, since a byte on its way costs more
than what is done with it. Beside them travel what made a flow fail,
the outcomes of the stages on their way to the driver, and a call for every shard, since a shard that is sent nothing
must run as well: time passes for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice

import polars as pl
import pyarrow as pa
from pyspark import cloudpickle

from millstream.engine.epochs.exchange import Envelope
from millstream.engine.epochs.task import ShardOutcome
from millstream.errors import Error
from millstream.state.packing import packed, unpacked

SCHEMA = "kind string, flow string, shard int, origin int, content binary"
_ARROW = pa.schema(
    [
        ("kind", pa.string()),
        ("flow", pa.string()),
        ("shard", pa.int32()),
        ("origin", pa.int32()),
        ("content", pa.binary()),
    ]
)
# Frames travel in pieces of this size: the JVM holds a value in one array, and does not like large ones.
_PIECE = 1 << 19
_PIECES = 16  # handed to Spark at a time


class EnvelopeKind(Enum):
    """What is in an envelope."""

    ROWS = "rows"
    FAILURE = "failure"
    OUTCOME = "outcome"
    ERROR = "error"
    CALL = "call"


@dataclass(frozen=True)
class Sealed:
    """An envelope as it travels."""

    kind: EnvelopeKind
    flow: str
    shard: int
    origin: int
    content: bytes


def seal(envelope: Envelope) -> Iterator[Sealed]:
    address = envelope.flow, envelope.shard, envelope.origin
    if not isinstance(envelope.content, pl.DataFrame):
        yield Sealed(EnvelopeKind.FAILURE, *address, dumps(envelope.content))
        return
    frame = envelope.content
    rows = max(1, frame.height * _PIECE // max(1, int(frame.estimated_size())))
    for piece in frame.iter_slices(rows):
        yield Sealed(EnvelopeKind.ROWS, *address, _content(piece))


def _content(rows: pl.DataFrame) -> bytes:
    table, stream = packed(rows), pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return bytes(stream.getvalue().to_pybytes())


def unseal(sealed: Sealed) -> Envelope:
    content = (
        unpacked(pa.ipc.open_stream(sealed.content).read_all())
        if sealed.kind is EnvelopeKind.ROWS
        else cloudpickle.loads(sealed.content)
    )
    return Envelope(sealed.flow, sealed.shard, sealed.origin, content)


def call(shard: int) -> Sealed:
    return Sealed(EnvelopeKind.CALL, "", shard, 0, b"")


def seal_outcome(outcome: ShardOutcome, shard: int) -> Sealed:
    return Sealed(EnvelopeKind.OUTCOME, "", shard, 0, dumps(outcome))


def guarded(work: Iterable[Sealed]) -> Iterator[Sealed]:
    """The work, or the error that ended it: a full disk or a damaged segment is for the driver to report, and trying
    the task again would not help."""
    try:
        yield from work
    except Error as error:
        yield Sealed(EnvelopeKind.ERROR, "", 0, 0, dumps(error))


def to_arrow(envelopes: Iterable[Sealed]) -> Iterator[pa.RecordBatch]:
    waiting = iter(envelopes)
    while some := list(islice(waiting, _PIECES)):
        rows = ((one.kind.value, one.flow, one.shard, one.origin, one.content) for one in some)
        columns = zip(zip(*rows, strict=True), _ARROW, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(values, field.type) for values, field in columns], schema=_ARROW)


def from_arrow(batches: Iterable[pa.RecordBatch]) -> Iterator[Sealed]:
    for batch in batches:
        for kind, *rest in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Sealed(EnvelopeKind(kind), *rest)


def dumps(value: object) -> bytes:
    """Pickled, users' own functions and classes by value: the workers need not be able to import them."""
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
