"""A plan's document as a picture: sources above, outputs below, the busiest operators in the strongest colour."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from millstream.drawing.labels import lines_of, rate_of, sharing_of, title_of
from millstream.drawing.layout import Placement, Size, layout

_WIDTH, _LINE, _PADDING, _MARGIN = 210.0, 14.0, 8.0, 16.0
_CHARACTERS = 36  # of a line
_MOST_LINES = 3  # of a label
_FILLS = {
    **dict.fromkeys(("source", "queries", "table"), "#e3eefb"),
    **dict.fromkeys(("filter", "selection", "expand", "project"), "#eef6e6"),
    **dict.fromkeys(("window", "stream", "matches"), "#f4ecfa"),
    **dict.fromkeys(("stem", "join"), "#fdf0dc"),
    **dict.fromkeys(("aggregate", "distinct", "set"), "#e2f5f3"),
    "output": "#ffffff",
    "errors": "#f3f3f3",
}
_TEXT, _QUIET, _LINE_COLOUR, _FAILED = "#1f2328", "#59636e", "#8c959f", "#b42318"
_UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_svg(document: Mapping[str, Any], *, measured: bool = False) -> str:
    """A picture that stands for itself: no script, no style sheet, nothing from elsewhere."""
    texts = {node["id"]: _lines(node, measured=measured) for node in document["nodes"]}
    sizes = {name: Size(_WIDTH, _LINE * len(lines) + 2 * _PADDING) for name, lines in texts.items()}
    placed = layout(sizes, ((edge["from"], edge["to"]) for edge in document["edges"]))
    width, height = placed.width + 2 * _MARGIN, placed.height + 2 * _MARGIN
    edges = [_edge(edge, placed, measured=measured) for edge in document["edges"]]
    nodes = [_node(node, texts[node["id"]], sizes[node["id"]], placed) for node in document["nodes"]]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="11" role="img">'
    )
    title = f"<title>plan of {len(document['nodes'])} nodes at epoch {document['epoch']}</title>"
    back = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
    return "\n".join(
        [head, title, back, f'<g transform="translate({_MARGIN:g} {_MARGIN:g})">', *edges, *nodes, "</g></svg>"]
    )


def _lines(node: Mapping[str, Any], *, measured: bool) -> list[str]:
    shared, (label, *facts) = sharing_of(node), lines_of(node, measured=measured)
    wrapped = textwrap.wrap(label, _CHARACTERS, max_lines=_MOST_LINES, placeholder=" ...") or [""]
    title = title_of(node) + (f" · {shared}" if shared else "")
    return [title, *wrapped, *(text[: _CHARACTERS + 4] for text in facts)]


def _node(node: Mapping[str, Any], lines: Sequence[str], size: Size, placed: Placement) -> str:
    x, y = placed.nodes[node["id"]]
    left, top = x - size.width / 2, y - size.height / 2
    is_failed = node["state"] == "failed"
    border = _FAILED if is_failed else _LINE_COLOUR
    # A border as thick as the operator's share of the time: hot ones are seen at a glance.
    thick = 1 + 3 * min(max(node["share"], 0.0), 1.0)
    dashes = ' stroke-dasharray="5 3"' if node["state"] == "filling" else ""
    box = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{size.width:.1f}" height="{size.height:.1f}" rx="6" '
        f'fill="{_FILLS.get(node["kind"], "#f6f8fa")}" stroke="{border}" stroke-width="{thick:.2f}"{dashes}/>'
    )
    texts = [
        f'<text x="{left + _PADDING:.1f}" y="{top + _PADDING + _LINE * (place + 0.8):.1f}" '
        f'fill="{_TEXT if place else _QUIET}" font-weight="{400 if place else 600}">{_shown(line)}</text>'
        for place, line in enumerate(lines)
    ]
    hint = _shown("\n".join(node["detail"]) or node["label"])
    return f"<g><title>{hint}</title>{box}{''.join(texts)}</g>"


def _edge(edge: Mapping[str, Any], placed: Placement, *, measured: bool) -> str:
    points = placed.edges.get((edge["from"], edge["to"]))
    if points is None:
        return ""
    (x, y), path = points[0], ""
    for following in points[1:]:
        middle = (y + following[1]) / 2
        path += f" C{x:.1f} {middle:.1f} {following[0]:.1f} {middle:.1f} {following[0]:.1f} {following[1]:.1f}"
        x, y = following
    dashes = ' stroke-dasharray="4 3"' if edge["awaited"] else ""
    begin = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    line = f'<path d="{begin}{path}" fill="none" stroke="{_LINE_COLOUR}" stroke-width="1.2"{dashes}/>'
    head = f'<path d="M{x:.1f} {y:.1f} l-3.5 -7 h7 z" fill="{_LINE_COLOUR}"/>'
    rate = rate_of(edge) if measured else ""
    x, y = points[0]  # all that leave a node have the same
    said = f'<text x="{x + 6:.1f}" y="{y + 11:.1f}" fill="{_QUIET}" font-size="9">{_shown(rate)}</text>' if rate else ""
    return f"<g>{line}{head}{said}</g>"


def _shown(text: str) -> str:
    return escape(_UNPRINTABLE.sub("\ufffd", text))
