"""Function entries: what a function takes, what it gives, and how it is computed, side by side.

A rule maps argument expressions to the types they are cast to and the type of the result. Most rules are a row of
slots; a slot accepts some types and says which type an accepted argument is cast to, as Spark's ANSI mode would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from millstream.kernel.scalar.coercion import can_cast
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.scalar.outcome import Outcome
from millstream.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    MONTHS,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DataType,
)


@dataclass(frozen=True)
class Slot:
    """One argument position: `accept` gives the type that an argument is cast to, or None to refuse it."""

    name: str
    accept: Callable[[DataType], DataType | None]


@dataclass(frozen=True)
class Signature:
    """What the arguments are cast to, and the type of the result."""

    arguments: tuple[DataType, ...]
    result: DataType


@dataclass(frozen=True)
class TypeRule:
    """`takes` is shown to users; `bind` gives the signature, or None where the arguments do not fit."""

    takes: str
    bind: Callable[[Sequence[Expression]], Signature | None]


# Called with the bound node (for its types and constants) and one Polars expression per argument.
Evaluation = Callable[..., pl.Expr | Outcome]


@dataclass(frozen=True)
class Function:
    """A scalar function or operator.

    `reads_once` promises that the evaluation uses each argument once, so that nested calls become one Polars
    expression; other functions have their arguments computed into columns first. `proceeds` is for functions that
    stop early: the rows on which, given one argument's value, the arguments after it are evaluated too. `is_local` are
    functions that read clocks: in a session that is not in UTC their TIMESTAMPs are those of its zone.
    """

    name: str
    rule: TypeRule
    evaluate: Evaluation
    aliases: tuple[str, ...] = ()
    reads_once: bool = False
    proceeds: Callable[[pl.Expr], pl.Expr] | None = None
    is_local: bool = False


@dataclass(frozen=True)
class Rewrite:
    """A function that is another way to write an expression; `build` gives None where the arguments do not fit."""

    name: str
    takes: str
    build: Callable[[Sequence[Expression]], Expression | None]
    aliases: tuple[str, ...] = ()


ResultType = DataType | Callable[[tuple[DataType, ...]], DataType]


def row(*slots: Slot, optional: int = 0, result: ResultType) -> TypeRule:
    """A rule that checks position by position; the last `optional` slots may be left out."""
    required = len(slots) - optional

    def bind(arguments: Sequence[Expression]) -> Signature | None:
        if not required <= len(arguments) <= len(slots):
            return None
        return _fit([slot for slot, _ in zip(slots, arguments, strict=False)], arguments, result)

    shown = [slot.name for slot in slots[:required]] + [f"[{slot.name}]" for slot in slots[required:]]
    return TypeRule("(" + ", ".join(shown) + ")", bind)


def many(slot: Slot, *, first: Slot | None = None, at_least: int = 1, result: ResultType) -> TypeRule:
    """A rule for any number of arguments of one kind, after an optional first one of its own."""

    def bind(arguments: Sequence[Expression]) -> Signature | None:
        if len(arguments) < at_least:
            return None
        slots = [slot] * len(arguments)
        if first is not None:
            slots[0] = first
        return _fit(slots, arguments, result)

    return TypeRule(f"({f'{first.name}, ' if first else ''}{slot.name}, ...)", bind)


def _fit(slots: Sequence[Slot], arguments: Sequence[Expression], result: ResultType) -> Signature | None:
    types: list[DataType] = []
    for slot, argument in zip(slots, arguments, strict=True):
        accepted = slot.accept(argument.type)
        if accepted is None:
            return None
        types.append(accepted)
    return Signature(tuple(types), result if isinstance(result, DataType) else result(tuple(types)))


def _slot(name: str, *accepted: DataType, to: DataType | None = None) -> Slot:
    """Types that stand as they are (or become `to`), and NULL and strings, which take the last of them."""
    target = to or accepted[-1]

    def accept(kind: DataType) -> DataType | None:
        if kind in (NULL, STRING):
            return target
        return (to or kind) if kind in accepted else None

    return Slot(name, accept)


def _accept_number(kind: DataType) -> DataType | None:
    if kind.is_numeric:
        return kind
    return DOUBLE if kind in (STRING, NULL) else None


ANY = Slot("any", lambda kind: kind)
TEXT = Slot("string", lambda kind: STRING if can_cast(kind, STRING) and not kind.is_list else None)
NUMBER = Slot("number", _accept_number)
REAL = Slot("number", lambda kind: DOUBLE if _accept_number(kind) else None)
WHOLE = Slot("integer", lambda kind: INT if _accept_number(kind) else None)
DAYS = _slot("days", TINYINT, SMALLINT, INT, to=INT)
LONG = Slot("integer", lambda kind: BIGINT if kind.is_integer or kind == NULL else None)
CONDITION = _slot("boolean", BOOLEAN)
DAY = _slot("date", DATE, TIMESTAMP, TIMESTAMP_NTZ, to=DATE)
INSTANT = _slot("timestamp", DATE, TIMESTAMP, TIMESTAMP_NTZ, to=TIMESTAMP)
STAMP = Slot("timestamp", lambda kind: TIMESTAMP if kind in (TIMESTAMP, TIMESTAMP_NTZ, NULL) else None)
NUMBER_OR_INTERVAL = Slot(
    "number or interval", lambda kind: kind if kind in (INTERVAL, MONTHS) else _accept_number(kind)
)


def first_type(types: tuple[DataType, ...]) -> DataType:
    return types[0]
