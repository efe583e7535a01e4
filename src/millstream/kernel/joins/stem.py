"""SteMs (CACQ's state modules): the rows of one input of a join, and ways to find them.

The rows are kept once, in segments sorted by the key that is asked for first. For every other key that rows are looked
for by, a segment gets an index: the codes of that key in order, and where in the segment their rows are. Indexes are
made when they are first needed and last as long as their segment; they are no part of the state that is written.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from millstream.kernel.batch import BORN, INTERVAL_COLUMNS, Batch
from millstream.kernel.columns import frame_of
from millstream.kernel.joins.graph import Access
from millstream.kernel.keys import (
    KEY,
    Codes,
    Positions,
    are_codes_exact,
    key_codes,
    order_codes,
    stable_order,
)
from millstream.kernel.operator import Segment
from millstream.kernel.storage.probing import Pairs, equal_pairs, equal_values, pairs_of_runs
from millstream.kernel.storage.segments import codes_of, gather
from millstream.kernel.storage.shared_work import once

_POSITION = "_position"
SortOrder = tuple[bool, tuple[str, ...]]  # whether by value (or else by hash), and the columns
_indexes: dict[int, dict[SortOrder, Segment]] = {}


@dataclass(frozen=True)
class Arrangement:
    """How the rows of an input are kept: these columns of those that lack none of the required ones, in an order."""

    columns: tuple[str, ...]
    required: tuple[str, ...]
    order: SortOrder


def arranged(batch: Batch, columns: Sequence[str], required: Sequence[str], access: Access) -> Segment:
    """The rows that can have partners at all, sorted for the access."""
    return arranged_by(batch, Arrangement(tuple(columns), tuple(required), access.order))


def arranged_by(batch: Batch, how: Arrangement) -> Segment:
    """The rows as they are kept; the same segment for all joins that want them so."""
    if not batch.height:
        return _nothing(how, tuple(batch.columns), tuple(batch.dtypes))

    def arrange() -> Segment:
        lacks = any(batch.get_column(column).null_count() for column in how.required)
        frame = batch.drop_nulls(how.required) if lacks else batch
        codes, positions = _sorted(frame, how.order)
        return frame_of([*gather(frame, kept_columns(how, frame.columns), positions), pl.Series(KEY, codes)])

    return once(arrange, [batch], how)


def kept_columns(how: Arrangement, columns: Collection[str]) -> list[str]:
    """What is kept of rows with some columns."""
    return [*how.columns, *INTERVAL_COLUMNS, *([BORN] if BORN in columns else [])]


@lru_cache(maxsize=1024)
def _nothing(how: Arrangement, columns: tuple[str, ...], dtypes: tuple[pl.DataType, ...]) -> Segment:
    """No rows, as they are kept; most inputs have none in most steps."""
    given = dict(zip(columns, dtypes, strict=True))
    return pl.DataFrame(schema={name: given[name] for name in kept_columns(how, columns)} | {KEY: pl.UInt64()})


class Probe:
    """Rows of joined inputs that look for partners in a SteM whose rows are sorted by `usual`."""

    def __init__(self, rows: pl.DataFrame, access: Access, usual: Access) -> None:
        self.rows = rows  # with the columns that the access reads
        self.access, self.usual = access, usual
        self._codes = key_codes(rows, access.probing) if access.probing else None
        self._exact = are_codes_exact(rows, access.probing)

    def candidates(self, stored: Segment) -> Iterator[Pairs]:
        """(row of the probe, row of what is stored) in chunks: a superset of what matches."""
        access = self.access
        if self._codes is None and access.band is None:
            yield from pairs_of_runs(
                np.zeros(self.rows.height, np.intp), np.full(self.rows.height, stored.height, np.intp)
            )
            return
        index = stored if access.order == self.usual.order else _index(stored, access.order)
        if self._codes is not None:
            found = equal_pairs(index, self._codes)
        else:
            assert access.band is not None
            found = pairs_of_runs(*access.band.runs(codes_of(index), self.rows))
        if index is stored:
            yield from found
            return
        positions = index[_POSITION].to_numpy()
        for i, j in found:
            yield i, positions[j].astype(np.intp)

    def agreeing(self, stored: Segment, i: Positions, j: Positions, pairs: Positions) -> Positions:
        """Those of the pairs (i, j) whose keys are equal, where equal codes do not say so already."""
        access = self.access
        if not access.probing or (self._exact and are_codes_exact(stored, access.stored)):
            return pairs
        return pairs[equal_values(self.rows, stored, i[pairs], j[pairs], access.probing, access.stored)]


def _index(segment: Segment, order: SortOrder) -> Segment:
    known = _indexes.get(id(segment))
    if known is None:
        known = _indexes[id(segment)] = {}
        weakref.finalize(segment, _indexes.pop, id(segment), None)
    if order not in known:
        codes, positions = _sorted(segment, order)
        known[order] = pl.DataFrame({KEY: codes, _POSITION: positions.astype(np.uint32)})
    return known[order]


def _sorted(frame: pl.DataFrame, order: SortOrder) -> tuple[Codes, Positions]:
    """The codes of the rows in order, and the positions of the rows."""
    by_value, columns = order
    if by_value:
        codes = order_codes(frame[columns[0]])
        positions = np.argsort(codes, kind="stable")
    else:
        codes = key_codes(frame, columns)
        positions = stable_order(codes)
    return codes[positions], positions
