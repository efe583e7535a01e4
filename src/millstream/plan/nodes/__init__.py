"""Logical nodes: frozen, checked when built, equal when they mean the same.

Columns are positions, and names are kept for display only, so that equal sub-plans of different queries compare equal
whatever aliases their authors chose. That equality is how plans are shared.
"""

from millstream.plan.nodes.aggregation import Aggregate, AggregateCall, UserDefinition
from millstream.plan.nodes.expressions import map_expressions
from millstream.plan.nodes.failures import Checked, Failing
from millstream.plan.nodes.joins import AsofJoin, Join, JoinKind
from millstream.plan.nodes.node import Kind, Node, Unary
from millstream.plan.nodes.ordering import Over, Top
from millstream.plan.nodes.rows import Distinct, Filter, Project, ProjectRole, SetKind, SetOperation, Unnest
from millstream.plan.nodes.sources import (
    ChangeSource,
    OneRow,
    StreamScan,
    TableNature,
    TableScan,
    Values,
    has_no_heartbeat,
    sources,
)
from millstream.plan.nodes.windows import BOUND_NAMES, Bounds, RelationToStream, Sample, StreamKind, Window

__all__ = [
    "BOUND_NAMES",
    "Aggregate",
    "AggregateCall",
    "AsofJoin",
    "Bounds",
    "ChangeSource",
    "Checked",
    "Distinct",
    "Failing",
    "Filter",
    "Join",
    "JoinKind",
    "Kind",
    "Node",
    "OneRow",
    "Over",
    "Project",
    "ProjectRole",
    "RelationToStream",
    "Sample",
    "SetKind",
    "SetOperation",
    "StreamKind",
    "StreamScan",
    "TableNature",
    "TableScan",
    "Top",
    "Unary",
    "Unnest",
    "UserDefinition",
    "Values",
    "Window",
    "has_no_heartbeat",
    "map_expressions",
    "sources",
]
