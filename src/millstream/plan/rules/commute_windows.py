"""Filter-window commutativity (CQL paper, section 10.2), for time-based windows.

    (L(S)) [w]  =  L(S [w])        where (L(S)) is the stream ISTREAM(L(S [RANGE UNBOUNDED])) or RSTREAM(L(S [NOW]))

for row-wise L. The window moves down to the base stream, where other queries may have the same one, and the stream in
between is not made at all. Row-based windows count what passes the filter, so they do not commute.
"""

from __future__ import annotations

from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.windows.time import ElementSpecification, Now, Unbounded
from millstream.plan import nodes as lo
from millstream.plan.algebra.imposed_windows import with_window
from millstream.plan.rules.context import Context
from millstream.plan.rules.reduce_windows import is_row_wise_over


def commute_windows(plan: lo.Node, context: Context) -> lo.Node:
    return plan.transform(_commute)


def _commute(node: lo.Node) -> lo.Node:
    if not isinstance(node, lo.Window) or isinstance(node.window, ElementSpecification):
        return node
    stream = node.input
    if not isinstance(stream, lo.RelationToStream) or stream.every > 1:
        return node
    said_once = {"istream": Unbounded(), "rstream": Now()}.get(stream.operator)
    if said_once is None or not is_row_wise_over(stream.input, said_once):
        return node
    if any(can_fail(e) for part in stream.input.walk() for e in part.computed):
        return node  # it fails on elements that no window has
    return with_window(stream.input, node.window)
