"""`ms.connect`: opens a database on Spark, or in this process alone."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from millstream.database import Database
from millstream.declarations import Pickler
from millstream.engine.engine import Engine
from millstream.engine.external import External
from millstream.engine.runner import InProcessRunner, Runner
from millstream.errors import SetupError, StateError
from millstream.kernel.distribution import HASH
from millstream.state.lock import DirectoryLock
from millstream.state.manifest import Layout, Manifests
from millstream.state.snapshot import Snapshot
from millstream.state.store import DirectoryStore, MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from millstream.remote.database import RemoteDatabase

CHECKPOINTS = "checkpoints"  # Spark's, one directory per source


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
        from millstream.remote.database import RemoteDatabase

        return RemoteDatabase(path, token)
    if token is not None:
        raise SetupError("a token is for services", hint="connect to an address, as in http://127.0.0.1:8787")
    if engine not in ("spark", "inprocess"):
        raise SetupError(f"engine is 'spark' or 'inprocess', not {engine!r}")
    if path is not None:
        return _open(Path(path), spark, master, engine)
    if engine == "inprocess":
        return Database(Engine(InProcessRunner(MemoryStore())), _nothing, _UNPICKLED)
    directory = Path(tempfile.mkdtemp(prefix="millstream-"))
    runner, external, stop = _on_spark(spark, master, DirectoryStore(directory))

    def close() -> None:
        stop()
        shutil.rmtree(directory, ignore_errors=True)

    return Database(Engine(runner), close, _UNPICKLED, external=external, checkpoints=directory / CHECKPOINTS)


def _open(directory: Path, spark: SparkSession | None, master: str | None, engine: str) -> Database:
    """A database that lasts. Nothing is changed before the lock is held and the manifest has been read."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = DirectoryLock(directory)
    except OSError as error:
        raise StateError(f"{directory} cannot be a database: {error.strerror}") from error
    stop: Callable[[], None] = _nothing
    try:
        manifests = Manifests(directory / "manifest", Layout(default_shards(engine), HASH))
        snapshot = manifests.open()
        store = DirectoryStore(directory)
        store.remove_orphans((snapshot or Snapshot()).names())
        runner: Runner
        external: External | None = None
        if engine == "inprocess":
            runner = InProcessRunner(store, manifests.layout.shards)
        else:
            runner, external, stop = _on_spark(spark, master, store, manifests.layout.shards)
        if snapshot is None:
            manifests.commit(Snapshot())

        opened = Engine(runner, manifests, snapshot)

        def close() -> None:
            stop()
            # What failed attempts have left, for those who read the directory meanwhile.
            store.remove_orphans(opened.snapshot.names())
            lock.release()

        return Database(
            opened,
            close,
            _cloudpickler(),
            external=external,
            checkpoints=directory / CHECKPOINTS,
        )
    except BaseException:
        stop()
        lock.release()
        raise


def default_shards(engine: str) -> int:
    return 1 if engine == "inprocess" else os.cpu_count() or 1


def _on_spark(
    spark: SparkSession | None, master: str | None, store: DirectoryStore, shards: int | None = None
) -> tuple[Runner, External, Callable[[], None]]:
    # Spark's Python modules are slow to import, and are not needed in process.
    from millstream.spark.runner import SparkRunner
    from millstream.spark.session import EmbeddedSession, embedded_session, refuse_connect
    from millstream.spark.sources import SparkExternal

    if spark is not None:
        refuse_connect(spark)
        session = EmbeddedSession(spark, owned=False)
    else:
        # A task may fail three times, as on a cluster.
        session = embedded_session(master or "local[*,4]")
    return SparkRunner(session.session, store, shards), SparkExternal(session.session, store), session.stop


def _cloudpickler() -> Pickler:
    def dumps(value: object) -> bytes:
        from millstream.spark.envelopes import dumps

        return dumps(value)

    def loads(content: bytes) -> Any:
        from pickle import loads

        return loads(content)

    return Pickler(dumps, loads)


def _nothing() -> None:
    pass


# Users' code is kept in a database that lasts only: elsewhere no two definitions are the same.
_UNPICKLED = Pickler(lambda value: uuid.uuid4().bytes, lambda content: None)
