"""`millstream demo`: Linear Road over simulated traffic, with the page beside it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

import millstream as ms
from millstream.cli.showing import console, database, or_exit
from millstream.cli.stopping import left_at_once

_PACE = 1.0  # seconds between batches while somebody may look at the page
_BATCH_SECONDS = 10  # of traffic in a batch then, so that what moves can be seen to move
_LEAVE = 10.0  # seconds that requests under way have when it ends


def demo(
    seconds: Annotated[int, typer.Option(help="Seconds of traffic.", min=60)] = 900,
    cars: Annotated[int, typer.Option(help="Cars that take part.", min=1)] = 5000,
    seed: Annotated[int, typer.Option(help="Seed of the traffic.")] = 1,
    page: Annotated[
        bool | None, typer.Option("--page/--no-page", help="Serve the page meanwhile; by default in a terminal.")
    ] = None,
    port: Annotated[int, typer.Option(help="The page's port; 0 takes a free one.", min=0, max=65535)] = 8787,
    in_process: Annotated[bool, typer.Option("--in-process", help="Run in this process, without Spark.")] = False,
) -> None:
    """The CQL paper's Linear Road queries over simulated traffic.

    In a terminal a link to the page is printed, and the page stays until Ctrl-C.
    """
    from millstream.demo.run import run_demo

    wants_page = sys.stdout.isatty() if page is None else page
    with left_at_once():
        opened = or_exit(lambda: database(None, in_process))
    with opened as db:
        if not wants_page:
            run_demo(db, seconds=seconds, cars=cars, seed=seed)
            return
        try:
            with _page(db, port) as address:
                console().print(f"\n  watch it at [bold]{address}/[/]   (Ctrl-C ends it)\n", highlight=False)
                run_demo(db, seconds=seconds, cars=cars, seed=seed, batch_seconds=_BATCH_SECONDS, pace=_PACE)
                console().print(f"the page stays at {address}/ until Ctrl-C", highlight=False)
                threading.Event().wait()
        except KeyboardInterrupt:
            console().print("ended")


@contextmanager
def _page(db: ms.Database, port: int) -> Iterator[str]:
    """The page of a database at a port of this machine, or at a free one where something else has that port."""
    from millstream.service.server import Address, Server  # slow to import, and not needed by other commands

    try:
        server = Server(db, Address(port=port), version=ms.__version__)
    except ms.SetupError:
        server = or_exit(lambda: Server(db, Address(port=0), version=ms.__version__))
    thread = threading.Thread(target=server.serve, name="millstream-page", daemon=True)
    thread.start()
    try:
        yield str(server.address)
    finally:
        server.stop()
        thread.join(_LEAVE)
