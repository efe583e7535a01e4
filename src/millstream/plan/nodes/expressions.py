"""Changes what the nodes of a plan compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millstream.kernel.scalar.expressions import Expression
from millstream.plan.nodes.aggregation import Aggregate
from millstream.plan.nodes.failures import Failing
from millstream.plan.nodes.joins import Join
from millstream.plan.nodes.node import Node
from millstream.plan.nodes.rows import Filter, Project


def map_expressions(node: Node, change: Callable[[Expression], Expression]) -> Node:
    """A logical node with what it computes changed."""
    match node:
        case Filter():
            return replace(node, condition=change(node.condition))
        case Project():
            return replace(node, expressions=tuple(map(change, node.expressions)))
        case Join():
            return replace(node, condition=change(node.condition))
        case Failing():
            return replace(node, expressions=tuple(map(change, node.expressions)), where=change(node.where))
        case Aggregate():
            return replace(
                node, keys=tuple(map(change, node.keys)), calls=tuple(call.over(change) for call in node.calls)
            )
        case _:
            return node
