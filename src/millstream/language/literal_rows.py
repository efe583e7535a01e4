"""INSERT .. VALUES of plain constants, read without building a syntax tree: thousands of rows come that way.

A statement is read so only where all its values are numbers, texts, NULL, truth values, DATE, TIMESTAMP or CAST of
those. Its rows but the first are taken out of the text before this is cut into tokens, and so are the statements behind
it that begin alike: scripts have thousands of those. Anything else is left to the parser, and so is everything that
turns out to be wrong: it knows where.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import polars as pl

from millstream.errors import Error
from millstream.kernel.batch import value_column
from millstream.kernel.scalar.coercion import can_cast
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Cast, Column, Expression
from millstream.kernel.scalar.literals import convert_number, number_literal
from millstream.language.literal_lists import UNSURE
from millstream.types import BOOLEAN, NULL, STRING, DataType, Schema, to_polars

_TEXT = r"'(?P<text>(?:[^'\\]|'')*)'(?!')"
_TYPE = r"[A-Za-z_]+(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?"
_NUMBER = r"(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYFD])?)(?![\w.])"
_VALUE = re.compile(
    rf"\s*(?:{_NUMBER}|{_TEXT}|(?P<word>NULL|TRUE|FALSE)(?!\w)"
    rf"|(?P<kind>DATE|TIMESTAMP_NTZ|TIMESTAMP)\s*'(?P<typed>[^'\\]*)'(?!')"
    rf"|CAST\s*\(\s*(?:(?P<cast_number>-?\d+(?:\.\d+)?)|'(?P<cast_text>[^'\\]*)'(?!'))\s+AS\s+(?P<to>{_TYPE})\s*\)"
    r")\s*(?P<next>[,)])",
    re.IGNORECASE,
)
_HEAD = re.compile(
    r"INSERT\s+INTO\s+(?:`[^`]+`|[A-Za-z]\w*)\s*(?:\(\s*(?:[A-Za-z]\w*|`[^`]+`)(?:\s*,\s*(?:[A-Za-z]\w*|`[^`]+`))*\s*\)\s*)?"
    r"VALUES\s*(?=\()",
    re.IGNORECASE,
)
_OPEN = re.compile(r"\s*\(")
_BETWEEN = re.compile(r"\s*,(?=\s*\()")
_BLANK = re.compile(r"(?:\s++|--[^\n]*+)*+")
_END = re.compile(r"\s*+(?:;|\Z)")
# What a statement that is no such INSERT ends with, past quotations and comments.
_LOOK = re.compile(r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+"|`[^`]*+`|--[^\n]*+|;""", re.S)


class Constant(NamedTuple):
    """A constant, and the type that it is cast to, if it is."""

    type: DataType
    value: object
    to: DataType | None = None


_WORDS = {"null": Constant(NULL, None), "true": Constant(BOOLEAN, True), "false": Constant(BOOLEAN, False)}
LiteralRows = tuple[tuple[Constant, ...], ...]


class PlainInsert(NamedTuple):
    """An INSERT of plain constants in a text: where it begins, where its first row and its last one end."""

    head: str
    start: int
    first_end: int
    end: int
    rows: LiteralRows


def plain_inserts(text: str) -> list[list[PlainInsert]]:
    """The INSERTs of plain constants in a text, those together that follow upon each other and begin alike."""
    found: list[list[PlainInsert]] = []
    at: int | None = 0
    last = ""  # what the statement before begins with, if it is such a one and ends with its rows
    while at is not None and at < len(text):
        blank = _BLANK.match(text, at)
        at = blank.end() if blank is not None else at
        plain = _plain_insert(text, at)
        ending = None if plain is None else _END.match(text, plain.end)
        if plain is not None and ending is not None and plain.head == last:
            found[-1].append(plain)
        elif plain is not None:
            found.append([plain])
        last = "" if plain is None or ending is None else plain.head
        at = _next_statement(text, at if plain is None else plain.end) if ending is None else ending.end()
    return found


def _next_statement(text: str, at: int) -> int | None:
    """Where the statement behind this one begins; None where that is not certain."""
    start = at
    while (found := _LOOK.search(text, at)) is not None:
        at = found.end()
        if found[0][0] == ";":
            return None if UNSURE.search(text, start, at) else at
    return None


