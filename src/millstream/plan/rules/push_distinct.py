"""Duplicate elimination moves below joins, where that is cheaper.

    δ(π_p(A ⋈ B))  =  δ(π_p(δ(π_a(A)) ⋈ δ(π_b(B))))

with a and b the columns that p or the condition read. The outer δ is left out where p tells all of them, itself or by
an equality of the condition. Only for inputs whose rows are never taken back: there δ is δ*, which keeps little.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.kernel.scalar.expressions import Column, columns_used, map_columns
from millstream.plan import nodes as lo
from millstream.plan.analysis.keys import split_condition
from millstream.plan.analysis.patterns import Pattern, pattern_of
from millstream.plan.cost import cost
from millstream.plan.rules.context import Context


def push_distinct(plan: lo.Node, context: Context) -> lo.Node:
    def change(node: lo.Node) -> lo.Node:
        candidate = _pushed(node)
        better = candidate is not None and cost(candidate, context.statistics) < cost(node, context.statistics)
        return candidate if better and candidate is not None else node

    return plan.transform(change)


def _pushed(node: lo.Node) -> lo.Node | None:
    if not (isinstance(node, lo.Distinct) and isinstance(node.input, lo.Project)):
        return None
    projection, join = node.input, node.input.input
    if not (isinstance(join, lo.Join) and join.join == "inner"):
        return None
    if any(pattern_of(side) == Pattern.STR or isinstance(side, lo.Distinct) for side in join.children):
        return None
    width = len(join.left.schema)
    shown = set().union(*(columns_used(expression) for expression in projection.expressions))
    read = sorted(shown | columns_used(join.condition))
    kept_left, kept_right = [i for i in read if i < width], [i for i in read if i >= width]
    if not kept_left or not kept_right:
        return None
    position = {old: new for new, old in enumerate([*kept_left, *kept_right])}

    def moved(column: Column) -> Column:
        return replace(column, index=position[column.index])

    left = lo.Distinct(_only(join.left, kept_left))
    right = lo.Distinct(_only(join.right, [index - width for index in kept_right]))
    smaller = lo.Join(left, right, "inner", map_columns(join.condition, moved))
    expressions = tuple(map_columns(expression, moved) for expression in projection.expressions)
    projected = lo.Project(smaller, expressions, projection.names)
    return projected if _determines_all(projection, join, read) else lo.Distinct(projected)


def _only(node: lo.Node, columns: list[int]) -> lo.Node:
    kept = tuple(Column(node.schema[index].type, index, node.schema[index].name) for index in columns)
    return lo.Project(node, kept, tuple(column.name for column in kept))


def _determines_all(projection: lo.Project, join: lo.Join, read: list[int]) -> bool:
    """Whether the projected row determines every column that was kept."""
    known = {expression.index for expression in projection.expressions if isinstance(expression, Column)}
    keys, _ = split_condition(join.condition, len(join.left.schema))
    for _ in keys:
        for own, other, _ in keys:
            if isinstance(own, Column) and isinstance(other, Column) and {own.index, other.index} & known:
                known |= {own.index, other.index}
    return known >= set(read)
