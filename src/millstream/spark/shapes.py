"""What a file has of the declared columns, found out before its rows are read.

Columns are found by name, in any order. Those that a file does not have are NULL, and those that nobody declared are
left alone: both are counted. A file whose columns have other types, or that cannot be opened, is bad as a whole.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DecimalType
from pyspark.sql.types import DataType as SparkType

from millstream.types import DataType, Field, Schema

_LONGEST_LINE = 1 << 24  # bytes of a first line that are looked at
PACKED = {".deflate", ".lz4", ".snappy"}  # by extension, in ways of Hadoop's own
_BOM = b"\xef\xbb\xbf"
UNREADABLE = (OSError, EOFError, zlib.error, pa.ArrowException)
_WIDER = {
    "tinyint": {"smallint", "int", "bigint", "float", "double"},
    "smallint": {"int", "bigint", "float", "double"},
    "int": {"bigint", "double"},
    "float": {"double"},
    "binary": {"string"},  # Kafka keeps texts so
}


Opener = Callable[[], IO[bytes]]


def of_zstd(file: str | IO[bytes]) -> IO[bytes]:
    """A file that is packed so, unpacked. (Hadoop would need a library of the system's.)"""
    return io.BufferedReader(pa.CompressedInputStream(file, "zstd"))


_OPENERS: dict[str, Callable[[str], IO[bytes]]] = {
    ".gz": gzip.open,  # type: ignore[dict-item]
    ".bz2": bz2.open,
    ".zst": of_zstd,
}


class BadFile(Exception):
    """A file that cannot be read as a whole, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


@dataclass(frozen=True)
class FileShape:
    """Where files have the declared columns: those of one shape are read together."""

    found: tuple[str | int | None, ...]  # of each column: its name, or its place in lines; None where it is missing
    extra: tuple[str, ...] = ()
    width: int | None = None  # how many values a line has, where a first line names them
    by_bytes: bool = False  # whether texts are read as bytes, so that those that are not UTF-8 are seen
    partition_columns: frozenset[str] = frozenset()  # columns, in lower case, that directories name and not the files

    @property
    def missing(self) -> list[int]:
        return [index for index, place in enumerate(self.found) if place is None]


def plain_shape(columns: Schema, *, by_bytes: bool = False) -> FileShape:
    """Of files that say nothing of their columns, or cannot be asked."""
    return FileShape(tuple(field.name for field in columns), by_bytes=by_bytes)


@dataclass(frozen=True)
class Inspection:
    """What must be known to look at a format's files: options with names in lower case, and the columns without which
    a file is of no use."""

    format: str
    columns: Schema
    options: Mapping[str, str]
    needed: tuple[str, ...] = ()

    @property
    def has_header(self) -> bool:
        return self.format == "csv" and self.options.get("header", "").lower() == "true"

    @property
    def is_multi_line(self) -> bool:
        return self.options.get("multiline", "").lower() == "true"

    def shape(self, name: str, directories: Collection[str], opened: Opener | None = None) -> FileShape:
        """Look at the file `name` of this machine, or at one that is opened otherwise; some columns may be named, in
        lower case, by its directories."""
        try:
            return replace(
                self._shape(name, directories, opened), partition_columns=self.partition_columns(directories)
            )
        except UNREADABLE as error:
            raise BadFile(name, explained(error)) from None

    def partition_columns(self, directories: Collection[str]) -> frozenset[str]:
        return frozenset(field.name.lower() for field in self.columns) & frozenset(directories)

    def _shape(self, name: str, directories: Collection[str], opened: Opener | None) -> FileShape:
        if self.format == "parquet":
            with _at_hand(name) if opened is None else opened() as file:
                return self.of_schema(name, pq.read_schema(file), directories)
        if self.format == "orc" and opened is None:
            return self.of_schema(name, orc.ORCFile(name).schema, directories)
        by_bytes = self.format == "csv" and self.can_be_bytes
        with unpacked(name) if opened is None else opened() as file:
            if self.has_header:
                return self._of_header(name, file, directories, by_bytes)
            first = file.readline(_LONGEST_LINE)
        if self.format == "json":
            return self._of_object(first)
        return plain_shape(self.columns, by_bytes=by_bytes and not self._has_bom(first))

    @property
    def can_be_bytes(self) -> bool:
        """Whether reading a CSV file byte by byte finds the same values: not with signs beyond ASCII."""
        signs = [self.options.get(key, "") for key in ("quote", "escape", "comment", "chartoescapequoteescaping")]
        chosen = {"encoding", "charset", "locale"} & self.options.keys()
        return not chosen and all(sign.isascii() for sign in signs)

    def _has_bom(self, first: bytes) -> bool:
        """Spark passes over the mark at the start of a file, but not where it reads one value over several lines."""
        return self.is_multi_line and first.startswith(_BOM)

    def of_schema(self, name: str, schema: pa.Schema, directories: Collection[str]) -> FileShape:
        """Of a file that says which columns it has, and their types."""
        if self.format == "orc" and all(column.startswith("_col") for column in schema.names):
            return plain_shape(self.columns)  # written without names: Spark goes by their order
        shape = self._of_names(name, schema.names, directories)
        for field, place in zip(self.columns, shape.found, strict=True):
            if isinstance(place, int):
                self._check_type(name, field, schema.field(place).type)
        found = [schema.names[place] if isinstance(place, int) else place for place in shape.found]
        return FileShape(tuple(found), shape.extra, partition_columns=self.partition_columns(directories))

    def _check_type(self, name: str, field: Field, kind: pa.DataType) -> None:
        found = _spark_type(kind)
        if found is not None and not fits(found, field.type):
            raise BadFile(
                name, f'column "{field.name}" is declared {field.type}, and the file has {found.simpleString().upper()}'
            )

    def _of_names(self, name: str, names: Sequence[str], directories: Collection[str]) -> FileShape:
        """The place of each column among the names of a file."""
        found: list[str | int | None] = []
        for field in self.columns:
            places = [place for place, other in enumerate(names) if other.lower() == field.name.lower()]
            exact = [place for place in places if names[place] == field.name]
            if len(places) > 1 and len(exact) != 1:
                raise BadFile(name, f'column "{field.name}" is there {len(places)} times')
            if not places and field.name.lower() in directories:
                found.append(field.name)
            else:
                found.append(next(iter(exact or places), None))
        self._check_needed(name, names, found)
        extra = [other for place, other in enumerate(names) if place not in found]
        return FileShape(tuple(found), tuple(sorted(set(extra))), len(names))

    def _check_needed(self, name: str, names: Sequence[str], found: Sequence[str | int | None]) -> None:
        has = f"it has {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}" if names else "it has none"
        if all(place is None for place in found) and found:
            raise BadFile(name, f"there is none of the declared columns: {has}")
        for field, place in zip(self.columns, found, strict=True):
            if place is None and field.name.lower() in self.needed:
                raise BadFile(name, f'there is no column "{field.name}": {has}')

    def _of_header(self, name: str, file: IO[bytes], directories: Collection[str], by_bytes: bool) -> FileShape:
        encoding = self.options.get("encoding") or self.options.get("charset") or "utf-8"
        comment = self.options.get("comment", "")
        start = file.read(len(_BOM))
        by_bytes = by_bytes and not self._has_bom(start)
        first = b"" if start == _BOM else start
        first += b"" if first.endswith(b"\n") else file.readline(_LONGEST_LINE)
        while first and (not first.strip() or (comment and first.startswith(comment.encode()))):
            first = file.readline(_LONGEST_LINE)
        if not first:
            return plain_shape(self.columns)  # no line at all, and so no rows
        try:
            line = first.decode(encoding).rstrip("\r\n")
        except LookupError:
            raise BadFile(name, f"its first line cannot be looked at in the encoding {encoding}") from None
        except UnicodeDecodeError:
            raise BadFile(name, f"its first line is not {encoding.upper()}") from None
        shape = self._of_names(name, [text.strip() for text in split_line(line, self.options)], directories)
        return FileShape(shape.found, shape.extra, shape.width, by_bytes)

    def _of_object(self, first: bytes) -> FileShape:
        """JSON has names in every row. The first says how they are spelled, and which are extra."""
        try:
            names = json.loads(first.decode("utf-8-sig"))
        except ValueError:
            return plain_shape(self.columns)
        if not isinstance(names, dict):
            return plain_shape(self.columns)
        spelled = {name.lower(): name for name in names}
        found = [f.name if f.name in names else spelled.get(f.name.lower(), f.name) for f in self.columns]
        return FileShape(tuple(found), tuple(sorted(name for name in names if name not in found)))


def split_line(line: str, options: Mapping[str, str]) -> list[str]:
    """The values of a line of CSV."""
    separator = options.get("sep") or options.get("delimiter") or ","
    separator = "\t" if separator == "\\t" else separator
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    if len(separator) != 1:
        return [text.strip(quote) for text in line.split(separator)]
    escaping = escape if len(escape) == 1 and escape != quote else None
    if len(quote) != 1:
        return line.split(separator)
    reader = csv.reader([line], delimiter=separator, quotechar=quote, escapechar=escaping)
    try:
        return next(reader, [])
    except csv.Error:
        return line.split(separator)


def fits(found: SparkType, declared: DataType) -> bool:
    """Whether Spark widens one type to the other without loss."""
    name, wanted = found.simpleString(), str(declared).lower()
    if isinstance(found, ArrayType) and declared.element is not None:
        return fits(found.elementType, declared.element)
    if isinstance(found, DecimalType) and declared.is_decimal:
        whole = declared.precision - declared.scale
        return found.scale <= declared.scale and found.precision - found.scale <= whole
    return name == wanted or wanted in _WIDER.get(name, ())


def _spark_type(kind: pa.DataType) -> SparkType | None:
    """None where Spark must be asked."""
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_null(kind) or (pa.types.is_timestamp(kind) and kind.unit == "ns"):
        return None  # nanoseconds stand for INT96 too, which Spark writes for its own timestamps
    try:
        return from_arrow_type(kind, prefer_timestamp_ntz=True)
    except Exception:  # Spark has no such type by itself: its reader says what becomes of it
        return None


def _at_hand(name: str) -> IO[bytes]:
    return Path(name).open("rb")


def unpacked(name: str) -> IO[bytes]:
    """A file of this machine, whose end says how it is packed."""
    if not Path(name).is_file():
        raise FileNotFoundError(2, "there is no such file any more")
    opener = _OPENERS.get(Path(name).suffix.lower())
    return Path(name).open("rb") if opener is None else opener(name)


def local_name(path: str) -> str | None:
    """The name that this machine's file system has for a path of Spark's."""
    if not path.startswith("file:"):
        return None
    return "/" + path.removeprefix("file:").lstrip("/")


def directories_of(path: str) -> list[str]:
    """The columns, in lower case, that directories such as day=1 name."""
    return [part.partition("=")[0].lower() for part in path.split("/")[:-1] if "=" in part]


def explained(error: BaseException) -> str:
    """What went wrong with a file, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).strip().partition("\n")[0]
    return text or type(error).__name__
