"""Just-in-time joins against trees that make everything (REF): the paper's Figures 10 to 17, faster streams, nested
loops, and SteMs. The paper runs each for five hours of application time; here it is two windows, of which the second is
measured, in batches of a fifth of a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, find, in_turns
from bench.harness.operators import run_clique
from bench.harness.pictures import tidy
from bench.workloads.cliques import BUSHY, Clique

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Table III; the defaults are in the middle, but for N = 6 and 4
FIGURES: dict[str, tuple[str, list[Clique]]] = {
    "Fig. 10, bushy": ("window, minutes", [Clique(True, 6, w, 1, 200) for w in (10, 15, 20, 25, 30)]),
    "Fig. 11, bushy": ("elements per second", [Clique(True, 6, 20, r, 200) for r in (0.4, 0.7, 1, 1.3, 1.6)]),
    "Fig. 12, bushy": ("sources", [Clique(True, n, 20, 1, 200) for n in BUSHY]),
    "Fig. 13, bushy": ("largest value", [Clique(True, 6, 20, 1, d) for d in (100, 150, 200, 250, 300)]),
    "Fig. 14, left-deep": ("window, minutes", [Clique(False, 4, w, 1, 50) for w in (5, 7.5, 10, 12.5, 15)]),
    "Fig. 15, left-deep": ("elements per second", [Clique(False, 4, 10, r, 50) for r in (0.4, 0.7, 1, 1.3, 1.6)]),
    "Fig. 16, left-deep": ("sources", [Clique(False, n, 10, 1, 50) for n in (3, 4, 5, 6)]),
    "Fig. 17, left-deep": ("largest value", [Clique(False, 4, 10, 1, d) for d in (30, 40, 50, 60, 70)]),
    # (rate * window)^2 / values^3 stays the same: otherwise everything would be needed
    "faster streams, bushy": (
        "elements per second",
        [Clique(True, 6, 20, r, d) for r, d in ((1, 200), (10, 928), (30, 1931))],
    ),
    "faster streams, left-deep": (
        "elements per second",
        [Clique(False, 4, 15, r, d) for r, d in ((1, 50), (3, 104), (10, 232))],
    ),
    "nested loops, bushy": (
        "window, minutes",
        [Clique(True, 6, w, 1, d, equal=False) for w, d in ((5, 79), (10, 126))],
    ),
}
FASTER, NESTED = "faster streams, bushy", "nested loops, bushy"


def _size(figure: str, clique: Clique) -> int:
    """What varies, in tenths."""
    varied = FIGURES[figure][0]
    found = {"window, minutes": clique.window, "elements per second": clique.rate, "sources": clique.sources}
    return round(10 * found.get(varied, clique.values))


def _trial(figure: str, clique: Clique, settings: Settings) -> Trial:
    def measure() -> list[Measurement]:
        inputs, operators = clique.inputs(), clique.operators()
        chosen = ("REF", "JIT") if not clique.equal else tuple(operators)
        runs = {name: (lambda name=name: run_clique(operators[name], clique, inputs)) for name in chosen}
        best = in_turns(runs, 1 if settings.quick or clique.rate > 10 or not clique.equal else 3)
        # What the planner chooses is one of the two, and costs what that does.
        best["planned"] = best["JIT" if clique.is_planned() else "REF"]
        return [Measurement(figure, name, _size(figure, clique), sample) for name, sample in best.items()]

    return Trial(f"{figure}, {FIGURES[figure][0]} {_size(figure, clique) / 10:g}", measure)


def trials(settings: Settings) -> list[Trial]:
    points = [(figure, clique) for figure, (_, cliques) in FIGURES.items() for clique in cliques]
    if settings.quick:
        points = [(figure, clique) for figure, clique in points if figure == FASTER and clique.rate <= 10]
    return [_trial(figure, clique, settings) for figure, clique in points]


def _ratio(measurements: Sequence[Measurement], figure: str, size: int | None = None) -> float | None:
    """CPU time of REF in that of JIT."""
    ref, jit = (find(measurements, figure, name, size) for name in ("REF", "JIT"))
    return ref.sample.cpu / jit.sample.cpu if ref and jit else None


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    ref, jit = (find(measurements, FASTER, name, 10) for name in ("REF", "JIT"))
    if ref and jit:
        found.append(
            Bar("bushy: intermediates of REF in those of JIT", ref.sample.more["made"] / jit.sample.more["made"], 10)
        )
        found.append(Bar("bushy: peak state saved", 1 - jit.sample.more["MiB"] / ref.sample.more["MiB"], 0.6))
    found += [
        Bar(f"bushy, {size // 10}/s: CPU time of REF in that of JIT", ratio, 2)
        for size in (100, 300)
        if (ratio := _ratio(measurements, FASTER, size)) is not None
    ]
    if (ratio := _ratio(measurements, NESTED)) is not None:
        found.append(Bar("bushy, nested loops: CPU time of REF in that of JIT", ratio, 5))
    if (ratio := _ratio(measurements, "Fig. 14, left-deep")) is not None:
        found.append(Bar("left-deep, largest window: CPU time of REF in that of JIT", ratio, 1.5))
    grid = [m for m in measurements if m.case.startswith("Fig.") and m.variant == "planned"]
    ratios = [ref.sample.cpu / m.sample.cpu for m in grid if (ref := find(measurements, m.case, "REF", m.size))]
    if ratios:
        found.append(Bar("as planned, anywhere on the grid: CPU time of REF in that of JIT", min(ratios), 0.95))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    """For each figure the CPU time, and below it the peak state, as the paper has them."""
    cases = list(dict.fromkeys(m.case for m in measurements))
    rows = -(-len(cases) // 4)
    figure.set_size_inches(14, 4.6 * rows)
    axes = figure.subplots(2 * rows, 4, squeeze=False)
    for place, case in enumerate(cases):
        row, column = 2 * (place // 4), place % 4
        for offset, label in enumerate(("CPU s", "peak state, MiB")):
            one = axes[row + offset][column]
            for variant in ("REF", "JIT", "eddy", "eddy, JIT"):
                some = sorted((m for m in measurements if (m.case, m.variant) == (case, variant)), key=lambda m: m.size)
                values = [m.sample.more["MiB"] if offset else m.sample.cpu for m in some]
                if some:
                    one.plot(
                        [m.size / 10 for m in some], values, marker="o", markersize=3, linewidth=1.2, label=variant
                    )
            one.set_yscale("log")
            one.set_ylabel(label, fontsize=8)
            tidy(one)
        axes[row][column].set_title(case, loc="left", fontsize=9)
        axes[row][column].legend(fontsize=7, frameon=False)
        axes[row + 1][column].set_xlabel(FIGURES[case][0], fontsize=8)
    for place in range(len(cases), 4 * rows):
        for offset in (0, 1):
            axes[2 * (place // 4) + offset][place % 4].set_axis_off()
    figure.suptitle("application time: two windows instead of five hours, the second one measured", fontsize=9)


EXPERIMENT = Experiment("just_in_time", "joins just in time", trials, bars, draw, shown=("made", "MiB"))
