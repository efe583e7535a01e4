"""`millstream backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import millstream as ms
from millstream.cli.showing import console, or_exit


def backup(
    db: Annotated[str, typer.Argument(help="A directory, or the address of a service (http://...).")],
    path: Annotated[Path, typer.Argument(help="A new or empty directory; a service's lies where it runs.")],
    copy: Annotated[bool, typer.Option("--copy", help="Copy files where they could be linked.")] = False,
    token: Annotated[str | None, typer.Option(envvar="MILLSTREAM_TOKEN", help="For a service.")] = None,
) -> None:
    """Copy a database as of now; one that is in use through its service, while that goes on."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    is_remote = db.lower().startswith(("http://", "https://"))
    if not is_remote and not Path(db).is_dir():
        or_exit(lambda: _not_there(db))
    with or_exit(lambda: ms.connect(db, token=token) if is_remote else ms.connect(db, engine="inprocess")) as opened:
        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
        with Progress(*columns, console=console(), transient=True) as shown:
            bar = shown.add_task("backup", total=None)
            made = or_exit(
                lambda: opened.backup(
                    path, copy=copy, progress=lambda done, of: shown.update(bar, completed=done, total=of)
                )
            )
    text = f"epoch {made.epoch} is in {made.path}: {made.files} files, {made.bytes} bytes"
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def _not_there(db: str) -> None:
    raise ms.StateError(f"there is no database {db}", hint="name its directory, or the address of its service")
