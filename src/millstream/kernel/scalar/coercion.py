"""Spark's ANSI type coercion: which types meet in which common type, and which casts there are.

The least common type of two types, as Spark 4 finds it:

    any and NULL               the other type
    two integers               the wider one
    FLOAT and another number   DOUBLE (so that integers keep their digits as far as a double can)
    decimals and integers      the decimal that holds both; past 38 digits the fraction gives way
    a decimal and a float      DOUBLE
    date and timestamps        the more exact one, TIMESTAMP before TIMESTAMP_NTZ
    STRING and a number        BIGINT for integers, else DOUBLE: the string is parsed
    STRING and another type    the other type, again by parsing; but not INTERVAL
    two lists                  lists of the common type of their elements
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from millstream.errors import TypeError as WrongTypeError
from millstream.kernel.scalar.casts import cast_column
from millstream.kernel.scalar.casts_in_zones import cast_in_zone, needs_zone
from millstream.kernel.scalar.expressions import Call, Cast, Expression, Literal
from millstream.kernel.scalar.literals import convert_instant, convert_number, from_column, to_expr
from millstream.kernel.scalar.outcome import Outcome
from millstream.kernel.scalar.zones import session_zone
from millstream.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER_DECIMALS,
    INTEGERS,
    INTERVAL,
    MAX_DECIMAL_PRECISION,
    MONTHS,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    array,
    decimal,
)

# Casts that read or write a clock, with the zone as a second argument.
CAST_IN_ZONE, TRY_CAST_IN_ZONE = "cast_in_zone", "try_cast_in_zone"
_INSTANTS = (DATE, TIMESTAMP_NTZ, TIMESTAMP)  # from the less to the more exact


def common_type(types: Iterable[DataType]) -> DataType | None:
    """The type that values of all the types are cast to where they meet; None where there is none."""
    common = NULL
    for kind in types:
        wider = _common_of_two(common, kind)
        if wider is None:
            return None
        common = wider
    return common


def _common_of_two(left: DataType, right: DataType) -> DataType | None:
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if left.element is not None and right.element is not None:
        element = _common_of_two(left.element, right.element)
        return None if element is None else array(element)
    if left.is_list or right.is_list:
        return None
    if STRING in (left, right):
        return _common_with_string(right if left == STRING else left)
    if left.is_numeric and right.is_numeric:
        return _common_number(left, right)
    if left in _INSTANTS and right in _INSTANTS:
        return _INSTANTS[max(_INSTANTS.index(left), _INSTANTS.index(right))]
    return None


def _common_with_string(other: DataType) -> DataType | None:
    if other.is_integer:
        return BIGINT
    if other.is_numeric:
        return DOUBLE
    return None if other in (INTERVAL, MONTHS) else other


def _common_number(left: DataType, right: DataType) -> DataType:
    if left.is_fractional or right.is_fractional:
        return DOUBLE
    if left.is_integer and right.is_integer:
        return INTEGERS[max(INTEGERS.index(left), INTEGERS.index(right))]
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal(min(whole + scale, MAX_DECIMAL_PRECISION), max(0, min(scale, MAX_DECIMAL_PRECISION - whole)))


def as_decimal(kind: DataType) -> DataType:
    """A decimal type that holds every value of an integer or decimal type."""
    return kind if kind.is_decimal else decimal(*INTEGER_DECIMALS[kind])


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether CAST(source AS target) exists, as in Spark's ANSI mode (strings are not parsed into intervals)."""
    if source in (target, NULL):
        return True
    if target == NULL or MONTHS in (source, target):
        return False
    if source.element is not None and target.element is not None:
        return can_cast(source.element, target.element)
    if target == STRING:
        return True
    if source.is_list or target.is_list:
        return False
    if source == STRING:
        return target != INTERVAL
    if source == BOOLEAN:
        return target.is_numeric
    if source.is_numeric:
        return target.is_numeric or target in (BOOLEAN, TIMESTAMP) or (source.is_integer and target == INTERVAL)
    if source == BINARY:
        return False
    if source in _INSTANTS:
        return target in _INSTANTS or (source == TIMESTAMP and target.is_numeric)
    return source == INTERVAL and target.is_integer


def cast(expression: Expression, target: DataType, *, lenient: bool = False) -> Expression:
    """The expression as the target type; constants are converted at once where that cannot fail."""
    if expression.type == target:
        return expression
    if not can_cast(expression.type, target):
        raise WrongTypeError(f"cannot cast {expression.type} to {target} in {expression}")
    if expression.type == INTERVAL and not is_day_to_second(expression):
        raise WrongTypeError(
            f"cannot cast {expression.type} to {target} in {expression}",
            detail="in Spark that depends on the units of the interval, and here all run from DAY TO SECOND",
            hint="a product does so in Spark too: multiply it by 1",
        )
    zone = session_zone() if needs_zone(expression.type, target) else None
    if isinstance(expression, Literal):
        folded = _fold(expression, target, zone)
        if folded is not None:
            return folded
    if zone is not None:
        return Call(target, TRY_CAST_IN_ZONE if lenient else CAST_IN_ZONE, (expression, Literal(STRING, zone)))
    return Cast(target, expression, lenient)


def is_day_to_second(interval: Expression) -> bool:
    """Whether an interval is one from DAY TO SECOND to Spark too. A constant is of the units that it is written with,
    a difference of dates of days; what a column was made of is not known."""
    if not isinstance(interval, Call):
        return False
    if interval.function in ("*", "/"):
        return True
    if interval.arguments[0].type in (TIMESTAMP, TIMESTAMP_NTZ):
        return interval.function == "-"
    return interval.function in ("+", "-", "negative") and any(map(is_day_to_second, interval.arguments))


def _fold(literal: Literal, target: DataType, zone: str | None) -> Literal | None:
    """The constant as a constant of another type; None where the cast fails, which is for the run to say."""
    if literal.value is None:
        return Literal(target, None)
    # By far the most frequent, and Python does it faster.
    quickly = convert_number(literal.value, target) if target.is_numeric else convert_instant(literal.value, target)
    if quickly is not None and zone is None:
        return Literal(target, quickly)
    outcome: Outcome = cast_column(to_expr(literal), literal.type, target)
    if zone is not None:
        outcome = cast_in_zone(to_expr(literal), literal.type, target, zone)
    failed = [failure.mask(outcome.value).any() for failure in outcome.failures]
    row = pl.DataFrame(height=1).select(outcome.value.alias("value"), *(f.alias(f"f{i}") for i, f in enumerate(failed)))
    if any(row.drop("value").row(0)):
        return None
    return from_column(row.to_series(0), target)
