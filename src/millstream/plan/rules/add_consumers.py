"""Joins of several inputs that work just in time are told who needs which of their rows.

    T ⋉ S, T ▷ S, L ⟕ T, T ⋈ S (NON RETROACTIVE), σ(T) ⋈ S ...     the keys of S, or of L, become a further input of T

What stands above a tree, perhaps behind selections, projections, UNION ALL and DISTINCT, asks for rows of some keys
only. Where a tree is read at several places of a plan, each place is an alternative: a row is held back if no place
needs it, and nothing is where one of them takes all. Of an outer join only the side is asked that may be padded, never
the one that is preserved. Nothing is asked through expressions that can fail, since rows that are not made cannot fail.

The other relation must have no tree of this kind in it: two trees that each wait for the other would wait for ever. A
NON RETROACTIVE table is asked as of the instant at which a row is generated, and therefore alone (`kernel/consumers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from millstream.kernel.joins.graph import JoinGraph, equal_column
from millstream.kernel.just_in_time.consumers import spreading_class
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import (
    Column,
    Expression,
    Parameter,
    columns_used,
    map_columns,
    shift_columns,
)
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.keys import split_condition
from millstream.plan.analysis.monotonic import is_non_retroactive
from millstream.plan.cost import made_joins
from millstream.plan.fingerprint import fingerprint, producer_of
from millstream.plan.rules.context import Context

Consumers = tuple[ph.Consumer, ...]


def add_consumers(plan: lo.Node, context: Context) -> lo.Node:
    found = _Found({}, context.shards, made_joins(context.statistics))
    found.visit(plan, ())
    return found.with_consumers(plan)


@dataclass(frozen=True)
class _Found:
    """For every tree what each place where it stands asks of it."""

    places: dict[ph.ManyJoin, list[Consumers]]
    shards: int
    made: frozenset[str]  # joins that are made already, for others

    def visit(self, node: lo.Node, consumers: Consumers) -> None:
        if isinstance(node, ph.ManyJoin):
            self.places.setdefault(node, []).append(consumers)
            consumers = ()
        for side, child in enumerate(node.children):
            self.visit(child, consumers_of(node, side, consumers))

    def with_consumers(self, node: lo.Node) -> lo.Node:
        """The plan, its joins with their consumers."""
        children = tuple(self.with_consumers(child) for child in node.children)
        rewritten = node.with_children(children) if children != node.children else node
        if not isinstance(node, ph.ManyJoin) or not isinstance(rewritten, ph.ManyJoin) or not node.is_just_in_time:
            return rewritten
        consumers = self._consumers(node, rewritten)
        return replace(rewritten, consumers=consumers, shared=not consumers and self._is_made(producer_of, rewritten))

    def _is_made(self, name: Callable[[str], str], join: ph.ManyJoin) -> bool:
        return bool(self.made) and name(fingerprint(join)) in self.made

    def _consumers(self, node: ph.ManyJoin, rewritten: ph.ManyJoin) -> Consumers:
        """Those of a join, whose inputs have been told theirs, if all places have some."""
        alternatives = list(dict.fromkeys(self.places.get(node, ())))
        if not alternatives or not all(alternatives) or self._is_made(str, rewritten):
            return ()
        if len(alternatives) > 1 and any(consumer.as_of for consumers in alternatives for consumer in consumers):
            return ()
        consumers = tuple(
            replace(consumer, alternative=number)
            for number, consumers in enumerate(alternatives)
            for consumer in sorted(consumers, key=lambda one: one.refuses)
        )
        return () if self.shards > 1 and not _are_spread(node, consumers) else consumers


def _are_spread(node: ph.ManyJoin, consumers: Consumers) -> bool:
    """Whether all consumers ask by what the rows of a join are hashed by, or nothing is."""
    graph = JoinGraph([len(child.schema) for child in node.inputs], node.condition)
    hashed_by = spreading_class(graph)
    return hashed_by is None or all(one.with_edge("").column_of(hashed_by, graph) is not None for one in consumers)


def consumers_of(node: lo.Node, side: int, consumers: Consumers) -> Consumers:
    """What is asked of a child, by what is asked of a node and by the node itself."""
    match node:
        case lo.Filter() | lo.Project() if not consumers:
            return ()
        case lo.Filter() if not _can_fail(node.condition):
            return consumers
        case lo.Project() if not any(map(_can_fail, node.expressions)):
            return _present(_moved(one, lambda value: _below(value, node)) for one in consumers)
        case lo.SetOperation(operation="union all"):
            return consumers
        case lo.Distinct():
            return _always(consumers)
        case lo.Join() if _can_fail(node.condition):
            return ()
        case lo.Join() if any(map(is_non_retroactive, node.children)):
            as_of = node.join == "inner" and is_non_retroactive(node.children[1 - side])
            return _by(node, side, as_of=True) if as_of else ()
        case lo.Join(join="inner"):
            above = _present(_moved(one, lambda value: _of_side(value, node, side)) for one in _always(consumers))
            return (*above, *_by(node, side))
        case ph.JoinTree() if side < len(node.inputs):
            return _by_inputs(node, side)
        case lo.Join(join="semi" | "anti") if side == 0:
            return (*_always(consumers), *_by(node, side, refuses=node.join == "anti"))
        case lo.Join(join="semi" | "anti") | lo.Join(join="left") if side == 1:
            return _by(node, side)
        case lo.Join(join="right") if side == 0:
            return _by(node, side)
        case _:
            return ()


def _can_fail(expression: Expression) -> bool:
    """Of a parameter nothing is known yet."""
    return any(isinstance(part, Parameter) for part in expression.walk()) or can_fail(expression)


def _always(consumers: Consumers) -> Consumers:
    """Those that do not depend on the instant at which a row is generated."""
    return tuple(one for one in consumers if not one.as_of)


def _by(join: lo.Join, side: int, *, refuses: bool = False, as_of: bool = False) -> Consumers:
    """That one side of a join has partners for rows of the other."""
    width, other = len(join.left.schema), join.children[1 - side]
    if _waits(other):
        return ()
    keys, rest = split_condition(join.condition, width)
    if refuses and (rest or not keys):
        return ()
    pairs = [(left, right) if side == 0 else (right, left) for left, right, _ in keys]
    values = tuple(shift_columns(value, -width * (1 - side)) for _, value in pairs)
    consumers = lo.Project(other, values, tuple(map(str, values)))
    null_safe = bool(keys) and all(safe for *_, safe in keys)
    own = tuple(shift_columns(value, -width * side) for value, _ in pairs)
    consumer = ph.Consumer(consumers, own, refuses, as_of, null_safe)
    return _present([_moved(consumer, lambda value: value)])


def _by_inputs(tree: ph.JoinTree, side: int) -> Consumers:
    """That the other inputs of a tree have partners for rows of one that is a tree itself."""
    graph = JoinGraph([len(child.schema) for child in tree.inputs], tree.condition)
    found = []
    for number, other in enumerate(tree.inputs):
        both = [alike for alike in graph.classes if {side, number} <= alike.inputs]
        if number == side or not both or _waits(other):
            continue
        own = tuple(_column(tree.inputs[side], alike.column_of(side)) for alike in both)
        keys = tuple(_column(other, alike.column_of(number)) for alike in both)
        found.append(ph.Consumer(lo.Project(other, keys, tuple(key.name for key in keys)), own))
    return tuple(found)


def _column(node: lo.Node, index: int) -> Column:
    return Column(node.schema[index].type, index, node.schema[index].name)


def _waits(node: lo.Node) -> bool:
    """Whether it has a tree that waits for others."""
    return any(isinstance(below, ph.ManyJoin) and below.is_just_in_time for below in node.walk())


def _moved(consumer: ph.Consumer, change: Callable[[Expression], Expression | None]) -> ph.Consumer | None:
    """A consumer as it asks of rows further below, by those of its keys that are there; None where it asks nothing."""
    own = [change(value) for value in consumer.own]
    kept = [number for number, value in enumerate(own) if value is not None and equal_column(value) is not None]
    if len(kept) < len(own) and consumer.refuses:
        return None
    keys = consumer.keys
    if len(kept) < len(own) and isinstance(keys, lo.Project):
        keys = lo.Project(keys.input, tuple(keys.expressions[n] for n in kept), tuple(keys.names[n] for n in kept))
    values = tuple(value for number in kept if (value := own[number]) is not None)
    return replace(consumer, keys=keys, own=values)


def _below(value: Expression, project: lo.Project) -> Expression:
    return map_columns(value, lambda column: project.expressions[column.index])


def _of_side(value: Expression, join: lo.Join, side: int) -> Expression | None:
    width = len(join.left.schema)
    if any((index >= width) != bool(side) for index in columns_used(value)):
        return None
    return shift_columns(value, -width * side)


def _present(consumers: Iterable[ph.Consumer | None]) -> Consumers:
    return tuple(consumer for consumer in consumers if consumer is not None)
