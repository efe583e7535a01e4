"""Kinds of values: the types that a column of a kind may be declared with, and the few values that it takes.

Few values, so that joins meet and groups gather. Doubles are small multiples of 1/2: their sums are exact in any order,
and may be compared exactly.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from tests.properties.dice import Dice


class Kind(Enum):
    INTEGER = "integer"
    STRING = "string"
    BOOLEAN = "boolean"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    AVERAGE = "average"  # a DOUBLE that may have been rounded, so it is compared but not added up

    def __repr__(self) -> str:
        return self.name


class Column(NamedTuple):
    """A column by the text that refers to it."""

    name: str
    kind: Kind


TYPES: dict[Kind, tuple[str, ...]] = {
    Kind.INTEGER: ("INT", "BIGINT"),
    Kind.STRING: ("STRING",),
    Kind.BOOLEAN: ("BOOLEAN",),
    Kind.DOUBLE: ("DOUBLE",),
    Kind.DECIMAL: ("DECIMAL(5,1)",),
    Kind.DATE: ("DATE",),
}
VALUES: dict[Kind, tuple[Any, ...]] = {
    Kind.INTEGER: (1, 0, 2, None, 1, 0, -1),
    Kind.STRING: ("a", "b", None, "", "ab", "a"),
    Kind.BOOLEAN: (False, True, None),
    Kind.DOUBLE: (0.0, 1.0, None, 0.5, -1.5, 2.0, -0.0, math.nan, math.inf, 1.0),
    Kind.DECIMAL: (Decimal("1.0"), Decimal("0.5"), None, Decimal("-2.5"), Decimal("0.1"), Decimal("2.0")),
    Kind.DATE: (dt.date(2020, 1, 1), dt.date(2020, 1, 2), None, dt.date(2019, 12, 31)),
}
LITERALS: dict[Kind, tuple[str, ...]] = {
    Kind.INTEGER: (*("1", "0", "2", "(-1)") * 3, "CAST(NULL AS INT)"),
    Kind.STRING: (*("'a'", "'b'", "''", "'ab'") * 3, "CAST(NULL AS STRING)"),
    Kind.BOOLEAN: (*("TRUE", "FALSE", "TRUE") * 3, "CAST(NULL AS BOOLEAN)"),
    Kind.DOUBLE: (*("1E0", "5E-1", "0E0", "(-15E-1)") * 3, "CAST(NULL AS DOUBLE)"),
    Kind.DECIMAL: (*("1.0", "0.5", "(-2.5)", "0.1") * 3, "CAST(NULL AS DECIMAL(5,1))"),
    Kind.DATE: (*("DATE '2020-01-01'", "DATE '2020-01-02'") * 4, "CAST(NULL AS DATE)"),
    Kind.AVERAGE: ("1E0", "5E-1", "CAST(NULL AS DOUBLE)"),
}
# Kinds of columns, the most usual ones first and several times.
DECLARED = (
    *(Kind.INTEGER,) * 4,
    *(Kind.STRING,) * 2,
    Kind.BOOLEAN,
    Kind.DOUBLE,
    Kind.DECIMAL,
    Kind.DATE,
)


def literal(dice: Dice, kind: Kind) -> str:
    return dice.pick(LITERALS[kind])


def written(value: Any) -> str:
    """A value as a literal of an INSERT."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and not math.isfinite(value):
        return "CAST('NaN' AS DOUBLE)" if math.isnan(value) else "CAST('Infinity' AS DOUBLE)"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)
