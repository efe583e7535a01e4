"""What commands print: errors as they are, results aligned; and the code that a command ends with.

Commands import what they need when they are run, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

import millstream as ms

if TYPE_CHECKING:
    from rich.console import Console


@cache
def console() -> Console:
    from rich.console import Console

    return Console()


@cache
def errors() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


T = TypeVar("T")
FAILED = 1  # a statement, a source or the surroundings


def or_exit(work: Callable[[], T], file: Path | None = None) -> T:
    """The result of the work; a user's mistake is shown, and ends the command with code 1."""
    try:
        return work()
    except ms.Error as error:
        show_error(error, file)
        raise typer.Exit(FAILED) from None


def show_error(error: ms.Error, file: Path | None = None) -> None:
    where = f"{file}: " if file is not None else ""
    errors().print(f"{where}{error}", style="red", markup=False, soft_wrap=True)


def show(result: ms.Result) -> None:
    console().print(result.message, markup=False, highlight=False, soft_wrap=True)
    if result.has_rows:
        from millstream.answers.on_screen import write_table

        write_table(sys.stdout, result.arrow())
        if result.waiting:
            console().print(result.waiting, markup=False, highlight=False, soft_wrap=True)


def text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ms.InputError(f"cannot read {file}", detail=str(error), hint="statements are text in UTF-8") from None
    except OSError as error:
        raise ms.InputError(f"cannot read {file}", detail=error.strerror) from None


def database(path: Path | None, in_process: bool) -> ms.Database:
    """The database of a command, in a directory or for as long as the command lasts."""
    if in_process:
        return ms.connect(path, engine="inprocess")
    with console().status("starting Spark, which takes some seconds; --in-process goes without it"):
        return ms.connect(path)
