"""Starts Spark inside this process, quietly, or joins the Spark that already runs in it."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakSet

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from millstream.errors import SetupError
from millstream.spark.java import find_java, launcher_home
from millstream.spark.messages import SPARK_ERRORS, cause_of, is_jvm_gone, is_jvm_listening

_GIB = 1 << 30
DEFAULT_MASTER = "local[*,4]"  # a task may fail three times, as on a cluster
_MOST_THREADS = 4  # of a task


@dataclass
class _Started:
    """A session that was started here, and how many databases use it: the last one to leave stops it."""

    session: SparkSession
    warehouse: Path
    users: int = 0


@dataclass
class EmbeddedSession:
    """A Spark session, and whether it was started here (`owned`) or found running."""

    session: SparkSession
    owned: bool

    def stop(self) -> None:
        """Gives an owned session up, once; a session that was found running is left alone."""
        with _lock:
            if self.owned and _started is not None and _started.session is self.session:
                self.owned = False
                _started.users -= 1
                if _started.users == 0:
                    _stop(_started.session)
                    shutil.rmtree(_started.warehouse, ignore_errors=True)


_lock = threading.Lock()
_checked: WeakSet[SparkContext] = WeakSet()
_started: _Started | None = None


def launch(master: str | None) -> None:
    """Start the JVM of a session that is about to be asked for, if this process has none: it takes longer than to load
    all that is needed beside it."""
    with _lock:
        if SparkContext._gateway is None and "SPARK_REMOTE" not in os.environ:
            with _surroundings(master or DEFAULT_MASTER, ui=False) as settings:
                SparkContext._ensure_initialized(conf=SparkConf().setAll([*settings.items()]))


def embedded_session(master: str = "local[*]", *, ui: bool = False) -> EmbeddedSession:
    """The Spark session of this process: the one that runs already, or else a new one on `master`."""
    global _started
    with _lock:
        # Asked of the context and not of the session: a session is active only in the thread that made it.
        running = SparkContext._active_spark_context
        if running is None:
            _started = _start(master, ui)
        elif _started is None or _started.session.sparkContext is not running:
            found = SparkSession.builder.getOrCreate()
            refuse_connect(found)
            return EmbeddedSession(found, owned=False)
        _started.users += 1
        return EmbeddedSession(_started.session, owned=True)


def _start(master: str, ui: bool) -> _Started:
    if "SPARK_REMOTE" in os.environ:
        raise _connect_refused("SPARK_REMOTE is set", hint="unset it, or pass a classic session as spark=")
    # Only named here: Spark makes it when somebody creates a Spark table, which Millstream does not.
    warehouse = Path(tempfile.gettempdir()) / f"millstream-warehouse-{uuid4().hex}"
    builder = SparkSession.builder
    with _surroundings(master, ui=ui) as settings:
        for key, value in (settings | {"spark.sql.warehouse.dir": warehouse.as_uri()}).items():
            builder = builder.config(key, value)
        try:
            session = builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            raise _not_started(master, error) from error
    _quieten(session.sparkContext)
    return _Started(session, warehouse)


@contextmanager
def _surroundings(master: str, *, ui: bool) -> Iterator[dict[str, str]]:
    """The environment in which Spark is started, and its settings."""
    local = master.startswith("local")
    # What the program can import, the Python workers of its own Spark can: also what lies beside a script.
    importable = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    environment = {"JAVA_HOME": str(launcher_home(find_java())), "PYTHONPATH": importable}
    # A second Spark of this process is started by the Java of the first, which has its environment.
    own = _loopback() | {"spark.executorEnv.PYTHONPATH": importable} if local else {}
    if local and "PYSPARK_PYTHON" not in os.environ:
        # Spark runs its workers with the `python3` on PATH, which need not be the one that has millstream.
        environment["PYSPARK_PYTHON"] = sys.executable
    with as_file(files("millstream.spark") / "log4j2.properties") as logging, _environment(environment):
        yield _settings(master, ui, logging) | own


def _quieten(context: SparkContext) -> None:
    """A JVM that is killed ends the connection on which it tells of accumulators, and calls under way; what needs it
    says so, and neither the thread that serves the one nor Py4J need print a traceback."""
    server: Any = context._accumulatorServer
    handler = server.handle_error

    def handle_error(*request: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            handler(*request)

    server.handle_error = handle_error
    logging.getLogger().addFilter(_is_news)  # once, however often: it is the same function


def _is_news(record: logging.LogRecord) -> bool:
    """Py4J tells the root logger of a call that nobody answers, and raises then. That suffices if the JVM is gone."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, Py4JNetworkError) or is_jvm_listening()


