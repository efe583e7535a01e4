"""`millstream check` and `millstream upgrade`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

import millstream as ms
from millstream.cli.showing import FAILED, console, or_exit, show_error

NO_DATABASE = 2


def check(
    db: Annotated[Path, typer.Argument(help="The database's directory; another process may have it open.")],
    as_json: Annotated[bool, typer.Option("--json", help="Say it to programs.")] = False,
) -> None:
    """Look at every byte of a database that counts: is all of it as it was written?

    Nothing is changed. Ends with 0 where all is well, with 1 where something is damaged, with 2 where there is no
    database to look at.
    """
    try:
        found = _with_progress(db)
    except ms.Error as error:
        show_error(error)
        raise typer.Exit(NO_DATABASE) from None
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found), default=str))
    else:
        console().print(str(found), markup=False, highlight=False, soft_wrap=True)
    if not found.is_well:
        raise typer.Exit(FAILED)


def _with_progress(db: Path) -> ms.CheckReport:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from millstream.cli.showing import errors

    to = errors()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=to,
        transient=True,
        disable=not to.is_terminal,
    ) as shown:
        bar = shown.add_task("files", total=None)
        return ms.check(db, lambda done, of: shown.update(bar, completed=done, total=of))


def upgrade(
    db: Annotated[Path, typer.Argument(help="The database's directory, which nobody else has open.")],
) -> None:
    """Bring a database that an earlier version wrote to the present format, and say from which one. Keep a backup."""
    found = or_exit(lambda: ms.upgrade(db))
    console().print(str(found), markup=False, highlight=False, soft_wrap=True)
