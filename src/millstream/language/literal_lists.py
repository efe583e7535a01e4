"""Long lists of plain constants in `IN (1, 2, ..)`, cut into tokens and parsed as one thing each.

Lists of a hundred thousand constants are written by programs; a token and a syntax node for each would take seconds. So
a list is taken out of the text before this is cut into tokens, with one number standing for it, and tokens behind it
are told where they really are. Only numbers and texts without escapes are taken so, and only where it is certain that
the text is no comment and no quotation: all else is left to the parser.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from millstream.kernel.scalar.expressions import Literal
from millstream.kernel.scalar.literals import number_literal
from millstream.language.syntax import LiteralList, spanned
from millstream.types import INT, STRING

_LONG = 2_000  # characters of a list
_NUMBER = r"-?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?+\d++)?+(?:BD|[LSYFD])?+(?![\w.])"
_ITEM = rf"\s*+(?:{_NUMBER}|'[^'\\]*+')\s*+"
_LIST = re.compile(rf"(?:{_ITEM},)*+{_ITEM}(?=\))", re.IGNORECASE)
# Quotations and comments are skipped; what begins a list is looked at.
_LOOK = re.compile(
    r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+"|`[^`]*+`|--[^\n]*+|\bIN\s*+\((?=\s*+[-'.\d])""", re.I | re.S
)
# Where these are in a text, quotations may end elsewhere.
UNSURE = re.compile(r"""/\*|\$\$|\b[rR]['"]|\{[{%#]""")
_EACH = re.compile(rf"({_NUMBER})|'([^'\\]*+)'", re.IGNORECASE)
_SMALL = re.compile(r"-?\d{1,9}")


def without_lists(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text with a number for each long list of constants, and the places of the lists in the text."""
    if len(text) < _LONG or UNSURE.search(text):
        return text, []
    places: list[tuple[int, int]] = []
    at = 0
    while (found := _LOOK.search(text, at)) is not None:
        at = found.end()
        if text[at - 1] == "(" and (whole := _LIST.match(text, at)) is not None:
            if whole.end() - at >= _LONG:
                places.append((at, whole.end()))
            at = whole.end()
    return without(text, places, "0"), places


def without(text: str, places: Sequence[tuple[int, int]], instead: str) -> str:
    """The text with one character instead of what stands at each of the places."""
    parts, last = [], 0
    for start, end in places:
        parts += [text[last:start], instead]
        last = end
    return "".join([*parts, text[last:]])


def put_back(tokens: list[Any], places: Sequence[tuple[int, int]]) -> None:
    """Tell tokens of the shortened text where they are in the whole one."""
    starts, taken = _shifts(places)
    for token in tokens:
        before = bisect_right(starts, token.start)
        is_list = before > 0 and starts[before - 1] == token.start
        if is_list:
            token.start, token.end = places[before - 1][0], places[before - 1][1] - 1
        else:
            token.start, token.end = token.start + taken[before], token.end + taken[before]


def moved(spans: Sequence[tuple[int, int]], places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of a shortened text, where they are in the whole one."""
    starts, taken = _shifts(places)
    shifts = [taken[bisect_right(starts, start)] for start, _ in spans]
    return [(start + shift, end + shift) for (start, end), shift in zip(spans, shifts, strict=True)]


def _shifts(places: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Where the places are in the shortened text, and how much is missing before each and behind the last."""
    taken, starts = [0], []
    for start, end in places:
        starts.append(start - taken[-1])
        taken.append(taken[-1] + end - start - 1)
    return starts, taken


def list_node(text: str, start: int, end: int) -> exp.Expr:
    node = LiteralList(this=text[start:end])
    spanned(node, start, end)
    return node


def constants(node: LiteralList) -> list[Literal]:
    return [
        (Literal(INT, int(number)) if _SMALL.fullmatch(number) else number_literal(number))
        if number
        else Literal(STRING, text)
        for number, text in _EACH.findall(node.this)
    ]
