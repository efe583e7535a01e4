"""Texts that differ only in their constants, told without parsing them.

A text is cut into tokens, and constants are taken out, but for their types: what is left is the same for all texts that
bind to the same plan but for constants. Which constant ends up where in the plan is found out by binding the text once
more with marks in their place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from millstream.errors import TypeError
from millstream.kernel.scalar.expressions import Literal
from millstream.kernel.scalar.literals import convert_number, number_literal
from millstream.language.dialect import CQL
from millstream.types import BIGINT, DOUBLE, INT, STRING, DataType

_LONG = 10_000  # characters; a group with so many constants would have no use of it
_MARKED = (INT, BIGINT, DOUBLE, STRING)


@dataclass(frozen=True)
class Masked:
    """A text without its constants: the tokens, the constants with their places in the text, and the place of WHERE, if
    there is one."""

    tokens: tuple[str, ...]
    constants: tuple[Literal, ...]
    places: tuple[tuple[int, int], ...]
    where: int | None


def masked(text: str) -> Masked | None:
    """None where the text is very long, or cannot be cut into tokens; the parser will say why."""
    if len(text) > _LONG:
        return None
    tokens: list[str] = []
    constants: list[Literal] = []
    places: list[tuple[int, int]] = []
    wheres: list[int] = []
    try:
        for token in CQL().tokenize(text):
            if token.token_type not in (TokenType.NUMBER, TokenType.STRING):
                tokens.append(token.text)
                if token.token_type == TokenType.WHERE:
                    wheres.append(token.start)
                continue
            is_text = token.token_type == TokenType.STRING
            constant = Literal(STRING, token.text) if is_text else number_literal(token.text)
            tokens.append(f"?{constant.type}")
            constants.append(constant)
            places.append((token.start, token.end + 1))
    except (TokenError, TypeError):
        return None
    where = wheres[0] if len(wheres) == 1 else None
    return Masked(tuple(tokens), tuple(constants), tuple(places), where)


def in_conditions(query: exp.Query, found: Masked) -> list[int]:
    """Which of the constants stand in WHERE, and are of types that marks can be made of."""
    starts = {
        literal.meta.get("start") for where in query.find_all(exp.Where) for literal in where.find_all(exp.Literal)
    }
    return [
        number
        for number, (place, constant) in enumerate(zip(found.places, found.constants, strict=True))
        if place[0] in starts and (constant.type in _MARKED or constant.type.is_decimal)
    ]


def markable(found: Masked) -> list[int]:
    """Which of the constants are of types that marks can be made of."""
    return [n for n, constant in enumerate(found.constants) if constant.type in _MARKED or constant.type.is_decimal]


def with_marks(text: str, found: Masked, wanted: Sequence[int]) -> tuple[str, dict[int, Literal]]:
    """The text with marks in the place of some constants: different values of the same types."""
    marks = {number: _mark(found.constants[number].type, place) for place, number in enumerate(wanted)}
    for number in sorted(wanted, reverse=True):
        start, end = found.places[number]
        text = text[:start] + written(marks[number]) + text[end:]
    return text, marks


def _mark(kind: DataType, place: int) -> Literal:
    if kind == STRING:
        return Literal(STRING, f"mark {place}")
    if kind == DOUBLE:
        return Literal(DOUBLE, 7.0 + place / 8)
    if kind.is_decimal:
        return Literal(kind, Decimal(10 ** (kind.precision - 1) + place).scaleb(-kind.scale))
    return Literal(
        kind, (3_000_000_000 if kind == BIGINT else 1_000_003) + place
    )  # of weeks, too, ticks can be counted


def written(mark: Literal) -> str:
    if mark.type == STRING:
        return f"'{mark.value}'"
    return f"{mark.value!r}e0" if mark.type == DOUBLE else str(mark.value)


def converted(constant: Literal, kind: DataType) -> object | None:
    """A constant's value as a parameter of some type has it, as binding would convert it; None where not known."""
    if constant.type == kind:
        return constant.value
    return convert_number(constant.value, kind) if kind == DOUBLE or kind.is_integer or kind.is_decimal else None


@dataclass(frozen=True)
class ConstantSource:
    """Where the value of a parameter comes from: a constant of the text, so many times; or none that differs."""

    constant: int | None
    times: int = 1
    value: object = None

    def value_in(self, found: Masked, kind: DataType) -> object | None:
        """None where the constant is not of the parameter's type."""
        if self.constant is None:
            return self.value
        value = converted(found.constants[self.constant], kind)
        return value * self.times if self.times != 1 and isinstance(value, int | float | Decimal) else value


def sources_of(
    values: Sequence[object], kinds: Sequence[DataType], marks: dict[int, Literal], durations: Collection[int] = ()
) -> tuple[ConstantSource, ...] | None:
    """Where each value comes from, those that are `durations` in some unit; None unless that is clear, and every mark
    is found again."""
    sources: list[ConstantSource] = []
    for place, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        found = [
            ConstantSource(number, times)
            for number, mark in marks.items()
            if (times := _times(value, converted(mark, kind), any_unit=place in durations))
        ]
        if len(found) > 1:
            return None
        sources += found or [ConstantSource(None, value=value)]
    return tuple(sources) if {source.constant for source in sources} >= marks.keys() else None


def _times(value: object, mark: object, *, any_unit: bool) -> int:
    """How many times a mark a value is: once, or less than nothing, but for units; 0 where it has nothing to do with
    it."""
    if value == mark and type(value) is type(mark):
        return 1
    if any_unit and isinstance(value, int) and isinstance(mark, int) and value % mark == 0:
        return value // mark
    is_number = isinstance(value, int | float | Decimal) and isinstance(mark, int | float | Decimal)
    return -1 if is_number and value == -mark else 0  # type: ignore[operator]
