"""Joins on equalities of expressions become joins on equalities of columns.

The sides get the expressions' values as further columns, which a projection drops again:

    L ⋈_{f(l) = g(r)} R  =  π(L' ⋈_{l' = r'} R'),   L' = (L, f(l)),  R' = (R, g(r))
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.kernel.scalar.expressions import Call, Column, Expression, conjunction, map_columns, shift_columns
from millstream.plan import nodes as lo
from millstream.plan.analysis.keys import split_condition
from millstream.types import BOOLEAN


@dataclass(frozen=True)
class HashKeys:
    """How a join finds its pairs: positions on both sides that must be equal, and what remains to be checked."""

    positions: tuple[tuple[int, int], ...]
    residual: Expression
    null_safe: bool


def hash_keys(join: lo.Join) -> HashKeys | None:
    """The join's keys where they are columns; None where `with_column_keys` must compute them first."""
    width = len(join.left.schema)
    keys, null_safe, rest = _chosen(join)
    positions = []
    for own, other in keys:
        if not (isinstance(own, Column) and isinstance(other, Column)):
            return None
        positions.append((own.index, other.index - width))
    return HashKeys(tuple(positions), conjunction(rest), null_safe)


def with_column_keys(join: lo.Join) -> lo.Project:
    width, other_width = len(join.left.schema), len(join.right.schema)
    keys, null_safe, rest = _chosen(join)
    left = extended(join.left, [own for own, _ in keys])
    right = extended(join.right, [shift_columns(other, -width) for _, other in keys])
    more = len(keys)

    def moved(column: Column) -> Expression:
        return column if column.index < width else replace(column, index=column.index + more)

    equal: list[Expression] = []
    for index, (own, other) in enumerate(keys):
        pair = (
            Column(own.type, width + index, str(own)),
            Column(other.type, width + more + other_width + index, str(other)),
        )
        equal.append(Call(BOOLEAN, "<=>" if null_safe else "=", pair))
    joined = lo.Join(left, right, "inner", conjunction([*equal, *(map_columns(part, moved) for part in rest)]))
    kept = [*range(width), *range(width + more, width + more + other_width)]
    columns = tuple(Column(joined.schema[index].type, index, joined.schema[index].name) for index in kept)
    return lo.Project(joined, columns, tuple(column.name for column in columns))


def _chosen(join: lo.Join) -> tuple[list[tuple[Expression, Expression]], bool, list[Expression]]:
    """The equalities to hash by, whether NULLs are equal there, and the other conditions. Plain ones come first."""
    keys, rest = split_condition(join.condition, len(join.left.schema))
    null_safe = bool(keys) and all(safe for *_, safe in keys)
    chosen = [(own, other) for own, other, safe in keys if safe == null_safe]
    left_over = [Call(BOOLEAN, "<=>", (own, other)) for own, other, safe in keys if safe != null_safe]
    return chosen, null_safe, [*left_over, *rest]


def extended(node: lo.Node, values: list[Expression]) -> lo.Node:
    own = tuple(Column(field.type, index, field.name) for index, field in enumerate(node.schema))
    names = tuple(field.name for field in node.schema) + tuple(str(value) for value in values)
    return lo.Project(node, (*own, *values), names)
