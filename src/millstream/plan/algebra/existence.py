"""Semi and anti joins as questions about keys: has R a row of this key?

    L ▷_{f(l) = g(r)} R  =  π_L(L' ▷ π_g(R)),   L' = (L, f(l)) where f(l) is no column of L
    L ▷_θ R              =  L ▷ π_L(L ⋈_θ R)    on all of L, whatever θ; and with ⋉ for ▷

A condition that reads nothing of L asks whether R has a row at all: the key has no columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.kernel.scalar.expressions import TRUE, Column, Expression, columns_used, shift_columns
from millstream.plan import nodes as lo
from millstream.plan.algebra.column_keys import extended
from millstream.plan.algebra.outer_joins import columns, columns_of
from millstream.plan.analysis.keys import split_condition


@dataclass(frozen=True)
class Existence:
    """The left rows, perhaps with computed keys as further columns; the keys of the right rows; which are compared."""

    left: lo.Node
    keys: lo.Node
    positions: tuple[int, ...]
    null_safe: tuple[bool, ...]


def existence_of(join: lo.Join) -> Existence:
    width = len(join.left.schema)
    if not any(index < width for index in columns_used(join.condition)):
        condition = shift_columns(join.condition, -width)
        right = join.right if condition == TRUE else lo.Filter(join.right, condition)
        return Existence(join.left, lo.Project(right, (), ()), (), ())
    keys, residual = split_condition(join.condition, width)
    if residual:
        matched = columns_of(lo.Join(join.left, join.right, "inner", join.condition), width)
        return Existence(join.left, matched, tuple(range(width)), (True,) * width)
    values = tuple(shift_columns(other, -width) for _, other, _ in keys)
    right_keys = lo.Project(join.right, values, tuple(str(value) for value in values))
    left, positions = _with_keys(join.left, [own for own, _, _ in keys])
    return Existence(left, right_keys, positions, tuple(safe for *_, safe in keys))


def _with_keys(left: lo.Node, keys: list[Expression]) -> tuple[lo.Node, tuple[int, ...]]:
    """The left rows with every key among their columns, and where."""
    computed = [key for key in keys if not isinstance(key, Column)]
    found = [*columns(left.schema), *computed]
    places = tuple(key.index if isinstance(key, Column) else found.index(key) for key in keys)
    return (extended(left, computed) if computed else left), places
