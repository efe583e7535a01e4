"""Nodes that say how something is run: made by rules, by grouping and by lowering, never by the binder.

They stand in a plan beside the logical ones, and are compared and named in the same way.
"""

from millstream.plan.physical.groups import (
    QUERY,
    Cases,
    CellSelection,
    CheckedSums,
    Combined,
    Constants,
    Expand,
    Parted,
    PartScan,
    QueryRows,
    QueryWindow,
    Selection,
    SizedRows,
    SizedTop,
    most_places,
    most_rows,
)
from millstream.plan.physical.joins import Consumer, JoinTree, ManyJoin, StemJoin, without_consumers
from millstream.plan.physical.matches import Guard, MatchedSelection, Matches, MatchScan, RankedTree, TreeSelection
from millstream.plan.physical.runs import Runs
from millstream.plan.physical.windows import Shortened, Stamped

__all__ = [
    "QUERY",
    "Cases",
    "CellSelection",
    "CheckedSums",
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
    "QueryWindow",
    "RankedTree",
    "Runs",
    "Selection",
    "Shortened",
    "SizedRows",
    "SizedTop",
    "Stamped",
    "StemJoin",
    "TreeSelection",
    "most_places",
    "most_rows",
    "without_consumers",
]
