"""Work on single rows as the kernel does it, and whose rows they are."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.kernel.operator import Operator
from millstream.kernel.relational import linear
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import TRUE, Expression, conjunction, possible
from millstream.plan import nodes as lo
from millstream.plan import physical as ph


def is_expanded(node: lo.Node) -> bool:
    """Whether the rows that a node of a group's plan reads are those of single queries."""
    return any(isinstance(n, ph.Expand) or (isinstance(n, ph.Selection) and n.key is not None) for n in node.walk())


def row_wise(node: lo.Project | lo.Filter) -> Operator:
    if isinstance(node, lo.Project):
        return linear.Project(node.schema, node.expressions)
    return linear.Filter(node.schema, node.condition)


def where_computed(node: lo.Project | lo.Filter, computed: Sequence[Expression]) -> Expression:
    """Of the rows that a node reads, those on which what it computes is looked at; it cannot fail."""
    if isinstance(node, lo.Project):
        return TRUE
    return conjunction([possible(part) if can_fail(part) else part for part in computed])
