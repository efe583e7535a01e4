"""The command line: `millstream demo`, `run`, `explain`, `bench`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import millstream as ms
from millstream.demo.run import run_demo

app = typer.Typer(no_args_is_help=True, add_completion=False, help="A continuous-query database on Apache Spark.")
_console = Console()
_errors = Console(stderr=True, highlight=False)

T = TypeVar("T")
InProcess = Annotated[bool, typer.Option("--in-process", help="Run in this process, without Spark.")]


@app.command()
def demo(
    seconds: Annotated[int, typer.Option(help="Seconds of traffic.", min=60)] = 900,
    cars: Annotated[int, typer.Option(help="Cars that take part.", min=1)] = 5000,
    seed: Annotated[int, typer.Option(help="Seed of the traffic.")] = 1,
) -> None:
    """The CQL paper's Linear Road queries over simulated traffic."""
    run_demo(seconds=seconds, cars=cars, seed=seed)


@app.command()
def run(file: Path, in_process: InProcess = False) -> None:
    """Run the statements of a file, read its sources until they have no more, and show the last statement's rows."""
    with _database(in_process) as db:
        result = _or_exit(lambda: db.execute(_text(file)), file)
        _or_exit(db.run, file)
        _wait_for_the_past(db)
        _show(result)
        for query in db.queries():
            rows = _or_exit(query.result, file).num_rows
            _console.print(f"[bold]{query.name}[/] ({query.kind}): {rows} rows")


@app.command()
def explain(
    cql: Annotated[str, typer.Argument(help="A query.")],
    schema: Annotated[Path | None, typer.Option(help="A file of CREATE statements.")] = None,
) -> None:
    """Show the plan of a query, and the defaults it would get."""
    with ms.connect(engine="inprocess") as db:
        if schema is not None:
            _or_exit(lambda: db.execute(_text(schema)), schema)
        _console.print(_or_exit(lambda: db.explain(cql), None), markup=False, highlight=False)


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; all of them if none is named.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, once: a few minutes.")] = False,
    trace: Annotated[Path | None, typer.Option(help="A directory of Zeek logs to use as network records.")] = None,
) -> None:
    """Run the experiments of a source checkout's bench folder."""
    root = _or_exit(_checkout, None)
    options = [*(["--quick"] if quick else []), *(["--trace", str(trace.absolute())] if trace else [])]
    # A process of its own, since Polars reads how many threads it may have when it is first imported.
    done = subprocess.run(
        [sys.executable, "-m", "bench.runner", *(names or []), *options],
        cwd=root,
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
        check=False,
    )
    raise typer.Exit(done.returncode)


def _checkout() -> Path:
    """The root of the source tree that this package runs from."""
    root = Path(__file__).parents[2]
    if not (root / "bench" / "runner.py").exists():
        raise ms.SetupError(
            "there is no bench folder",
            detail=f"millstream is installed in {Path(__file__).parent}, without its benchmarks",
            hint="run it from a source checkout, installed with pip install --editable",
        )
    return root


def _database(in_process: bool) -> ms.Database:
    if in_process:
        return ms.connect(engine="inprocess")
    with _console.status("starting Spark"):
        return ms.connect()


def _wait_for_the_past(db: ms.Database) -> None:
    """A bar for each query whose past is still being worked through."""
    filling = [query for query in db.queries() if query.is_filling]
    if not filling:
        return
    with Progress(*Progress.get_default_columns(), console=_console, transient=True) as progress:
        bars = {query: progress.add_task(f"{query.name}: its past", total=1.0) for query in filling}
        while bars:
            for query, bar in [*bars.items()]:
                told = query.backfill
                progress.update(bar, completed=told["fraction"] if told else 1.0)
                if told is None:
                    del bars[query]
            next(iter(bars), filling[0]).wait(0.1)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ms.InputError(f"cannot read {file}", detail=str(error)) from None


def _or_exit(work: Callable[[], T], file: Path | None) -> T:
    """The result of the work; a user's mistake is shown, and ends the command with code 1."""
    try:
        return work()
    except ms.Error as error:
        where = f"{file}: " if file is not None else ""
        _errors.print(f"{where}{error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None


def _show(result: ms.Result) -> None:
    _console.print(result.message, markup=False, highlight=False)
    if result.table is not None:
        _console.print(_grid(result.table))


def _grid(rows: pa.Table) -> Table:
    grid = Table(*rows.column_names)
    for row in rows.to_pylist():
        grid.add_row(*("NULL" if value is None else str(value) for value in row.values()))
    return grid
