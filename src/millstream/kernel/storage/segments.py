"""Segments taken apart: columns as arrays, rows by position, and what waits for time to reach it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import END, INF, WEIGHT, Batch, concat
from millstream.kernel.columns import bits, frame_of, in_one_piece, is_small, only, parted, renamed, taken, with_columns
from millstream.kernel.keys import KEY, Codes, Positions, first_of_equal
from millstream.kernel.operator import Segment
from millstream.kernel.storage import time_queue
from millstream.kernel.storage.shared_work import once
from millstream.kernel.storage.time_queue import TIME


def horizon_of(frontier: int) -> int:
    """The first instant that an input with this frontier can still reach."""
    return min(frontier + 1, INF)


def numbers(segment: pl.DataFrame, column: str) -> npt.NDArray[np.int64]:
    return segment.get_column(column).to_numpy()


def codes_of(segment: Segment) -> Codes:
    return segment.get_column(KEY).to_numpy()


def gather(frame: pl.DataFrame, columns: Sequence[str], rows: Positions | pl.Series) -> list[pl.Series]:
    return taken([frame.get_column(column) for column in columns], rows)


def as_one_row(columns: Iterable[pl.Series]) -> pl.DataFrame:
    """Columns of any lengths as lists: one piece of a store, whatever it holds."""
    return pl.DataFrame([_as_list(column) for column in columns])


def _as_list(column: pl.Series) -> pl.Series:
    # Which of both takes less depends on what is copied.
    return pl.Series(column.name, [column]) if is_small(len(column)) else column.implode()


def alive(segment: Segment, horizon: int) -> Segment:
    return once(lambda: only(segment, numbers(segment, END) > horizon), [segment], "alive", horizon)


def summed(frame: pl.DataFrame) -> pl.DataFrame:
    """One row for those that differ by nothing but their weights, none where these cancel; of a few in their order."""
    if is_small(frame.height):
        return _summed_few(frame)
    floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    bits = {name: pl.UInt64 if frame.schema[name] == pl.Float64 else pl.UInt32 for name in floats}
    # Polars groups 0.0 with -0.0, and which of them survived would depend on the batches; bits differ.
    plain = frame.with_columns(pl.col(name).reinterpret(dtype=dtype) for name, dtype in bits.items())
    plain = plain.group_by([name for name in plain.columns if name != WEIGHT]).agg(pl.col(WEIGHT).sum())
    plain = plain.filter(pl.col(WEIGHT) != 0).select(frame.columns)
    return plain.with_columns(pl.col(name).reinterpret(dtype=frame.schema[name]) for name in floats)


def _summed_few(frame: pl.DataFrame) -> pl.DataFrame:
    columns = frame.get_columns()
    plain = frame_of([bits(column) for column in columns if column.name != WEIGHT])
    sums = np.zeros(frame.height, np.int64)
    np.add.at(sums, first_of_equal(plain, plain.columns), numbers(frame, WEIGHT))
    kept = np.flatnonzero(sums)
    return with_columns(frame_of(taken(columns, kept)), pl.Series(WEIGHT, sums[kept]))


def released(
    queue: Sequence[Segment], arrived: Batch, column: str, before: int, after: int
) -> tuple[Batch, tuple[Segment, ...]]:
    """Of what arrived and what waited: the rows whose instant the frontier has reached, and the others."""
    waits = numbers(arrived, column) > after
    if not queue and not waits.any():
        return in_one_piece(arrived), ()
    waited = [renamed(part, {TIME: column}) for part in time_queue.due(queue, before, after)]
    later, now = parted(arrived, waits)
    ready = in_one_piece(concat([now, *waited], arrived))
    queue = time_queue.advanced(queue, after)
    if later.height:
        queue = time_queue.pushed(queue, renamed(later, {column: TIME}), after)
    return ready, queue
