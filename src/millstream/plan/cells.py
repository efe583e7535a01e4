"""Aggregates of many queries, summed once for all queries that want the same rows.

    A(σ_q(X)) for each query q   =   combined over the cells c with q in c of   P(X_c),   X_c = the rows of cell c

P sums as A does, exactly, by the cell beside the keys. What A makes of sums is made of those of all cells that a query
is in, when it is asked. It pays since a row is in one cell, however many queries want it. Sums are linear: so a query
that comes late brings the sums of its past in cells of its own, and one that is gone is not asked for any more.

Only what cannot fail is left for those who ask: a query fails as rows come, whoever asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from millstream.kernel.aggregation.accumulators import COPIES, Accumulator, accumulators_of
from millstream.kernel.aggregation.aggregate_calls import BOOLEANS, VARIANCES, canonical
from millstream.kernel.aggregation.aggregate_calls import AggregateCall as KernelCall
from millstream.kernel.aggregation.partial_sums import PARTIAL_SUMS, type_of
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Column, Expression, Parameter, map_columns
from millstream.kernel.sharing.cells import CELL
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.patterns import Pattern, pattern_of
from millstream.types import BIGINT, Field, Schema

CELLS = "_cells"  # the source of what is done when a query is asked: totals of its cells, the query's place in front
_SUMS = {"count", "sum", "avg", *BOOLEANS, *VARIANCES}
_FUNCTION = {kind: name for name, kind in PARTIAL_SUMS.items()}


@dataclass(frozen=True)
class CellSums:
    """An aggregate taken apart: what is summed by cell, and what is made of the sums of a query."""

    plan: lo.Aggregate
    combined: ph.Combined


def can_be_summed_in_cells(core: lo.Node, columns: Sequence[Expression], above: Sequence[lo.Node]) -> bool:
    """Whether the operators on the rows of queries begin with an aggregate of sums, and none of them can fail; and
    whether these rows leave by themselves, so that cells do which queries that come and go have left behind."""
    if not above or not isinstance(above[0], lo.Aggregate) or not all(map(_is_sum, above[0].calls)):
        return False
    if pattern_of(core) not in (Pattern.WKS, Pattern.WK):
        return False
    if not all(isinstance(node, lo.Filter | lo.Project | lo.Distinct) for node in above[1:]):
        return False
    computed = [*columns, *(e for node in above for e in node.computed)]
    return not any(can_fail(e) or any(isinstance(part, Parameter) for part in e.walk()) for e in computed)


def _is_sum(call: lo.AggregateCall) -> bool:
    """Whether a call is a function of sums that never fails."""
    argument = None if call.argument is None else call.argument.type
    exact = argument is None or argument.is_numeric or canonical(call.function) in ("count", *BOOLEANS)
    return (
        canonical(call.function) in _SUMS
        and not call.distinct
        and call.definition is None
        and call.error is None
        and exact
    )


def summed_in_cells(rows: ph.Selection, columns: Sequence[Expression], node: lo.Node) -> CellSums:
    """The aggregate over `columns` of the rows that queries select."""
    if not isinstance(node, lo.Aggregate):
        raise AssertionError("no aggregate")
    over = [_over(key, columns) for key in node.keys]
    needed = [None if call.argument is None else _over(call.argument, columns) for call in node.calls]
    read = list(dict.fromkeys([*over, *(e for e in needed if e is not None)]))
    selected = ph.CellSelection(rows.input, rows.group, tuple(read), tuple(map(str, read)), rows.shapes)
    places = {e: _column(selected.schema, len(CELL) + index) for index, e in enumerate(read)}
    keys = (*(_column(selected.schema, index) for index in range(len(CELL))), *(places[e] for e in over))

    arguments = list(dict.fromkeys(e for e in needed if e is not None))
    first = 1 + len(over)  # behind the place of the query and the keys
    described = (*(Field(str(e), e.type) for e in ([*over, *arguments])),)
    virtual: Schema = (Field("query", BIGINT), *described)
    calls: list[lo.AggregateCall] = []
    totals: dict[Accumulator, lo.AggregateCall] = {COPIES: lo.AggregateCall("count", None, False, BIGINT)}
    for call, argument in zip(node.calls, needed, strict=True):
        at = None if argument is None else first + arguments.index(argument)
        calls.append(replace(call, argument=None if at is None else _column(virtual, at)))
        for total in accumulators_of(KernelCall(call.function, at, False, call.type), virtual):
            if argument is not None:
                kind = type_of(total.kind, argument.type)
                totals[total] = lo.AggregateCall(_FUNCTION[total.kind], places[argument], False, kind)
    plan = lo.Aggregate(selected, keys, tuple(dict.fromkeys(totals.values())))
    made = list(plan.calls)
    source = ph.MatchScan(CELLS, (ph.QUERY, *plan.schema[len(CELL) :]), retracting=True)
    sums = tuple((total.kind, total.argument, first + made.index(call)) for total, call in totals.items())
    combined = ph.Combined(source, first, virtual[first:], tuple(calls), sums, always=not node.keys)
    return CellSums(plan, combined)


def _over(expression: Expression, columns: Sequence[Expression]) -> Expression:
    return map_columns(expression, lambda column: columns[column.index])


def _column(schema: Schema, index: int) -> Column:
    return Column(schema[index].type, index, schema[index].name)
