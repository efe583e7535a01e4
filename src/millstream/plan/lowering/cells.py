"""Aggregates by cell of queries, and what puts them together, as operators."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.kernel.aggregation.accumulators import Accumulator
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.combined import CombinedAggregate
from millstream.kernel.relational.cell_aggregate import CellAggregate
from millstream.kernel.relational.checked_cells import CheckedCellAggregate, MemberCheck
from millstream.kernel.relational.compacted_cells import CompactedCellAggregate
from millstream.kernel.relational.failures import Failing
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Column, conjuncts
from millstream.kernel.sharing.query_constants import QueryConstants
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.patterns import Pattern, pattern_of
from millstream.plan.lowering.kernel_calls import kernel_calls
from millstream.plan.lowering.row_wise import row_wise, where_computed
from millstream.types import Field, Schema


def combining(node: ph.Combined) -> CombinedAggregate:
    rows = node.input.schema
    columns = [Column(f.type, index, f.name) for index, f in enumerate((*rows, *node.arguments))]
    sums = {Accumulator(kind, argument): column for kind, argument, column in node.sums}
    calls = kernel_calls(node.calls, columns)
    return CombinedAggregate(rows, node.keys, node.arguments, calls, sums, always=node.always, copies=node.copies)


def summing(
    node: lo.Aggregate, rows: Schema, keys: tuple[int, ...], calls: tuple[AggregateCall, ...], *, retractions: bool
) -> CellAggregate:
    """The aggregate of rows with their cells."""
    lasting = is_lasting(node.input)
    if not isinstance(node, ph.CheckedSums):
        if lasting:
            return CompactedCellAggregate(rows, keys, calls, retractions=retractions)
        return CellAggregate(rows, keys, calls, retractions=retractions)
    (combined,) = (below for below in node.members.walk() if isinstance(below, ph.Combined))
    return CheckedCellAggregate(
        rows,
        keys,
        calls,
        retractions=retractions,
        lasting=lasting,
        combined=combining(combined),
        checks=[*_checks(node.members)],
    )


def is_lasting(rows: lo.Node) -> bool:
    """Whether rows do not leave by themselves, at instants that are known when they come."""
    return pattern_of(rows) not in (Pattern.WKS, Pattern.WK)


def constants_of_queries(node: ph.Constants) -> QueryConstants:
    fields = {parameter.index: Field(str(parameter), parameter.type) for parameter in node.parameters}
    return QueryConstants(node.input.schema, fields)


def _checks(members: lo.Node) -> Iterator[MemberCheck]:
    """What reads the aggregates of queries, up to the last that can fail, from the bottom up."""
    nodes: list[lo.Filter | lo.Project | ph.Constants] = []
    while not isinstance(members, ph.Combined):
        if isinstance(members, lo.Filter | lo.Project | ph.Constants) and (
            nodes or any(map(can_fail, members.computed))
        ):
            nodes.append(members)
        (members,) = members.children
    for node in reversed(nodes):
        if isinstance(node, ph.Constants):
            yield MemberCheck(None, constants_of_queries(node))
            continue
        computed = conjuncts(node.condition) if isinstance(node, lo.Filter) else node.expressions
        fragile = tuple(dict.fromkeys(filter(can_fail, computed)))
        query = node.input.schema[:1]
        failing = Failing(fragile, where_computed(node, computed), query) if fragile else None
        yield MemberCheck(failing, row_wise(node))
