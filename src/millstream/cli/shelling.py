"""`millstream shell`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import millstream as ms
from millstream.cli.showing import console, database, or_exit
from millstream.cli.stopping import left_at_once


def shell(
    db: Annotated[str | None, typer.Argument(help="A directory, or the address of a service (http://...).")] = None,
    token: Annotated[str | None, typer.Option(envvar="MILLSTREAM_TOKEN", help="For a service.")] = None,
    in_process: Annotated[bool, typer.Option("--in-process", help="Run in this process, without Spark.")] = False,
) -> None:
    """Write statements and see their answers; statements end with a semicolon, \\? shows what else there is.

    Where the input is no terminal, it is read to its end, and the command ends with 1 if something in it failed.
    """
    # Slow to import, and not needed by other commands.
    from millstream.shell.console import converse, read_all
    from millstream.shell.session import ShellSession

    is_remote = db is not None and db.lower().startswith(("http://", "https://"))
    with left_at_once():
        opened = or_exit(
            lambda: ms.connect(str(db), token=token) if is_remote else database(Path(db) if db else None, in_process)
        )
    with opened:
        if sys.stdin.isatty() and sys.stdout.isatty():
            console().print(
                f"Millstream {ms.__version__}. Statements end with ;  \\? for help, \\q to leave.", markup=False
            )
            converse(ShellSession(opened, sys.stdout, sys.stdout))
            return
        failed = read_all(ShellSession(opened, sys.stdout, sys.stderr), sys.stdin)
    if failed:
        raise typer.Exit(1)
