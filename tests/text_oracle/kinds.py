"""Kinds of values: how columns of a kind are declared, what they hold, and how constants of it are written.

Few values, so that joins meet and groups gather. Doubles are multiples of 1/2, so that sums are exact in any order;
what may have been rounded is a REAL, which is compared and never added up.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple


class Kind(Enum):
    INTEGER = "integer"
    STRING = "string"
    BOOLEAN = "boolean"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "timestamp"
    INTERVAL = "interval"
    BINARY = "binary"
    REAL = "real"
    LIST = "list"

    def __repr__(self) -> str:
        return self.name


class Text(NamedTuple):
    """The same in both languages."""

    cql: str
    duck: str

    def __add__(self, other: object) -> Text:
        other = other if isinstance(other, Text) else Text(str(other), str(other))
        return Text(self.cql + other.cql, self.duck + other.duck)


def same(text: str) -> Text:
    return Text(text, text)


def joined(separator: str, texts: list[Text]) -> Text:
    return Text(separator.join(text.cql for text in texts), separator.join(text.duck for text in texts))


def filled(template: Text, *parts: Text) -> Text:
    """A template in both languages, with {0}, {1}, ... replaced."""
    return Text(template.cql.format(*(p.cql for p in parts)), template.duck.format(*(p.duck for p in parts)))


class Column(NamedTuple):
    """A column by the text that refers to it, which is the same in both languages."""

    name: str
    kind: Kind

    @property
    def text(self) -> Text:
        return same(self.name)


# Declared in Millstream, declared in DuckDB.
TYPES: dict[Kind, tuple[Text, ...]] = {
    Kind.INTEGER: (same("INT"), same("BIGINT")),
    Kind.STRING: (Text("STRING", "VARCHAR"),),
    Kind.BOOLEAN: (same("BOOLEAN"),),
    Kind.DOUBLE: (same("DOUBLE"),),
    Kind.DECIMAL: (same("DECIMAL(5,1)"),),
    Kind.DATE: (same("DATE"),),
    Kind.TIME: (same("TIMESTAMP"),),
    Kind.BINARY: (Text("BINARY", "BLOB"),),
    Kind.LIST: (Text("ARRAY<INT>", "INTEGER[]"),),
}
VALUES: dict[Kind, tuple[Any, ...]] = {
    Kind.INTEGER: (1, 0, 2, None, 1, 0, -1, 5),
    Kind.STRING: ("a", "b", None, "", "ab", "a", "Ab c", "a%b", "a_b", "é\\", "it's"),
    Kind.BOOLEAN: (False, True, None),
    Kind.DOUBLE: (0.0, 1.0, None, 0.5, -1.5, 2.0, math.nan, math.inf, 1.0),
    Kind.DECIMAL: (Decimal("1.0"), Decimal("0.5"), None, Decimal("-2.5"), Decimal("0.1"), Decimal("2.0")),
    Kind.DATE: (dt.date(2020, 1, 1), dt.date(2020, 1, 2), None, dt.date(2019, 12, 31), dt.date(2020, 2, 29)),
    Kind.TIME: (
        dt.datetime(2020, 1, 1),
        dt.datetime(2020, 1, 1, 10, 30, 59, 250_000),
        None,
        dt.datetime(2019, 12, 31, 23, 59, 59),
    ),
    Kind.BINARY: (b"", b"a", None, b"\x00\xff"),
    Kind.LIST: ((1, 2), (), None, (1,), (1, None), (0, 2, 2), (1, 2)),
}
_NULLS = {
    Kind.INTEGER: same("CAST(NULL AS INT)"),
    Kind.STRING: Text("CAST(NULL AS STRING)", "CAST(NULL AS VARCHAR)"),
    Kind.BOOLEAN: same("CAST(NULL AS BOOLEAN)"),
    Kind.DOUBLE: same("CAST(NULL AS DOUBLE)"),
    Kind.DECIMAL: same("CAST(NULL AS DECIMAL(5,1))"),
    Kind.DATE: same("CAST(NULL AS DATE)"),
    Kind.TIME: same("CAST(NULL AS TIMESTAMP)"),
    Kind.INTERVAL: Text("(CAST(NULL AS DATE) - DATE '2020-01-01')", "CAST(NULL AS INTERVAL)"),
    Kind.BINARY: Text("CAST(NULL AS BINARY)", "CAST(NULL AS BLOB)"),
    Kind.REAL: same("CAST(NULL AS DOUBLE)"),
    Kind.LIST: Text("CAST(NULL AS ARRAY<INT>)", "CAST(NULL AS INTEGER[])"),
}


def _double(text: str) -> Text:
    return Text(text, f"CAST('{text.strip('()')}' AS DOUBLE)")


def _string(value: str) -> Text:
    """Spark's texts have backslashes, DuckDB's have none; both double quotes."""
    quoted = value.replace("'", "''")
    return Text(f"'{quoted}'".replace("\\", "\\\\"), f"'{quoted}'")


CONSTANTS: dict[Kind, tuple[Text, ...]] = {
    Kind.INTEGER: (same("1"), same("0"), same("2"), same("(-1)")),
    Kind.STRING: tuple(_string(value) for value in ("a", "b", "", "ab", "a%b")),
    Kind.BOOLEAN: (same("TRUE"), same("FALSE")),
    Kind.DOUBLE: (_double("1E0"), _double("5E-1"), _double("0E0"), _double("(-15E-1)")),
    Kind.DECIMAL: (same("1.0"), same("0.5"), same("(-2.5)"), same("0.1")),
    Kind.DATE: (same("DATE '2020-01-01'"), same("DATE '2020-01-02'")),
    Kind.TIME: (same("TIMESTAMP '2020-01-01 00:00:00'"), same("TIMESTAMP '2020-01-01 10:30:59.25'")),
    Kind.INTERVAL: (same("INTERVAL '1' DAY"), same("INTERVAL '90' SECOND")),
    Kind.BINARY: (Text("X'61'", "'a'::BLOB"), Text("X''", "''::BLOB")),
    Kind.REAL: (_double("1E0"), _double("5E-1")),
    Kind.LIST: (
        Text("array(1, 2)", "[1, 2]"),
        Text("array(1)", "[1]"),
        Text("CAST(array() AS ARRAY<INT>)", "[]::INTEGER[]"),
    ),
}
LITERALS = {kind: (*constants * 3, _NULLS[kind]) for kind, constants in CONSTANTS.items()}
# Kinds of declared columns, the most usual ones several times.
DECLARED = (
    *(Kind.INTEGER,) * 4,
    *(Kind.STRING,) * 3,
    Kind.BOOLEAN,
    Kind.DOUBLE,
    Kind.DECIMAL,
    Kind.DATE,
    Kind.TIME,
    Kind.BINARY,
    Kind.LIST,
)


def written(value: Any) -> Text:
    """A value as a constant of an INSERT."""
    if value is None:
        return same("NULL")
    if isinstance(value, bool):
        return same(str(value).upper())
    if isinstance(value, float):
        if math.isfinite(value):
            return same(repr(value))
        return same(f"CAST('{'NaN' if math.isnan(value) else 'Infinity'}' AS DOUBLE)")
    if isinstance(value, tuple):
        parts = ", ".join("NULL" if part is None else str(part) for part in value)
        return Text(f"array({parts})", f"[{parts}]")
    if isinstance(value, bytes):
        escaped = "".join(f"\\x{byte:02X}" for byte in value)
        return Text(f"X'{value.hex()}'", f"'{escaped}'::BLOB")
    if isinstance(value, dt.datetime):
        return same(f"TIMESTAMP '{value}'")
    if isinstance(value, dt.date):
        return same(f"DATE '{value}'")
    return _string(value) if isinstance(value, str) else same(str(value))
