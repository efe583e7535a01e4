"""External formats as Spark reads them: which columns they have, and whether those fit what was declared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import DecimalType, StructType

from millstream.errors import BindError, Error, InputError, NameError, SetupError, StateError, TypeError, did_you_mean
from millstream.plan.definitions import ExternalData
from millstream.spark.messages import SPARK_ERRORS, condition, is_jvm_gone, said
from millstream.spark.option_values import check_values
from millstream.types import DataType, Field, Schema

RAW, PATH, BLOCK = "_raw", "_path", "_block"

_DECLARED = {"avro", "csv", "json", "orc", "parquet", "xml"}  # files that Spark reads with the declared columns
_SELF_DESCRIBING = {"avro", "orc", "parquet"}
_FILES = _DECLARED | {"text"}
_PARSED = {"csv", "json"}
_PACKAGES = {"kafka": "spark-sql-kafka-0-10", "avro": "spark-avro"}
_KNOWN = _FILES | _PACKAGES.keys() | {"console", "rate", "socket"}
_FOR_EVER = "36500d"
_WIDER = {
    "tinyint": {"smallint", "int", "bigint", "float", "double"},
    "smallint": {"int", "bigint", "float", "double"},
    "int": {"bigint", "double"},
    "float": {"double"},
    "binary": {"string"},  # Kafka keeps texts so
}
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_Reader = TypeVar("_Reader", DataFrameReader, DataStreamReader)


class Format:
    """A format with its options, read in declared columns."""

    def __init__(self, session: SparkSession, data: ExternalData, columns: Schema, owner: str) -> None:
        self.session, self.columns, self.owner = session, columns, owner
        self.name = format_name(data)
        self.options = dict(data.options)
        self.given = {key.lower(): value for key, value in data.options}

    @property
    def is_file(self) -> bool:
        return self.name in _FILES

    @property
    def is_parsed(self) -> bool:
        """Whether rows are made from text, and may fail to be."""
        return self.name in _PARSED

    def check(self, *, streaming: bool) -> None:
        """Refuse a source that is not there, or whose columns are not those declared. Reads no rows."""
        for option in ("mode", "columnNameOfCorruptRecord"):
            if self.is_parsed and option.lower() in self.given:
                raise BindError(
                    f"{self.owner}: the option {option} cannot be chosen",
                    hint="rows that do not parse are kept in the table of malformed ones",
                )
        with spark_errors(self.owner, self.name):
            batch, stream = self._reader(self.session.read), self._reader(self.session.readStream)
            frame = stream.load() if streaming else batch.load()
            if self.is_file:
                schema = self._schema() if self.name in _DECLARED else None
                check_values(self.session, self.owner, self.name, self._options(), schema, streaming)
            if self.name in _DECLARED:
                self._check_files()
            else:
                self._check_columns(frame.schema)

    def stream(self) -> DataFrame:
        with spark_errors(self.owner, self.name):
            return self._selected(self._reader(self.session.readStream).load())

    def paths(self) -> DataFrame:
        """The names of a file format's files only."""
        chosen = {key: value for key, value in self._options().items() if key.lower() != "mergeschema"}
        schema = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
        with spark_errors(self.owner, self.name):
            return self.session.readStream.format("binaryFile").schema(schema).options(**chosen).load().select("path")

    def batch(self, paths: list[str] | None = None) -> DataFrame:
        """The rows of the format's files as they are now, or of some of them."""
        reader = self._reader(self.session.read)
        if paths is not None:
            options = self._options()
            base = self.given.get("path", "")
            options = {key: value for key, value in options.items() if key.lower() != "path"}
            if "basepath" not in self.given and not any(character in base for character in "*?[{"):
                options["basePath"] = base  # so that directories such as day=1 give columns
            reader = self.session.read.format(self.name).options(**options).schema(self._schema())
        with spark_errors(self.owner, self.name):
            return self._selected(reader.load(paths))

    def _reader(self, reader: _Reader) -> _Reader:
        reader = reader.format(self.name).options(**self._options())
        return reader.schema(self._schema()) if self.name in _DECLARED else reader

    def _options(self) -> dict[str, str]:
        chosen = dict(self.options)
        if self.is_parsed:
            chosen |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW}
            chosen |= {} if "timezone" in self.given else {"timeZone": "UTC"}
        if self.is_file and "maxfileage" not in self.given:
            chosen["maxFileAge"] = _FOR_EVER  # else Spark passes over files that are dated a week before the newest
        if self._has_header and "enforceschema" not in self.given:
            chosen["enforceSchema"] = "false"  # a file with other columns is an error, and not read askew
        if self.name == "rate" and "numpartitions" not in self.given:
            chosen["numPartitions"] = "1"  # so that rows arrive in the order of their timestamps
        return chosen

    @property
    def _has_header(self) -> bool:
        return self.name == "csv" and self.given.get("header", "").lower() == "true"

    def _schema(self) -> StructType:
        columns = (*self.columns, Field(RAW, DataType("STRING"))) if self.is_parsed else self.columns
        parsed = StructType.fromDDL(", ".join(f"{_quoted(field.name)} {field.type}" for field in columns))
        if not isinstance(parsed, StructType):
            raise AssertionError("columns that are no columns")
        return parsed

    def _selected(self, frame: DataFrame) -> DataFrame:
        """The declared columns by position, then what is needed to put rows in order and to tell what is wrong."""
        found = {name.lower(): name for name in frame.columns}
        chosen: list[Column] = [
            sql.col(_quoted(found[field.name.lower()])).cast(str(field.type)).alias(f"c{index}")
            for index, field in enumerate(self.columns)
        ]
        if self.is_parsed:
            chosen.append(sql.col(RAW))
        if self.is_file:
            chosen.append(sql.col("_metadata.file_path").alias(PATH))
            chosen.append(sql.col("_metadata.file_block_start").alias(BLOCK))
        return frame.select(*chosen)

    def _check_files(self) -> None:
        """Compare files that say themselves what is in them, where there are some already."""
        if not (self.name in _SELF_DESCRIBING or self._has_header):
            return
        try:
            schema = self.session.read.format(self.name).options(**self.options).load().schema
        except PySparkException as error:
            if condition(error) != "UNABLE_TO_INFER_SCHEMA":
                raise
            return
        if self.name != "csv":
            self._check_columns(schema)
        elif schema.names and [name.lower() for name in schema.names] != [f.name.lower() for f in self.columns]:
            raise NameError(
                f"{self.owner}: the first line of the files does not name the declared columns",
                detail=f"it says {', '.join(schema.names)}, and declared are {', '.join(f.name for f in self.columns)}",
                hint="declare the columns in the order of the files",
            )

    def _check_columns(self, schema: StructType) -> None:
        found = {field.name.lower(): field for field in schema.fields}
        for field in self.columns:
            if field.name.lower() not in found:
                raise NameError(
                    f'{self.owner}: {self.name} has no column "{field.name}"',
                    detail=f"it has {', '.join(f'{f.name} {f.dataType.simpleString()}' for f in schema.fields)}",
                    hint=did_you_mean(field.name, schema.names),
                )
            kind = found[field.name.lower()].dataType
            if not _fits(kind, field.type):
                raise TypeError(
                    f'{self.owner}: column "{field.name}" is declared {field.type}, and {self.name} has '
                    f"{kind.simpleString().upper()}"
                )


