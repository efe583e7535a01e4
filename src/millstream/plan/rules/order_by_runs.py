"""FIRST and LAST over rows that come and go by others: by when the value came to the group.

    FIRST(x) over R, grouped by k   =   FIRST(x) over Runs(π_{k, x}(R)),   Runs(R) the rows of δ(R), each from the
                                                                            beginning of its run of presence on

Elements of windows come when they do, and so do pairs of them. But that a row of DISTINCT, EXCEPT, EXISTS, an outer
join or a GROUP BY is there, is said in pieces that depend on how time has passed. So these are ordered by the start of
the maximal run in which the value is present in its group, ties by value. Other aggregates of such a GROUP BY see the
rows as they are: both are computed, and joined by the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from millstream.kernel.aggregation.aggregate_calls import canonical
from millstream.kernel.scalar.expressions import Call, Column, Expression, conjunction
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.rules.context import Context
from millstream.types import BOOLEAN

_COME_BY_THEMSELVES = lo.StreamScan, lo.TableScan, lo.Window, lo.Bounds, lo.Filter, lo.Project, lo.OneRow, lo.Values


def order_by_runs(plan: lo.Node, context: Context) -> lo.Node:
    return plan.transform(lambda node: _ordered(node) if isinstance(node, lo.Aggregate) else node)


def _ordered(node: lo.Aggregate) -> lo.Node:
    by_order = [call for call in node.calls if _goes_by_order(call)]
    if not by_order or isinstance(node.input, ph.Runs) or not any(map(_comes_by_others, _below(node.input))):
        return node
    others = [call for call in node.calls if not _goes_by_order(call)]
    alike = [
        [call for call in by_order if call.arguments == each] for each in dict.fromkeys(c.arguments for c in by_order)
    ]
    parts = [lo.Aggregate(node.input, node.keys, tuple(others))] if others else []
    parts += [_over_runs(node, tuple(calls)) for calls in alike]
    return _together(node, parts, [others, *alike] if others else alike)


def _goes_by_order(call: lo.AggregateCall) -> bool:
    return call.definition is None and canonical(call.function) in ("first", "last")


def _below(plan: lo.Node) -> Iterator[lo.Node]:
    """What decides when rows come: elements of windows do on their own."""
    yield plan
    for child in () if isinstance(plan, lo.Window) else plan.children:
        yield from _below(child)


def _comes_by_others(node: lo.Node) -> bool:
    """Whether its rows are there because others are, or are not."""
    if isinstance(node, lo.Join):
        return node.join != "inner"
    if isinstance(node, lo.SetOperation):
        return node.operation != "union all"
    return not isinstance(node, _COME_BY_THEMSELVES)


def _over_runs(node: lo.Aggregate, calls: tuple[lo.AggregateCall, ...]) -> lo.Aggregate:
    """Calls of the same arguments."""
    columns = list(dict.fromkeys((*node.keys, *calls[0].arguments)))
    rows = ph.Runs(lo.Project(node.input, tuple(columns), tuple(map(str, columns))))

    def place(expression: Expression) -> Expression:
        return Column(expression.type, columns.index(expression), str(expression))

    return lo.Aggregate(rows, tuple(map(place, node.keys)), tuple(call.over(place) for call in calls))


def _together(
    node: lo.Aggregate, parts: Sequence[lo.Aggregate], calls: Sequence[Sequence[lo.AggregateCall]]
) -> lo.Node:
    """The groups of all parts, which are the same, as one row each: the keys, and the calls in their order."""
    joined: lo.Node = parts[0]
    for part in parts[1:]:
        width = len(joined.schema)
        same: list[Expression] = [
            Call(BOOLEAN, "<=>", (Column(key.type, at, str(key)), Column(key.type, width + at, str(key))))
            for at, key in enumerate(node.keys)
        ]
        joined = lo.Join(joined, part, "inner", conjunction(same))
    places, keys, begin = dict[lo.AggregateCall, int](), len(node.keys), 0
    for own in calls:
        places |= {call: begin + keys + number for number, call in enumerate(own)}
        begin += keys + len(own)
    columns = (*range(keys), *(places[call] for call in node.calls))
    fields = node.schema
    shown = (Column(f.type, at, f.name) for f, at in zip(fields, columns, strict=True))
    return lo.Project(joined, tuple(shown), tuple(f.name for f in fields))
