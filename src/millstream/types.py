"""Spark SQL's data types, and what they are in Arrow and Polars.

A type is written as Spark writes it (`BIGINT`, `DECIMAL(10,2)`, `ARRAY<STRING>`). Timestamps are microseconds in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

MAX_DECIMAL_PRECISION = 38


@dataclass(frozen=True)
class DataType:
    """A scalar type, or a list of values of one; precision and scale belong to decimals only.

    A declared VARCHAR(n) is STRING in every respect but one: what is written to its column has at most so many
    characters.
    """

    name: str
    precision: int = 0
    scale: int = 0
    length: int | None = field(default=None, compare=False)
    element: DataType | None = field(default=None, metadata={"fingerprint": "where given"})  # of lists

    def __str__(self) -> str:
        if self.element is not None:
            return f"ARRAY<{self.element}>"
        return f"DECIMAL({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def is_list(self) -> bool:
        return self.element is not None

    @property
    def is_integer(self) -> bool:
        return self in INTEGERS

    @property
    def is_fractional(self) -> bool:
        return self in (FLOAT, DOUBLE)

    @property
    def is_decimal(self) -> bool:
        return self.name == "DECIMAL"

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_fractional or self.is_decimal

    @property
    def is_temporal(self) -> bool:
        return self in (DATE, TIMESTAMP, TIMESTAMP_NTZ)


BOOLEAN = DataType("BOOLEAN")
TINYINT = DataType("TINYINT")
SMALLINT = DataType("SMALLINT")
INT = DataType("INT")
BIGINT = DataType("BIGINT")
FLOAT = DataType("FLOAT")
DOUBLE = DataType("DOUBLE")
STRING = DataType("STRING")
BINARY = DataType("BINARY")
DATE = DataType("DATE")
TIMESTAMP = DataType("TIMESTAMP")
TIMESTAMP_NTZ = DataType("TIMESTAMP_NTZ")
INTERVAL = DataType("INTERVAL")  # a day-time interval, in microseconds
MONTHS = DataType("INTERVAL YEAR TO MONTH")  # a number of months: inside expressions only, never a column's
NULL = DataType("VOID")  # the type of a bare NULL

INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
INTEGER_BITS = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
# The decimal that holds every value of an integer type, as Spark widens it.
INTEGER_DECIMALS = {TINYINT: (3, 0), SMALLINT: (5, 0), INT: (10, 0), BIGINT: (20, 0)}


def decimal(precision: int, scale: int) -> DataType:
    return DataType("DECIMAL", precision, scale)


def array(element: DataType) -> DataType:
    """Lists of values of a type."""
    return DataType("ARRAY", element=element)


def varchar(length: int) -> DataType:
    return DataType("STRING", length=length)


_ARROW: dict[DataType, pa.DataType] = {
    BOOLEAN: pa.bool_(),
    TINYINT: pa.int8(),
    SMALLINT: pa.int16(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    STRING: pa.string(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    INTERVAL: pa.duration("us"),
    MONTHS: pa.int32(),
    NULL: pa.null(),
}

_POLARS: dict[DataType, pl.DataType] = {
    BOOLEAN: pl.Boolean(),
    TINYINT: pl.Int8(),
    SMALLINT: pl.Int16(),
    INT: pl.Int32(),
    BIGINT: pl.Int64(),
    FLOAT: pl.Float32(),
    DOUBLE: pl.Float64(),
    STRING: pl.String(),
    BINARY: pl.Binary(),
    DATE: pl.Date(),
    TIMESTAMP: pl.Datetime("us", "UTC"),
    TIMESTAMP_NTZ: pl.Datetime("us"),
    INTERVAL: pl.Duration("us"),
    MONTHS: pl.Int32(),
    NULL: pl.Null(),
}


def to_arrow(kind: DataType) -> pa.DataType:
    if kind.element is not None:
        return pa.list_(to_arrow(kind.element))
    return pa.decimal128(kind.precision, kind.scale) if kind.is_decimal else _ARROW[kind]


def from_arrow(kind: pa.DataType) -> DataType:
    """The type whose values a column of an answer has."""
    if pa.types.is_decimal(kind):
        return decimal(kind.precision, kind.scale)
    if pa.types.is_list(kind):
        return array(from_arrow(kind.value_type))
    return next(known for known, arrow in _ARROW.items() if arrow == kind)


def to_polars(kind: DataType) -> pl.DataType:
    if kind.element is not None:
        return pl.List(to_polars(kind.element))
    return pl.Decimal(kind.precision, kind.scale) if kind.is_decimal else _POLARS[kind]


class Field(NamedTuple):
    """A column: its name as users wrote it and its type."""

    name: str
    type: DataType

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


class AlteredField(Field):
    """A column that was added or renamed later: files from before have it under another name, or not at all, and then
    its rows have the default."""

    stored: str
    default: Any
    is_added: bool  # behind those that were there, while queries may have read these

    @classmethod
    def of(cls, name: str, kind: DataType, stored: str, default: Any = None, *, is_added: bool = False) -> AlteredField:
        made = cls(name, kind)
        made.stored, made.default, made.is_added = stored, default, is_added
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _altered_field, (self.name, self.type, self.stored, self.default, self.is_added)


def _altered_field(name: str, kind: DataType, stored: str, default: Any, is_added: bool) -> AlteredField:
    return AlteredField.of(name, kind, stored, default, is_added=is_added)


def stored_name(field: Field) -> str:
    """What files of history call a column."""
    return field.stored if isinstance(field, AlteredField) else field.name


Schema = tuple[Field, ...]


def columns_at_first(schema: Schema) -> int:
    """How many columns there were before any was added."""
    return sum(not (isinstance(field, AlteredField) and field.is_added) for field in schema)


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, to_arrow(field.type)) for field in schema])


def show_schema(schema: Schema) -> str:
    return "(" + ", ".join(str(field) for field in schema) + ")"
