"""The command line: `millstream demo`, `run`, `shell`, `serve`, `backup`, `check`, `upgrade`, `token` and others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import millstream as ms
from millstream.cli.backing_up import backup
from millstream.cli.demonstrating import demo
from millstream.cli.running import run
from millstream.cli.serving import serve, token
from millstream.cli.shelling import shell
from millstream.cli.showing import console, or_exit, text_of
from millstream.cli.upkeeping import check, upgrade

# Without rich's help, which takes longer to load than to read.
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="A continuous-query database on Apache Spark.",
    rich_markup_mode=None,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"millstream {ms.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """A continuous-query database on Apache Spark."""


app.command()(demo)
app.command()(run)
app.command()(shell)
app.command()(serve)
app.command()(backup)
app.command()(check)
app.command()(upgrade)
app.add_typer(token, name="token")


@app.command()
def explain(
    cql: Annotated[str, typer.Argument(help="A query.")],
    schema: Annotated[Path | None, typer.Option(help="A file of CREATE statements.")] = None,
    form: Annotated[str, typer.Option("--format", help="text, json, dot or svg.")] = "text",
) -> None:
    """Show the plan of a query, and the defaults it would get."""
    with ms.connect(engine="inprocess") as db:
        if schema is not None:
            or_exit(lambda: db.execute(text_of(schema)), schema)
        text = or_exit(lambda: db.explain(cql, form), None)
        console().print(text, markup=False, highlight=False, soft_wrap=form != "text")


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; all of them if none is named.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, once: a few minutes.")] = False,
    trace: Annotated[Path | None, typer.Option(help="A directory of Zeek logs to use as network records.")] = None,
    keep: Annotated[Path | None, typer.Option(help="A file of trials: what it has is not run again.")] = None,
    minutes: Annotated[float | None, typer.Option(help="After so many no other trial is begun.")] = None,
) -> None:
    """Run the experiments of a source checkout's bench folder."""
    root = or_exit(_checkout, None)
    options = [*(["--quick"] if quick else []), *(["--trace", str(trace.absolute())] if trace else [])]
    options += [*(["--keep", str(keep.absolute())] if keep else []), *(["--minutes", str(minutes)] if minutes else [])]
    # A process of its own, since Polars reads how many threads it may have when it is first imported.
    done = subprocess.run(
        [sys.executable, "-m", "bench.harness.runner", *(names or []), *options],
        cwd=root,
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
        check=False,
    )
    raise typer.Exit(done.returncode)


def _checkout() -> Path:
    """The root of the source tree that this package runs from."""
    root = Path(__file__).parents[3]
    if not (root / "bench" / "harness" / "runner.py").exists():
        raise ms.SetupError(
            "there is no bench folder",
            detail=f"millstream is installed in {Path(__file__).parents[1]}, without its benchmarks",
            hint="run it from a source checkout, installed with pip install --editable",
        )
    return root
