"""Nodes that say how something is run: made by rules, by grouping and by lowering, never by the binder.

They stand in a plan beside the logical ones, and are compared and named in the same way.
"""

from millstream.plan.physical.groups import (
    QUERY,
    CellSelection,
    Combined,
    Constants,
    Expand,
    Parted,
    PartScan,
    QueryRows,
    Selection,
)
from millstream.plan.physical.joins import Consumer, JoinTree, ManyJoin, StemJoin, without_consumers
from millstream.plan.physical.matches import Guard, MatchedSelection, Matches, MatchScan, RankedTree, TreeSelection
from millstream.plan.physical.windows import Shortened, Stamped

__all__ = [
    "QUERY",
    "CellSelection",
    "Combined",
    "Constants",
    "Consumer",
    "Expand",
    "Guard",
    "JoinTree",
    "ManyJoin",
    "MatchScan",
    "MatchedSelection",
    "Matches",
    "PartScan",
    "Parted",
    "QueryRows",
    "RankedTree",
    "Selection",
    "Shortened",
    "Stamped",
    "StemJoin",
    "TreeSelection",
    "without_consumers",
]
