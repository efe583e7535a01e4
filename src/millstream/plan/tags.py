"""What stands for a class in names on disk: renaming or moving a class never touches a stored plan's name.

A tag is given once. A class that means something new gets a new one; a tag that was used is not used again.
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.kernel.aggregation import aggregate, combined
from millstream.kernel.joins import existence
from millstream.kernel.joins import pairwise as join
from millstream.kernel.just_in_time import tree_shape
from millstream.kernel.just_in_time.producers import ProducerOutput
from millstream.kernel.lazy import matched_selection, matches, ranked_tree, tree_selection
from millstream.kernel.multiway import join_tree, stem_join
from millstream.kernel.relational import change_log, failures, linear, multiplicity, runs
from millstream.kernel.scalar import expressions as ex
from millstream.kernel.scalar.functions_user import UserCall, UserFunction
from millstream.kernel.sharing import (
    cells,
    expand,
    expanded_selection,
    grouped_selection,
    keyed_selection,
    query_constants,
)
from millstream.kernel.windows import elements, sample, streams
from millstream.kernel.windows import rows as rows_window
from millstream.kernel.windows import time as window
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.types import DataType, Field

TAGS: Mapping[type, str] = {
    # logical nodes and what they hold
    lo.Aggregate: "Aggregate",
    lo.AggregateCall: "AggregateCall",
    lo.ChangeSource: "ChangeSource",
    lo.Checked: "Checked",
    lo.Distinct: "Distinct",
    lo.Failing: "Failing",
    lo.Filter: "Filter",
    lo.Join: "Join",
    lo.OneRow: "OneRow",
    lo.Project: "Project",
    lo.RelationToStream: "RelationToStream",
    lo.Sample: "Sample",
    lo.SetOperation: "SetOperation",
    lo.StreamScan: "StreamScan",
    lo.TableScan: "TableScan",
    lo.Window: "Window",
    window.BeginEnd: "BeginEnd",
    window.Now: "Now",
    window.Range: "Range",
    window.Rows: "Rows",
    window.Tumble: "Tumble",
    window.Unbounded: "Unbounded",
    # physical nodes and what they hold
    ph.CellSelection: "CellSelection",
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
    ph.RankedTree: "RankedTree",
    ph.Selection: "Selection",
    ph.Shortened: "Shortened",
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
    combined.CellAggregate: "cellaggregate",
    combined.CombinedAggregate: "combinedaggregate",
    ranked_tree.RankedTree: "rankedtree",
    change_log.ChangeLog: "changelog",
    elements.Elements: "elements",
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
    matches.Matches: "matches",
    multiplicity.DirectMultiplicity: "directmultiplicity",
    multiplicity.DistinctStar: "distinctstar",
    multiplicity.Multiplicity: "multiplicity",
    runs.CountedRuns: "countedruns",
    runs.ForetoldRuns: "foretoldruns",
    rows_window.RowsWindow: "rowswindow",
    sample.Sample: "sample",
    cells.CellSelection: "cellselection",
    expand.Expand: "expand",
    query_constants.QueryConstants: "queryconstants",
    expanded_selection.ExpandedSelection: "expandedselection",
    grouped_selection.GroupedSelection: "groupedselection",
    keyed_selection.KeyedSelection: "keyedselection",
    matched_selection.KeptSelection: "keptselection",
    matched_selection.MatchedSelection: "matchedselection",
    tree_selection.TreeSelection: "treeselection",
    stem_join.StemJoin: "stemjoin",
    streams.ChangeStream: "changestream",
    ProducerOutput: "taken",
    window.NegativeTimeWindow: "negativetimewindow",
    window.TimeWindow: "timewindow",
}
