"""Columns that nobody reads do not enter joins and aggregates, whose state would keep them.

    π_A(L ⋈ R)  =  π_A(π_{A, keys}(L) ⋈ π_{A, keys}(R))

Nothing is cut below windows, streams and whatever compares whole rows. Where a join keeps more columns of the same rows
already, they enter as well: then both keep one and the same (`plan.kept_columns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from millstream.kernel.scalar.expressions import Column, Expression, columns_used, map_columns
from millstream.plan import nodes as lo
from millstream.plan.fingerprint import fingerprint
from millstream.plan.kept_columns import elements_of
from millstream.plan.rules.context import Context

NewPositions = dict[int, int]  # of the columns that are left: old position to new


KeptByPlan = Mapping[str, Sequence[tuple[int, ...]]]  # columns that joins keep, by the fingerprint of the rows' plan


def prune_columns(plan: lo.Node, context: Context) -> lo.Node:
    kept: dict[str, list[tuple[int, ...]]] = {}
    for rows, columns in (each for known in context.statistics.values() for each in known.kept):
        kept.setdefault(rows, []).append(columns)
    pruned, _ = _prune(plan, set(range(len(plan.schema))), kept)
    return pruned


def _prune(node: lo.Node, needed: set[int], kept: KeptByPlan) -> tuple[lo.Node, NewPositions]:
    """The node without (some of) the columns that are not needed, and where the others are."""
    match node:
        case lo.Project():
            return _prune_project(node, needed, kept)
        case lo.Filter():
            child, positions = _prune(node.input, needed | columns_used(node.condition), kept)
            return lo.Filter(child, _moved(node.condition, positions)), positions
        case lo.Join():
            return _prune_join(node, needed, kept)
        case lo.Aggregate():
            return _prune_aggregate(node, needed, kept)
        case lo.Bounds():
            return _prune_bounds(node, needed, kept)
        case lo.Unnest():
            return _prune_unnest(node, needed, kept)
        case lo.Over():
            return _prune_over(node, needed, kept)
        case lo.Failing():
            read = set().union(*map(columns_used, (*node.expressions, node.where)))
            child, positions = _prune(node.input, read, kept)
            moved = lo.map_expressions(replace(node, input=child), lambda e: _moved(e, positions))
            return moved, {index: index for index in range(len(node.schema))}
        case _:
            children = tuple(_whole(child, kept) for child in node.children)
            unchanged = node if children == node.children else node.with_children(children)
            return unchanged, {index: index for index in range(len(node.schema))}


def _whole(node: lo.Node, kept: KeptByPlan) -> lo.Node:
    """The node with all its columns in place, pruned further down."""
    width = len(node.schema)
    pruned, positions = _prune(node, set(range(width)), kept)
    if len(pruned.schema) == width and all(positions[index] == index for index in range(width)):
        return pruned
    return _narrowed(pruned, positions, range(width), node)


def _prune_project(node: lo.Project, needed: set[int], kept: KeptByPlan) -> tuple[lo.Node, NewPositions]:
    chosen = sorted(needed) or [0]
    expressions = [node.expressions[index] for index in chosen]
    child, positions = _prune(node.input, set().union(*(columns_used(e) for e in expressions)), kept)
    moved = tuple(_moved(expression, positions) for expression in expressions)
    names = tuple(node.names[index] for index in chosen)
    return lo.Project(child, moved, names), {old: new for new, old in enumerate(chosen)}


def _prune_join(node: lo.Join, needed: set[int], kept: KeptByPlan) -> tuple[lo.Node, NewPositions]:
    width = len(node.left.schema)
    read = needed | columns_used(node.condition)
    left, left_positions = _narrow(node.left, {index for index in read if index < width}, kept)
    right, right_positions = _narrow(node.right, {index - width for index in read if index >= width}, kept)
    positions = dict(left_positions)
    positions |= {old + width: new + len(left.schema) for old, new in right_positions.items()}
    join = replace(node, left=left, right=right, condition=_moved(node.condition, positions))
    return join, {old: new for old, new in positions.items() if new < len(join.schema)}


def _prune_aggregate(node: lo.Aggregate, needed: set[int], kept: KeptByPlan) -> tuple[lo.Node, NewPositions]:
    """Groups stay as they are; calls that nobody reads are left out."""
    keys = len(node.keys)
    read = [index for index in range(len(node.calls)) if index + keys in needed]  # some may be equal
    calls = [node.calls[index] for index in read]
    arguments = [argument for call in calls for argument in call.arguments]
    child, positions = _prune(node.input, set().union(*(columns_used(e) for e in (*node.keys, *arguments))), kept)
    moved_calls = tuple(call.over(lambda argument: _moved(argument, positions)) for call in calls)
    pruned = lo.Aggregate(child, tuple(_moved(key, positions) for key in node.keys), moved_calls)
    places = {index: index for index in range(keys)}
    places |= {keys + old: keys + new for new, old in enumerate(read)}
    return pruned, places


def _prune_bounds(node: lo.Bounds, needed: set[int], kept: KeptByPlan) -> tuple[lo.Node, NewPositions]:
    width = len(node.input.schema)
    read = {index for index in needed if index < width}
    if read == needed:
        return _prune(node.input, read, kept)
    child, positions = _narrow(node.input, read, kept)
    bounds = {width + place: len(child.schema) + place for place in range(len(node.schema) - width)}
    return replace(node, input=child), positions | bounds


def _prune_unnest(node: lo.Unnest, needed: set[int], kept: KeptByPlan) -> tuple[lo.Node, NewPositions]:
    """The lists stay last; places that nobody reads are left out."""
    width = len(node.input.schema)
    first = width - node.lists
    chosen = [*sorted(index for index in needed if index < first), *range(first, width)]
    pruned, positions = _prune(node.input, set(chosen), kept)
    below = pruned
    if len(pruned.schema) != len(chosen) or any(positions[old] != new for new, old in enumerate(chosen)):
        below = _narrowed(pruned, positions, chosen, node.input)
    unnested = replace(node, input=below, position=node.position and width in needed)
    places = {old: new for new, old in enumerate(chosen)}
    return unnested, places | ({width: len(chosen)} if unnested.position else {})


def _prune_over(node: lo.Over, needed: set[int], kept: KeptByPlan) -> tuple[lo.Node, NewPositions]:
    """Functions that nobody reads are left out, with the columns that only they read."""
    width = len(node.input.schema)
    read = [at for at in range(len(node.calls)) if width + at in needed]
    used = {i for at in read for i in node.calls[at].columns}
    child, positions = _narrow(node.input, {i for i in needed if i < width} | used | node.order.columns, kept)
    if not read:
        return child, positions
    calls = tuple(node.calls[at].moved(positions) for at in read)
    over = lo.Over(child, node.order.moved(positions), calls, tuple(node.names[at] for at in read))
    return over, positions | {width + at: len(child.schema) + new for new, at in enumerate(read)}


def _narrow(node: lo.Node, needed: set[int], kept: KeptByPlan) -> tuple[lo.Node, NewPositions]:
    """A join's input with the needed columns only (at least one, if there is any: rows must stay rows), or with those
    that it keeps together with others."""
    chosen = sorted(needed) or [*range(len(node.schema))][:1]
    pruned, positions = _prune(node, set(chosen), kept)
    of_any_size = kept.get(elements_of(pruned) or "", ())
    together = _with_others({positions[index] for index in chosen}, [*kept.get(fingerprint(pruned), ()), *of_any_size])
    chosen = sorted(index for index, place in positions.items() if place in together)
    if len(pruned.schema) <= len(chosen):
        return pruned, positions
    return _narrowed(pruned, positions, chosen, node), {old: new for new, old in enumerate(chosen)}


def _with_others(needed: set[int], kept: Sequence[tuple[int, ...]]) -> set[int]:
    """Columns that another join keeps, if it keeps the needed ones: of several such joins the oldest, which equal
    queries that come later will find too. Otherwise the needed ones, for others to come together with as many of what
    is kept as do not more than double them."""
    for columns in kept:
        if needed.issubset(columns):
            return set(columns)
    joined = [needed.union(columns) for columns in kept]
    return max((each for each in joined if len(each) <= 2 * len(needed)), key=len, default=needed)


def _narrowed(pruned: lo.Node, positions: NewPositions, chosen: Iterable[int], original: lo.Node) -> lo.Node:
    columns = [Column(original.schema[old].type, positions[old], original.schema[old].name) for old in chosen]
    return lo.Project(pruned, tuple(columns), tuple(column.name for column in columns))


def _moved(expression: Expression, positions: NewPositions) -> Expression:
    return map_columns(expression, lambda column: replace(column, index=positions[column.index]))
