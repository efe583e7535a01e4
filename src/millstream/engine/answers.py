"""Answers from committed rows: a relation at an instant, a stream's elements up to one, changes since one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from millstream.engine.limits import AnswerLimits
from millstream.kernel.batch import (
    END,
    START,
    WEIGHT,
    Batch,
    concat,
    net_changes,
    value_column,
    value_columns,
)
from millstream.kernel.columns import only, with_columns
from millstream.kernel.keys import order_codes
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.ordering.sort_keys import SortKey
from millstream.kernel.storage.segments import gather, numbers
from millstream.kernel.windows.elements import Elements
from millstream.plan.definitions import TimeDomain
from millstream.types import BIGINT, Field, Schema, arrow_schema, to_arrow

TIME = "_ts"
_FEW = 1_000
NO_LIMITS = AnswerLimits()
CHANGE = "_weight"


def relation_at(
    rows: Batch, schema: Schema, at: int, order: Sequence[SortKey] = (), limits: AnswerLimits = NO_LIMITS
) -> pa.Table:
    """R(at), each copy a row, in the order of some keys, then of the values."""
    columns = value_columns(len(schema))
    alive = only(rows, (numbers(rows, START) <= at) & (numbers(rows, END) > at))
    if not columns:
        return _table(alive.select(pl.col(WEIGHT).sum())[columns], schema, columns)
    _check(alive, limits, max(int(numbers(alive, WEIGHT).sum()), 0))
    ordered, is_first = _in_order(alive, columns)
    counted = ordered
    if (numbers(ordered, WEIGHT) < 0).any():
        summed = _summed(ordered, is_first)
        counted = only(summed, numbers(summed, WEIGHT) > 0)
    copies = counted[columns]
    if (numbers(counted, WEIGHT) != 1).any():
        copies = counted.select(pl.col(*columns).repeat_by(WEIGHT)).explode(*columns)
    return _table(_by_keys(copies, order), schema, columns)


def _by_keys(rows: Batch, order: Sequence[SortKey]) -> Batch:
    if not order:
        return rows
    return rows.sort(
        [value_column(key.column) for key in order],
        descending=[key.descending for key in order],
        nulls_last=[not key.nulls_first for key in order],
        maintain_order=True,
    )


def _in_order(rows: Batch, columns: list[str]) -> tuple[Batch, npt.NDArray[np.bool_]]:
    """The rows in the order of their values, and where a new value begins. Numbers are sorted by NumPy: a query of
    Polars costs more than a small answer."""
    if rows.height <= 1:
        return rows, np.ones(rows.height, np.bool_)
    is_first = np.ones(rows.height, np.bool_)
    if _are_numbers(rows, columns):
        values = [_codes(rows.get_column(name)) for name in columns]
        order = np.lexsort(values[::-1])
        is_first[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in values])
        return pl.DataFrame(gather(rows, rows.columns, order)), is_first
    ordered = rows.sort(columns)
    changed = ordered.select(pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in columns))
    is_first[1:] = changed.to_series().to_numpy()[1:]
    return ordered, is_first


def elements_between(
    rows: Batch, schema: Schema, since: int, at: int, domain: TimeDomain | None, limits: AnswerLimits
) -> pa.Table:
    """A stream's elements after an instant, up to another."""
    elements = _elements(rows, schema, since, at, limits, domain)
    columns = [START, *value_columns(len(schema))]
    return _table(_timed(elements[columns], domain), _with_time(schema, domain), columns)


def changes_between(
    rows: Batch,
    schema: Schema,
    *,
    stream: bool,
    since: int,
    until: int,
    domain: TimeDomain | None,
    limits: AnswerLimits,
) -> pa.Table:
    """Net changes with since < _ts <= until: of a relation its insertions and deletions, of a stream its elements."""
    columns = value_columns(len(schema))
    points = _within(rows, since, until) if stream else _points(rows, columns, since, until)
    _check(points, limits, points.height)
    if stream and not _are_single(points):
        points = _elements(rows, schema, since, until, limits, domain)
    outputs = [START, WEIGHT, *columns]
    described = _with_time((Field(CHANGE, BIGINT), *schema), domain)
    return _table(_timed(_net(points[outputs], columns), domain), described, outputs)


def from_instant(rows: Batch, start: int) -> Batch:
    """The same relation from an instant on, before which it is empty."""
    alive = only(rows, numbers(rows, END) > start)
    return alive.with_columns(pl.Series(START, np.maximum(numbers(alive, START), start)))


def _points(rows: Batch, columns: list[str], since: int, until: int) -> Batch:
    """The change points of a relation with since < t <= until, not yet summed."""
    starts, ends = numbers(rows, START), numbers(rows, END)
    coming = only(rows, (starts > since) & (starts <= until))
    going = only(rows, (ends > since) & (ends <= until))
    weights = pl.Series(WEIGHT, -numbers(going, WEIGHT))
    left = pl.DataFrame([*going[columns].get_columns(), going[END].alias(START), weights])
    return concat([coming[left.columns], left], left)


