"""Orders the inner joins of a FROM list.

    A ⋈ B ⋈ C ...   in any order, with the columns put back in place

Two things decide: an item that an equality connects with what is joined already goes before one that would make a
cross product, and NON RETROACTIVE tables come after all streams. The latter is no matter of cost: a combination of
stream tuples meets such a table as of the instant at which the whole combination is generated. Other tables that change
have no part in that, and come after them. What stands behind a projection (a
subquery, a view) is a relation of its own and stays as it is, and so do joins that are nested by parentheses as long as
each of them has an equality.

Otherwise the order is that of the text, so that queries which differ in little have the same joins. A query that moves
to a plan by later statistics (`queries/replanning.py`) has streams in the order that these make the best one: from each
input on that one next after which the fewest rows are there, and of these orders the one of the least burden.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.kernel.scalar.expressions import (
    Call,
    Column,
    Expression,
    columns_used,
    conjunction,
    conjuncts,
    map_columns,
)
from millstream.plan import nodes as lo
from millstream.plan.analysis.keys import split_condition
from millstream.plan.analysis.monotonic import is_changing_table, is_non_retroactive
from millstream.plan.comparison import burden
from millstream.plan.cost import estimate
from millstream.plan.rules.context import Context
from millstream.types import BOOLEAN


def order_joins(plan: lo.Node, context: Context) -> lo.Node:
    """Top-down, so that a chain of joins is seen whole."""
    if _stands(plan):
        return plan.with_children(tuple(order_joins(child, context) for child in plan.children))
    if isinstance(plan, lo.Join) and plan.join == "inner":
        leaves, conditions = _flatten(plan, 0)
        return _rebuild(plan, [order_joins(leaf, context) for leaf in leaves], conditions, context)
    children = tuple(order_joins(child, context) for child in plan.children)
    return plan if children == plan.children else plan.with_children(children)


def _stands(plan: lo.Node) -> bool:
    """Whether joins were nested by parentheses, and have no reason to be taken apart."""
    joins = _chain(plan)
    nested = any(_chain(join.right) for join in joins)
    keyed = all(split_condition(join.condition, len(join.left.schema))[0] for join in joins)
    return nested and keyed and not any(is_non_retroactive(side) for join in joins for side in join.children)


def _chain(node: lo.Node) -> list[lo.Join]:
    if not (isinstance(node, lo.Join) and node.join == "inner"):
        return []
    return [node, *_chain(node.left), *_chain(node.right)]


def _flatten(node: lo.Node, offset: int) -> tuple[list[lo.Node], list[Expression]]:
    """The items of a chain of inner joins, and all its conditions over the row of all items."""
    if not (isinstance(node, lo.Join) and node.join == "inner"):
        return [node], []
    left, left_conditions = _flatten(node.left, offset)
    right, right_conditions = _flatten(node.right, offset + len(node.left.schema))
    own = map_columns(node.condition, lambda column: replace(column, index=column.index + offset))
    return left + right, left_conditions + right_conditions + conjuncts(own)


def _rebuild(original: lo.Join, leaves: list[lo.Node], conditions: list[Expression], context: Context) -> lo.Node:
    starts = [sum(len(leaf.schema) for leaf in leaves[:index]) for index in range(len(leaves))]
    owner = {start + i: leaf for leaf, start in enumerate(starts) for i in range(len(leaves[leaf].schema))}
    conditions = [*conditions, *_implied(conditions, owner, leaves)]
    reads = [{owner[column] for column in columns_used(c)} for c in conditions]
    order = _order(leaves, reads, conditions, starts)
    if context.orders_joins:
        order = _order_by_cost(leaves, order, reads, conditions, starts, context)
    position = _positions(leaves, order, starts)
    joined = _joined(leaves, order, conditions, starts)
    if original.of_view and isinstance(joined, lo.Join):
        joined = replace(joined, of_view=True)
    if order == sorted(order):
        return joined
    columns = tuple(Column(f.type, position[index], f.name) for index, f in enumerate(original.schema))
    return lo.Project(joined, columns, tuple(field.name for field in original.schema))


def _positions(leaves: list[lo.Node], order: list[int], starts: list[int]) -> dict[int, int]:
    """Of each column its place in the row of items in an order."""
    position: dict[int, int] = {}
    for leaf in order:
        for index in range(len(leaves[leaf].schema)):
            position[starts[leaf] + index] = len(position)
    return position


def _joined(leaves: list[lo.Node], order: list[int], conditions: list[Expression], starts: list[int]) -> lo.Node:
    """Items in an order, each joined by what the conditions say of it and those before; some may be left out."""
    position = _positions(leaves, order, starts)
    waiting = [
        map_columns(c, lambda column: replace(column, index=position[column.index]))
        for c in conditions
        if columns_used(c) <= position.keys()
    ]
    joined = leaves[order[0]]
    for leaf in order[1:]:
        width = len(joined.schema) + len(leaves[leaf].schema)
        ready = [c for c in waiting if all(index < width for index in columns_used(c))]
        waiting = [c for c in waiting if c not in ready]
        joined = lo.Join(joined, leaves[leaf], "inner", conjunction(ready))
    return joined


def _order_by_cost(
    leaves: list[lo.Node],
    written: list[int],
    reads: list[set[int]],
    conditions: list[Expression],
    starts: list[int],
    context: Context,
) -> list[int]:
    """Items in the order of the least burden, tables that are met as of an instant still after all streams."""
    has_tables = any(map(is_non_retroactive, leaves))
    fixed = [leaf for leaf in written if has_tables and not _is_free(leaves[leaf])]
    streams = [leaf for leaf in written if leaf not in fixed]
    found = [written]
    for first in streams:
        order, waiting = [first], [leaf for leaf in streams if leaf != first]
        while waiting:
            sizes = {
                leaf: estimate(_joined(leaves, [*order, leaf], conditions, starts), context.statistics).size
                for leaf in _connected(waiting, order, leaves, reads, conditions, starts) or waiting
            }
            chosen = min(sizes, key=sizes.__getitem__)
            waiting.remove(chosen)
            order.append(chosen)
        found.append([*order, *fixed])
    return min(found, key=lambda order: burden(_joined(leaves, order, conditions, starts), context.statistics))


def _is_free(leaf: lo.Node) -> bool:
    return not is_non_retroactive(leaf) and not is_changing_table(leaf)


def _implied(conditions: list[Expression], owner: dict[int, int], leaves: list[lo.Node]) -> list[Expression]:
    """What equalities with other tables say of streams and NON RETROACTIVE ones, which are joined before those:
    s = t and t = n imply s = n."""
    equal: dict[int, list[Column]] = {}  # the columns of a class, by each of them
    for condition in conditions:
        match condition:
            case Call(function="=", arguments=(Column() as one, Column() as other)) if one.type == other.type:
                both = list(dict.fromkeys([*equal.get(one.index, [one]), *equal.get(other.index, [other])]))
                equal.update(dict.fromkeys((column.index for column in both), both))
    late = {number for number, leaf in enumerate(leaves) if is_changing_table(leaf)}
    tables = {number for number, leaf in enumerate(leaves) if is_non_retroactive(leaf)}
    found = []
    for own in (column for index, each in equal.items() for column in each if column.index == index):
        met = [column for column in equal[own.index] if owner[column.index] not in late | tables]
        if late and owner[own.index] in tables and met:
            found.append(Call(BOOLEAN, "=", (met[0], own)))
    return [condition for condition in found if condition not in conditions]


def _order(leaves: list[lo.Node], reads: list[set[int]], conditions: list[Expression], starts: list[int]) -> list[int]:
    """Items in the order of joining: as written, but connected ones first, and NON RETROACTIVE tables after all that
    generates rows; other tables that change, where there are such, after those."""
    tables = [index for index, leaf in enumerate(leaves) if is_non_retroactive(leaf)]
    changing = [index for index, leaf in enumerate(leaves) if tables and is_changing_table(leaf)]
    streams = [index for index in range(len(leaves)) if index not in tables + changing]
    order: list[int] = []
    for waiting in (streams, tables, changing):
        while waiting:
            connected = _connected(waiting, order, leaves, reads, conditions, starts)
            chosen = connected[0] if order and connected else waiting[0]
            waiting.remove(chosen)
            order.append(chosen)
    return order


def _connected(
    waiting: list[int],
    order: list[int],
    leaves: list[lo.Node],
    reads: list[set[int]],
    conditions: list[Expression],
    starts: list[int],
) -> list[int]:
    """The items that an equality connects with what is joined already."""
    return [
        leaf
        for leaf in waiting
        if any(
            leaf in read and read <= {*order, leaf} and _is_key(c, leaf, leaves, starts)
            for read, c in zip(reads, conditions, strict=True)
        )
    ]


def _is_key(condition: Expression, leaf: int, leaves: list[lo.Node], starts: list[int]) -> bool:
    """Whether the condition equates the item's columns with those of others."""
    inside = range(starts[leaf], starts[leaf] + len(leaves[leaf].schema))
    width = sum(len(each.schema) for each in leaves)
    moved = map_columns(condition, lambda c: replace(c, index=c.index + width) if c.index in inside else c)
    keys, _ = split_condition(moved, width)
    return bool(keys)
