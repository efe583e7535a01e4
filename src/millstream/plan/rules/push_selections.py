"""Selections move into and below joins, and through projections of plain columns.

    σ_p(L ⋈_q R)  =  σ_pL(L) ⋈_{q and pBoth} σ_pR(R)

for inner joins, whether it was said in WHERE or in ON; for semi, anti and left joins only what the left side alone
decides. What ON asks of the side alone that partners are looked for in, is asked of it before:

    L ⟕_{q and pR} R  =  L ⟕_q σ_pR(R)

A selection never passes a window: it commutes with time-based ones, but the window below may be shared by queries with
other selections. Nothing moves below a join with a NON RETROACTIVE table on the table's side: the table is read as of
an instant, and filtering it is the same before or after, so that is safe too. What can fail stays where it was placed,
and nothing passes it.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import (
    Column,
    Expression,
    columns_used,
    conjunction,
    conjuncts,
    map_columns,
    shift_columns,
)
from millstream.plan import nodes as lo
from millstream.plan.analysis.keys import side_of
from millstream.plan.rules.context import Context

# The sides whose rows are not there without a partner.
_SELECTED_BY_ON: dict[str, tuple[str, ...]] = {
    "inner": ("left", "right"),
    "semi": ("left", "right"),
    "anti": ("right",),
    "left": ("right",),
    "right": ("left",),
    "full": (),
}


def push_selections(plan: lo.Node, context: Context) -> lo.Node:
    return plan.transform(_push)


def _push(node: lo.Node) -> lo.Node:
    if isinstance(node, lo.Join):
        return _out_of_condition(node)
    if not isinstance(node, lo.Filter):
        return node
    below = node.input
    if can_fail(node.condition):
        return node  # on top of its block
    if isinstance(below, lo.Filter):
        if can_fail(below.condition):
            return node  # what fails there does, whatever is asked above
        return _push(lo.Filter(below.input, conjunction([*conjuncts(below.condition), *conjuncts(node.condition)])))
    if isinstance(below, lo.Join) and below.join in ("inner", "semi", "anti", "left"):
        return _into_join(node, below)
    if isinstance(below, lo.Bounds):
        return _below_bounds(node, below)
    if isinstance(below, lo.Unnest):
        return _below_unnest(node, below)
    if isinstance(below, lo.Project) and all(isinstance(e, Column) for e in below.expressions):
        condition = map_columns(node.condition, lambda column: below.expressions[column.index])
        return lo.Project(_push(lo.Filter(below.input, condition)), below.expressions, below.names)
    return node


def _below_bounds(node: lo.Filter, bounds: lo.Bounds) -> lo.Node:
    """What does not ask for the bounds is asked of rows before they are cut."""
    width = len(bounds.input.schema)
    parts = conjuncts(node.condition)
    above = [part for part in parts if any(index >= width for index in columns_used(part))]
    pushed = replace(bounds, input=_filtered(bounds.input, [part for part in parts if part not in above]))
    return lo.Filter(pushed, conjunction(above)) if above else pushed


def _below_unnest(node: lo.Filter, unnest: lo.Unnest) -> lo.Node:
    """What does not ask for elements is asked of rows before there are any, unless making the list could fail."""
    first, made = len(unnest.input.schema) - unnest.lists, unnest.input
    parts = conjuncts(node.condition)
    if not isinstance(made, lo.Project) or any(map(can_fail, made.expressions)):
        return node
    copied = {index for index, e in enumerate(made.expressions[:first]) if isinstance(e, Column)}
    below = [part for part in parts if columns_used(part) <= copied]
    if not below:
        return node
    asked = [map_columns(part, lambda column: made.expressions[column.index]) for part in below]
    pushed = replace(unnest, input=replace(made, input=_filtered(made.input, asked)))
    above = [part for part in parts if part not in below]
    return lo.Filter(pushed, conjunction(above)) if above else pushed


def _into_join(node: lo.Filter, join: lo.Join) -> lo.Node:
    width = len(join.left.schema)
    left, right, both, above = [], [], [], []
    for part in conjuncts(node.condition):
        side = side_of(part, width)
        if side == "left":
            left.append(part)
        elif join.join != "inner":
            above.append(part)
        elif side == "right":
            right.append(shift_columns(part, -width))
        else:
            both.append(part)
    condition = conjunction([*conjuncts(join.condition), *both])
    sides = _filtered(join.left, left), _filtered(join.right, right)
    pushed = replace(join, left=sides[0], right=sides[1], condition=condition)
    return lo.Filter(pushed, conjunction(above)) if above else pushed


def _out_of_condition(join: lo.Join) -> lo.Node:
    """What ON asks of one side alone is a selection of it, if rows that it is not true for have no other part in the
    answer."""
    sides = _SELECTED_BY_ON[join.join]
    width, parts = len(join.left.schema), conjuncts(join.condition)
    own = [side_of(part, width) for part in parts]
    if can_fail(join.condition) or not any(side in sides for side in own):
        return join
    found: dict[str, list[Expression]] = {"left": [], "right": [], "both": []}
    for part, side in zip(parts, own, strict=True):
        found[side if side in sides else "both"].append(part)
    right = [shift_columns(part, -width) for part in found["right"]]
    inputs = _filtered(join.left, found["left"]), _filtered(join.right, right)
    return replace(join, left=inputs[0], right=inputs[1], condition=conjunction(found["both"]))


def _filtered(node: lo.Node, conditions: list[Expression]) -> lo.Node:
    return _push(lo.Filter(node, conjunction(conditions))) if conditions else node
