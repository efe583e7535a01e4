"""Values that are given beside a text: `?` by order, `:name` by name.

They are written into the text as constants, so that whatever keeps the text keeps them too. A value is never read as
anything but a constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from millstream.errors import BindError, Place
from millstream.language.bind_parameters import constant
from millstream.language.dialect import CQL

_TAKEN = (bool, int, float, str, Decimal, date)

Given = Sequence[Any] | Mapping[str, Any]


def with_values(text: str, given: Given) -> str:
    """The text with a constant in the place of each parameter."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | Mapping):
        raise BindError(f"parameters are a list or a dict, not a {type(given).__name__}")
    try:
        tokens = CQL().tokenize(text)
    except TokenError:
        return text  # what is wrong with it is said when it is parsed
    places = _named(text, tokens) if isinstance(given, Mapping) else _numbered(text, tokens)
    _check(given, places)
    parts, end = [], 0
    for place, name in places:
        parts += [text[end : place.start], _written(given[name], place)]  # type: ignore[index]
        end = place.end
    return "".join([*parts, text[end:]])


def _written(value: object, place: Place) -> str:
    return constant(_plain(value, place)).sql(dialect=CQL)


def _plain(value: Any, place: Place) -> Any:
    """A value, or a list of such, as Python has it."""
    if hasattr(value, "tolist"):
        value = value.tolist()  # one of NumPy's, or an array
    if isinstance(value, list | tuple):
        return [_plain(element, place) for element in value]
    if value is not None and not isinstance(value, _TAKEN):
        raise BindError(f"a {type(value).__name__} cannot be given as a value", place=place)
    return value


def _numbered(text: str, tokens: Sequence[Token]) -> list[tuple[Place, int]]:
    found = [token for token in tokens if token.token_type == TokenType.PLACEHOLDER]
    return [(Place(text, token.start, token.end + 1), number) for number, token in enumerate(found)]


def _named(text: str, tokens: Sequence[Token]) -> list[tuple[Place, str]]:
    """A colon with a name right behind it."""
    found = []
    for colon, name in pairwise(tokens):
        is_name = name.start == colon.end + 1 and name.text.isidentifier()
        if colon.token_type == TokenType.COLON and is_name:
            found.append((Place(text, colon.start, name.end + 1), name.text))
    return found


def _check(given: Given, places: Sequence[tuple[Place, int | str]]) -> None:
    if isinstance(given, Mapping):
        wanted = {name for _, name in places}
        for place, name in places:
            if name not in given:
                raise BindError(f"no value is given for :{name}", place=place)
        if unused := [name for name in given if name not in wanted]:
            raise BindError(f"the text has no parameter :{unused[0]}", hint="a value was given for it")
    elif len(given) != len(places):
        raise BindError(
            f"{_counted(len(given), 'value')} for {_counted(len(places), 'parameter')}",
            hint="each ? takes one value, in order; a dict gives values for :name",
        )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
