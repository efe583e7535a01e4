"""Window reduction (CQL paper, section 10.1).

    ISTREAM(L(S [RANGE UNBOUNDED]))  =  RSTREAM(L(S [NOW]))

for row-wise L: selections, projections and UNION ALL of such. What was new in an ever growing relation is what is there
now; nothing has to be compared with the instant before.
"""

from __future__ import annotations

from millstream.kernel.windows.time import Now, Unbounded
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.algebra.imposed_windows import with_window
from millstream.plan.rules.context import Context


def reduce_windows(plan: lo.Node, context: Context) -> lo.Node:
    return plan.transform(_reduce)


def _reduce(node: lo.Node) -> lo.Node:
    if not (isinstance(node, lo.RelationToStream) and node.operator == "istream"):
        return node
    if not is_row_wise_over(node.input, Unbounded()):
        return node
    return lo.RelationToStream(with_window(node.input, Now()), "rstream")


def is_row_wise_over(node: lo.Node, window: object) -> bool:
    """Whether a relation is made row by row from windows of this one kind."""
    match node:
        case lo.Window():
            return node.window == window
        case (
            lo.Filter()
            | lo.Project()
            | ph.Selection()
            | ph.Expand()
            | ph.Constants()
            | lo.SetOperation(operation="union all")
        ):
            return all(is_row_wise_over(child, window) for child in node.children)
        case _:
            return False
