"""Which inputs of joins are kept as the elements of their stream, the window being imposed by the join.

    σπ(S [RANGE n])  =  the window over  σπ(S [NOW])

since selections and projections look at single rows. So joins with windows of different sizes read the same edge, and
keep the same rows. Not where something in between can fail: for how long it does is said by the window. Nor with SLIDE,
where an element is in the window only after its instant.

What is decided here follows from the plan alone, and not from what else is there.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.windows.imposed import AS_THEY_ARE, Imposed
from millstream.kernel.windows.time import Now, Range, TimeSpecification
from millstream.plan import nodes as lo
from millstream.plan import physical as ph


def as_elements(side: lo.Node) -> tuple[lo.Node, Imposed]:
    """What is kept of an input of a join, and the window that is imposed on it."""
    window = imposed_window(side)
    if window is None:
        return side, AS_THEY_ARE
    return with_window(side, Now()), Imposed(_ticks(window))


def imposed_window(side: lo.Node) -> Range | None:
    while isinstance(side, lo.Filter | lo.Project) and not any(map(can_fail, side.computed)):
        side = side.input
    if isinstance(side, lo.Window) and isinstance(side.window, Range) and side.window.slide == 1:
        return side.window if _ticks(side.window) and _has_elements(side.input) else None
    return None


def _ticks(window: Range) -> int:
    return window.size if window.half_open else window.size + 1


def _has_elements(stream: lo.Node) -> bool:
    """Whether a stream comes as elements of single instants: one that RSTREAM makes may come as runs."""
    return is_base(stream) or (isinstance(stream, lo.RelationToStream) and stream.operator != "rstream")


def joined(node: lo.Node) -> tuple[lo.Node, ...]:
    """The inputs of a join that can impose windows."""
    if isinstance(node, lo.Join) and node.join == "inner":
        return node.children
    return node.inputs if isinstance(node, ph.StemJoin) and not node.jit else ()


def is_base(stream: lo.Node) -> bool:
    while isinstance(stream, lo.Sample):
        stream = stream.input
    return isinstance(stream, lo.StreamScan)


def with_window(node: lo.Node, window: TimeSpecification) -> lo.Node:
    """The same row-wise relation over other windows; what stands below those is left alone."""
    if isinstance(node, lo.Window):
        return replace(node, window=window)
    return node.with_children(tuple(with_window(child, window) for child in node.children))
