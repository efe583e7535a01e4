"""External formats as Spark reads them: which columns they have, and whether those fit what was declared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import PurePath
from typing import TypeVar
from urllib.parse import unquote

from pyspark import __version__ as spark_version
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from millstream.errors import BindError, Error, InputError, NameError, SetupError, StateError, TypeError, did_you_mean
from millstream.plan.definitions import NO_RULES, ColumnRules, ExternalData
from millstream.spark.hadoop_files import HadoopFiles
from millstream.spark.half_characters import marking
from millstream.spark.messages import SPARK_ERRORS, cause_of, condition, is_jvm_gone
from millstream.spark.option_names import check_source_names
from millstream.spark.option_values import check_values
from millstream.spark.shapes import (
    PACKED,
    BadFile,
    FileShape,
    Inspection,
    directories_of,
    fits,
    local_name,
    plain_shape,
)
from millstream.types import STRING, Field, Schema

RAW, PATH, BLOCK, LENGTH = "_raw", "_path", "_block", "_length"

_DECLARED = {"avro", "csv", "json", "orc", "parquet", "xml"}  # files that Spark reads with the declared columns
_SELF_DESCRIBING = {"avro", "orc", "parquet"}
_FILES = _DECLARED | {"text"}
_PARSED = {"csv", "json", "xml"}
_BY_SHAPE = {"csv", "json"}  # read with the columns that a file has; the others find names by themselves
ON_BAD_FILE = "on_bad_file"
_PACKAGES = {"kafka": "spark-sql-kafka-0-10", "avro": "spark-avro"}
_SHOWN = ("parquet", "csv", "json", "text", "orc", "rate", "socket", "kafka")
_KNOWN = _FILES | _PACKAGES.keys() | {"console", "rate", "socket"}
_FOR_EVER = "36500d"
_PLAIN_FILES = {  # Hadoop's own local files look for checksums beside them, by names that must not have a colon
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
_BYTES = "ISO-8859-1"  # a character for every byte
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_OF_PATHS = ("basepath", "pathglobfilter")
_LOOKED_AT = 1000  # files, when a source is created
_LONGEST_VALUE = "2147483647"
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_Reader = TypeVar("_Reader", DataFrameReader, DataStreamReader)


class SparkFormat:
    """A format with its options, read in declared columns."""

    def __init__(
        self,
        session: SparkSession,
        data: ExternalData,
        columns: Schema,
        owner: str,
        needed: tuple[str, ...] = (),
        rules: ColumnRules = NO_RULES,
    ) -> None:
        self.session, self.columns, self.owner, self.rules = session, columns, owner, rules
        self.name = format_name(data)
        options = data.options
        if self.name == "csv" and not any(key.lower() in ("escape", "quote") for key, _ in options):
            options = (*options, ("escape", '"'))  # as everybody but Spark writes quotes within quotes
        self.options = {key: value for key, value in options if key.lower() != ON_BAD_FILE}
        self.given = {key.lower(): value for key, value in options}
        self.inspection = Inspection(self.name, columns, self.given, needed)
        self._hadoop = HadoopFiles(session, self.options)

    @property
    def is_file(self) -> bool:
        return self.name in _FILES

    @property
    def is_parsed(self) -> bool:
        """Whether rows are made from text, and may fail to be."""
        return self.name in _PARSED

    def check(self, *, streaming: bool) -> None:
        """Refuse a source that is not there, or whose columns are not those declared. Reads no rows."""
        self._check_options()
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
            return self._selected(self._reader(self.session.readStream).load(), plain_shape(self.columns))

    def paths(self) -> DataFrame:
        """The names of a file format's files only."""
        chosen = {key: value for key, value in self._options().items() if key.lower() != "mergeschema"}
        schema = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
        with spark_errors(self.owner, self.name):
            return self.session.readStream.format("binaryFile").schema(schema).options(**chosen).load().select("path")

    def batch(self) -> DataFrame:
        """The rows of the format as they are now."""
        with spark_errors(self.owner, self.name):
            return self._selected(self._reader(self.session.read).load(), plain_shape(self.columns))

    def files(self) -> list[str]:
        """The paths of a file format's files as they are now."""
        with spark_errors(self.owner, self.name):
            return [unquote(path) for path in self._reader(self.session.read).load().inputFiles()]

    def shape_of(self, path: str) -> FileShape:
        """What one of the files has of the columns, wherever it lies."""
        local, directories = local_name(path), directories_of(path)
        name = local or path
        packed = self.name not in _SELF_DESCRIBING and PurePath(name).suffix.lower() in PACKED
        if local is not None and not packed:
            return self.inspection.shape(local, directories)
        opened = self._hadoop.footer if self.name == "parquet" else self._hadoop.opened
        return self.inspection.shape(name, directories, partial(opened, path, name))

    def rows_of(self, session: SparkSession, paths: list[str], shape: FileShape) -> DataFrame:
        """The rows of some files that are alike."""
        options = {key: value for key, value in self._options().items() if key.lower() != "path"}
        options |= {"__globPaths__": "false", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
        base = self.given.get("path", "")
        if not shape.partition_columns:
            options["recursiveFileLookup"] = "true"  # else a name like a* stands for all files beside it
        elif "basepath" not in self.given and not any(character in base for character in "*?[{"):
            options["basePath"] = base  # so that directories such as day=1 give columns
        if any(":" in path.rpartition("/")[2] for path in paths):
            options |= _PLAIN_FILES
        if shape.by_bytes:
            options = {k: v if k.lower() in _OF_PATHS else v.encode().decode(_BYTES) for k, v in options.items()}
            options["encoding"] = _BYTES
        reader = session.read.format(self.name).options(**options)
        if self.name in _DECLARED:
            reader = reader.schema(self._schema(shape))
        return self._selected(reader.load(paths), shape)

    def marked_rows(
        self, session: SparkSession, path: str, shape: FileShape, shown: str, names: list[str]
    ) -> DataFrame:
        """The rows of one file of JSON, with lines marked that have half a character; Spark calls it `shown`."""
        options = {k: v for k, v in self._options().items() if k.lower() not in ("path", *_OF_PATHS)}
        plain = {"__globPaths__": "false", "recursiveFileLookup": "true"}
        plain |= {"lineSep": self.given["linesep"]} if "linesep" in self.given else {}
        plain |= _PLAIN_FILES if ":" in path.rpartition("/")[2] else {}
        lines = session.read.format("text").options(**plain).load([path]).select(sql.col("value").cast("binary"))
        marked = lines.mapInArrow(marking(names), "value BINARY").select(sql.col("value").cast("string"))
        rows = session.read.options(**options).schema(self._schema(shape)).json(marked)
        in_directories = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
        for field in self.columns:
            if field.name.lower() in shape.partition_columns:
                given = next(
                    unquote(value) for name, value in in_directories.items() if name.lower() == field.name.lower()
                )
                rows = rows.withColumn(field.name, sql.lit(None if given == _NO_VALUE else given))
        where = {PATH: sql.lit(shown), BLOCK: sql.spark_partition_id().cast("bigint"), LENGTH: sql.lit(0)}
        return self._columns(rows, shape).select("*", *(value.alias(name) for name, value in where.items()))

    def is_decoded(self, shape: FileShape) -> bool:
        """Whether bytes that are no text were replaced by what says so, by whoever read them."""
        chosen = "encoding" in self.given or "charset" in self.given
        return self.is_parsed and not shape.by_bytes and (self.name != "json" or chosen)

    def _reader(self, reader: _Reader) -> _Reader:
        reader = reader.format(self.name).options(**self._options())
        return reader.schema(self._schema()) if self.name in _DECLARED else reader

    def _options(self) -> dict[str, str]:
        chosen = dict(self.options)
        if self.is_parsed:
            chosen |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW}
            chosen |= {} if "maxstringlen" in self.given else {"maxStringLen": _LONGEST_VALUE}  # else 20 MB
            chosen |= {} if "timezone" in self.given else {"timeZone": "UTC"}
        if self.is_file and "maxfileage" not in self.given:
            chosen["maxFileAge"] = _FOR_EVER  # else Spark passes over files that are dated a week before the newest
        if self.name == "rate" and "numpartitions" not in self.given:
            chosen["numPartitions"] = "1"  # so that rows arrive in the order of their timestamps
        return chosen

    def _schema(self, shape: FileShape | None = None) -> StructType:
        columns = list(self.columns)
        if shape is not None:
            places = {place: field.type for place, field in zip(shape.found, self.columns, strict=True)}
            named = [Field(place, kind) for place, kind in places.items() if isinstance(place, str)]
            lines = range(shape.width or 0)
            columns = [*(Field(_placed(place), places.get(place, STRING)) for place in lines), *named]
            columns = columns if self.name in _BY_SHAPE else list(self.columns)
        columns += [Field(RAW, STRING)] if self.is_parsed else []
        parsed = StructType.fromDDL(", ".join(f"{_quoted(field.name)} {field.type}" for field in columns))
        if not isinstance(parsed, StructType):
            raise AssertionError("columns that are no columns")
        return parsed

    def _selected(self, frame: DataFrame, shape: FileShape) -> DataFrame:
        """The declared columns by position, then what is needed to put rows in order and to tell what is wrong."""
        if not self.is_file:
            return self._columns(frame, shape)
        places = {PATH: "file_path", BLOCK: "file_block_start", LENGTH: "file_block_length"}
        more = [sql.col(f"_metadata.{place}").alias(name) for name, place in places.items()]
        return frame.select(*self._chosen(frame, shape), *more)

    def _columns(self, frame: DataFrame, shape: FileShape) -> DataFrame:
        return frame.select(*self._chosen(frame, shape))

    def _chosen(self, frame: DataFrame, shape: FileShape) -> list[Column]:
        found = {name.lower(): name for name in frame.columns}
        chosen: list[Column] = []
        for index, (field, place) in enumerate(zip(self.columns, shape.found, strict=True)):
            name = found.get(field.name.lower(), "") if self.name not in _BY_SHAPE else place
            name = _placed(name) if isinstance(name, int) else name
            value = sql.col(_quoted(name)) if name is not None else sql.lit(None)
            if place is None and self.rules.has_default(field.name):
                value = sql.lit(self.rules.default(field.name))
            if (
                shape.by_bytes
                and field.type == STRING
                and place is not None
                and field.name.lower() not in shape.partition_columns
            ):
                chosen.append(sql.encode(value, _BYTES).alias(f"c{index}"))
            else:
                chosen.append(value.cast(str(field.type)).alias(f"c{index}"))
        if self.is_parsed:
            raw = sql.col(RAW)
            chosen.append(sql.encode(raw, _BYTES).alias(RAW) if shape.by_bytes else raw)
        return chosen

    def _check_options(self) -> None:
        listed = next((field for field in self.columns if field.type.is_list), None)
        if listed is not None and self.name in ("csv", "text"):
            raise TypeError(
                f'{self.owner}: {self.name} has no lists, and column "{listed.name}" is declared {listed.type}',
                hint=f"declare {listed.name} STRING, and take it apart in queries: split({listed.name}, ',')",
            )
        for option in ("mode", "columnNameOfCorruptRecord"):
            if self.is_parsed and option.lower() in self.given:
                raise BindError(
                    f"{self.owner}: the option {option} cannot be chosen",
                    hint="rows that do not parse are kept in the table of malformed ones",
                )
        for option in ("ignoreCorruptFiles", "ignoreMissingFiles"):
            if self.is_file and option.lower() in self.given:
                raise BindError(
                    f"{self.owner}: the option {option} cannot be chosen",
                    hint="on_bad_file 'skip' passes over files that cannot be read, and tells which",
                )
        chosen = self.given.get(ON_BAD_FILE)
        if chosen is not None and not self.is_file:
            raise BindError(f"{self.owner}: the option {ON_BAD_FILE} is for files, and {self.name} has none")
        if chosen is not None and chosen not in ("stop", "skip"):
            raise BindError(f"{self.owner}: the option {ON_BAD_FILE} is 'stop' or 'skip', not {chosen!r}")
        check_source_names(self.session, self.owner, self.name, self.options, ON_BAD_FILE)

    def _check_files(self) -> None:
        """Compare files that say themselves what is in them, where there are some already."""
        if not (self.name in _SELF_DESCRIBING or self.inspection.has_header):
            return
        try:
            schema = self.session.read.format(self.name).options(**self.options).load().schema
        except SPARK_ERRORS as error:
            # A file that cannot be read is named by `run`, or passed over.
            if not (condition(error) or "").startswith(("UNABLE_TO_INFER_SCHEMA", "FAILED_READ_FILE")):
                raise
            return
        try:
            if schema.names:
                self._check_columns(schema, typed=self.name != "csv")
        except (NameError, TypeError):
            if not self._some_file_fits():  # Spark has looked at one, whichever it was
                raise

    def _some_file_fits(self) -> bool:
        for path in self.files()[:_LOOKED_AT]:
            try:
                missing = [self.columns[index].name for index in self.shape_of(path).missing]
                if all(map(self.rules.has_default, missing)):
                    return True
            except BadFile:
                continue
        return False

    def _check_columns(self, schema: StructType, *, typed: bool = True) -> None:
        found = {field.name.lower(): field for field in schema.fields}
        for field in self.columns:
            if field.name.lower() not in found:
                if self.rules.has_default(field.name):
                    continue
                raise NameError(
                    f'{self.owner}: {self.name} has no column "{field.name}"',
                    detail=f"it has {', '.join(f'{f.name} {f.dataType.simpleString()}' for f in schema.fields)}",
                    hint=did_you_mean(field.name, schema.names),
                )
            kind = found[field.name.lower()].dataType
            if typed and not fits(kind, field.type):
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
        return StateError(
            f"{owner}: {cause_of(error)}", hint="close the database, and open it again to start a new Spark"
        )
    kind, text = condition(error) or "", cause_of(error)
    if kind == "KAFKA_DATA_SOURCE_NOT_ENABLED" or (kind == "DATA_SOURCE_NOT_FOUND" and name in _PACKAGES):
        package = f"org.apache.spark:{_PACKAGES.get(name, _PACKAGES['kafka'])}_2.13:{spark_version}"
        return SetupError(
            f"{owner}: Spark has no connector for {name}",
            hint=f"start Spark with the option spark.jars.packages={package} and pass the session as spark=, or set "
            f'PYSPARK_SUBMIT_ARGS="--packages {package} pyspark-shell" before connecting',
        )
    if kind == "DATA_SOURCE_NOT_FOUND":
        module, dot, _ = name.rpartition(".")
        near = did_you_mean(name, _SHOWN)
        return BindError(
            f'{owner}: Spark knows no format "{name}"',
            detail=f"nor does Python find a module {module}" if dot else None,
            hint=near
            if near is not None and near.startswith("did")
            else f"{', '.join(_SHOWN)} are some; one written in Python is named by its place, package.module.Class, "
            "or made known by spark.dataSource.register(...)",
        )
    if (missing := _MISSING.search(str(error))) is not None:
        return SetupError(
            f"{owner}: Spark's Python workers cannot import {missing.group(1)}",
            hint="install it for the Python that they run, or put its directory on PYTHONPATH before Spark starts",
        )
    if kind == "PATH_NOT_FOUND":
        return InputError(f"{owner}: {text.partition('] ')[2] or text}", hint="the directory must be there already")
    hint = "say where they are: OPTIONS (path 'folder')" if "'path' is not specified" in text else None
    return BindError(f"{owner}: {name} cannot be used so", detail=text, hint=hint)


def _placed(place: int) -> str:
    """What the values at a place of a line are called; names that users choose do not start with _."""
    return f"_p{place}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
