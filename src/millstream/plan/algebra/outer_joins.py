"""Outer joins as algebra: what has partners joined, what has none padded with NULL.

    L ⟕ R = (L ⋈ R) + (L ▷ R) × NULL,   and ⟖, ⟗ likewise

The anti joins that are left are lowered by `existence`.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.kernel.scalar.expressions import Column, Expression, Literal
from millstream.plan import nodes as lo
from millstream.types import Schema


def expand_join(join: lo.Join) -> lo.Node:
    """The same relation without outer joins."""
    match join.join:
        case "left":
            return _union(_inner(join), _padded_right(join))
        case "right":
            return _union(_inner(join), _padded_left(join))
        case "full":
            return _union(_union(_inner(join), _padded_right(join)), _padded_left(join))
        case _:
            return join


def swapped_join(join: lo.Join) -> lo.Node:
    """An inner join with its sides exchanged, and its columns back in place."""
    width, other = len(join.left.schema), len(join.right.schema)
    joined = lo.Join(join.right, join.left, join.join, _swap_condition(join))
    order = [*range(other, other + width), *range(other)]
    columns = tuple(Column(joined.schema[index].type, index, joined.schema[index].name) for index in order)
    return lo.Project(joined, columns, tuple(column.name for column in columns))


def _inner(join: lo.Join) -> lo.Node:
    return replace(join, join="inner")


def _padded_right(join: lo.Join) -> lo.Node:
    """The left rows without a partner, NULL in the right columns."""
    unmatched = replace(join, join="anti")
    nulls = tuple(Literal(field.type, None) for field in join.right.schema)
    return lo.Project(unmatched, (*columns(join.left.schema), *nulls), tuple(f.name for f in join.schema))


def _padded_left(join: lo.Join) -> lo.Node:
    unmatched = lo.Join(join.right, join.left, "anti", _swap_condition(join))
    nulls = tuple(Literal(field.type, None) for field in join.left.schema)
    return lo.Project(unmatched, (*nulls, *columns(join.right.schema)), tuple(f.name for f in join.schema))


def _swap_condition(join: lo.Join) -> Expression:
    """The condition over the right columns followed by the left ones."""
    width, other = len(join.left.schema), len(join.right.schema)

    def change(node: Expression) -> Expression:
        if isinstance(node, Column):
            return replace(node, index=node.index - width if node.index >= width else node.index + other)
        return node

    return join.condition.transform(change)


def _union(left: lo.Node, right: lo.Node) -> lo.Node:
    return lo.SetOperation("union all", left, right)


def columns(schema: Schema) -> tuple[Column, ...]:
    return tuple(Column(field.type, index, field.name) for index, field in enumerate(schema))


def columns_of(node: lo.Node, width: int) -> lo.Node:
    kept = node.schema[:width]
    return lo.Project(node, columns(kept), tuple(field.name for field in kept))
