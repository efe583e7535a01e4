"""`ms.connect`: looks at what is asked for before anything large is loaded, so that Spark's JVM starts meanwhile."""

from __future__ import annotations

import re
import sys
import threading
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, overload

from millstream.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from millstream.client.database import AsyncDatabase, RemoteDatabase
    from millstream.database import Database

_ADDRESS = re.compile(r"(localhost|[\d.]+|\[[\da-f:]+\]):\d+/?", re.IGNORECASE)


@overload
def connect(
    path: str | Path | None = None,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    engine: str = "spark",
) -> Database: ...


@overload
def connect(path: str, *, token: str | None) -> RemoteDatabase: ...


def connect(
    path: str | Path | None = None,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    engine: str = "spark",
    token: str | None = None,
) -> Database | RemoteDatabase:
    """A database: the directory `path`, made if new, or without one a database that ends when it is closed.

    A path that starts with http:// or https:// is the address of a service, which may ask for a token; the database
    there has the same methods, but for those that would send Python code.

    Without `spark` or `master`, Spark is started inside this process and stopped at close. `engine="inprocess"` runs
    the same functions without Spark, for tests and small jobs.
    """
    if isinstance(path, str) and path.lower().startswith(("http://", "https://")):
        if spark is not None or master is not None or engine != "spark":
            raise SetupError(
                "a service runs where it is", hint="connect to its address without spark=, master=, engine="
            )
        from millstream.client.database import RemoteDatabase

        return RemoteDatabase(path, token)
    if token is not None:
        raise SetupError("a token is for services", hint="connect to an address, as in http://127.0.0.1:8787")
    if path is not None and not isinstance(path, str | PathLike):
        raise SetupError(f"a database is named by a path, not by a {type(path).__name__}", hint="ms.connect('folder')")
    if path is not None and _ADDRESS.fullmatch(str(path)) and not Path(path).exists():
        raise SetupError(f"{path} is no directory", hint=f"a service has an address: http://{path}")
    if engine not in ("spark", "inprocess"):
        raise SetupError(f"engine is 'spark' or 'inprocess', not {engine!r}")
    is_local = spark is None and (master is None or master.startswith("local"))
    if engine == "spark" and is_local and "pyspark" not in sys.modules:
        threading.Thread(target=_launch_spark, args=(master,), name="millstream-launch").start()
    from millstream.opening.databases import opened

    return opened(path, spark, master, engine)


def connect_async(url: str, *, token: str | None = None) -> AsyncDatabase:
    """The database of a service, for who awaits: `db = await ms.connect_async(url)`, or `async with
    ms.connect_async(url) as db`. It has what `connect(url)` gives, with methods to be awaited."""
    if not isinstance(url, str) or not url.lower().startswith(("http://", "https://")):
        raise SetupError(
            f"{url!r} is not the address of a service",
            detail="a database in a directory works in threads of its own: its calls are not awaited",
            hint="serve it with `millstream serve`, or use ms.connect(path) and asyncio.to_thread",
        )
    from millstream.client.database import AsyncDatabase

    return AsyncDatabase(url, token)


def _launch_spark(master: str | None) -> None:
    with suppress(Exception):  # whoever needs the session tries again, and is told
        from millstream.spark.session import launch

        launch(master)
