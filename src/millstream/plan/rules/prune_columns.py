"""Columns that nobody reads do not enter joins and aggregates, whose state would keep them.

    π_A(L ⋈ R)  =  π_A(π_{A, keys}(L) ⋈ π_{A, keys}(R))

Nothing is cut below windows, streams and whatever compares whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from millstream.kernel.scalar.expressions import Column, Expression, columns_used, map_columns
from millstream.plan import logical as lo
from millstream.plan.cost import Statistics

Positions = dict[int, int]  # of the columns that are left: old position to new


def prune_columns(plan: lo.Node, statistics: Statistics) -> lo.Node:
    pruned, _ = _prune(plan, set(range(len(plan.schema))))
    return pruned


def _prune(node: lo.Node, needed: set[int]) -> tuple[lo.Node, Positions]:
    """The node without (some of) the columns that are not needed, and where the others are."""
    match node:
        case lo.Project():
            return _prune_project(node, needed)
        case lo.Filter():
            child, positions = _prune(node.input, needed | columns_used(node.condition))
            return lo.Filter(child, _moved(node.condition, positions)), positions
        case lo.Join():
            return _prune_join(node, needed)
        case lo.Aggregate():
            return _prune_aggregate(node, needed)
        case _:
            children = tuple(_whole(child) for child in node.children)
            unchanged = node if children == node.children else node.with_children(children)
            return unchanged, {index: index for index in range(len(node.schema))}


def _whole(node: lo.Node) -> lo.Node:
    """The node with all its columns in place, pruned further down."""
    width = len(node.schema)
    pruned, positions = _prune(node, set(range(width)))
    if len(pruned.schema) == width and all(positions[index] == index for index in range(width)):
        return pruned
    return _narrowed(pruned, positions, range(width), node)


def _prune_project(node: lo.Project, needed: set[int]) -> tuple[lo.Node, Positions]:
    kept = sorted(needed) or [0]
    expressions = [node.expressions[index] for index in kept]
    child, positions = _prune(node.input, set().union(*(columns_used(e) for e in expressions)))
    moved = tuple(_moved(expression, positions) for expression in expressions)
    names = tuple(node.names[index] for index in kept)
    return lo.Project(child, moved, names), {old: new for new, old in enumerate(kept)}


def _prune_join(node: lo.Join, needed: set[int]) -> tuple[lo.Node, Positions]:
    width = len(node.left.schema)
    read = needed | columns_used(node.condition)
    left, left_positions = _narrow(node.left, {index for index in read if index < width})
    right, right_positions = _narrow(node.right, {index - width for index in read if index >= width})
    positions = dict(left_positions)
    positions |= {old + width: new + len(left.schema) for old, new in right_positions.items()}
    join = lo.Join(left, right, node.join, _moved(node.condition, positions))
    return join, {old: new for old, new in positions.items() if new < len(join.schema)}


def _prune_aggregate(node: lo.Aggregate, needed: set[int]) -> tuple[lo.Node, Positions]:
    """Groups stay as they are; calls that nobody reads are left out."""
    keys = len(node.keys)
    calls = [call for index, call in enumerate(node.calls) if index + keys in needed]
    arguments = [call.argument for call in calls if call.argument is not None]
    child, positions = _prune(node.input, set().union(*(columns_used(e) for e in (*node.keys, *arguments))))
    moved_calls = tuple(
        call if call.argument is None else replace(call, argument=_moved(call.argument, positions)) for call in calls
    )
    pruned = lo.Aggregate(child, tuple(_moved(key, positions) for key in node.keys), moved_calls)
    places = {index: index for index in range(keys)}
    places |= {keys + node.calls.index(call): keys + new for new, call in enumerate(calls)}
    return pruned, places


def _narrow(node: lo.Node, needed: set[int]) -> tuple[lo.Node, Positions]:
    """A join's input with the needed columns only (at least one: rows must stay rows)."""
    kept = sorted(needed) or [0]
    pruned, positions = _prune(node, set(kept))
    if len(pruned.schema) <= len(kept):
        return pruned, positions
    return _narrowed(pruned, positions, kept, node), {old: new for new, old in enumerate(kept)}


def _narrowed(pruned: lo.Node, positions: Positions, kept: Iterable[int], original: lo.Node) -> lo.Node:
    columns = [Column(original.schema[old].type, positions[old], original.schema[old].name) for old in kept]
    return lo.Project(pruned, tuple(columns), tuple(column.name for column in columns))


def _moved(expression: Expression, positions: Positions) -> Expression:
    return map_columns(expression, lambda column: replace(column, index=positions[column.index]))
