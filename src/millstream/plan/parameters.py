"""The plan of a single query, made of that of its template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.parameters import with_values
from millstream.plan.nodes import Node, map_expressions
from millstream.plan.physical import ManyJoin


def with_parameters(plan: Node, values: Sequence[object]) -> Node:
    """A plan with values in the place of its parameters."""

    def own(expression: Expression) -> Expression:
        return with_values(expression, values)

    def change(node: Node) -> Node:
        if not isinstance(node, ManyJoin):
            return map_expressions(node, own)
        consumers = (replace(consumer, own=tuple(map(own, consumer.own))) for consumer in node.consumers)
        return replace(node, condition=own(node.condition), consumers=tuple(consumers))

    return plan.transform(change)
