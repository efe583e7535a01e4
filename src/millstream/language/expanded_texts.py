"""The texts of many queries with all defaults written out, of which only one of each kind is bound.

Queries of a template differ in the values of its parameters, and texts that were said one by one perhaps in constants
of WHERE only: what stands around these is found once, and the others' are put in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.errors import Error
from millstream.language.bind_parameters import constant
from millstream.language.dialect import CQL
from millstream.language.literal_masks import in_conditions, masked, with_marks, written
from millstream.language.statement_parser import parse_query
from millstream.language.syntax import numbered_parameters

_CONSTANT = re.compile(r"'(?:[^'\\]|''|\\.)*'|(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w)")
_SIMPLE = re.compile(r"[\w .,:;@#%&/()+*=<>!?\[\]-]*", re.ASCII)


@dataclass(frozen=True)
class _Cut:
    """A text cut at some of its constants: which one comes after each piece but the last; the others, which stay."""

    pieces: tuple[str, ...]
    order: tuple[int, ...]
    fixed: tuple[tuple[int, str], ...]

    def filled(self, constants: Sequence[str]) -> str:
        parts = (f"{piece}{constants[number]}" for piece, number in zip(self.pieces, self.order, strict=False))
        return "".join([*parts, self.pieces[-1]])


def texts_of_template(template: str, values: Iterator[Sequence[Any]]) -> list[str]:
    """The texts of queries of a template, by their values."""
    places = [(node.meta["start"], node.meta["end"] + 1) for node in numbered_parameters(parse_query(template))]
    cut = _cut(template, places, range(len(places)))
    return [cut.filled([*map(_written, row)]) for row in values]


class ExpandedTexts:
    """Remembers the kinds of texts that it has seen."""

    def __init__(self, expand: Callable[[str], str]) -> None:
        self._expand = expand  # one text, by binding it
        self._known: dict[str, _Cut | None] = {}

    def of(self, text: str) -> str:
        key, constants = _CONSTANT.sub("?", text), _CONSTANT.findall(text)
        if key not in self._known:
            self._known[key] = self._learned(text, constants)
        cut = self._known[key]
        if cut is None or any(constants[number] != said for number, said in cut.fixed):
            return self._expand(text)
        return cut.filled(constants)

    def _learned(self, text: str, constants: Sequence[str]) -> _Cut | None:
        """Where the constants of a text are in what it expands to; None where that is not clear."""
        found = masked(text)
        spans = tuple(match.span() for match in _CONSTANT.finditer(text))
        if found is None or found.places != spans:
            return None
        try:
            probe, marks = with_marks(text, found, in_conditions(parse_query(text), found))
            expanded = self._expand(probe)
        except Error:
            return None
        shown = {number: written(mark) for number, mark in marks.items()}
        if any(expanded.count(mark) != 1 for mark in shown.values()):
            return None
        order = sorted(shown, key=lambda number: expanded.index(shown[number]))
        places = [(start := expanded.index(shown[number]), start + len(shown[number])) for number in order]
        fixed = tuple((number, said) for number, said in enumerate(constants) if number not in shown)
        cut = _cut(expanded, places, order, fixed)
        return cut if cut.filled(constants) == self._expand(text) else None


def _cut(
    text: str, places: Sequence[tuple[int, int]], order: Sequence[int], fixed: tuple[tuple[int, str], ...] = ()
) -> _Cut:
    ends = [0, *(end for _, end in places)]
    starts = [*(start for start, _ in places), len(text)]
    return _Cut(tuple(text[end:start] for end, start in zip(ends, starts, strict=True)), tuple(order), fixed)


def _written(value: object) -> str:
    """As a text says a value; most need no tree for that."""
    if type(value) is int:
        return str(value)
    if type(value) is float and math.isfinite(value):
        return repr(value) if "e" in repr(value) else f"{value!r}e0"
    if type(value) is str and _SIMPLE.fullmatch(value):
        return f"'{value}'"
    return constant(value).sql(dialect=CQL)
