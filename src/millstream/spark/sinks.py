"""Writes the deliveries of sinks by Spark's batch formats.

Formats of text keep what the values are: timestamps to the microsecond, NULL beside the other fields of JSON, quotes in
CSV as everybody else writes them, bytes as base64, and in CSV lists as JSON.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, BinaryType

from millstream.errors import BindError, Error, StateError, did_you_mean
from millstream.plan.definitions import ExternalData
from millstream.spark.formats import ON_BAD_FILE, format_name
from millstream.spark.hadoop_files import HadoopFiles
from millstream.spark.messages import SPARK_ERRORS, cause_of, is_jvm_gone
from millstream.spark.option_names import check_sink_names

_FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
_EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}
_SPACES = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}  # which belong to values
_TEXTS = {"csv": _EXACT | _SPACES | {"escape": '"'}, "json": _EXACT | {"ignoreNullFields": "false"}, "xml": _EXACT}
_FULL = ("No space left on device", "Disk quota exceeded")


def check(session: SparkSession, target: ExternalData) -> None:
    options = _options(target)
    if format_name(target) in _FILES and "path" not in options:
        raise BindError(f"a {target.format} sink needs the option path", hint="OPTIONS (path '/where/to')")
    if ON_BAD_FILE in map(str.lower, options):
        raise BindError(f"the option {ON_BAD_FILE} is for sources", hint="a sink that fails is paused")
    check_sink_names(session, format_name(target), options)
    if format_name(target) in _FILES:
        _check_free(session, options["path"], options)
    else:
        _check_known(session, format_name(target))


def _check_free(session: SparkSession, path: str, options: dict[str, str]) -> None:
    """Refuse a directory that has deliveries: readers would take them for this sink's."""
    deliveries = f"{path.rstrip('/')}/delivery=*"
    try:
        found = HadoopFiles(session, options).matching(deliveries)
    except SPARK_ERRORS as error:
        raise _failed(error, "", path) from None
    if found:
        raise BindError(
            f"{path} has {len(found)} deliveries of a sink already",
            hint="choose another path, or remove what is there: readers could not tell them apart",
        )


def _check_known(session: SparkSession, name: str) -> None:
    """Refuse a format that nobody knows."""
    jvm: Any = session._jvm
    try:
        if session._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name):
            return  # registered from Python
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(
            name, session._jsparkSession.sessionState().conf()
        )
    except SPARK_ERRORS as error:
        raise BindError(
            f"there is no format {name}", detail=cause_of(error), hint=did_you_mean(name, [*_FILES, "console", "kafka"])
        ) from None


def write(session: SparkSession, target: ExternalData, delivery: int, changes: pa.Table) -> None:
    """File formats get a directory per delivery, which a repeated attempt overwrites; others are told its number in
    the option `delivery`."""
    name, options = format_name(target), _options(target)
    path = options.pop("path", "").rstrip("/") if name in _FILES else ""
    try:
        # Else Spark takes timestamps without a zone for instants in the zone of its session.
        schema = from_arrow_schema(changes.schema, prefer_timestamp_ntz=True)
        frame = _writable(session.createDataFrame(changes, schema).coalesce(1), name)
        if name in _FILES:
            frame.write.format(name).options(**options).mode("overwrite").save(f"{path}/delivery={delivery}")
        else:
            frame.write.format(name).options(**options, delivery=str(delivery)).mode("append").save()
    except SPARK_ERRORS as error:
        raise _failed(error, name, path) from None


def _failed(error: BaseException, name: str, path: str) -> Error:
    if is_jvm_gone(error):
        return StateError(cause_of(error), hint="close the database, and open it again to start a new Spark")
    text = cause_of(error)
    if any(words in text or words in str(error) for words in _FULL):
        return StateError(f"the disk of {path or name} is full", detail=text, hint="make room, then resume the sink")
    return BindError(f"{path or name} could not be written as {name}", detail=text)


def _writable(frame: DataFrame, name: str) -> DataFrame:
    """CSV has no way to write bytes and lists."""
    if name != "csv":
        return frame
    columns = {field.name: sql.col("`" + field.name.replace("`", "``") + "`") for field in frame.schema.fields}
    for field in frame.schema.fields:
        if isinstance(field.dataType, BinaryType):
            columns[field.name] = sql.base64(columns[field.name]).alias(field.name)
        elif isinstance(field.dataType, ArrayType):
            columns[field.name] = sql.to_json(columns[field.name], _EXACT).alias(field.name)
    return frame.select(list(columns.values()))


def _options(target: ExternalData) -> dict[str, str]:
    given = {("path" if key.lower() == "path" else key): value for key, value in target.options}
    chosen = {key.lower() for key in given}
    return {k: v for k, v in _TEXTS.get(format_name(target), {}).items() if k.lower() not in chosen} | given
