"""What operators are to those who look at a plan: of which kind, and how they keep what they keep.

FIFO         in the order of time: the oldest go first                ROWS windows; WKS under `SET expiry_groups`
by expiry    by the instants at which rows go                         WK under `SET expiry_groups`
by value     sorted by key, a row and its retraction cancel           joins, counts, groups
delta*       of equal rows the one that stays longest                 DISTINCT where nothing is taken back
ranked tree  by the instant, with sums for every span                 aggregates of mode LAZY
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millstream.kernel.aggregation.aggregate import Aggregate
from millstream.kernel.aggregation.combined import CombinedAggregate
from millstream.kernel.joins.asof import AsofJoin
from millstream.kernel.joins.existence import ExistenceJoin
from millstream.kernel.joins.pairwise import InnerJoin, NonRetroactiveJoin
from millstream.kernel.just_in_time.producers import Producer, ProducerOutput
from millstream.kernel.lazy.matched_selection import MatchedSelection
from millstream.kernel.lazy.matches import Matches
from millstream.kernel.lazy.ranked_tree import RankedTree
from millstream.kernel.lazy.tree_selection import TreeSelection
from millstream.kernel.multiway.half_join import HalfJoin
from millstream.kernel.multiway.join_tree import JoinTree
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import Operator
from millstream.kernel.ordering.ordered_operator import OrderedOperator
from millstream.kernel.relational import linear
from millstream.kernel.relational.change_log import ChangeLog
from millstream.kernel.relational.failures import Checked, Failing, Failures
from millstream.kernel.relational.keyed_change_log import KeyedChangeLog
from millstream.kernel.relational.multiplicity import DirectMultiplicity, DistinctStar, Multiplicity, SetOperation
from millstream.kernel.relational.runs import CountedRuns
from millstream.kernel.relational.unnest import Unnest
from millstream.kernel.sharing.cells import CellSelection
from millstream.kernel.sharing.expand import Expand
from millstream.kernel.sharing.expanded_selection import ExpandedSelection
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.kernel.sharing.query_constants import QueryConstants
from millstream.kernel.sharing.query_windows import QueryWindows
from millstream.kernel.storage.expiry_groups import ExpiryGrouped, Fifo
from millstream.kernel.windows.bounds import WindowBounds
from millstream.kernel.windows.elements import Elements
from millstream.kernel.windows.rows import RowsWindow
from millstream.kernel.windows.sample import Sample
from millstream.kernel.windows.sessions import SessionWindow
from millstream.kernel.windows.streams import ChangeStream, EverySlide
from millstream.kernel.windows.time import NegativeTimeWindow, TimeWindow
from millstream.kernel.windows.user_window import DefinedWindow
from millstream.kernel.windows.values import ElementsLeftOut, ValueWindow

FIFO, BY_EXPIRY, BY_VALUE, DELTA, TREE = "FIFO", "by expiry", "by value", "delta*", "ranked tree"

# The first that an operator is an instance of counts: more special ones stand before others.
_KINDS: Mapping[type, str] = {
    linear.Filter: "filter",
    Sample: "filter",
    linear.Project: "project",
    linear.Stamp: "project",
    linear.Shorten: "window",
    linear.UnionAll: "set",
    linear.OneRow: "source",
    linear.Values: "source",
    TimeWindow: "window",
    NegativeTimeWindow: "window",
    RowsWindow: "window",
    SessionWindow: "window",
    DefinedWindow: "window",
    ValueWindow: "window",
    ElementsLeftOut: "window",
    WindowBounds: "window",
    QueryWindows: "window",
    Elements: "stream",
    ChangeStream: "stream",
    EverySlide: "stream",
    ChangeLog: "table",
    KeyedChangeLog: "table",
    TreeSelection: "aggregate",
    RankedTree: "aggregate",
    Aggregate: "aggregate",
    CombinedAggregate: "aggregate",
    MatchedSelection: "selection",
    Matches: "matches",
    GroupedSelection: "selection",
    ExpandedSelection: "selection",
    KeyedSelection: "selection",
    CellSelection: "selection",
    Expand: "expand",
    QueryConstants: "expand",
    InnerJoin: "join",
    NonRetroactiveJoin: "join",
    ExistenceJoin: "join",
    AsofJoin: "join",
    HalfJoin: "join",
    Unnest: "join",  # of a row with the values of its list
    Producer: "join",
    ProducerOutput: "join",
    OrderedOperator: "order",
    DistinctStar: "distinct",
    CountedRuns: "distinct",
    Failing: "errors",
    Failures: "errors",
    Checked: "errors",
}


def kind_of(operator: Operator) -> str:
    """In one word; "operator" for those of somebody else."""
    if isinstance(operator, Multiplicity | DirectMultiplicity):
        return "distinct" if operator.operation == SetOperation.DISTINCT else "set"
    return next((kind for known, kind in _KINDS.items() if isinstance(operator, known)), "operator")


def structure_of(operator: Operator) -> str | None:
    """How an operator keeps its state; None where it keeps none."""
    match operator:
        case InnerJoin() | StemJoin() | JoinTree():
            return _together(map(synopsis_name, operator.synopses))
        case ExistenceJoin():
            presence = DELTA if isinstance(operator.presence, DistinctStar) else BY_VALUE
            return _together([synopsis_name(operator.synopsis), presence])
        case HalfJoin():
            return synopsis_name(operator.synopsis)
        case NonRetroactiveJoin() | ChangeLog() | KeyedChangeLog() | AsofJoin() | OrderedOperator() | CountedRuns():
            return BY_VALUE
        case RowsWindow() | SessionWindow() | ValueWindow() | ElementsLeftOut():
            return FIFO
        case DistinctStar():
            return DELTA
        case RankedTree() | TreeSelection():
            return TREE
        case Multiplicity() | DirectMultiplicity() | Aggregate() | CombinedAggregate():
            return BY_VALUE
        case Matches() | MatchedSelection() | ChangeStream() | Elements():
            return FIFO  # by the instant: what may be in a window, what waits to become final
        case _:
            return None


def synopsis_name(synopsis: object) -> str:
    """How a synopsis of an input keeps its rows."""
    return FIFO if isinstance(synopsis, Fifo) else BY_EXPIRY if isinstance(synopsis, ExpiryGrouped) else BY_VALUE


def _together(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))
