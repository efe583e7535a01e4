"""Semi and outer joins as algebra over inner joins, anti joins, DISTINCT and union.

    L ⋉ R = L ⋈ δ(π_keys(R))                          where the condition is equalities
    L ⋉ R = L ⋈ δ(π_L(L ⋈_θ R))   on all of L         otherwise
    L ⟕ R = (L ⋈ R) + (L ▷ R) × NULL,   and ⟖, ⟗ likewise

The first holds because L's own multiplicities pass through the join; a condition that reads nothing of L needs only to
know whether R has a row.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.kernel.scalar.expressions import (
    TRUE,
    Call,
    Column,
    Expression,
    Literal,
    columns_used,
    conjunction,
    shift_columns,
)
from millstream.plan import logical as lo
from millstream.plan.keys import split_condition
from millstream.types import BOOLEAN, Schema


def expand_join(join: lo.Join) -> lo.Node:
    """The same relation without any join but inner and anti ones."""
    match join.join:
        case "semi":
            return _semi(join.left, join.right, join.condition)
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


def _semi(left: lo.Node, right: lo.Node, condition: Expression) -> lo.Node:
    width = len(left.schema)
    keys, residual = split_condition(condition, width)
    if not any(index < width for index in columns_used(condition)):
        found: lo.Node = right if condition == TRUE else lo.Filter(right, shift_columns(condition, -width))
        some = lo.Distinct(lo.Project(found, (TRUE,), ("found",)))
        return columns_of(lo.Join(left, some, "inner"), width)
    if keys and not residual:
        values = tuple(shift_columns(key, -width) for _, key, _ in keys)
        distinct = lo.Distinct(lo.Project(right, values, tuple(str(value) for value in values)))
        equal = [_equal(own, width + index, safe) for index, (own, _, safe) in enumerate(keys)]
        return columns_of(lo.Join(left, distinct, "inner", conjunction(equal)), width)
    matched = lo.Distinct(columns_of(lo.Join(left, right, "inner", condition), width))
    equal = [_equal(column, width + column.index, True) for column in columns(left.schema)]
    return columns_of(lo.Join(left, matched, "inner", conjunction(equal)), width)


def _inner(join: lo.Join) -> lo.Node:
    return replace(join, join="inner")


def _padded_right(join: lo.Join) -> lo.Node:
    """The left rows without a partner, NULL in the right columns."""
    alone = replace(join, join="anti")
    nulls = tuple(Literal(field.type, None) for field in join.right.schema)
    return lo.Project(alone, (*columns(join.left.schema), *nulls), tuple(f.name for f in join.schema))


def _padded_left(join: lo.Join) -> lo.Node:
    alone = lo.Join(join.right, join.left, "anti", _swap_condition(join))
    nulls = tuple(Literal(field.type, None) for field in join.left.schema)
    return lo.Project(alone, (*nulls, *columns(join.right.schema)), tuple(f.name for f in join.schema))


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


def _equal(own: Expression, index: int, null_safe: bool) -> Expression:
    other = Column(own.type, index, str(own))
    return Call(BOOLEAN, "<=>" if null_safe else "=", (own, other))


def columns(schema: Schema) -> tuple[Column, ...]:
    return tuple(Column(field.type, index, field.name) for index, field in enumerate(schema))


def columns_of(node: lo.Node, width: int) -> lo.Node:
    kept = node.schema[:width]
    return lo.Project(node, columns(kept), tuple(field.name for field in kept))