def format_name(data: ExternalData) -> str:
    return data.format.lower() if data.format.lower() in _KNOWN else data.format


@contextmanager
def spark_errors(owner: str, name: str) -> Iterator[None]:
    """Spark's refusals in our words."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise _refusal(error, owner, name) from None


def _refusal(error: Exception, owner: str, name: str) -> Error:
    if is_jvm_gone(error):
        return StateError(f"{owner}: {said(error)}", hint="close the database, and open it again to start a new Spark")
    kind, text = condition(error) or "", said(error)
    if kind == "KAFKA_DATA_SOURCE_NOT_ENABLED" or (kind == "DATA_SOURCE_NOT_FOUND" and name in _PACKAGES):
        package = f"org.apache.spark:{_PACKAGES.get(name, _PACKAGES['kafka'])}_2.13:{spark_version}"
        return SetupError(
            f"{owner}: Spark has no connector for {name}",
            hint=f"start Spark with the option spark.jars.packages={package} and pass the session as spark=, or set "
            f'PYSPARK_SUBMIT_ARGS="--packages {package} pyspark-shell" before connecting',
        )
    if kind == "DATA_SOURCE_NOT_FOUND":
        module, dot, _ = name.rpartition(".")
        return BindError(
            f'{owner}: Spark knows no format "{name}"',
            detail=f"nor does Python find a module {module}" if dot else None,
            hint="parquet, csv, json, text, rate, socket, kafka are some; one written in Python is named by its place, "
            "package.module.Class, or made known by spark.dataSource.register(...)",
        )
    if (missing := _MISSING.search(str(error))) is not None:
        return SetupError(
            f"{owner}: Spark's Python workers cannot import {missing.group(1)}",
            hint="install it for the Python that they run, or put its directory on PYTHONPATH before Spark starts",
        )
    if kind == "PATH_NOT_FOUND":
        return InputError(f"{owner}: {text.partition('] ')[2] or text}", hint="the directory must be there already")
    return BindError(f"{owner}: {name} cannot be used so", detail=text)


def _fits(found: SparkType, declared: DataType) -> bool:
    name, wanted = found.simpleString(), str(declared).lower()
    if isinstance(found, DecimalType) and declared.is_decimal:
        whole = declared.precision - declared.scale
        return found.scale <= declared.scale and found.precision - found.scale <= whole
    return name == wanted or wanted in _WIDER.get(name, ())


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
