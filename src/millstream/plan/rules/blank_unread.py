"""A column that nothing reads is not computed, where that could fail: it becomes NULL, and stays in its place.

`prune_columns` takes such columns away, with others; but it may be disabled, and nothing that fails may depend on that.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_

from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Column, Expression, Literal, columns_used
from millstream.kernel.windows.time import ElementSpecification, Now, Sessions, Unbounded
from millstream.plan import nodes as lo
from millstream.plan.rules.context import Context
from millstream.plan.rules.reduce_windows import is_row_wise_over


def blank_unread(plan: lo.Node, context: Context) -> lo.Node:
    return _read(plan, _all(plan))


def _all(node: lo.Node) -> set[int]:
    return set(range(len(node.schema)))


def _read(node: lo.Node, needed: set[int]) -> lo.Node:
    """The node, of which only some columns are read."""
    match node:
        case lo.Project():
            computed = tuple(e if i in needed else _nothing(e) for i, e in enumerate(node.expressions))
            below = _read(node.input, _used(*(computed[i] for i in needed)))
            if below is node.input and all(map(is_, computed, node.expressions)):
                return node
            return replace(node, input=below, expressions=computed)
        case lo.Filter():
            return _over(node, _read(node.input, needed | columns_used(node.condition)))
        case lo.Join():
            width, used = len(node.left.schema), needed | columns_used(node.condition)
            left = _read(node.left, {i for i in used if i < width})
            return _over(node, left, _read(node.right, {i - width for i in used if i >= width}))
        case lo.Aggregate():
            return _aggregate(node, needed)
        case lo.Over():
            width = len(node.input.schema)
            called = {i for at, call in enumerate(node.calls) if width + at in needed for i in call.columns}
            return _over(node, _read(node.input, {i for i in needed if i < width} | called | node.order.columns))
        case lo.Unnest():
            width = len(node.input.schema)
            lists = set(range(width - node.lists, width))
            return _over(node, _read(node.input, {i for i in needed if i < width} | lists))
        case lo.SetOperation(operation="union all"):
            return _over(node, _read(node.left, needed), _read(node.right, needed))
        case lo.RelationToStream() if node.operator == "rstream" or is_row_wise_over(node.input, Unbounded()):
            return _over(node, _read(node.input, needed))
        case lo.Window(window=Sessions() as window) if window.bounds is not None:
            return _session(node, window, needed)
        case lo.Window() if not isinstance(node.window, ElementSpecification):
            return _over(node, _read(node.input, needed))
        case lo.Bounds():
            return _bounds(node, needed)
        case lo.Sample() if _is_plain(node.input):
            return _over(node, _read(node.input, needed))
        case _:
            return _over(node, *(_read(child, _all(child)) for child in node.children))


def _over(node: lo.Node, *children: lo.Node) -> lo.Node:
    """The node over its children, which are mostly those that it has."""
    return node if all(map(is_, children, node.children)) else node.with_children(children)


def _is_plain(stream: lo.Node) -> bool:
    """Whether its elements have arrival numbers, by which the coin is tossed; those of others are tossed by value."""
    return isinstance(stream, lo.StreamScan) or is_row_wise_over(stream, Now())


def _bounds(node: lo.Bounds, needed: set[int]) -> lo.Node:
    """Rows are not cut where nobody reads the bounds, and so are generated as if there were none."""
    width = len(node.input.schema)
    below = _read(node.input, {i for i in needed if i < width})
    if any(i >= width for i in needed):
        return _over(node, below)
    return _without_bounds(below, node)


def _session(node: lo.Window, window: Sessions, needed: set[int]) -> lo.Node:
    below = _read(node.input, _all(node.input))
    if any(i >= len(node.input.schema) for i in needed):
        return _over(node, below)
    return _without_bounds(replace(node, input=below, window=replace(window, bounds=None)), node)


def _without_bounds(rows: lo.Node, node: lo.Node) -> lo.Node:
    columns = [Column(f.type, i, f.name) for i, f in enumerate(rows.schema)]
    nothing = [Literal(f.type, None) for f in node.schema[len(columns) :]]
    return lo.Project(rows, (*columns, *nothing), tuple(f.name for f in node.schema))


def _aggregate(node: lo.Aggregate, needed: set[int]) -> lo.Node:
    keys = len(node.keys)

    def call_of(place: int, call: lo.AggregateCall) -> lo.AggregateCall:
        if keys + place in needed or call.argument is None or call.definition is not None:
            return call
        return call.over(lambda argument: Literal(argument.type, None))

    calls = tuple(call_of(place, call) for place, call in enumerate(node.calls))
    used = _used(*node.keys, *(argument for call in calls for argument in call.arguments))
    below = _read(node.input, used)
    return node if below is node.input and calls == node.calls else replace(node, input=below, calls=calls)


def _nothing(expression: Expression) -> Expression:
    return Literal(expression.type, None) if can_fail(expression) else expression


def _used(*expressions: Expression) -> set[int]:
    return set().union(*map(columns_used, expressions))
