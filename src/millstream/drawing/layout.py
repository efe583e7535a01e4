"""Places the nodes of a graph without cycles: in layers, so that all edges point down and few cross (Sugiyama).

layers      a node lies below all that it reads
bends       an edge that passes layers bends in each of them, in a place of its own
order       within a layer by the mean place of neighbours, swept down and up several times
places      each node as near to its neighbours as those beside it let it be
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SWEEPS = 8
_BEND = 12.0  # how wide an edge is that passes a layer


@dataclass(frozen=True)
class Size:
    width: float
    height: float


@dataclass(frozen=True)
class Placement:
    """The centres of nodes, the points that edges go through (from the lower side of one node to the upper side of the
    other), and how large it is."""

    nodes: Mapping[str, tuple[float, float]]
    edges: Mapping[tuple[str, str], Sequence[tuple[float, float]]]
    width: float
    height: float


@dataclass
class _Layers:
    """Nodes and bends by layer, in their order, with their neighbours above and below."""

    rows: list[list[str]] = field(default_factory=list)
    above: dict[str, list[str]] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)
    bends: dict[tuple[str, str], list[str]] = field(default_factory=dict)


def layout(
    sizes: Mapping[str, Size], edges: Iterable[tuple[str, str]], *, across: float = 24.0, down: float = 44.0
) -> Placement:
    """Of nodes of these sizes, with some room between them."""
    found = [edge for edge in dict.fromkeys(edges) if edge[0] in sizes and edge[1] in sizes and edge[0] != edge[1]]
    layers = _layered(sizes, found)
    _order(layers)
    widths = {name: sizes[name].width if name in sizes else _BEND for row in layers.rows for name in row}
    x = _placed(layers, widths, across)
    left = min((x[name] - widths[name] / 2 for name in x), default=0.0)
    right = max((x[name] + widths[name] / 2 for name in x), default=0.0)
    heights = [max((sizes[name].height for name in row if name in sizes), default=0.0) for row in layers.rows]
    tops = [sum(heights[:row]) + down * row for row in range(len(heights))]
    y = {name: tops[row] + heights[row] / 2 for row, names in enumerate(layers.rows) for name in names}
    lines = {
        (start, end): [
            (x[start] - left, y[start] + sizes[start].height / 2),
            *((x[bend] - left, y[bend]) for bend in layers.bends[start, end]),
            (x[end] - left, y[end] - sizes[end].height / 2),
        ]
        for start, end in found
    }
    height = tops[-1] + heights[-1] if heights else 0.0
    return Placement({name: (x[name] - left, y[name]) for name in sizes}, lines, right - left, height)


def _layered(sizes: Mapping[str, Size], edges: Sequence[tuple[str, str]]) -> _Layers:
    depth = _depths(sizes, edges)
    layers = _Layers([[] for _ in range(max(depth.values(), default=-1) + 1)])
    for name in sizes:
        layers.rows[depth[name]].append(name)
    for start, end in edges:
        chain = [start]
        for row in range(depth[start] + 1, depth[end]):
            bend = f"{start}\0{end}\0{row}"
            layers.rows[row].append(bend)
            chain.append(bend)
        layers.bends[start, end] = chain[1:]
        for upper, lower in zip(chain, [*chain[1:], end], strict=True):
            layers.below.setdefault(upper, []).append(lower)
            layers.above.setdefault(lower, []).append(upper)
    return layers


def _depths(sizes: Mapping[str, Size], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """By the longest way from a source; a source lies just above the first that reads it."""
    above: dict[str, list[str]] = {name: [] for name in sizes}
    below: dict[str, list[str]] = {name: [] for name in sizes}
    for start, end in edges:
        above[end].append(start)
        below[start].append(end)
    left = {name: len(found) for name, found in above.items()}
    waiting = [name for name, count in left.items() if not count]
    depth = dict.fromkeys(sizes, 0)
    ordered: list[str] = []
    while waiting:
        name = waiting.pop()
        ordered.append(name)
        for lower in below[name]:
            depth[lower] = max(depth[lower], depth[name] + 1)
            left[lower] -= 1
            if not left[lower]:
                waiting.append(lower)
    if len(ordered) < len(sizes):
        raise AssertionError("a plan with a cycle")
    for name in reversed(ordered):
        if not above[name] and below[name]:
            depth[name] = min(depth[lower] for lower in below[name]) - 1
    return depth


def _order(layers: _Layers) -> None:
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 0
        neighbours = layers.above if is_down else layers.below
        rows = layers.rows if is_down else layers.rows[::-1]
        for fixed, free in pairwise(rows):
            places = {name: float(place) for place, name in enumerate(fixed)}
            wanted = {
                name: _mean([places[other] for other in neighbours.get(name, ())], place)
                for place, name in enumerate(free)
            }
            free.sort(key=wanted.__getitem__)


def _placed(layers: _Layers, widths: Mapping[str, float], across: float) -> dict[str, float]:
    """First side by side, then each row is moved towards its neighbours and spread where nodes would overlap."""
    x: dict[str, float] = {}
    for row in layers.rows:
        at = 0.0
        for name in row:
            x[name] = at + widths[name] / 2
            at += widths[name] + across
    for sweep in range(2 * _SWEEPS):
        is_down = sweep % 2 == 0
        neighbours = layers.above if is_down else layers.below
        for row in layers.rows if is_down else layers.rows[::-1]:
            wanted = [_mean([x[other] for other in neighbours.get(name, ())], x[name]) for name in row]
            x.update(zip(row, _spread(wanted, [widths[name] for name in row], across), strict=True))
    return x


def _mean(found: Sequence[float], otherwise: float) -> float:
    return sum(found) / len(found) if found else otherwise


def _spread(wanted: Sequence[float], widths: Sequence[float], across: float) -> list[float]:
    """Places in the same order that do not overlap, as near to those wanted as a run of neighbours lets them be: runs
    that would overlap become one, around the mean of what its members want."""
    runs: list[tuple[float, float, int]] = []  # the sum of what they want of their first, their width, how many
    for place, width in zip(wanted, widths, strict=True):
        total, length, count = place - width / 2, width + across, 1
        while runs and runs[-1][0] / runs[-1][2] + runs[-1][1] > total / count:
            before, span, others = runs.pop()
            total, length, count = before + total - span * count, span + length, others + count
        runs.append((total, length, count))
    found: list[float] = []
    for total, _, count in runs:
        at = total / count
        for width in widths[len(found) : len(found) + count]:
            found.append(at + width / 2)
            at += width + across
    return found
