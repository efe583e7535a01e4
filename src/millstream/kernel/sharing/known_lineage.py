"""The lineage of pairs that a join has found by their classes: the selection above it need not look for it again.

Where all that queries ask of a pair is asked of one of its rows, the classes of the two rows (`signature_classes`) say
which queries want it. So a join notes by the identity of the batch that it made of which two classes each of the pairs
is. Nobody has to know: whoever does not ask finds the lineage by the values, as always.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from millstream.kernel.batch import Batch
from millstream.kernel.keys import Positions
from millstream.kernel.sharing.index import Index
from millstream.kernel.sharing.lineage import Bitmaps


@dataclass(frozen=True)
class KnownLineage:
    """By the index of which queries, the lineage of each pair of classes, and the place there of each row."""

    index: Index
    lineage: Bitmaps
    places: Positions


_known: dict[int, KnownLineage] = {}


def note_lineage(batch: Batch, index: Index, lineage: Bitmaps, places: Sequence[Positions]) -> None:
    """The rows of a batch have the lineage at these places."""
    _known[id(batch)] = KnownLineage(index, lineage, np.concatenate(places))
    weakref.finalize(batch, _known.pop, id(batch), None)


def known_lineage(batch: Batch, index: Index) -> KnownLineage | None:
    """What was noted of a batch, for the queries of an index."""
    known = _known.get(id(batch))
    return known if known is not None and known.index is index else None
