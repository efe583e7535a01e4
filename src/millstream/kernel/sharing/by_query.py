"""The rows of one query among those of many: found by an index that is made once for each segment."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Segment


@dataclass(frozen=True)
class _Order:
    """The rows of a segment by query."""

    queries: npt.NDArray[np.int64]  # sorted
    rows: Positions

    def of(self, query: int) -> Positions:
        first, past = np.searchsorted(self.queries, [query, query + 1])
        return self.rows[first:past]


_orders: dict[int, _Order] = {}


def rows_of_query(segment: Segment, query: int) -> Positions:
    """Where an expanded segment, whose first column is the query, has rows of it."""
    known = _orders.get(id(segment))
    if known is None:
        queries = segment[value_column(0)].to_numpy()
        rows = np.argsort(queries, kind="stable")
        known = _orders[id(segment)] = _Order(queries[rows], rows)
        weakref.finalize(segment, _orders.pop, id(segment), None)
    return known.of(query)


def taken(frame: pl.DataFrame, columns: dict[str, str], rows: Positions) -> pl.DataFrame:
    """Some rows of some columns, under other names; series by series, since a query of Polars would cost more."""
    chosen = pl.Series(rows.astype(np.uint32))
    return pl.DataFrame([frame.get_column(old)[chosen].alias(new) for old, new in columns.items()])
