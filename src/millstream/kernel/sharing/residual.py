"""Conditions that no index can answer, evaluated on pairs of a row and a query."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import END, START, Batch, value_column
from millstream.kernel.keys import Positions
from millstream.kernel.pending_errors import ERROR_COLUMNS, ERROR_QUERY
from millstream.kernel.scalar.evaluate import attempt, calls_users, can_fail, where_possible
from millstream.kernel.scalar.expressions import (
    Expression,
    columns_used,
    conjunction,
    conjuncts,
    error_text,
    value_if_any,
)
from millstream.kernel.scalar.program import said_in
from millstream.kernel.sharing.parameters import QUERY, parameters_as_columns, parameters_used
from millstream.kernel.storage.segments import gather

_ROW = "_row"
Flags = npt.NDArray[np.bool_]


def holds(
    condition: Expression,
    batch: Batch,
    rows: Positions,
    table: pl.DataFrame,
    queries: Positions,
    width: int,
    errors: list[Batch],
) -> Flags:
    """On which of the pairs (row of the batch, row of the query table) the condition is true.

    `width` is the number of value columns of the batch: behind them stand the parameters. Where it fails, that is added
    to the errors, with the query and when the row is there.
    """
    columns = gather(batch, [value_column(index) for index in sorted(columns_used(condition))], rows)
    for index in sorted(parameters_used(condition)):
        (values,) = gather(table, [value_column(index)], queries)
        columns.append(values.alias(value_column(width + index)))
    pairs = pl.DataFrame(columns) if columns else pl.DataFrame(height=rows.size)
    plain = parameters_as_columns(condition, width)
    by_value = bool(columns) and calls_users(condition)
    true, texts = _by_value(plain, pairs) if by_value else _truth(plain, pairs)
    if texts is not None:
        erring = np.flatnonzero(texts.is_not_null().to_numpy())
        said = zip(said_in(texts.drop_nulls()).get_columns(), ERROR_COLUMNS, strict=True)
        (number,) = gather(table, [QUERY], queries[erring])
        shown = gather(batch, [START, END], rows[erring])
        errors.append(pl.DataFrame([*(each.alias(name) for each, name in said), number.alias(ERROR_QUERY), *shown]))
    return true


def not_certain(condition: Expression, batch: Batch) -> Positions:
    """The rows on which a condition must be asked for each query: all but those on which it is true for everybody."""
    if parameters_used(condition) or calls_users(condition):
        return np.arange(batch.height)
    true = attempt(batch, [value_if_any(condition)], ["true"]).to_series().fill_null(False)
    return np.flatnonzero(~true.to_numpy())


def _truth(condition: Expression, pairs: pl.DataFrame) -> tuple[Flags, pl.Series | None]:
    """Where the condition is true, and the errors of pairs on which a part of it fails and none is false. Both come of
    one computation: what calls users' code calls it once."""
    parts = conjuncts(condition)
    fragile = sorted((part for part in parts if can_fail(part)), key=calls_users)
    if not fragile:
        return attempt(pairs, [condition], ["true"]).to_series().fill_null(False).to_numpy(), None
    plain = [part for part in parts if part not in fragile]
    first = [conjunction(plain)] if plain else []
    asked = [
        where_possible([*first, *fragile[:place]], part) if calls_users(part) else part
        for place, part in enumerate(fragile)
    ]
    computed = [*first, *map(value_if_any, asked), *map(error_text, asked)]
    found = attempt(pairs, computed, [f"v{place}" for place in range(len(computed))]).get_columns()
    values, texts = found[: -len(asked)], found[-len(asked) :]
    failed = [text.is_not_null() for text in texts]
    truths = [value.fill_null(False) for value in values]
    true, erring = reduce(and_, truths), reduce(or_, failed)
    if not pairs.height or not erring.any():
        return true.to_numpy(), None
    open_ = [*truths[: len(first)], *(one | other for one, other in zip(truths[len(first) :], failed, strict=True))]
    erring = erring & reduce(and_, open_)
    said = pl.select(pl.coalesce(texts)).to_series()
    return true.to_numpy(), said.set(~erring, None) if erring.any() else None


def _by_value(condition: Expression, pairs: pl.DataFrame) -> tuple[Flags, pl.Series | None]:
    """Users' functions may be slow, and the rows of a join repeat the values of its inputs: each is asked once."""
    distinct = pairs.with_row_index(_ROW).group_by(pairs.columns, maintain_order=True).agg(_ROW)
    found, texts = _truth(condition, distinct.drop(_ROW))
    rows, counts = distinct[_ROW].explode().to_numpy(), distinct[_ROW].list.len().to_numpy()
    places = np.empty(pairs.height, np.intp)
    places[rows] = np.arange(distinct.height).repeat(counts)
    return found[places], None if texts is None else texts[places]
