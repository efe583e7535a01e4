"""A plan's document in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.drawing.labels import lines_of, sharing_of, title_of


def to_dot(document: Mapping[str, Any], *, measured: bool = False) -> str:
    """One node for each operator; edges that only say how far others are final are dashed."""
    lines = [
        "digraph plan {",
        "  rankdir=TB;",
        '  node [shape=box, style=rounded, fontname="sans-serif", fontsize=10];',
    ]
    for node in document["nodes"]:
        text = [title_of(node), *lines_of(node, measured=measured), *filter(None, [sharing_of(node)])]
        lines.append(f"  {_quoted(node['id'])} [label={_quoted(*text)}];")
    for edge in document["edges"]:
        style = " [style=dashed]" if edge["awaited"] else ""
        lines.append(f"  {_quoted(edge['from'])} -> {_quoted(edge['to'])}{style};")
    return "\n".join([*lines, "}"])


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines)
    return '"' + "\\n".join(escaped) + '"'
