"""`ms.connect`: opens a database on Spark, or in this process alone."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.database import Database
from millstream.engine.runner import InProcessRunner
from millstream.errors import NotSupportedError, SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connect(
    path: str | Path | None = None,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    engine: str = "spark",
) -> Database:
    """A database. Without `spark` or `master`, Spark is started inside this process and stopped at close.

    `engine="inprocess"` runs the same functions without Spark, for tests and small jobs.
    """
    if path is not None:
        raise NotSupportedError(
            "databases on disk cannot be opened yet",
            hint="ms.connect() gives one that lasts until it is closed",
        )
    if engine == "inprocess":
        return Database(InProcessRunner(), on_close=lambda: None)
    if engine != "spark":
        raise SetupError(f"engine is 'spark' or 'inprocess', not {engine!r}")
    return _on_spark(spark, master)


def _on_spark(spark: SparkSession | None, master: str | None) -> Database:
    # Spark's Python modules are slow to import, and are not needed in process.
    from millstream.spark.runner import SparkRunner
    from millstream.spark.session import EmbeddedSession, embedded_session, refuse_connect

    if spark is not None:
        refuse_connect(spark)
        session = EmbeddedSession(spark, owned=False)
    else:
        session = embedded_session(master or "local[*]")
    directory = Path(tempfile.mkdtemp(prefix="millstream-"))

    def close() -> None:
        session.stop()
        shutil.rmtree(directory, ignore_errors=True)

    return Database(SparkRunner(session.session, directory / "segments"), on_close=close)
