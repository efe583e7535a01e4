"""What can fail below a selection that is shared: there it does so on rows that no query wants."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.windows.time import RangeOn, Rows, Sessions
from millstream.plan import nodes as lo
from millstream.plan import physical as ph


def fails_outside_selections(node: lo.Node, *, below: bool = False) -> bool:
    """Whether what can fail stands below a selection. A group tells it of selections as rows come, so that none may be
    taken back."""
    selects = isinstance(node, lo.Filter | lo.Join | ph.ManyJoin)
    if any(map(can_fail, node.computed)):
        retracting = any(map(_takes_back, _walk_to_aggregates(node)))
        if below or (selects and (retracting or not isinstance(node, lo.Filter))):
            return True
    return any(fails_outside_selections(child, below=below or selects) for child in node.children)


def _walk_to_aggregates(node: lo.Node) -> Iterator[lo.Node]:
    """What rows come through. An aggregate reads what is final, so that what it gives was there, whatever is below."""
    yield node
    for child in () if isinstance(node, lo.Aggregate) else node.children:
        yield from _walk_to_aggregates(child)


def _takes_back(node: lo.Node) -> bool:
    """Whether rows that it has given may be nothing in the end, even at the instant at which they came."""
    if isinstance(node, lo.TableScan):
        return node.nature not in ("APPEND ONLY", "STATIC")
    if isinstance(node, lo.Window):
        return isinstance(node.window, Rows | Sessions | RangeOn)
    return isinstance(node, lo.Distinct | lo.SetOperation | lo.RelationToStream) or (
        isinstance(node, lo.Join) and node.join != "inner"
    )