def _net(points: Batch, columns: list[str]) -> Batch:
    """Change points summed up, in order. Where each is alone at its instant there is nothing to sum."""
    instants = numbers(points, START)
    if (instants[1:] > instants[:-1]).all():
        return points
    if not _are_numbers(points, columns):
        return net_changes(points, columns).sort(START, *columns)[points.columns]
    ordered, is_first = _in_order(points, [START, *columns])
    if is_first.all():
        return ordered
    summed = _summed(ordered, is_first)
    return only(summed, numbers(summed, WEIGHT) != 0)


def _summed(ordered: Batch, is_first: npt.NDArray[np.bool_]) -> Batch:
    """One row of those in order that follow a first one, with the weights of all of them."""
    firsts = np.flatnonzero(is_first)
    weights = np.add.reduceat(numbers(ordered, WEIGHT), firsts) if firsts.size else firsts
    found = pl.DataFrame(gather(ordered, ordered.columns, firsts))
    return with_columns(found, pl.Series(WEIGHT, weights, pl.Int64))


def _are_numbers(rows: Batch, columns: list[str]) -> bool:
    """Whether NumPy sorts the columns as Polars does."""
    found = [rows.get_column(name) for name in columns]
    return all(c.dtype.is_integer() or c.dtype.is_float() for c in found) and not any(c.null_count() for c in found)


def _codes(column: pl.Series) -> npt.NDArray[np.generic]:
    """Numbers that compare as those of a column do, 0.0 as -0.0 and NaN above all."""
    return order_codes(column) if column.dtype.is_float() else column.to_numpy()


def first_instants(rows: Batch, *, stream: bool, since: int, until: int, most: int, domain: TimeDomain | None) -> int:
    """The instant up to which there are at most so many changes after `since`, or the first one that has any."""
    starts, ends = numbers(rows, START), numbers(rows, END)
    if stream:
        within = (starts <= until) & (ends > since + 1)
        instants = np.maximum(starts[within], since + 1)
        if (ends[within] - starts[within] > 1).any():  # runs of RSTREAM, an element per instant
            until = min(until, since + max(1, most // len(instants)) * (1 if domain is None else domain.every))
    else:
        points = np.concatenate([starts, ends])
        instants = points[(points > since) & (points <= until)]
    if len(instants) <= most:
        return until
    beyond = int(np.partition(instants, most)[most])
    return min(until, beyond - 1 if beyond > instants.min() else beyond)


def _elements(
    rows: Batch, schema: Schema, since: int, until: int, limits: AnswerLimits, domain: TimeDomain | None
) -> Batch:
    """One row per element with since < t <= until; runs that RSTREAM made are cut to that span before they unfold."""
    within = _within(rows, since, until)
    _check(within, limits, within.height)
    starts = numbers(within, START)
    if _are_single(within) and (starts[1:] > starts[:-1]).all() and (numbers(within, WEIGHT) == 1).all():
        return within  # one by one and in order, as most are
    within = within.with_columns(pl.Series(START, np.maximum(starts, since + 1)))
    every = 1 if domain is None else domain.every
    found, _ = Elements(schema, limits.rstream_rows, every).step([within], NO_STATE, Progress((since,), (until,)))
    _check(found, limits, found.height)
    return found


def _check(rows: Batch, limits: AnswerLimits, count: int) -> None:
    """Refuse an answer that would have so many rows like these, if that is too much; to measure a few costs more than
    to give them."""
    if count > _FEW:
        limits.check(count, rows.estimated_size() * (count / max(rows.height, 1)))


def _within(rows: Batch, since: int, until: int) -> Batch:
    return only(rows, (numbers(rows, START) <= until) & (numbers(rows, END) > since + 1))


def _are_single(rows: Batch) -> bool:
    """Whether each row is of one instant, and no run that RSTREAM made."""
    return bool((numbers(rows, END) == numbers(rows, START) + 1).all())


def _with_time(schema: Schema, domain: TimeDomain | None) -> Schema:
    return (Field(TIME, BIGINT if domain is None else domain.type), *schema)


def _timed(rows: Batch, domain: TimeDomain | None) -> Batch:
    """Ticks in the type of the timestamp."""
    if domain is None or not domain.type.is_temporal:
        return rows
    zone = "UTC" if domain.type.name == "TIMESTAMP" else None
    return rows.with_columns((pl.col(START) * (domain.tick or 1)).cast(pl.Datetime("us", zone)))


def _table(rows: Batch, schema: Schema, columns: list[str]) -> pa.Table:
    arrays = [_array(rows[name], to_arrow(f.type)) for name, f in zip(columns, schema, strict=True)]
    if not arrays:
        return pa.table({}).select([])
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def _array(column: pl.Series, kind: pa.DataType) -> pa.Array:
    array = column.to_arrow()
    return array if array.type == kind else array.cast(kind)
