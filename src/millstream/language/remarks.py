"""What the author of a text should know of it, though it is right: told with what the statement gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sqlglot import exp

from millstream.errors import Place
from millstream.language.scope import Scope

_said: ContextVar[list[str] | None] = ContextVar("_said", default=None)


@contextmanager
def remarks() -> Iterator[list[str]]:
    """What is remarked of the texts that are read within."""
    found: list[str] = []
    token = _said.set(found)
    try:
        yield found
    finally:
        _said.reset(token)


def remark(text: str) -> None:
    found = _said.get()
    if found is not None and text not in found:
        found.append(text)


def remark_quotes(literal: exp.Literal, scope: Scope, text: str) -> None:
    """A text in double quotes that is called as a column is: elsewhere these make a name."""
    start = literal.meta.get("start", -1)
    if _said.get() is None or text[start : start + 1] != '"' or not literal.name:
        return
    place = Place(text, start, start + 1)
    if scope.has(literal.name, place):
        name = literal.name if literal.name.isidentifier() else f"`{literal.name}`"
        remark(
            f'line {place.line}, column {place.column}: "{literal.name}" is a text, as all that stands in quotes is; '
            f"the column is {name}" + (f", or `{name}`" if name == literal.name else "")
        )
