"""Which types meet in which, and what becomes of constants on the way."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pytest

from millstream import errors
from millstream.kernel.batch import value_column
from millstream.kernel.scalar.coercion import can_cast, cast, common_type
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Cast, Column, Literal
from millstream.kernel.scalar.literals import convert_instant, number_literal
from millstream.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DataType,
    decimal,
)


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([], NULL),
        ([NULL, NULL], NULL),
        ([NULL, DATE], DATE),
        ([TINYINT, BIGINT, INT], BIGINT),
        ([FLOAT, FLOAT], FLOAT),
        ([FLOAT, INT], DOUBLE),
        ([decimal(10, 2), INT], decimal(12, 2)),
        ([decimal(10, 2), decimal(5, 4)], decimal(12, 4)),
        ([decimal(38, 2), decimal(38, 30)], decimal(38, 2)),
        ([BIGINT, decimal(38, 30)], decimal(38, 18)),
        ([decimal(10, 2), DOUBLE], DOUBLE),
        ([DATE, TIMESTAMP_NTZ, TIMESTAMP], TIMESTAMP),
        ([STRING, SMALLINT], BIGINT),
        ([STRING, decimal(10, 2)], DOUBLE),
        ([STRING, DATE], DATE),
        ([STRING, BOOLEAN], BOOLEAN),
        ([STRING, BINARY], BINARY),
        ([STRING, INTERVAL], None),
        ([BOOLEAN, INT], None),
        ([DATE, INT], None),
    ],
)
def test_common_type(types: list[DataType], common: DataType | None) -> None:
    assert common_type(types) == common
    assert common_type(types[::-1]) == common


def test_casts_that_exist() -> None:
    assert can_cast(STRING, TIMESTAMP)
    assert can_cast(TIMESTAMP, BIGINT)
    assert can_cast(NULL, BINARY)
    assert not can_cast(DATE, INT)
    assert not can_cast(BOOLEAN, TIMESTAMP)
    assert not can_cast(BINARY, INT)
    assert not can_cast(STRING, INTERVAL)
    with pytest.raises(errors.TypeError, match="cannot cast DATE to INT in day"):
        cast(Column(DATE, 0, "day"), INT)


def test_a_cast_to_the_same_type_is_nothing() -> None:
    column = Column(INT, 0, "a")
    assert cast(column, INT) is column
    assert cast(column, BIGINT) == Cast(BIGINT, column)


@pytest.mark.parametrize(
    ("constant", "target", "value"),
    [
        (Literal(NULL, None), DATE, None),
        (Literal(INT, 5), BIGINT, 5),
        (Literal(INT, 5), decimal(5, 2), Decimal("5.00")),
        (Literal(BIGINT, 2**63 - 1), DOUBLE, 2.0**63),
        (Literal(decimal(4, 3), Decimal("1.235")), decimal(4, 2), Decimal("1.24")),
        (Literal(DOUBLE, 1.005), decimal(10, 2), Decimal("1.01")),
        (Literal(STRING, " 12 "), INT, 12),
        (Literal(STRING, "yes"), BOOLEAN, True),
        (Literal(STRING, "2020-2-3"), DATE, dt.date(2020, 2, 3)),
        (Literal(STRING, "2020-02-03 04:05:06+01:00"), TIMESTAMP, dt.datetime(2020, 2, 3, 3, 5, 6, 0, dt.UTC)),
        (Literal(DATE, dt.date(2020, 2, 3)), TIMESTAMP, dt.datetime(2020, 2, 3, tzinfo=dt.UTC)),
        (Literal(DOUBLE, 1e7), STRING, "1.0E7"),
    ],
)
def test_constants_are_cast_at_once(constant: Literal, target: DataType, value: object) -> None:
    assert cast(constant, target) == Literal(target, value)


@pytest.mark.parametrize(
    ("constant", "target"),
    [
        (Literal(INT, 300), TINYINT),
        (Literal(INT, 100), decimal(3, 1)),
        (Literal(STRING, "1.5"), INT),
        (Literal(STRING, "2021-02-29"), DATE),
        (Literal(DOUBLE, float("nan")), BIGINT),
    ],
)
def test_constants_whose_cast_fails_stay_casts(constant: Literal, target: DataType) -> None:
    """The failure belongs to the rows that evaluate it, and there may be none."""
    assert cast(constant, target) == Cast(target, constant)
    row = pl.DataFrame({"c0": [0]})
    with pytest.raises(errors.EvaluationError, match="CAST"):
        evaluate(row, [cast(constant, target)], ["v"])
    assert evaluate(row, [cast(constant, target, lenient=True)], ["v"]).item() is None


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1", INT, 1),
        ("-2147483648", INT, -(2**31)),
        ("2147483648", BIGINT, 2**31),
        ("9223372036854775808", decimal(19, 0), Decimal(2**63)),
        ("1L", BIGINT, 1),
        ("1S", SMALLINT, 1),
        ("1Y", TINYINT, 1),
        ("1.5", decimal(2, 1), Decimal("1.5")),
        ("0.05", decimal(2, 2), Decimal("0.05")),
        ("100.00", decimal(5, 2), Decimal("100.00")),
        ("2BD", decimal(1, 0), Decimal(2)),
        ("1e0", DOUBLE, 1.0),
        ("1.5D", DOUBLE, 1.5),
        ("2F", FLOAT, 2.0),
    ],
)
def test_numbers_in_a_text(text: str, kind: DataType, value: object) -> None:
    assert number_literal(text) == Literal(kind, value)


@pytest.mark.parametrize("text", ["1x", "1.5L", "128Y", "1" * 39])
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(errors.TypeError):
        number_literal(text)


@pytest.mark.parametrize("target", [TIMESTAMP, TIMESTAMP_NTZ, DATE])
@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01", "2026-02-30", "2026-13-01", "0001-01-01", "9999-12-31 23:59:59.999999",
        "2026-01-01 01:02:03", "2026-01-01 24:00:00", "2026-01-01 23:59:60", "2026-01-01 01:02:03.5",
        "2026-01-01 01:02:03.123", "2026-01-01 01:02:03.123456", "2026-01-01T01:02:03Z", " 2026-01-01", "2024-02-29",
    ],
)  # fmt: skip
def test_instants_in_plain_form_are_read_as_in_columns(text: str, target: DataType) -> None:
    column = Cast(target, Column(STRING, 0, "text"), lenient=True)
    read = evaluate(pl.DataFrame({value_column(0): [text]}), [column], ["value"]).item()
    quickly = convert_instant(text, target)
    assert quickly is None or quickly == read
    made = cast(Literal(STRING, text), target)
    assert (made.value if isinstance(made, Literal) else None) == read
