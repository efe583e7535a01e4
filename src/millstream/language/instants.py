"""Constants of statements, and instants among them: a number of ticks or a timestamp."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
from sqlglot import exp

from millstream.bounds import MAX_TICK, last_tick
from millstream.errors import BindError, Error, InputError, Place
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Expression, Literal
from millstream.language.expressions import ExpressionBinder, UserCode
from millstream.language.reading import all_read
from millstream.language.scope import Scope
from millstream.language.syntax import place_of
from millstream.plan.definitions import TimeDomain
from millstream.plan.depth import check_depth
from millstream.types import DataType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class ConstantsOnly:
    """The surroundings of an expression that may name nothing."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = UserCode()
        self.parameters: Sequence[DataType] = ()

    def bind_subquery(self, query: exp.Expr, scope: Scope) -> Any:
        raise BindError("a subquery where a constant is wanted")


def constant(node: exp.Expr, text: str) -> Literal:
    """The value of an expression without columns."""
    with all_read(node, text):
        bound = ExpressionBinder(ConstantsOnly(text), Scope(), "a constant").bind(node)
    if isinstance(bound, Literal):
        return bound
    check_depth(bound, place_of(node, text))
    try:
        return Literal(bound.type, folded(bound))
    except Error as error:
        error.place = error.place or place_of(node, text)
        raise


def folded(expression: Expression) -> object:
    """The value of a bound expression that reads no column."""
    if isinstance(expression, Literal):
        return expression.value
    try:
        return evaluate(pl.DataFrame({"_row": [0]}), [expression], ["value"]).item()
    except (OverflowError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise InputError(f"{expression} is too far away", detail="a constant is of the years 1 to 9999") from None


def instant(value: object, domain: TimeDomain, place: Place | None = None) -> int:
    """The tick that a number of ticks, a timestamp or a timestamp's text means."""
    if isinstance(value, str) and domain.type.is_temporal:
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InputError(f"{value!r} is not a timestamp", place=place) from None
    if isinstance(value, datetime | date) and domain.tick is not None:
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        tick = (moment - _EPOCH) // _MICROSECOND // domain.tick
    elif isinstance(value, int) and not isinstance(value, bool):
        tick = value
    elif isinstance(value, Decimal) and value == value.to_integral_value():
        tick = int(value)  # a whole number beyond 64 bits
    else:
        raise InputError(f"{value!r} is not an instant", hint="give a number of ticks or a timestamp", place=place)
    if tick < 0:
        raise InputError(f"{value} lies before time 0", hint="time starts at 0", place=place)
    last = last_tick(domain.tick) if domain.type.is_temporal else MAX_TICK
    if tick > last:
        hint = f"the last instant is {'in the year 9999' if last < MAX_TICK else '2^62'}: {last}"
        raise InputError(f"{value} lies after the end of time", hint=hint, place=place)
    return tick


def shown_instant(tick: int, domain: TimeDomain | None) -> int | datetime:
    """A tick as users write it: in the timestamp's type, as far as there are such timestamps."""
    if domain is None or not domain.type.is_temporal or domain.tick is None or tick > last_tick(domain.tick):
        return tick
    return _EPOCH + tick * domain.tick * _MICROSECOND
