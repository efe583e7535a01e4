"""Rows of an input of a group's join that no query wants yet: they lie apart, as they came.

To sort them by key would cost more than all else where queries want little. A query that comes later finds those that
it wants among them, which are sorted then (`InputLineage.wanted`). Only rows that are never taken back lie there, so
that a row and its retraction cannot miss each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch
from millstream.kernel.columns import chosen, frame_of, is_small, joined, only, take, with_columns
from millstream.kernel.joins.stem import Arrangement, kept_columns
from millstream.kernel.operator import Segment
from millstream.kernel.sharing.input_lineage import InputLineage
from millstream.kernel.sharing.signature_classes import SIGNATURE
from millstream.kernel.storage.segments import alive
from millstream.kernel.storage.synopsis import is_over, size_classes_to_merge, without_expired

FEW = 1 << 7  # rows that are sorted whoever wants them
_WORTH_IT = 0.5  # where more are wanted, all are sorted
_FAN = 8  # segments of a size that are put together


@dataclass(frozen=True)
class Parted:
    """Rows that some query may want, with their signatures where pairs are looked at, and the others."""

    wanted: Batch
    others: Segment


def parted_by_queries(batch: Batch, source: int, lineage: InputLineage, how: Arrangement) -> Parted | None:
    """The rows of an input in two parts, where it is worth while."""
    wanted, signatures = lineage.flags(source, batch)
    if wanted is None or np.count_nonzero(wanted) > _WORTH_IT * wanted.size:
        return None
    kept = chosen(batch, kept_columns(how, batch.columns))
    others = only(kept, ~wanted)
    lineage.note_unwanted(source, others)
    places = np.flatnonzero(wanted)
    found = take(kept, places)
    if signatures is not None:
        found = with_columns(found, pl.Series(SIGNATURE, signatures[places]))
    return Parted(found, others)


def retained_as_they_came(
    segments: Sequence[Segment], arrived: Segment | None, horizon: int, source: int, lineage: InputLineage
) -> tuple[Segment, ...]:
    """The rows that nobody wanted, and those that arrived, of which only the instants from the horizon on matter."""
    parts = [*segments, *([] if arrived is None else [arrived])]
    kept, merging = [part for part in parts if not is_over(part, horizon)], list[Segment]()
    if is_small(*(part.height for part in parts)):
        kept, merging = [], kept
    elif arrived is not None:
        kept, merging = size_classes_to_merge([without_expired(part, horizon) for part in kept], _FAN)
    live = [part for segment in merging if (part := alive(segment, horizon)).height]
    if len(live) < 2:
        return *kept, *live
    together = frame_of([joined([part.get_column(name) for part in live]) for name in live[0].columns])
    lineage.note_unwanted(source, together, live)
    return *kept, together
