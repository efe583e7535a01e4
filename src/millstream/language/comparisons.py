"""Texts whose condition is a conjunction of comparisons of columns with constants, taken apart without parsing them.

Each comparison is bound for itself: what it is bound to depends on what stands around the condition, and on no other
comparison. So a text is known once all its comparisons are, in whatever combination.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from millstream.errors import TypeError
from millstream.kernel.scalar.expressions import Literal
from millstream.kernel.scalar.literals import number_literal
from millstream.types import STRING

Comparison = tuple[str, str, str]  # a column as it is written, an operator, and the type of the constant

_COMPARISON = r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)\s*(<=|>=|<>|!=|<|>|=)\s*(-?\d+(?:\.\d+)?|'[^'\\\n]*')(?=\s|\)|$)"
_WHERE = re.compile(r"\bWHERE\s", re.IGNORECASE)
_FIRST = re.compile(rf"\s*{_COMPARISON}", re.ASCII)
_NEXT = re.compile(rf"\s+(?i:AND)\s+{_COMPARISON}", re.ASCII)
_END = re.compile(r"\s*(?:$|\)|GROUP\s+BY\s)", re.IGNORECASE)
_MOST = 100  # comparisons; with more of them a text is not likely to be like others


@dataclass(frozen=True)
class Comparisons:
    """A text taken apart: what stands around the condition, the comparisons without their constants, and these."""

    around: tuple[str, str]
    comparisons: tuple[Comparison, ...]
    constants: tuple[Literal, ...]

    @property
    def where(self) -> int:
        """Where the condition was found."""
        return len(self.around[0])


def comparisons_in(text: str) -> Comparisons | None:
    """None where the condition is another one. Whether WHERE means what it says here, in no comment or constant, is
    known where a text with the same around the condition was parsed."""
    begin = _WHERE.search(text)
    found = None if begin is None else _FIRST.match(text, begin.end())
    if begin is None or found is None:
        return None
    comparisons, constants = list[Comparison](), list[Literal]()
    while found is not None:
        column, operator, written = found.groups()
        constant = _constant(written)
        if constant is None or len(constants) == _MOST:
            return None
        comparisons.append((column, operator, str(constant.type)))
        constants.append(constant)
        end = found.end()
        found = _NEXT.match(text, end)
    if _END.match(text, end) is None:
        return None
    return Comparisons((text[: begin.start()], text[end:]), tuple(comparisons), tuple(constants))


def _constant(written: str) -> Literal | None:
    if written.startswith("'"):
        return Literal(STRING, written[1:-1])
    try:
        return number_literal(written)
    except TypeError:
        return None
