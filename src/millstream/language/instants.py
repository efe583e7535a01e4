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
from millstream.kernel.scalar.evaluate import constant_value
from millstream.kernel.scalar.expressions import Call, Cast, Column, Expression, Literal
from millstream.language.expressions import ExpressionBinder, UserCode
from millstream.language.literal_rows import computed
from millstream.language.reading import all_read
from millstream.language.scope import Scope
from millstream.language.syntax import place_of
from millstream.plan.analysis.depth import check_depth
from millstream.plan.definitions import TimeDomain
from millstream.types import NULL, DataType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class ConstantsOnly:
    """The surroundings of an expression that may name nothing."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = UserCode()
        self.parameters: Sequence[DataType] = ()
        self.places: dict[str, Place] | None = None

    def bind_subquery(self, query: exp.Expr, scope: Scope) -> Any:
        raise BindError("a subquery where a constant is wanted")


def bound_constant(node: exp.Expr, text: str) -> Expression:
    """An expression without columns."""
    with all_read(node, text):
        bound = ExpressionBinder(ConstantsOnly(text), Scope(), "a constant").bind(node)
    if not isinstance(bound, Literal):
        check_depth(bound, place_of(node, text))
    return bound


def constant(node: exp.Expr, text: str) -> Literal:
    """The value of an expression without columns."""
    bound = bound_constant(node, text)
    if isinstance(bound, Literal):
        return bound
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
        return constant_value(expression)
    except (OverflowError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise InputError(f"{expression} is too far away", detail="a constant is of the years 1 to 9999") from None


def folded_together(expressions: Sequence[Expression]) -> list[object] | None:
    """The values of many bound expressions that read no column, those of one form at once; None where one fails."""
    values: list[object] = [None] * len(expressions)
    forms: dict[Expression, tuple[list[int], list[list[Literal]]]] = {}
    for place, expression in enumerate(expressions):
        if isinstance(expression, Literal):
            values[place] = expression.value
        else:
            literals: list[Literal] = []
            places, given = forms.setdefault(_form(expression, literals), ([], []))
            places.append(place)
            given.append(literals)
    try:
        for form, (places, given) in forms.items():
            types = [literal.type for literal in given[0]]
            rows = [[literal.value for literal in literals] for literals in given]
            for place, value in zip(places, computed(form, types, rows), strict=True):
                values[place] = value
    except (Error, OverflowError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    return values


# What takes constants by rows as it takes columns; others may want to know them before they run.
_BY_ROWS = ("+", "-", "*", "/", "%", "||", "concat", "negative")


def _form(expression: Expression, literals: list[Literal]) -> Expression:
    """An expression with its constants put into columns, as far as it is computed alike then."""
    if isinstance(expression, Literal) and expression.type != NULL:
        literals.append(expression)
        return Column(expression.type, len(literals) - 1, "a constant")
    if isinstance(expression, Cast) or (isinstance(expression, Call) and expression.function in _BY_ROWS):
        return expression.with_children(tuple(_form(child, literals) for child in expression.children))
    return expression


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
