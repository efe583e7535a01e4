"""Since when the copies that a retraction takes away had been there.

A row (v, t, end, -w) cancels w copies of earlier rows (v, s, end, +) from t on. FIRST and LAST order copies by
s, which the retraction does not say: it takes the copies with the same values, arrival number and end, those
with the least s first, as ROWS windows do. Keeps the copies that may still be retracted, until they end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation.sorted_runs import SortedRuns, add_run
from millstream.kernel.batch import END, START, WEIGHT
from millstream.kernel.operator import Segment

Int64s = NDArray[np.int64]
ORIGIN = "_origin"
_KIND = "_kind"


def resolve(rows: pl.DataFrame, runs: SortedRuns, low: int) -> tuple[pl.DataFrame, SortedRuns]:
    """The rows with the column `_origin`, a retraction split where it takes copies of several origins."""
    inserted = rows.filter(pl.col(WEIGHT) > 0).with_columns(pl.col(START).alias(ORIGIN))
    retracted = rows.filter(pl.col(WEIGHT) < 0)
    identity = [name for name in rows.columns if name not in (START, WEIGHT)]
    copies = inserted.select(*identity, ORIGIN, WEIGHT)
    if retracted.height:
        kinds = retracted.select(identity).unique().with_row_index(_KIND)
        candidates = [
            piece.join(kinds, on=identity, how="inner", nulls_equal=True) for piece in (*runs, copies) if piece.height
        ]
        retracted = retracted.join(kinds, on=identity, how="left", nulls_equal=True)
        split = _oldest_first(retracted, _available(candidates)).drop(_KIND)
        inserted = pl.concat([inserted, split.select(inserted.columns)])
        copies = pl.concat([copies, split.select(copies.columns)])

    def merge(merged: Sequence[Segment], oldest: bool) -> Segment:
        net = pl.concat(merged).filter(pl.col(END) > low).group_by(*identity, ORIGIN).agg(pl.col(WEIGHT).sum())
        return net.filter(pl.col(WEIGHT) != 0)

    return inserted, add_run(runs, copies, merge)


def _available(pieces: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Copies per kind and origin, oldest first within a kind."""
    if not pieces:
        return pl.DataFrame(schema={_KIND: pl.UInt32, ORIGIN: pl.Int64, WEIGHT: pl.Int64})
    net = pl.concat([piece.select(_KIND, ORIGIN, WEIGHT) for piece in pieces])
    net = net.group_by(_KIND, ORIGIN).agg(pl.col(WEIGHT).sum())
    return net.filter(pl.col(WEIGHT) > 0).sort(_KIND, ORIGIN)


def _oldest_first(retracted: pl.DataFrame, copies: pl.DataFrame) -> pl.DataFrame:
    """Pair copies to take with copies there are, both laid out as lengths on one line, each kind on its own stretch."""
    retracted = retracted.sort(_KIND, START)
    wanted, wanted_kind = -retracted.get_column(WEIGHT).to_numpy(), retracted.get_column(_KIND).to_numpy()
    there, there_kind = copies.get_column(WEIGHT).to_numpy(), copies.get_column(_KIND).to_numpy()
    kinds = int(wanted_kind.max()) + 1
    stretch = np.maximum(_sums(wanted, wanted_kind, kinds), _sums(there, there_kind, kinds))
    offset = np.cumsum(stretch) - stretch
    wanted_until, there_until = _ends(wanted, wanted_kind, offset), _ends(there, there_kind, offset)
    cuts = np.unique(np.concatenate((wanted_until, there_until)))
    lengths = np.diff(cuts, prepend=0)
    kind = np.searchsorted(np.cumsum(stretch), cuts)
    taker = np.minimum(np.searchsorted(wanted_until, cuts), len(wanted) - 1)
    taken = (wanted_until[taker] >= cuts) & (wanted_kind[taker] == kind)
    cuts, lengths, kind, taker = cuts[taken], lengths[taken], kind[taken], taker[taken]
    split = retracted.gather(taker)
    origin = split.get_column(START).to_numpy()
    if len(there):
        giver = np.minimum(np.searchsorted(there_until, cuts), len(there) - 1)
        matched = (there_until[giver] >= cuts) & (there_kind[giver] == kind)
        origin = np.where(matched, copies.get_column(ORIGIN).to_numpy()[giver], origin)
    return split.with_columns(pl.Series(WEIGHT, -lengths), pl.Series(ORIGIN, origin))


def _sums(weight: Int64s, kind: Int64s, kinds: int) -> Int64s:
    result = np.zeros(kinds, np.int64)
    np.add.at(result, kind, weight)
    return result


def _ends(weight: Int64s, kind: Int64s, offset: Int64s) -> Int64s:
    """Where each length ends on the line, lengths of one kind following one another from its offset."""
    running = np.cumsum(weight)
    first = np.append(True, kind[1:] != kind[:-1]) if len(kind) else np.zeros(0, np.bool_)
    before = (running - weight)[first]
    return running - before[np.cumsum(first) - 1] + offset[kind] if len(kind) else running
