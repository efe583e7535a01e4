"""Sources: one Structured Streaming query for each, whose batches are landed and handed to the engine.

A query runs only while somebody asks for it. Its checkpoint lies in the database directory, and the manifest says which
of its batches was the last one taken: Spark replays a batch that it does not know to be done, and then it is skipped.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.errors import Error, InputError
from millstream.ingest.external import Feed, Taker
from millstream.ingest.landed import LandedBatch
from millstream.plan.definitions import ExternalData, TableDefinition
from millstream.spark import sinks
from millstream.spark.file_batches import FileBatches, landed_rows
from millstream.spark.file_log import files_of_batch
from millstream.spark.formats import SparkFormat, spark_errors
from millstream.spark.landing import Landing, land
from millstream.spark.messages import SPARK_ERRORS, cause_of, was_worker_slow
from millstream.spark.python_sources import PythonSources
from millstream.spark.session import own_session
from millstream.spark.source_lag import rows_behind
from millstream.state.snapshot import SparkBatch
from millstream.state.store import Store

_log = logging.getLogger(__name__)
_ATTEMPTS = 5  # to start a source whose Python workers are slow to start
_ONCE_ONLY = ("socket",)  # what was read cannot be read again, so that a checkpoint is of no use after a run


class BatchRefused(Exception):
    """Tells Spark that a batch was not taken in; why is told to the user elsewhere."""


def _is_news(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], BatchRefused))


class SparkExternal:
    """Reads and writes external formats by Spark."""

    def __init__(self, session: SparkSession, store: Store) -> None:
        self.session, self.store = session, store
        self._python = PythonSources(session)
        # Py4J would print the traceback of what we raise on purpose.
        logging.getLogger("py4j.clientserver").addFilter(_is_news)

    def check_feed(self, feed: Feed) -> None:
        self._format(feed).check(streaming=True)

    def read(self, table: TableDefinition, most: int) -> LandedBatch:
        if table.source is None:
            raise AssertionError(f"table {table.name} is not read from anywhere")
        self._python.make_known(table.source, f"table {table.name}")
        session = own_session(self.session)
        form = SparkFormat(session, table.source, table.columns, f"table {table.name}", rules=table.rules)
        form.check(streaming=False)
        landing = Landing(self.store, table.columns, most=most, rules=table.rules)
        with spark_errors(f"table {table.name}", form.name):
            if form.is_file:
                return FileBatches(form, f"table {table.name}", landing).landed(session, form.files())
            return landed_rows(land(form.batch(), landing))

    def start(self, feed: Feed, taker: Taker, checkpoint: Path, *, until_idle: bool) -> SparkReading:
        reading = SparkReading(self._format(feed), feed, taker, checkpoint, self.store)
        reading.start(until_idle)
        return reading

    def check_sink(self, target: ExternalData) -> None:
        self._python.make_known(target, "sink")
        sinks.check(target)

    def write(self, target: ExternalData, delivery: int, changes: pa.Table) -> None:
        self._python.make_known(target, f"delivery {delivery}")
        sinks.write(self.session, target, delivery, changes)

    def _format(self, feed: Feed) -> SparkFormat:
        self._python.make_known(feed.source, str(feed))
        stream = feed.stream
        needed = [stream.columns[-1].name.lower()] if feed.operations else []
        needed += [] if stream.heartbeat.kind == "CLOCK" else [stream.timestamp.name.lower()]
        session, columns = own_session(self.session), stream.input_columns
        return SparkFormat(session, feed.source, columns, str(feed), tuple(needed), stream.rules)


class SparkReading:
    """A feed's streaming query while it runs."""

    def __init__(self, form: SparkFormat, feed: Feed, taker: Taker, checkpoint: Path, store: Store) -> None:
        self._format, self._feed, self._taker, self._store = form, feed, taker, store
        self._checkpoint = checkpoint
        self._gate = threading.Lock()  # held while a batch is taken in
        self._stopped = False
        self._failure: Exception | None = None
        self._query: StreamingQuery | None = None
        self._until_idle, self._attempts = True, 0
        self._files = FileBatches(form, str(feed), self._landing()) if form.is_file else None

    def start(self, until_idle: bool) -> None:
        self._until_idle, self._attempts = until_idle, self._attempts + 1
        if self._format.name in _ONCE_ONLY:
            shutil.rmtree(self._checkpoint, ignore_errors=True)
        else:
            self._taker.check_checkpoint(self._feed, self._query_id())
        frame = self._format.stream() if self._files is None else self._format.paths()
        writer = frame.writeStream.foreachBatch(self._take).option(
            "checkpointLocation", self._checkpoint.absolute().as_uri()
        )
        writer = writer.trigger(availableNow=True) if until_idle else writer
        with spark_errors(str(self._feed), self._format.name):
            self._query = writer.start()

    @property
    def is_active(self) -> bool:
        if self._query is not None and not self._query.isActive and self._is_worth_another_attempt():
            self.start(self._until_idle)
        return self._query is not None and self._query.isActive

    def _is_worth_another_attempt(self) -> bool:
        """Nothing was wrong but the time that a worker took to start: what was not taken comes again."""
        if self._query is None or self._stopped or self._failure is not None or self._attempts >= _ATTEMPTS:
            return False
        failure = self._query.exception()
        return failure is not None and was_worker_slow(failure)

    @property
    def error(self) -> Exception | None:
        """What a batch raised, or what Spark says of the source; being stopped is no error."""
        if self._failure is not None or self._stopped:
            return self._failure
        failure = None if self._query is None else self._query.exception()
        return None if failure is None else InputError(f"{self._feed} failed", detail=cause_of(failure))

    @property
    def rows_behind(self) -> int | None:
        query = self._query
        if query is None or not query.isActive:
            return None
        try:
            progress = query.lastProgress
        except SPARK_ERRORS as error:
            _log.info("%s: what Spark says of it cannot be read: %s", self._feed, cause_of(error))
            return None
        return None if progress is None else rows_behind(json.loads(progress.json))

    def stop(self) -> None:
        with self._gate:
            self._stopped = True
        if self._query is not None:
            self._query.stop()

    def _query_id(self) -> str | None:
        metadata = self._checkpoint / "metadata"
        return str(json.loads(metadata.read_text())["id"]) if metadata.exists() else None

    def _take(self, frame: DataFrame, number: int) -> None:
        """Spark counts a batch as done when this returns: so it raises whenever the batch was not committed."""
        with self._gate:
            if self._stopped:
                raise BatchRefused("the run has ended")
            try:
                self._take_batch(frame, SparkBatch(self._query_id() or "", number))
            except Error as error:
                self._failure = _about(self._feed, error)
            except Exception as error:  # whatever Spark raises: `run` tells it
                self._failure = InputError(f"{self._feed} failed", detail=cause_of(error))
            if self._failure is not None:
                raise BatchRefused(str(self._failure.args[0]))

    def _take_batch(self, frame: DataFrame, batch: SparkBatch) -> None:
        if self._format.name not in _ONCE_ONLY and self._taker.is_taken(self._feed, batch):
            return
        self._taker.begin(self._feed)
        # Parquet files are left where they are: rows that need no more than widening never pass through the JVM.
        landed = self._landed(frame, batch.batch, as_they_lie=not self._feed.operations)
        try:
            self._taker.take(self._feed, landed, batch)
        except InputError:
            if all(part.kind != "parquet" for part in landed.parts):
                raise
            # A file holds what its footer does not tell: read row by row, it says which rows are malformed.
            again = self._landed(frame, batch.batch, as_they_lie=False)
            try:
                self._taker.take(self._feed, again, batch)
            finally:
                self._store.sweep(again.segments(), ())
        finally:
            self._store.sweep(landed.segments(), ())

    def _landed(self, frame: DataFrame, number: int, *, as_they_lie: bool) -> LandedBatch:
        if self._files is None:
            return landed_rows(land(frame, self._landing()))
        paths = files_of_batch(self._checkpoint, number)
        if paths is None:
            paths = [row.path for row in frame.collect()]
        return self._files.landed(frame.sparkSession, paths, self._feed.stream if as_they_lie else None)

    def _landing(self) -> Landing:
        stream, columns = self._feed.stream, self._feed.stream.input_columns
        names = [column.name.lower() for column in columns]
        stamp = None if stream.heartbeat.kind == "CLOCK" else names.index(stream.timestamp.name.lower())
        operation = names.index(stream.columns[-1].name.lower()) if self._feed.operations else None
        return Landing(
            self._store,
            columns,
            stamp,
            stream.domain,
            operation,
            self._feed.operations,
            most=self._taker.max_value_bytes,
            rules=stream.rules,
        )


def _about(feed: Feed, error: Error) -> Error:
    """The error with the source's name in it, said once."""
    if str(feed) in error.primary:
        return error
    return type(error)(f"{feed}: {error.primary}", detail=error.detail, hint=error.hint)
