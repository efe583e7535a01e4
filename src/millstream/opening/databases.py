"""Opens a database on Spark, or in this process alone."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millstream.catalog.entries import Pickler
from millstream.database import Database
from millstream.engine.engine import Engine
from millstream.engine.epochs.caution import Caution
from millstream.engine.epochs.precautions import Precautions
from millstream.engine.epochs.runner import InProcessRunner, Runner
from millstream.engine.life import check_not_forked
from millstream.errors import StateError
from millstream.ingest.external import External
from millstream.kernel.distribution import HASH
from millstream.state.files import sync_directory
from millstream.state.layout import CHECKPOINTS, MANIFESTS, check_can_be_new, has_manifest
from millstream.state.lock import DirectoryLock
from millstream.state.manifest import Layout, Manifests
from millstream.state.store import DirectoryStore, MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_AT_EXIT = 10.0  # seconds that what is under way may take when the interpreter ends; what is left is not committed


def opened(path: str | Path | None, spark: SparkSession | None, master: str | None, engine: str) -> Database:
    """A database in the directory `path`, or one that ends when it is closed."""
    check_not_forked()
    return closed_at_exit(
        _open(Path(path), spark, master, engine) if path is not None else _open_new(spark, master, engine)
    )


def _open_new(spark: SparkSession | None, master: str | None, engine: str) -> Database:
    """A database that ends when it is closed."""
    if engine == "inprocess":
        return Database(Engine(InProcessRunner(MemoryStore())), _nothing, _UNPICKLED)
    with ExitStack() as undone:
        directory = Path(tempfile.mkdtemp(prefix="millstream-"))
        undone.callback(shutil.rmtree, directory, ignore_errors=True)
        store = DirectoryStore(directory)
        runner, external, stop = _on_spark(spark, master, store)
        undone.callback(stop)
        store.prepare()
        closing = ExitStack()
        checkpoints = directory / CHECKPOINTS
        database = Database(Engine(runner), closing.close, _UNPICKLED, external=external, checkpoints=checkpoints)
        closing.enter_context(undone.pop_all())
        return database


def _open(given: Path, spark: SparkSession | None, master: str | None, engine: str) -> Database:
    """A database that lasts. Nothing is changed before the lock is held and the manifest has been read."""
    directory = given.absolute().resolve()  # which stays the same when the process goes to another directory
    try:
        with ExitStack() as undone:
            undone.callback(_locked(directory).release)
            manifests = Manifests(directory / MANIFESTS, Layout(default_shards(engine), HASH))
            store = DirectoryStore(directory)
            snapshot = manifests.take_over(lambda found: store.check(found.names()))
            sync_directory(directory)
            sync_directory(directory.parent)
            store.prepare(manifests.fence)
            store.remove_orphans(snapshot.names(), own=False)
            pickled = pickler()
            caution = Precautions(directory, pickled.dumps)
            caution.open()
            undone.callback(caution.close)
            runner: Runner = InProcessRunner(store, manifests.layout.shards, caution)
            external: External | None = None
            if engine != "inprocess":
                runner, external, stop = _on_spark(spark, master, store, manifests.layout.shards, caution)
                undone.callback(stop)
            undone.callback(manifests.close)
            opened = Engine(runner, manifests, snapshot)
            # What failed attempts have left, for those who read the directory meanwhile.
            undone.callback(lambda: _tidy(manifests, store, opened))
            undone.callback(opened.close)
            closing = ExitStack()
            checkpoints = directory / CHECKPOINTS
            database = Database(opened, closing.close, pickled, external=external, checkpoints=checkpoints)
            closing.enter_context(undone.pop_all())
            return database
    except OSError as error:
        raise StateError(
            f"{directory} cannot be a database: {error.strerror or error}",
            hint="the directory must be one that can be written; `millstream check` reads it only",
        ) from error


def _locked(directory: Path) -> DirectoryLock:
    """The lock of a directory that is a database, or may become one; others are left as they are."""
    directory.mkdir(parents=True, exist_ok=True)
    if not has_manifest(directory):
        check_can_be_new(directory)
    lock = DirectoryLock(directory)
    try:
        if not has_manifest(directory):
            check_can_be_new(directory)
    except BaseException:
        lock.release()
        raise
    return lock


def _tidy(manifests: Manifests, store: DirectoryStore, opened: Engine) -> None:
    try:
        manifests.check_current()
    except StateError:
        return  # it belongs to somebody else by now
    if not manifests.is_in_doubt:
        store.remove_orphans(opened.snapshot.names(), own=True)


def default_shards(engine: str) -> int:
    return 1 if engine == "inprocess" else os.cpu_count() or 1


def _on_spark(
    spark: SparkSession | None,
    master: str | None,
    store: DirectoryStore,
    shards: int | None = None,
    caution: Caution | None = None,
) -> tuple[Runner, External, Callable[[], None]]:
    # Spark's Python modules are slow to import, and are not needed in process.
    from millstream.spark.runner import SparkRunner
    from millstream.spark.session import (
        DEFAULT_MASTER,
        EmbeddedSession,
        check_workers,
        embedded_session,
        refuse_connect,
    )
    from millstream.spark.sources import SparkExternal

    if spark is not None:
        refuse_connect(spark)
        session = EmbeddedSession(spark, owned=False)
    else:
        session = embedded_session(master or DEFAULT_MASTER)
    if not session.owned:
        check_workers(session.session)
    return SparkRunner(session.session, store, shards, caution), SparkExternal(session.session, store), session.stop


def pickler() -> Pickler:
    """Of users' code, in databases that last."""

    def dumps(value: object) -> bytes:
        from millstream.spark.envelopes import dumps

        return dumps(value)

    def loads(content: bytes) -> Any:
        from pickle import loads

        return loads(content)

    return Pickler(dumps, loads)


def closed_at_exit(database: Database) -> Database:
    """A database that nobody closes is closed when the interpreter ends, before what it needs is gone."""
    if not _open_databases:
        atexit.unregister(_close_all)
        atexit.register(_close_all)  # the last to be registered is the first to be called: before Spark's own
    _open_databases.add(database)
    return database


def _close_all() -> None:
    for database in list(_open_databases):
        database.close(_AT_EXIT)


def _nothing() -> None:
    pass


# Users' code is kept in a database that lasts only: elsewhere no two definitions are the same.
_UNPICKLED = Pickler(lambda value: uuid.uuid4().bytes, lambda content: None)
