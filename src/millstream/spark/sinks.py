"""Writes the deliveries of sinks by Spark's batch formats."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from millstream.errors import BindError
from millstream.plan.definitions import ExternalData
from millstream.spark.formats import format_name, spark_errors

_FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")


def check(target: ExternalData) -> None:
    if format_name(target) in _FILES and "path" not in _options(target):
        raise BindError(f"a {target.format} sink needs the option path", hint="OPTIONS (path '/where/to')")


def write(session: SparkSession, target: ExternalData, delivery: int, changes: pa.Table) -> None:
    """File formats get a directory per delivery, which a repeated attempt overwrites; others are told its number in
    the option `delivery`."""
    name, options = format_name(target), _options(target)
    with spark_errors(f"delivery {delivery}", name):
        frame = session.createDataFrame(changes).coalesce(1)
        if name in _FILES:
            path = options.pop("path").rstrip("/")
            frame.write.format(name).options(**options).mode("overwrite").save(f"{path}/delivery={delivery}")
        else:
            frame.write.format(name).options(**options, delivery=str(delivery)).mode("append").save()


def _options(target: ExternalData) -> dict[str, str]:
    return {("path" if key.lower() == "path" else key): value for key, value in target.options}
