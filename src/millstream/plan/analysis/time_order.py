"""FIRST and LAST go by the order in which rows came, so that these must say when they did."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.kernel.aggregation.aggregate_calls import canonical
from millstream.kernel.windows.time import Hop, Range, Rows, Tumble, WindowSpecification
from millstream.plan import nodes as lo
from millstream.plan import physical as ph

_KEEPS_INSTANTS = (lo.StreamScan, lo.TableScan, lo.Window, lo.Filter, lo.Project)


def goes_by_order(plan: lo.Node) -> bool:
    """Whether answers depend on the order in which rows came."""
    return any(True for _ in _ordered(plan))


def goes_by_order_of_changes(plan: lo.Node) -> bool:
    """Whether they do on when rows came that are neither elements of a stream nor pairs of such: only who has seen them
    come knows that."""
    return any(not _keeps_instants(node) for aggregate in _ordered(plan) for node in aggregate.input.walk())


def goes_by_instants(plan: lo.Node) -> bool:
    """Whether they do on the instants of elements that enter a window together with others."""
    below = (node for aggregate in _ordered(plan) for node in aggregate.input.walk())
    return any(isinstance(n, ph.QueryWindow) or (isinstance(n, lo.Window) and slides(n.window)) for n in below)


def slides(window: WindowSpecification) -> bool:
    """Whether elements of several instants enter a window at the same one."""
    if isinstance(window, Range | Rows):
        return window.slide != 1
    return isinstance(window, Tumble | Hop)


def _ordered(plan: lo.Node) -> Iterator[lo.Aggregate]:
    for node in plan.walk():
        if isinstance(node, lo.Aggregate) and any(canonical(call.function) in ("first", "last") for call in node.calls):
            yield node


def _keeps_instants(node: lo.Node) -> bool:
    return isinstance(node, _KEEPS_INSTANTS) or (isinstance(node, lo.Join) and node.join == "inner")
