"""Runs experiments: a table of what was measured, a line of JSON for each of it, and a picture.

    millstream bench [names...] [--quick] [--trace directory] [--keep file] [--minutes n]

Experiments are the files below `bench/experiments`; `kernel_join` and `kernel_aggregate` are scripts of their own,
which run when they are named. All of it is one process with one thread of Polars.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import runpy
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, best_at_each
from bench.harness.kept import Kept
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from millstream.errors import Error, InputError

BENCH = Path(__file__).parent.parent
# The folders of `bench/experiments`, and in which order they and their experiments run.
BY_PAPER = {
    "upa": ("update_patterns", "batch_sizes", "set_operations", "operator_costs"),
    "cql": ("window_join", "sliding_aggregate", "window_sizes", "ordering"),
    "jit": ("just_in_time", "consumers", "jit_detection"),
    "cacq": (
        "n_way_joins",
        "shared_aggregates",
        "shared_windows",
        "shared_queries",
        "keyed_queries",
        "lineage_bits",
        "many_sources",
        "routing",
        "adaptivity",
        "query_storage",
        "registering",
        "small_epochs",
        "stocks_and_articles",
        "sharing_choice",
        "constants",
    ),
    "psoup": (
        "modes",
        "mode_rates",
        "asking",
        "composite_probes",
        "backfills",
        "late_queries",
    ),  # the last two start Spark
    "spark": ("latency", "start_up", "pipeline", "join_memory", "many_queries", "scaling"),
    "service": ("service", "watching"),  # the first in a process of its own
}
EXPERIMENTS = {name: f"bench.experiments.{paper}.{name}" for paper, names in BY_PAPER.items() for name in names}
SCRIPTS = {name: f"bench.experiments.cql.{name}" for name in ("kernel_join", "kernel_aggregate")}
WIDTH = 140  # of the tables, where there is no terminal to say


def load(name: str) -> Experiment:
    experiment: Experiment = importlib.import_module(EXPERIMENTS[name]).EXPERIMENT
    return experiment


def run(experiment: Experiment, settings: Settings, console: Console) -> tuple[list[Measurement], list[Bar]]:
    """Measure, print, append to the results, draw."""
    measurements: list[Measurement] = []
    kept = Kept(settings.keep, experiment.name)
    until = time.monotonic() + 60 * settings.minutes
    with Progress(console=console, transient=True) as progress:
        trials = experiment.trials(settings)
        task = progress.add_task(experiment.name, total=len(trials))
        for trial in trials:
            progress.update(task, description=f"{experiment.name}: {trial.label}")
            if trial.label not in kept.found and time.monotonic() < until:
                measured = trial.measure()
                _append(settings, experiment, measured)
                kept.add(trial.label, measured, _circumstances())
            measurements += kept.found.get(trial.label, [])
            progress.advance(task)
    # Small sizes say nothing about bars that are set for large ones.
    bars = [] if settings.quick else experiment.bars(measurements)
    console.print(_table(experiment, measurements))
    if bars:
        console.print(_bars_table(bars))
        for note in (*experiment.notes(measurements), *kept.notes([trial.label for trial in trials])):
            console.print(note, highlight=False)
    picture = _draw(experiment, measurements, settings.out)
    console.print(f"{settings.out / 'results.jsonl'}" + (f", {picture}" if picture else ""), style="dim")
    return measurements, bars


def _append(settings: Settings, experiment: Experiment, measurements: Sequence[Measurement]) -> None:
    settings.out.mkdir(parents=True, exist_ok=True)
    with (settings.out / "results.jsonl").open("a", encoding="utf-8") as file:
        for measurement in measurements:
            line = {
                "experiment": experiment.name,
                **asdict(measurement),
                "quick": settings.quick,
                "trace": None if settings.trace is None else str(settings.trace),
                **_circumstances(),
            }
            file.write(json.dumps(line) + "\n")


def _circumstances() -> dict[str, Any]:
    """What a number would mean nothing without."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=BENCH, capture_output=True, text=True, check=False
    )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or None,
        "python": platform.python_version(),
        "polars": importlib.import_module("polars").__version__,
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def _table(experiment: Experiment, measurements: Sequence[Measurement]) -> Table:
    table = Table(title=f"{experiment.name}: {experiment.title}", title_justify="left")
    table.add_column("case", no_wrap=True)
    table.add_column("variant", no_wrap=True)
    names = ("size", "M elements/s", "by the clock", "ms per 1,000", "of the best", "rows out", "rows of state")
    for name in (*names, *experiment.shown):
        table.add_column(name.replace("_", " "), justify="right")
    before = None
    for measurement, best in best_at_each(measurements):
        if before not in (None, (measurement.case, measurement.size)):
            table.add_section()
        before = (measurement.case, measurement.size)
        sample = measurement.sample
        table.add_row(
            measurement.case,
            measurement.variant,
            f"{measurement.size:,}",
            f"{measurement.rate / 1e6:.3f}",
            f"{sample.elements / sample.wall / 1e6:.3f}",
            f"{measurement.milliseconds:.3f}",
            f"{best.nanoseconds / measurement.nanoseconds:.2f}",
            f"{sample.rows_out:,}",
            f"{sample.rows_held:,.0f}",
            *(_number(sample.more.get(name)) for name in experiment.shown),
        )
    return table


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _bars_table(bars: Sequence[Bar]) -> Table:
    table = Table("bar", title_justify="left")
    for name in ("measured", "wanted"):
        table.add_column(name, justify="right")
    table.add_column("")
    for bar in bars:
        wanted = f"{'<=' if bar.at_most else '>='} {bar.target:g}"
        table.add_row(bar.name, f"{bar.value:.2f}", wanted, "[green]met[/]" if bar.is_met else "[red]missed[/]")
    return table


def _draw(experiment: Experiment, measurements: Sequence[Measurement], out: Path) -> Path | None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(layout="constrained")
    experiment.draw(figure, measurements)
    path = out / f"{experiment.name}.png"
    figure.savefig(path, dpi=120)
    return path


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Of: {', '.join((*EXPERIMENTS, *SCRIPTS))}.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, once: a few minutes.")] = False,
    trace: Annotated[Path | None, typer.Option(help="A directory of Zeek logs to use as network records.")] = None,
    keep: Annotated[Path | None, typer.Option(help="A file of trials: what it has is not run again.")] = None,
    minutes: Annotated[float, typer.Option(help="After so many no other trial is begun.")] = float("inf"),
) -> None:
    """Measure the kernel, alone and on one core."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    settings = Settings(quick, trace, BENCH / "out", keep, minutes)
    try:
        for name in names or EXPERIMENTS:
            if name in SCRIPTS:
                sys.argv = [name]
                runpy.run_module(SCRIPTS[name], run_name="__main__")
            elif name in EXPERIMENTS:
                run(load(name), settings, console)
            else:
                known = ", ".join((*EXPERIMENTS, *SCRIPTS))
                raise InputError(f'there is no experiment "{name}"', hint=f"there are {known}")
    except Error as error:
        Console(stderr=True, highlight=False).print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    if os.environ.get("POLARS_MAX_THREADS") != "1":
        # Polars reads it when it is first imported, which is before this line.
        os.environ["POLARS_MAX_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "bench.harness.runner", *sys.argv[1:]])
    typer.run(main)
