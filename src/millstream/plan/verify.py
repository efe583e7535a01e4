"""A plan is verified after every rule: it is sound in itself, and still what it was.

Sound: every expression reads columns that its input has, of the types that they have there; so do the keys by which
partitions, just-in-time trees and their consumers know rows; a tree has each of its inputs once.

Still what it was: of the same kind, with columns of the same types (names are for display only), and with an update
pattern that is no worse. MONO is the best of these, so that what was monotonic stays so.

A failure is a mistake of Millstream, never of a user.
"""

from __future__ import annotations

from collections.abc import Iterator

from millstream.kernel.just_in_time.tree_shape import Nesting
from millstream.kernel.scalar.expressions import Column, Expression, memoized
from millstream.kernel.windows.time import RangeOn, Rows, Sessions
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.patterns import Pattern, pattern_of
from millstream.types import DataType, Schema


class Verifier:
    """Follows a plan from rule to rule; nodes that a rule has left as they were are not looked at again."""

    def __init__(self, plan: lo.Node) -> None:
        self._plan = plan
        self._sound: dict[int, lo.Node] = {}  # by identity; the node is held so that no other gets its number
        self._columns = _types(plan.schema)
        self._pattern = _pattern(plan)

    def check(self, name: str, plan: lo.Node) -> None:
        """Raise where a plan by the rule of this name is not sound, or not what it was."""
        if plan is self._plan:
            return
        columns, pattern = _types(plan.schema), _pattern(plan)
        if plan.kind != self._plan.kind:
            raise AssertionError(f"rule {name} made a {plan.kind} of a {self._plan.kind}")
        if columns != self._columns:
            raise AssertionError(f"rule {name} made columns of types {columns} of {self._columns}")
        if pattern > self._pattern:
            raise AssertionError(f"rule {name} made {pattern.name} of {self._pattern.name}")
        self._check_nodes(name, plan)
        self._plan, self._pattern = plan, pattern

    def _check_nodes(self, name: str, plan: lo.Node) -> None:
        waiting = [plan]
        while waiting:
            node = waiting.pop()
            if id(node) not in self._sound:
                self._sound[id(node)] = node
                for mistake in mistakes(node):
                    raise AssertionError(f"rule {name} made a plan in which {mistake}")
                waiting.extend(node.children)


def mistakes(node: lo.Node) -> Iterator[str]:
    """What is wrong with one node, whatever stands below it."""
    if expressions := node.computed:
        row = _row_below(node)
        for expression in expressions:
            yield from _misread(expression, row)
    match node:
        case lo.Window(window=Rows() | Sessions() | RangeOn() as window):
            if not all(0 <= index < len(node.schema) for index in window.partition):
                yield f"a window is partitioned by columns {window.partition} of {len(node.schema)}"
        case ph.ManyJoin():
            yield from _mistakes_of_join(node)


def _mistakes_of_join(node: ph.ManyJoin) -> Iterator[str]:
    if isinstance(node, ph.JoinTree) and sorted(_leaves(node.shape)) != list(range(len(node.inputs))):
        yield f"a tree of {len(node.inputs)} inputs has the shape {node.shape}"
    for consumer in node.consumers:
        for value in consumer.own:
            yield from _misread(value, node.schema)
        keys, own = _types(consumer.keys.schema), [value.type for value in consumer.own]
        if len(keys) != len(own):
            yield f"a consumer with keys {keys} asks by {own}"


def _row_below(node: lo.Node) -> Schema:
    """The row that a node's own expressions are over: the columns of all inputs, in order."""
    inputs = node.inputs if isinstance(node, ph.ManyJoin) else node.children
    return tuple(field for child in inputs for field in child.schema)


def _misread(expression: Expression, row: Schema) -> Iterator[str]:
    for column in memoized(expression, "columns read", _columns):
        if not 0 <= column.index < len(row):
            yield f"{expression} reads column {column.index} of {len(row)}"
        elif row[column.index].type != column.type:
            yield f"{expression} reads {column.name} as {column.type}, which is {row[column.index].type}"


def _columns(expression: Expression) -> frozenset[Column]:
    return frozenset(part for part in expression.walk() if isinstance(part, Column))


def _leaves(shape: Nesting) -> Iterator[int]:
    if isinstance(shape, int):
        yield shape
    else:
        for side in shape:
            yield from _leaves(side)


def _types(schema: Schema) -> list[DataType]:
    return [field.type for field in schema]


def _pattern(plan: lo.Node) -> Pattern:
    """Of the rows, whatever errors stand beside them; that of a stream's elements, which are there for their instant
    only, cannot get worse."""
    while isinstance(plan, lo.Checked):
        plan = plan.input
    return pattern_of(plan) if plan.kind == "relation" else Pattern.WKS
