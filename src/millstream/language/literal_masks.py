"""Texts that differ only in their constants, told without parsing them.

A text is cut into tokens, and constants are taken out, but for their types: what is left is the same for all texts that
bind to the same plan but for constants. Which constant ends up where in the plan is found out by binding the text once
more with marks in their place.

Of a condition that is a conjunction of comparisons of columns with constants, each comparison is bound for itself. So
texts are known, too, all of whose comparisons have been bound before, in whatever combination.
"""

from __future__ import annotations

from collections.abc import Sequence
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
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_CONSTANTS = (TokenType.NUMBER, TokenType.STRING)
_OPERATORS = (TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE)
_ENDS = (TokenType.GROUP_BY, TokenType.R_PAREN)  # of a WHERE clause


@dataclass(frozen=True)
class Masked:
    """A text without its constants: the tokens and what they are, and the constants with their places in the text."""

    tokens: tuple[str, ...]
    kinds: tuple[TokenType, ...]
    constants: tuple[Literal, ...]
    places: tuple[tuple[int, int], ...]


def masked(text: str) -> Masked | None:
    """None where the text is very long, or cannot be cut into tokens; the parser will say why."""
    if len(text) > _LONG:
        return None
    tokens: list[str] = []
    kinds: list[TokenType] = []
    constants: list[Literal] = []
    places: list[tuple[int, int]] = []
    try:
        for token in CQL().tokenize(text):
            kinds.append(token.token_type)
            if token.token_type not in _CONSTANTS:
                tokens.append(token.text)
                continue
            is_text = token.token_type == TokenType.STRING
            constant = Literal(STRING, token.text) if is_text else number_literal(token.text)
            tokens.append(f"?{constant.type}")
            constants.append(constant)
            places.append((token.start, token.end + 1))
    except (TokenError, TypeError):
        return None
    return Masked(tuple(tokens), tuple(kinds), tuple(constants), tuple(places))


@dataclass(frozen=True)
class Comparisons:
    """A text with a condition that is a conjunction of comparisons of columns with constants: what stands around it,
    the comparisons without their constants, and these."""

    around: tuple[object, ...]
    comparisons: tuple[tuple[str, ...], ...]
    constants: tuple[Literal, ...]


def comparisons_in(found: Masked) -> Comparisons | None:
    """None where the text has another condition, or none, or several."""
    kinds, tokens = found.kinds, found.tokens
    if kinds.count(TokenType.WHERE) != 1:
        return None
    begin = at = kinds.index(TokenType.WHERE) + 1
    comparisons = []
    while True:
        end = _end_of_comparison(kinds, at)
        if end is None:
            return None
        comparisons.append(tokens[at:end])
        if kinds[end : end + 1] != (TokenType.AND,):
            break
        at = end + 1
    if end < len(kinds) and kinds[end] not in _ENDS:
        return None
    first = sum(kind in _CONSTANTS for kind in kinds[:begin])
    last = first + len(comparisons)
    around = tokens[:begin], kinds[:begin], tokens[end:], kinds[end:], found.constants[:first], found.constants[last:]
    return Comparisons(around, tuple(comparisons), found.constants[first:last])


def _end_of_comparison(kinds: tuple[TokenType, ...], at: int) -> int | None:
    """Where a comparison ends that begins at a place, if there is one."""
    if kinds[at : at + 1] and kinds[at + 1 : at + 2] == (TokenType.DOT,):
        if kinds[at] not in _NAMES:
            return None
        at += 2
    if len(kinds) < at + 3:
        return None
    name, operator, constant = kinds[at : at + 3]
    return at + 3 if name in _NAMES and operator in _OPERATORS and constant in _CONSTANTS else None


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


def with_marks(text: str, found: Masked, wanted: Sequence[int]) -> tuple[str, dict[int, Literal]]:
    """The text with marks in the place of some constants: different values of the same types."""
    marks = {number: _mark(found.constants[number].type, place) for place, number in enumerate(wanted)}
    for number in sorted(wanted, reverse=True):
        start, end = found.places[number]
        text = text[:start] + _written(marks[number]) + text[end:]
    return text, marks


def _mark(kind: DataType, place: int) -> Literal:
    if kind == STRING:
        return Literal(STRING, f"mark {place}")
    if kind == DOUBLE:
        return Literal(DOUBLE, 7.0 + place / 8)
    if kind.is_decimal:
        return Literal(kind, Decimal(10 ** (kind.precision - 1) + place).scaleb(-kind.scale))
    return Literal(kind, (3_000_000_000 if kind == BIGINT else 300_000_000) + place)


def _written(mark: Literal) -> str:
    if mark.type == STRING:
        return f"'{mark.value}'"
    return f"{mark.value!r}e0" if mark.type == DOUBLE else str(mark.value)


def converted(constant: Literal, kind: DataType) -> object | None:
    """A constant's value as a parameter of some type has it, as binding would convert it; None where not known."""
    if constant.type == kind:
        return constant.value
    return convert_number(constant.value, kind) if kind == DOUBLE or kind.is_integer or kind.is_decimal else None


def sources_of(
    values: Sequence[object], kinds: Sequence[DataType], marks: dict[int, Literal]
) -> tuple[int, ...] | None:
    """Which constant each value comes from; None unless that is clear, and every mark is found again."""
    sources = []
    for value, kind in zip(values, kinds, strict=True):
        found = [number for number, mark in marks.items() if converted(mark, kind) == value]
        if len(found) != 1:
            return None
        sources.append(found[0])
    return tuple(sources) if set(sources) == set(marks) else None
