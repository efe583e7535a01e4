"""Texts whose condition is made of comparisons of columns with constants, taken apart without parsing them.

    condition   =  parts combined by AND, OR, NOT ( ) and parentheses
    part        =  column operator constant, column [NOT] IN (constants of one type), or
                   column BETWEEN constant AND constant, which is two of the first kind

Each comparison is bound for itself: what it is bound to depends on what stands around the condition, and on no other
comparison. So a text is known once all its comparisons are, in whatever combination. Of joins, comparisons of columns
with columns count as what stands around: they are a part of the join, which is the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.errors import TypeError
from millstream.kernel.scalar.expressions import Call, Expression, Literal, chained, conjunction, conjuncts
from millstream.kernel.scalar.literals import number_literal
from millstream.types import BOOLEAN, STRING

# A column as it is written, an operator, and the type of the constant; of a list, with how many there are.
Comparison = tuple[str, str, str]
# How comparisons are combined: one by its number, or "and", "or", "not" and what they combine.
Combined = int | tuple[Any, ...]

_VALUE = r"-?\d+(?:\.\d+)?|'[^'\\\n]*'"
_CONSTANT = rf"({_VALUE})(?=\s|\)|$)"
_COLUMN = r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)"
_WHERE = re.compile(r"\bWHERE\b(?=\s|\()", re.IGNORECASE)
_COMPARISON = re.compile(rf"{_COLUMN}\s*(<=|>=|<>|!=|<|>|=)\s*{_CONSTANT}", re.ASCII)
_BETWEEN = re.compile(rf"{_COLUMN}\s+(?i:BETWEEN)\s+{_CONSTANT}\s+(?i:AND)\s+{_CONSTANT}", re.ASCII)
_IN = re.compile(rf"{_COLUMN}\s+((?:NOT\s+)?)IN\s*\(((?:\s*(?:{_VALUE})\s*,)*\s*(?:{_VALUE})\s*)\)", re.ASCII | re.I)
_EACH = re.compile(_VALUE)
_JOINED = re.compile(rf"{_COLUMN}\s*(<=|>=|<>|!=|<|>|=){_COLUMN}(?=\s|\)|$)", re.ASCII)
_AND, _OR = (re.compile(rf"\s*{word}\b(?=\s|\()", re.IGNORECASE) for word in ("AND", "OR"))
_OPEN, _CLOSE = re.compile(r"\s*((?:NOT\s*)?)\(", re.IGNORECASE), re.compile(r"\s*\)")
_END = re.compile(r"\s*(?:$|\)|GROUP\s+BY\s)", re.IGNORECASE)
_MOST, _DEEPEST = 100, 20  # constants and parentheses; with more of them a text is not likely to be like others


@dataclass(frozen=True)
class Comparisons:
    """A text taken apart: what stands around the condition, the comparisons without their constants, these, and how the
    comparisons are combined."""

    around: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    constants: tuple[tuple[Literal, ...], ...]
    combined: Combined

    @property
    def where(self) -> int:
        """Where the condition was found."""
        return len(self.around[0])

    @property
    def inputs(self) -> tuple[str, ...] | None:
        """Which inputs the conjuncts are about, each about one, as far as the text says so."""
        found = [self._input(part) for part in _conjuncts_of(self.combined)]
        return None if None in found else tuple(dict.fromkeys(name for name in found if name is not None))

    def _input(self, part: Combined) -> str | None:
        names = {self.comparisons[number][0].rpartition(".")[0] for number in _numbers(part)}
        return names.pop() or None if len(names) == 1 else None

    def by_input(self, inputs: Sequence[str]) -> Comparisons:
        """With the conjuncts about one input before those about the next."""
        parts = sorted(_conjuncts_of(self.combined), key=lambda part: inputs.index(self._input(part) or ""))
        order = [number for part in parts for number in _numbers(part)]
        combined = _renumbered(("and", *parts) if len(parts) > 1 else parts[0], order)
        comparisons, constants = ([given[number] for number in order] for given in (self.comparisons, self.constants))
        return Comparisons(self.around, tuple(comparisons), tuple(constants), combined)  # type: ignore[arg-type]

    def bound(self, parts: Sequence[Expression]) -> Expression:
        """The condition as it would be bound, given what each comparison is."""
        return conjunction(conjuncts(_bound(self.combined, parts)))


def _conjuncts_of(combined: Combined) -> list[Combined]:
    return list(combined[1:]) if isinstance(combined, tuple) and combined[0] == "and" else [combined]


def _numbers(combined: Combined) -> list[int]:
    if isinstance(combined, int):
        return [combined]
    return [number for operand in combined[1:] for number in _numbers(operand)]


def _renumbered(combined: Combined, order: Sequence[int]) -> Combined:
    if isinstance(combined, int):
        return order.index(combined)
    return combined[0], *(_renumbered(operand, order) for operand in combined[1:])


def _bound(combined: Combined, parts: Sequence[Expression]) -> Expression:
    if isinstance(combined, int):
        return parts[combined]
    function, *operands = combined
    own = [_bound(operand, parts) for operand in operands]
    return Call(BOOLEAN, "not", tuple(own)) if function == "not" else chained(function, own)


class _NotPlain(Exception):
    """The condition has something else in it."""


class _Reading:
    """Goes through a condition, from a place of the text on."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at
        self.comparisons, self.constants = list[Comparison](), list[tuple[Literal, ...]]()
        self.joined = list[str]()
        self._left = _MOST

    def of_join(self) -> Combined:
        """Conjuncts among which columns are compared with columns."""
        parts = list[Combined]()
        while True:
            if found := self._passes(_JOINED):
                self.joined.append(" ".join(found.groups()))
            else:
                parts.append(self._part(0))
            if not self._passes(_AND):
                break
        if not parts:
            raise _NotPlain
        return ("and", *parts) if len(parts) > 1 else parts[0]

    def alternatives(self, depth: int = 0) -> Combined:
        return self._chain("or", _OR, self._conjuncts, depth)

    def _conjuncts(self, depth: int) -> Combined:
        return self._chain("and", _AND, self._part, depth)

    def _chain(self, function: str, word: re.Pattern[str], read: Callable[[int], Combined], depth: int) -> Combined:
        parts = [read(depth)]
        while self._passes(word):
            parts.append(read(depth))
        return (function, *parts) if len(parts) > 1 else parts[0]

    def _part(self, depth: int) -> Combined:
        if found := self._passes(_OPEN):
            if depth == _DEEPEST:
                raise _NotPlain
            inside = self.alternatives(depth + 1)
            if not self._passes(_CLOSE):
                raise _NotPlain
            return ("not", inside) if found[1] else inside
        if found := self._passes(_COMPARISON):
            return self._compared(found[1], found[2], found[3])
        if found := self._passes(_BETWEEN):
            return "and", self._compared(found[1], ">=", found[2]), self._compared(found[1], "<=", found[3])
        if found := self._passes(_IN):
            values = _EACH.findall(found[3])
            inside = self._compared(found[1], f"in {len(values)}", *values)
            return ("not", inside) if found[2] else inside
        raise _NotPlain

    def _compared(self, column: str, operator: str, *written: str) -> int:
        self._left -= len(written)
        constants = [] if self._left < 0 else [_constant(each) for each in written]
        found = tuple([constant for constant in constants if constant is not None])
        if len(found) < len(written) or len({constant.type for constant in found}) > 1:
            raise _NotPlain
        self.comparisons.append((column, operator, str(found[0].type)))
        self.constants.append(found)
        return len(self.constants) - 1

    def _passes(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found


def comparisons_in(text: str) -> Comparisons | None:
    """None where the condition is another one. Whether WHERE means what it says here, in no comment or constant, is
    known where a text with the same around the condition was parsed."""
    begin = _WHERE.search(text)
    if begin is None:
        return None
    for read in (_Reading.alternatives, _Reading.of_join):
        reading = _Reading(text, begin.end())
        try:
            combined = read(reading)
        except _NotPlain:
            continue
        if _END.match(text, reading.at) is not None:
            around = text[: begin.start()], text[reading.at :], *reading.joined
            return Comparisons(around, tuple(reading.comparisons), tuple(reading.constants), combined)
    return None


def _constant(written: str) -> Literal | None:
    if written.startswith("'"):
        return Literal(STRING, written[1:-1])
    try:
        return number_literal(written)
    except TypeError:
        return None
