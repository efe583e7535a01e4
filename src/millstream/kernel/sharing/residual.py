"""Conditions that no index can answer, evaluated on pairs of a row and a query."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import END, Batch, value_column
from millstream.kernel.keys import Positions
from millstream.kernel.scalar.evaluate import attempt, can_fail, failures
from millstream.kernel.scalar.expressions import Expression, columns_used, conjuncts, fails, possible
from millstream.kernel.scalar.functions_user import UserCall
from millstream.kernel.scalar.program import error_of
from millstream.kernel.sharing.parameters import parameters_as_columns, parameters_used
from millstream.kernel.storage.segments import gather

_ROW = "_row"


def holds(
    condition: Expression,
    batch: Batch,
    rows: Positions,
    table: pl.DataFrame,
    queries: Positions,
    width: int,
    first: int = 0,
) -> npt.NDArray[np.bool_]:
    """On which of the pairs (row of the batch, row of the query table) the condition is true.

    `width` is the number of value columns of the batch: behind them stand the parameters. What fails on rows that are
    gone before the instant `first` does not count.
    """
    columns = gather(batch, [value_column(index) for index in sorted(columns_used(condition))], rows)
    for index in sorted(parameters_used(condition)):
        (values,) = gather(table, [value_column(index)], queries)
        columns.append(values.alias(value_column(width + index)))
    pairs = pl.DataFrame(columns) if columns else pl.DataFrame(height=rows.size)
    plain = parameters_as_columns(condition, width)
    if first:
        return _truth(plain, pairs, pl.Series(batch[END].to_numpy()[rows] > first))
    if columns and any(isinstance(node, UserCall) for node in condition.walk()):
        return _holds_by_value(plain, pairs)
    return _truth(plain, pairs)


def _truth(condition: Expression, pairs: pl.DataFrame, counted: pl.Series | None = None) -> npt.NDArray[np.bool_]:
    """Raises where a part of the condition fails and none is false; what else is asked of these pairs is true."""
    parts = conjuncts(condition)
    fragile = [part for part in parts if can_fail(part)]
    asked = [condition, *(possible(part) for part in parts), *map(fails, fragile)] if fragile else [condition]
    found = attempt(pairs, asked, [f"v{place}" for place in range(len(asked))])
    if fragile and pairs.height:
        columns = found.get_columns()[1:]
        open_, failed = columns[: len(parts)], columns[len(parts) :]
        erring = reduce(and_, open_) & reduce(or_, failed)
        erring = erring if counted is None else erring & counted
        said = failures(pairs.filter(erring), fragile) if erring.any() else None
        if said is not None:
            raise error_of(said.row(0, named=True))
    return found.to_series(0).fill_null(False).to_numpy()


def _holds_by_value(condition: Expression, pairs: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Users' functions may be slow, and the rows of a join repeat the values of its inputs: each is asked once."""
    distinct = pairs.with_row_index(_ROW).group_by(pairs.columns, maintain_order=True).agg(_ROW)
    found = _truth(condition, distinct.drop(_ROW))
    rows, counts = distinct[_ROW].explode().to_numpy(), distinct[_ROW].list.len().to_numpy()
    result = np.empty(pairs.height, np.bool_)
    result[rows] = found.repeat(counts)
    return result