def _plain_insert(text: str, start: int) -> PlainInsert | None:
    head = _HEAD.match(text, start)
    if head is None:
        return None
    rows: list[tuple[Constant, ...]] = []
    at, first_end = head.end(), 0
    try:
        while True:
            opening = _OPEN.match(text, at)
            if opening is None:
                return None
            at, row = opening.end(), []
            while True:
                found = _VALUE.match(text, at)
                if found is None:
                    return None
                row.append(_constant(found))
                at = found.end()
                if found["next"] == ")":
                    break
            rows.append(tuple(row))
            first_end = first_end or at
            between = _BETWEEN.match(text, at)
            if between is None:
                return PlainInsert(head[0], start, first_end, at, tuple(rows))
            at = between.end()
    except Error:
        return None  # the parser says where


def _constant(found: re.Match[str]) -> Constant:
    if (number := found["number"]) is not None:
        return _number(number)
    if (text := found["text"]) is not None:
        return Constant(STRING, text.replace("''", "'"))
    if (word := found["word"]) is not None:
        return _WORDS[word.lower()]
    if (kind := found["kind"]) is not None:
        return Constant(STRING, found["typed"], _type(kind))
    source = _number(found["cast_number"]) if found["cast_number"] else Constant(STRING, found["cast_text"])
    return source._replace(to=_type(found["to"]))


@lru_cache(maxsize=4096)
def _number(text: str) -> Constant:
    literal = number_literal(text)
    return Constant(literal.type, literal.value)


@lru_cache(maxsize=256)
def _type(text: str) -> DataType:
    from millstream.language.statement_parser import parse_type

    return parse_type(text)


def assigned(constants: Sequence[Constant], kind: DataType) -> list[object] | None:
    """The values of constants for a column; None where one cannot be assigned, or its cast fails."""
    values: list[object] = [None] * len(constants)
    alike: dict[tuple[DataType, DataType | None], list[int]] = {}
    for place, (source, _, to) in enumerate(constants):
        alike.setdefault((source, to), []).append(place)
    try:
        for (source, to), places in alike.items():
            if not is_assignable(to or source, kind):
                return None
            made = _converted([constants[place].value for place in places], source, to, kind)
            for place, value in zip(places, made, strict=True):
                values[place] = value
    except (Error, OverflowError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    return values


def _converted(values: list[object], source: DataType, to: DataType | None, kind: DataType) -> Sequence[object]:
    if source == NULL or (to is None and source == kind):
        return values
    if to is None:
        numbers = [convert_number(value, kind) for value in values]
        if None not in numbers:
            return numbers
    return _cast(source, (kind,) if to is None else (to, kind), values)


def is_assignable(source: DataType, kind: DataType) -> bool:
    """As ANSI assigns: numbers to numbers, texts only to texts, timestamps also from their text."""
    if source.element is not None and kind.element is not None:
        return is_assignable(source.element, kind.element)
    same = source in (kind, NULL) or (source.is_numeric and kind.is_numeric)
    temporal = kind.is_temporal and (source.is_temporal or source == STRING)
    return (same or temporal) and can_cast(source, kind)


def _cast(source: DataType, casts: tuple[DataType, ...], values: list[object]) -> list[object]:
    expression: Expression = Column(source, 0, "a constant")
    for target in casts:
        if not can_cast(expression.type, target):
            raise Error("no such cast")
        if expression.type != target:
            expression = Cast(target, expression, False)
    return computed(expression, [source], [(value,) for value in values])


def computed(form: Expression, types: Sequence[DataType], rows: Sequence[Sequence[object]]) -> list[object]:
    """The values of an expression over rows of constants, which it reads as columns."""
    columns: dict[str, pl.Series] = {"_row": pl.Series(range(len(rows)))}
    for index, (kind, values) in enumerate(zip(types, zip(*rows, strict=True), strict=True)):
        columns[value_column(index)] = pl.Series(values, dtype=to_polars(kind))
    return evaluate(pl.DataFrame(columns), [form], ["value"]).to_series().to_list()


def by_position(
    rows: LiteralRows, positions: Sequence[int], columns: Schema, defaults: Sequence[object]
) -> list[tuple[object, ...]] | None:
    """The rows in the order of the columns, of which those that are not among the positions have their defaults."""
    if any(len(row) != len(positions) for row in rows):
        return None
    found: list[Sequence[object]] = [[default] * len(rows) for default in defaults]
    for given, index in enumerate(positions):
        values = assigned([row[given] for row in rows], columns[index].type)
        if values is None:
            return None
        found[index] = values
    return list(zip(*found, strict=True))
