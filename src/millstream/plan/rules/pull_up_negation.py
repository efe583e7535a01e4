"""Update-pattern simplification: negation moves above a join, where that is cheaper.

    (A ▷_θ B) ⋈ C  =  (A ⋈ C) ▷_θ B

The join below then sees only rows that leave at foreseeable instants. Anti-joins only: for EXCEPT it would change
multiplicities. The cost model decides, since a negation that removes much may better stay where it is.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.kernel.scalar.expressions import Column, Expression, map_columns
from millstream.plan import nodes as lo
from millstream.plan.algebra.outer_joins import swapped_join
from millstream.plan.analysis.monotonic import is_non_retroactive
from millstream.plan.cost import cost
from millstream.plan.rules.context import Context


def pull_up_negation(plan: lo.Node, context: Context) -> lo.Node:
    def change(node: lo.Node) -> lo.Node:
        if not (isinstance(node, lo.Join) and node.join == "inner"):
            return node
        if any(is_non_retroactive(part) for part in node.walk()):
            return node  # the order of its joins decides which version of the table they meet
        best: lo.Node = node
        for candidate in (_above_left(node), _above_right(node)):
            if candidate is not None and cost(candidate, context.statistics) < cost(best, context.statistics):
                best = candidate
        return best

    return plan.transform(change)


def _above_right(join: lo.Join) -> lo.Node | None:
    swapped = swapped_join(join)
    if not (isinstance(swapped, lo.Project) and isinstance(swapped.input, lo.Join)):
        return None
    pulled = _above_left(swapped.input)
    return None if pulled is None else replace(swapped, input=pulled)


def _above_left(join: lo.Join) -> lo.Node | None:
    """The join with the negation of its left side on top, if there is one."""
    left = join.left
    if isinstance(left, lo.Project) and all(isinstance(e, Column) for e in left.expressions):
        return _through_projection(join, left)
    if not (isinstance(left, lo.Join) and left.join == "anti"):
        return None
    own, added = len(left.left.schema), len(join.right.schema)

    def moved(column: Column) -> Expression:
        return column if column.index < own else replace(column, index=column.index + added)

    inner = lo.Join(left.left, join.right, "inner", join.condition)
    return lo.Join(inner, left.right, "anti", map_columns(left.condition, moved))


def _through_projection(join: lo.Join, projection: lo.Project) -> lo.Node | None:
    """π(A) ⋈ C = π(A ⋈ C): the projection moves above the join first."""
    below, width = len(projection.input.schema), len(projection.expressions)

    def moved(column: Column) -> Expression:
        if column.index < width:
            return projection.expressions[column.index]
        return replace(column, index=column.index - width + below)

    pulled = _above_left(lo.Join(projection.input, join.right, "inner", map_columns(join.condition, moved)))
    if pulled is None:
        return None
    columns = tuple(moved(Column(field.type, index, field.name)) for index, field in enumerate(join.schema))
    return lo.Project(pulled, columns, tuple(field.name for field in join.schema))
