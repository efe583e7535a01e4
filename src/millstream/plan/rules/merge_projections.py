"""Projections of projections become one, and those that change nothing go.

    π_f(π_g(R)) = π_{f∘g}(R)

where that computes nothing twice: f or g only picks columns. It runs last, because a projection also marks where a
subquery or view ends, which the order of joins must respect.
"""

from __future__ import annotations

from millstream.kernel.scalar.expressions import Column, map_columns
from millstream.plan import nodes as lo
from millstream.plan.rules.context import Context


def merge_projections(plan: lo.Node, context: Context) -> lo.Node:
    return plan.transform(_merge)


def _merge(node: lo.Node) -> lo.Node:
    if not isinstance(node, lo.Project):
        return node
    below = node.input
    if isinstance(below, lo.Project) and (_picks(node) or _picks(below)):
        composed = tuple(map_columns(e, lambda column: below.expressions[column.index]) for e in node.expressions)
        node = lo.Project(below.input, composed, node.names)
    indexes = [e.index if isinstance(e, Column) else -1 for e in node.expressions]
    return node.input if indexes == list(range(len(node.input.schema))) else node


def _picks(projection: lo.Project) -> bool:
    return all(isinstance(expression, Column) for expression in projection.expressions)
