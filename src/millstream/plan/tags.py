"""What stands for a class in names on disk: renaming or moving a class never touches a stored plan's name.

A tag is given once. A class that means something new gets a new one; a tag that was used is not used again.
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.kernel.aggregation import aggregate, aggregate_calls, combined
from millstream.kernel.joins import asof, existence
from millstream.kernel.joins import pairwise as join
from millstream.kernel.just_in_time import tree_shape
from millstream.kernel.just_in_time.producers import ProducerOutput
from millstream.kernel.lazy import matched_selection, matches, ranked_tree, tree_selection
from millstream.kernel.multiway import half_join, join_tree, stem_join
from millstream.kernel.ordering import first_rows_of_queries, frames, over, sort_keys, top, window_functions
from millstream.kernel.relational import (
    cell_aggregate,
    change_log,
    checked_cells,
    compacted_cells,
    failures,
    keyed_change_log,
    linear,
    multiplicity,
    runs,
    unnest,
)
from millstream.kernel.scalar import expressions as ex
from millstream.kernel.scalar.functions_user import UserCall, UserFunction
from millstream.kernel.sharing import (
    cells,
    expand,
    expanded_selection,
    grouped_selection,
    keyed_selection,
    query_constants,
    query_windows,
    rows_of_queries,
)
from millstream.kernel.windows import bounds, elements, sample, sessions, streams, user_window, values
from millstream.kernel.windows import rows as rows_window
from millstream.kernel.windows import time as window
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.types import DataType, Field

TAGS: Mapping[type, str] = {
    # logical nodes and what they hold
    lo.Aggregate: "Aggregate",
    lo.AggregateCall: "AggregateCall",
    lo.AsofJoin: "AsofJoin",
    lo.Bounds: "Bounds",
    lo.ChangeSource: "ChangeSource",
    lo.Checked: "Checked",
    lo.Distinct: "Distinct",
    lo.Failing: "Failing",
    lo.Filter: "Filter",
    lo.Join: "Join",
    lo.OneRow: "OneRow",
    lo.Over: "Over",
    lo.Project: "Project",
    lo.RelationToStream: "RelationToStream",
    lo.Sample: "Sample",
    lo.SetOperation: "SetOperation",
    lo.StreamScan: "StreamScan",
    lo.TableScan: "TableScan",
    lo.Top: "Top",
    lo.Unnest: "Unnest",
    lo.Values: "Values",
    lo.Window: "Window",
    aggregate_calls.AggregateCall: "WindowAggregate",
    frames.Frame: "Frame",
    window_functions.WindowCall: "WindowCall",
    sort_keys.RowOrder: "RowOrder",
    sort_keys.SortKey: "SortKey",
    top.Places: "Places",
    window.BeginEnd: "BeginEnd",
    window.Hop: "Hop",
    window.Now: "Now",
    window.Range: "Range",
    window.Rows: "Rows",
    window.Sessions: "Sessions",
    window.RangeOn: "RangeOn",
    window.Tumble: "Tumble",
    window.Unbounded: "Unbounded",
    window.UserWindow: "UserWindow",
    query_windows.SizedWindow: "SizedWindow",
    # physical nodes and what they hold
    ph.Cases: "Cases",
    ph.CellSelection: "CellSelection",
    ph.CheckedSums: "CheckedSums",
    ph.Combined: "Combined",
    ph.Constants: "Constants",
    ph.Consumer: "Consumer",
    ph.Expand: "Expand",
    ph.Guard: "Guard",
    ph.JoinTree: "JoinTree",
    ph.MatchScan: "MatchScan",
    ph.MatchedSelection: "MatchedSelection",
    ph.Matches: "Matches",
    ph.PartScan: "PartScan",
    ph.Parted: "Parted",
    ph.QueryRows: "QueryRows",
    ph.QueryWindow: "QueryWindow",
    ph.RankedTree: "RankedTree",
    ph.Selection: "Selection",
    ph.Runs: "Runs",
    ph.Shortened: "Shortened",
    ph.SizedRows: "SizedRows",
    ph.SizedTop: "SizedTop",
    ph.Stamped: "Stamped",
    ph.StemJoin: "StemJoin",
    ph.TreeSelection: "TreeSelection",
    tree_shape.TreeJoin: "Join",
    # expressions and types
    ex.Call: "Call",
    ex.Case: "Case",
    ex.Cast: "Cast",
    ex.Column: "Column",
    ex.InList: "InList",
    ex.Literal: "Literal",
    ex.Parameter: "Parameter",
    ex.Reported: "Reported",
    ex.Tried: "Tried",
    UserCall: "UserCall",
    UserFunction: "UserFunction",
    DataType: "DataType",
    Field: "Field",
}

STEP_TAGS: Mapping[type, str] = {
    aggregate.Aggregate: "aggregate",
    cell_aggregate.CellAggregate: "cellaggregate",
    checked_cells.CheckedCellAggregate: "checkedcellaggregate",
    compacted_cells.CompactedCellAggregate: "compactedcellaggregate",
    combined.CombinedAggregate: "combinedaggregate",
    ranked_tree.RankedTree: "rankedtree",
    change_log.ChangeLog: "changelog",
    keyed_change_log.KeyedChangeLog: "keyedchangelog",
    elements.Elements: "elements",
    asof.AsofJoin: "asofjoin",
    existence.ExistenceJoin: "existencejoin",
    failures.Failing: "failing",
    join.InnerJoin: "innerjoin",
    join.NonRetroactiveJoin: "nonretroactivejoin",
    join_tree.JoinTree: "jointree",
    linear.Filter: "filter",
    linear.OneRow: "onerow",
    linear.Project: "project",
    linear.Shorten: "shorten",
    linear.Stamp: "stamp",
    linear.UnionAll: "unionall",
    linear.Values: "values",
    unnest.Unnest: "unnest",
    matches.Matches: "matches",
    multiplicity.DirectMultiplicity: "directmultiplicity",
    multiplicity.DistinctStar: "distinctstar",
    multiplicity.Multiplicity: "multiplicity",
    runs.CountedRuns: "countedruns",
    runs.ForetoldRuns: "foretoldruns",
    rows_window.RowsWindow: "rowswindow",
    rows_of_queries.RowsOfQueries: "sizedrows",
    first_rows_of_queries.FirstRowsOfQueries: "sizedtop",
    sample.Sample: "sample",
    sessions.SessionWindow: "sessionwindow",
    user_window.DefinedWindow: "definedwindow",
    values.ElementsLeftOut: "elementsleftout",
    values.ValueWindow: "valuewindow",
    over.Over: "over",
    top.Top: "top",
    bounds.NegativeWindowBounds: "negativewindowbounds",
    bounds.WindowBounds: "windowbounds",
    cells.CellSelection: "cellselection",
    expand.Expand: "expand",
    query_constants.QueryConstants: "queryconstants",
    query_windows.QueryWindows: "querywindows",
    expanded_selection.ExpandedSelection: "expandedselection",
    grouped_selection.GroupedSelection: "groupedselection",
    keyed_selection.KeyedSelection: "keyedselection",
    matched_selection.KeptSelection: "keptselection",
    matched_selection.MatchedSelection: "matchedselection",
    tree_selection.TreeSelection: "treeselection",
    stem_join.StemJoin: "stemjoin",
    half_join.HalfJoin: "halfjoin",
    streams.ChangeStream: "changestream",
    streams.EverySlide: "everyslide",
    ProducerOutput: "taken",
    window.NegativeTimeWindow: "negativetimewindow",
    window.TimeWindow: "timewindow",
}
