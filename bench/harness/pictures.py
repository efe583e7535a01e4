"""What the experiments' pictures have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bench.harness.experiment import Measurement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Value = Callable[[Measurement], float]


def lines(axes: Axes, measurements: Sequence[Measurement], value: Value) -> None:
    """A line per variant over the size, both axes logarithmic."""
    for variant in dict.fromkeys(m.variant for m in measurements):
        points = sorted((m.size, value(m)) for m in measurements if m.variant == variant)
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1.2, label=variant)
    axes.set_xscale("log")
    axes.set_yscale("log")
    tidy(axes)


def grid(figure: Figure, panels: Sequence[tuple[str, Sequence[Measurement], Value]], columns: int = 3) -> None:
    """A panel of lines for each title."""
    rows = -(-len(panels) // columns)
    figure.set_size_inches(4 * min(columns, len(panels)), 2.8 * rows)
    every = figure.subplots(rows, min(columns, len(panels)), squeeze=False)
    for axes, (title, measurements, value) in zip(every.flat, panels, strict=False):
        axes.set_title(title, loc="left", fontsize=9)
        lines(axes, measurements, value)
        axes.legend(fontsize=7, frameon=False)
    for axes in every.flat[len(panels) :]:
        axes.set_axis_off()


def bars(figure: Figure, measurements: Sequence[Measurement], value: Value, label: str) -> None:
    """A bar for each measurement, from top to bottom."""
    figure.set_size_inches(8, 0.6 + 0.35 * len(measurements))
    axes = figure.subplots()
    names = [f"{m.case}, {m.variant}" for m in measurements]
    drawn = axes.barh(names, [value(m) for m in measurements], color="#2f6f8f")
    axes.bar_label(drawn, fmt="%.2f", fontsize=8, padding=2)
    axes.invert_yaxis()
    axes.set_xlabel(label, fontsize=8)
    tidy(axes)


def times_wanted(axes: Axes, found: Mapping[str, float], wanted: Mapping[str, float]) -> None:
    """How many times as fast as plain Spark, and what was wanted."""
    drawn = axes.barh(list(found), list(found.values()), color="tab:blue", height=0.6)
    axes.bar_label(drawn, fmt="%.2f", padding=3)
    marks = [wanted[case] for case in found]
    axes.scatter(marks, list(found), marker="|", s=400, color="black", label="wanted", zorder=3)
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_xlabel("times plain Spark")
    axes.invert_yaxis()
    axes.legend(frameon=False)
    tidy(axes)


def tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
