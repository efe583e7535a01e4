"""Joins by SteMs keep longer windows than they are asked for, so that queries with different ones share them.

    S [RANGE n] ⋈ T [RANGE m]  =  π(shorten(S' [RANGE L] ⋈ T' [RANGE L])),   S' = (S, instant),  n, m <= L

CACQ keeps the largest window in a SteM and imposes the smaller ones on what is found there. Here the size to keep is a
setting, L = `stem_window`, since other queries that come and go must not change a plan whose state is kept. The rows of
a window get the instant of their element as a further column; a result ends with the first of its rows, by the windows
that were asked for. Only RANGE without SLIDE is shared, where a row starts at its instant however long it stays.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.kernel.scalar.expressions import Column, map_columns
from millstream.kernel.windows.time import Range
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.algebra.imposed_windows import with_window
from millstream.plan.rules.context import Context
from millstream.plan.rules.merge_projections import merge_projections


def share_windows(plan: lo.Node, context: Context) -> lo.Node:
    if not context.stem_window:
        return plan
    shared = plan.transform(lambda node: _shared(node, context.stem_window) if isinstance(node, ph.StemJoin) else node)
    return plan if shared == plan else merge_projections(shared, context)


def _shared(join: ph.StemJoin, longest: int) -> lo.Node:
    inputs: list[lo.Node] = []
    positions: list[int] = []  # of the join's columns in the row of all inputs
    ends: list[tuple[int, int]] = []
    width = 0
    for child in join.inputs:
        window = _window_below(child)
        positions += range(width, width + len(child.schema))
        if window is not None and window.slide == 1 and window.size <= longest:
            child = ph.Stamped(with_window(child, replace(window, size=longest)))
            ends.append((width + len(child.schema) - 1, window.size if window.half_open else window.size + 1))
        inputs.append(child)
        width += len(child.schema)
    if not ends:
        return join
    condition = map_columns(join.condition, lambda column: replace(column, index=positions[column.index]))
    shortened = ph.Shortened(replace(join, inputs=tuple(inputs), condition=condition), tuple(ends))
    columns = tuple(Column(f.type, at, f.name) for f, at in zip(join.schema, positions, strict=True))
    return lo.Project(shortened, columns, tuple(field.name for field in join.schema))


def _window_below(node: lo.Node) -> Range | None:
    """The window that rows come from one by one."""
    while isinstance(node, lo.Filter | lo.Project):
        node = node.input
    return node.window if isinstance(node, lo.Window) and isinstance(node.window, Range) else None
