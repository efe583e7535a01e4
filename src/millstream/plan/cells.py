"""Aggregates of many queries, summed once for all queries that want the same rows.

    A(σ_q(X)) for each query q   =   combined over the cells c with q in c of   P(X_c),   X_c = the rows of cell c

P sums as A does, exactly, by the cell beside the keys. What A makes of sums is made of those of all cells that a query
is in, when it is asked. It pays since a row is in one cell, however many queries want it. Sums are linear: so a query
that comes late brings the sums of its past in cells of its own, and one that is gone is not asked for any more.

Extremes are no sums, but how often a value is there is one. So where rows are taken back, perhaps in another cell than
they came in, the values of which there are extremes are keys of P as well: those that come to more than no copies in
the cells of a query are there for it. That is for windows that hold few rows.

A query fails as rows come, whoever asks: where its sums do not fit into their type, which is looked at as they are made
(CheckedSums). What else can fail is not left for those who ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from millstream.kernel.aggregation.accumulators import COPIES, Accumulator, accumulators_of
from millstream.kernel.aggregation.aggregate_calls import BOOLEANS, VARIANCES, canonical
from millstream.kernel.aggregation.aggregate_calls import AggregateCall as KernelCall
from millstream.kernel.aggregation.partial_sums import PARTIAL_SUMS, type_of
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Column, Expression, Parameter, Reported, map_columns
from millstream.kernel.sharing.cells import CELL
from millstream.kernel.sharing.query_windows import SizedWindow
from millstream.kernel.windows.time import Rows
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.patterns import Pattern, pattern_of
from millstream.types import BIGINT, Field, Schema

CELLS = "_cells"  # the source of what is done when a query is asked: totals of its cells, the query's place in front
_SUMS = {"count", "sum", "avg", *BOOLEANS, *VARIANCES}
_FEW = 1 << 14  # rows of a window of which the values are kept for extremes
_FUNCTION = {kind: name for name, kind in PARTIAL_SUMS.items()}


@dataclass(frozen=True)
class CellSums:
    """An aggregate taken apart: what is summed by cell, and what is made of the sums of a query."""

    plan: lo.Aggregate
    combined: ph.Combined

    def checked(self, members: lo.Node) -> lo.Aggregate:
        """What is summed by cell; with what is made of it for queries, where that can fail."""
        if not any(call.gives_error for call in self.combined.calls):
            return self.plan
        return ph.CheckedSums(self.plan.input, self.plan.keys, self.plan.calls, members)


def can_be_summed_in_cells(
    core: lo.Node, columns: Sequence[Expression], above: Sequence[lo.Node], *, retracting: bool
) -> bool:
    """Whether the operators on the rows of queries begin with an aggregate of sums, or of extremes of rows that leave
    by themselves or are few, and none of them can fail but by sums that do not fit. What is summed is the same for all
    queries; above it they may have constants of their own. With `retracting` windows take rows back."""
    if not above or not isinstance(above[0], lo.Aggregate):
        return False
    leaving, calls = not retracting and _leave_by_themselves(core), above[0].calls
    if not all(_is_sum(call) or _is_extreme(call) for call in calls):
        return False
    if not leaving and any(map(_is_extreme, calls)) and (not _is_small(core) or any(c.gives_error for c in calls)):
        return False
    if not all(isinstance(node, lo.Filter | lo.Project | lo.Distinct) for node in above[1:]):
        return False
    summed = [*columns, *above[0].computed]
    if any(isinstance(part, Parameter) for e in summed for part in e.walk()):
        return False
    computed = [*summed, *(e for node in above[1:] for e in node.computed)]
    return not any(can_fail(e.transform(lambda part: part.value if _is_total(part) else part)) for e in computed)


def _leave_by_themselves(core: lo.Node) -> bool:
    """Whether rows end at instants that are known when they come, and none is ever taken back: then also what is no sum
    is that of a cell for all its queries, until its rows are gone."""
    return pattern_of(core) in (Pattern.WKS, Pattern.WK) and all(
        isinstance(node, lo.StreamScan | lo.Window | lo.Filter | lo.Project | ph.Stamped)
        or (isinstance(node, lo.Join) and node.join == "inner")
        or (isinstance(node, lo.SetOperation) and node.operation == "union all")
        for node in core.walk()
    )


def _is_small(core: lo.Node) -> bool:
    """Whether no more than some rows are there at a time: a window has so many, whatever the values are."""
    while isinstance(core, lo.Filter | lo.Project):
        core = core.input
    window = core.window if isinstance(core, lo.Window) and isinstance(core.input, lo.StreamScan) else None
    return isinstance(window, Rows) and not window.partition and window.rows + window.slide <= _FEW


def _is_total(expression: Expression) -> TypeGuard[Reported]:
    return isinstance(expression, Reported) and all(isinstance(part, Column) for part in expression.children)


def _is_sum(call: lo.AggregateCall) -> bool:
    """Whether a call is a function of sums, or tells where it has no value."""
    argument = None if call.argument is None else call.argument.type
    exact = argument is None or argument.is_numeric or canonical(call.function) in ("count", *BOOLEANS)
    return canonical(call.function) in _SUMS and not call.distinct and call.definition is None and exact


def _is_extreme(call: lo.AggregateCall) -> bool:
    return canonical(call.function) in ("min", "max") and not call.distinct and call.definition is None


def summed_in_cells(
    rows: ph.Selection, columns: Sequence[Expression], node: lo.Node, window: SizedWindow | None = None
) -> CellSums:
    """The aggregate over `columns` of the rows that queries select, each in the window of its query where that has one
    of its own."""
    if not isinstance(node, lo.Aggregate):
        raise AssertionError("no aggregate")
    over = [_over(key, columns) for key in node.keys]
    needed = [None if call.argument is None else _over(call.argument, columns) for call in node.calls]
    read = list(dict.fromkeys([*over, *(e for e in needed if e is not None)]))
    selected = ph.CellSelection(rows.input, rows.group, tuple(read), tuple(map(str, read)), rows.shapes, window)
    places = {e: _column(selected.schema, len(CELL) + index) for index, e in enumerate(read)}
    asked = [*zip(node.calls, needed, strict=True)]
    extremes = [e for call, e in asked if e is not None and _is_extreme(call)]
    counted = [] if _leave_by_themselves(rows.input) else list(dict.fromkeys(extremes))
    by = [*over, *(e for e in counted if e not in over)]
    keys = (*(_column(selected.schema, index) for index in range(len(CELL))), *(places[e] for e in by))

    summed = [(call, e) for call, e in asked if not (counted and _is_extreme(call))]
    totals = list(dict.fromkeys((_COPIES, *_parts(summed, places))))
    plan = lo.Aggregate(selected, keys, tuple(totals))
    source = ph.MatchScan(CELLS, (ph.QUERY, *plan.schema[len(CELL) :]), retracting=True)

    # Calls are over the rows of totals, and behind these over the arguments as they were.
    first = 1 + len(by)
    arguments = list(dict.fromkeys(e for e in needed if e is not None))
    described = (*source.schema, *(Field(str(e), e.type) for e in arguments))
    calls: list[lo.AggregateCall] = []
    sums: dict[Accumulator, int] = {COPIES: first + totals.index(_COPIES)}
    for call, argument in asked:
        if argument is None:
            calls.append(call)
            continue
        if counted and _is_extreme(call):
            calls.append(replace(call, argument=_column(described, 1 + by.index(argument))))
            continue
        if _is_extreme(call):
            part = first + totals.index(replace(call, argument=places[argument]))
            calls.append(replace(call, argument=_column(described, part)))
            continue
        at = len(source.schema) + arguments.index(argument)
        calls.append(replace(call, argument=_column(described, at)))
        for total in accumulators_of(KernelCall(call.function, at, False, call.type), described):
            sums[total] = first + totals.index(_part(total, argument, places))
    columns_of = tuple((total.kind, total.argument, column) for total, column in sums.items())
    described = described[len(source.schema) :]
    copies = first if counted else None
    combined = ph.Combined(source, 1 + len(over), described, tuple(calls), columns_of, not node.keys, copies)
    return CellSums(plan, combined)


_COPIES = lo.AggregateCall("count", None, False, BIGINT)


def _parts(
    asked: Sequence[tuple[lo.AggregateCall, Expression | None]], places: Mapping[Expression, Column]
) -> Iterator[lo.AggregateCall]:
    """What is aggregated by cell for calls over some arguments."""
    for call, argument in asked:
        if argument is not None and _is_extreme(call):
            yield replace(call, argument=places[argument])
        elif argument is not None:
            only = (Field(str(argument), argument.type),)
            for total in accumulators_of(KernelCall(call.function, 0, False, call.type), only):
                yield _part(total, argument, places)


def _part(total: Accumulator, argument: Expression, places: Mapping[Expression, Column]) -> lo.AggregateCall:
    kind = type_of(total.kind, argument.type)
    return lo.AggregateCall(_FUNCTION[total.kind], places[argument], False, kind)


def _over(expression: Expression, columns: Sequence[Expression]) -> Expression:
    return map_columns(expression, lambda column: columns[column.index])


def _column(schema: Schema, index: int) -> Column:
    return Column(schema[index].type, index, schema[index].name)
