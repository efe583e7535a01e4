"""Plots of what the demo's queries answered: a PNG with matplotlib, or else bars in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console

_MINUTE = 60
_TERMINAL_ROWS = 6


@dataclass(frozen=True)
class Panel:
    """One value per minute of the highway's time."""

    title: str
    values: npt.NDArray[np.float64]


def panels(changes: Mapping[str, pa.Table], seconds: int) -> list[Panel]:
    """The panels that the changes of the demo's queries, by query name, give data for."""
    found = []
    if (entries := changes.get("segment_entries")) is not None:
        found.append(Panel("segment entries per minute", _per_minute(entries, seconds)))
    if (active := changes.get("active_cars")) is not None:
        found.append(Panel("cars on the highway", np.cumsum(_per_minute(active, seconds))))
    if (congested := changes.get("congested_segments")) is not None:
        found.append(Panel("congested segments", np.cumsum(_per_minute(congested, seconds))))
    if (tolls := changes.get("tolls")) is not None:
        found.append(Panel("tolls charged per minute", _per_minute(tolls, seconds, amount="toll")))
    return found


def _per_minute(changes: pa.Table, seconds: int, amount: str | None = None) -> npt.NDArray[np.float64]:
    """The sum of the weights, or of weight times amount, in each minute."""
    minute = changes["_ts"].to_numpy() // _MINUTE
    weight = changes["_weight"].to_numpy().astype(np.float64)
    if amount is not None:
        weight = weight * changes[amount].to_numpy()
    return np.bincount(minute, weight, minlength=-(-seconds // _MINUTE)).astype(np.float64)


def draw(found: Sequence[Panel], png: Path | None, console: Console) -> Path | None:
    """Draws the panels into `png` and returns it; without a path or matplotlib, into the terminal."""
    if png is not None and found and _draw_png(found, png):
        return png
    for panel in found:
        _draw_terminal(panel, console)
    return None


def _draw_png(found: Sequence[Panel], path: Path) -> bool:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(9, 2.2 * len(found)), layout="constrained")
    grid = figure.subplots(len(found), 1, sharex=True, squeeze=False)
    for axes, panel in zip(grid[:, 0], found, strict=True):
        axes.bar(np.arange(len(panel.values)), panel.values, width=0.9, align="edge", color="#2f6f8f")
        axes.set_title(panel.title, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0)
    grid[-1, 0].set_xlabel("minute")
    figure.savefig(path, dpi=120)
    return True


def _draw_terminal(panel: Panel, console: Console) -> None:
    top = max(panel.values.max(initial=0.0), 1.0)
    eighths = np.rint(panel.values / top * _TERMINAL_ROWS * 8).astype(int)
    console.print(f"\n[bold]{panel.title}[/] (highest {panel.values.max(initial=0.0):,.0f})")
    for row in reversed(range(_TERMINAL_ROWS)):
        filled = np.clip(eighths - row * 8, 0, 8)
        console.print("  " + "".join(" ▁▂▃▄▅▆▇█"[level] * 3 for level in filled), highlight=False)
    console.print("  " + "".join(f"{minute:<3}" for minute in range(len(eighths))) + " minute", highlight=False)