def _stop(session: SparkSession) -> None:
    """Stop a session; where its JVM is gone, leave nothing that would keep a new one from being started."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # that the JVM is gone: whoever used it was told
            session.stop()
    except SPARK_ERRORS as error:
        if not is_jvm_gone(error):
            raise
        # What pyspark's own `stop` would have forgotten, had it not asked the JVM on the way.
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
    finally:
        logging.getLogger().removeFilter(_is_news)


def _not_started(master: str, error: Exception) -> SetupError:
    return SetupError(
        f'Spark did not start on master "{master}"',
        detail=error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error),
        hint="a master is local[*], local[4], spark://host:port, yarn or k8s://...; stderr may say more",
    )


def check_workers(session: SparkSession) -> None:
    """Refuse a session whose Python workers cannot run Millstream: asked once, with a job of one row."""
    context = session.sparkContext
    if context in _checked:
        return
    try:
        session.range(1).mapInArrow(_answer, "id BIGINT").collect()
    except SPARK_ERRORS as error:
        if is_jvm_gone(error):
            raise SetupError(f"the session cannot be used: {cause_of(error)}", hint="make a new one") from error
        raise SetupError(
            "the session's Python workers cannot run Millstream",
            detail=f"they run {context.pythonExec}: {cause_of(error)}",
            hint=f"set PYSPARK_PYTHON={sys.executable}, or a Python like it on every node that has millstream, before "
            "the session is made",
        ) from error
    _checked.add(context)


def _answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Found by name, as all that tasks run is: so it comes back only from where Millstream can be imported."""
    yield from batches


# Spark notes each batch of a source in three files, which it makes under another name and renames. What it would take
# for that looks for symbolic links first, by 25 processes called `readlink` for each batch where Hadoop has no native
# library. This renames at once. Checkpoints are in the database's directory, which has one writer.
PLAIN_RENAMES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def own_session(session: SparkSession) -> SparkSession:
    """A session beside one that may be a user's, with all that it knows, and settings of ours that change nothing
    there."""
    own = SparkSession(session.sparkContext, session._jsparkSession.cloneSession())
    for key, value in _reading(session.sparkContext.defaultParallelism).items():
        own.conf.set(key, value)
    jvm: Any = session._jvm
    if jvm.org.apache.spark.util.Utils.classIsLoadable(PLAIN_RENAMES):
        own.conf.set("spark.sql.streaming.checkpointFileManagerClass", PLAIN_RENAMES)
    return own


def _reading(tasks: int) -> dict[str, str]:
    """Spark would list the files of a batch by a job of a task for each, at every start of a run; and of a line of CSV
    with too few values it would not tell, where some are not asked for."""
    return {
        "spark.sql.csv.parser.columnPruning.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(max(tasks, 2)),
    }


def refuse_connect(session: SparkSession) -> None:
    """Raises if the session is a Spark Connect one."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise _connect_refused("the session is a Spark Connect session", hint="pass a classic Spark session")


def _connect_refused(reason: str, *, hint: str) -> SetupError:
    return SetupError(
        "Spark Connect cannot run a Millstream database",
        detail=f"{reason}; foreachBatch would run in a server that holds neither the database nor its lock",
        hint=hint,
    )


def _settings(master: str, ui: bool, logging: Path) -> dict[str, str]:
    return {
        "spark.master": master,
        "spark.app.name": "millstream",
        "spark.api.mode": "classic",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
        "spark.driver.memory": f"{_driver_memory() // (1 << 20)}m",
        "spark.executorEnv.POLARS_MAX_THREADS": str(_threads_on(master)),
        "spark.log.level": "ERROR",
        # On a machine that is busy, workers and heartbeats may be slow without anybody being gone.
        "spark.executor.heartbeatInterval": "60s",
        "spark.network.timeout": "600s",
        "spark.python.authenticate.socketTimeout": "300s",
        "spark.python.worker.reuse": "true",
        "spark.sql.adaptive.enabled": "false",  # we place the shards; re-planning only costs time
        "spark.sql.ansi.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # mapInArrow hands over one batch after the other. Bytes bound them, since one row of an envelope is a
        # whole batch of ours; Spark's default of 10,000 rows would cut raw input into crumbs.
        "spark.sql.execution.arrow.maxBytesPerBatch": "128m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
        "spark.sql.session.timeZone": "UTC",
        **_reading(os.cpu_count() or 1),
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),  # ours state their own
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
    }


def task_threads(context: SparkContext) -> int:
    """How many threads a task may use: the cores that Spark gives it; in a Spark of this process, where it is the only
    one that runs while an epoch does, those of the machine. They share an interpreter, so that there are few."""
    if (cores := _local_cores(str(context.master))) is not None:
        return min(cores, _MOST_THREADS)
    return int(context.getConf().get("spark.task.cpus") or 1)


def _local_cores(master: str) -> int | None:
    """None where tasks run elsewhere."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,.*)?\])?", master)
    if found is None:
        return None
    said = found.group(1) or "1"
    return (os.cpu_count() or 1) if said == "*" else int(said)


def _threads_on(master: str) -> int:
    """Of Polars, in each process that runs tasks: one where a task per core runs; more where there are few cores, which
    one task may have all."""
    cores = _local_cores(master) or 1
    return cores if cores <= _MOST_THREADS else 1


def _loopback() -> dict[str, str]:
    """Nobody else on the network needs to reach a Spark that runs in one process."""
    return {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def _driver_memory() -> int:
    """A quarter of the machine, from 1 to 8 GiB: the JVM only passes rows on, Python and files hold them."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")  # a container may have less than its machine
    if limit.exists() and (text := limit.read_text().strip()).isdecimal():
        memory = min(memory, int(text))
    return min(max(memory // 4, _GIB), 8 * _GIB)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Spark reads these only while it starts; the user's own environment stays as it was."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
