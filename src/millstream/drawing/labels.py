"""What is written into the nodes and on the edges of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_TITLES = {
    "selection": "grouped filter",
    "queries": "query table",
    "stem": "SteM",
    "set": "set operation",
    "errors": "error check",
}


def title_of(node: Mapping[str, Any]) -> str:
    """The kind of a node, for people."""
    kind = str(node["kind"])
    return _TITLES.get(kind, kind)


def lines_of(node: Mapping[str, Any], *, measured: bool) -> list[str]:
    """What stands below the title: the label, how rows leave and are kept, and what was counted."""
    facts = [text for text in (node.get("pattern"), node.get("structure")) if text]
    lines = [node["label"], *([" · ".join(facts)] if facts else [])]
    return lines + (_counted(node) if measured else [])


def _counted(node: Mapping[str, Any]) -> list[str]:
    rows = (
        count(node["rows_out"]) if node["rows_in"] is None else f"{count(node['rows_in'])} → {count(node['rows_out'])}"
    )
    lines = [f"{rows} rows"]
    if node["seconds"] is not None:
        lines[0] += f", {1e3 * node['seconds']:.3g} ms"
    if node["state_bytes"]:
        lines.append(f"{size(node['state_bytes'])} of state")
    held = [f"{node[name]:,} {name}" for name in ("expired", "suspended", "resumed") if node.get(name)]
    return lines + ([", ".join(held)] if held else [])


def sharing_of(node: Mapping[str, Any]) -> str:
    """How many queries share it, where they are several."""
    return f"{node['queries']:,} queries" if node["queries"] > 1 else ""


def rate_of(edge: Mapping[str, Any]) -> str:
    rate = edge["rate"]
    return "" if rate < 0.01 else f"{rate:.2g} rows/s" if rate < 10 else f"{count(round(rate))} rows/s"


def count(number: float) -> str:
    return f"{number:,}" if number < 1e6 else f"{number / 1e6:.3g} M"


def size(bytes_held: float) -> str:
    for unit in _UNITS[:-1]:
        if bytes_held < 1024:
            return f"{bytes_held:.0f} {unit}" if unit == "B" else f"{bytes_held:.1f} {unit}"
        bytes_held /= 1024
    return f"{bytes_held:.1f} {_UNITS[-1]}"
