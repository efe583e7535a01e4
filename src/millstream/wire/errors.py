"""Errors as documents: what they say, where in the text, and of which class they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream import errors
from millstream.errors import Error, Place


def _classes(kind: type[Error]) -> Iterator[type[Error]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _classes(below)


_BY_NAME = {kind.__name__: kind for kind in _classes(Error) if kind.__module__ == errors.__name__}


def document(error: Error) -> dict[str, Any]:
    """An error as JSON has it; `message` is all of it as people read it."""
    fields: dict[str, Any] = {"class": type(error).__name__, "message": str(error), "primary": error.primary}
    if error.detail:
        fields["detail"] = error.detail
    if error.hint:
        fields["hint"] = error.hint
    if error.place is not None:
        place = error.place
        fields["place"] = {
            "text": place.text,
            "start": place.start,
            "end": place.end,
            "line": place.line,
            "column": place.column,
        }
    return {"error": fields}


def error_of(answer: Any) -> Error | None:
    """The error that a document says; None where it is no such document."""
    fields = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("primary"), str):
        return None
    place = fields.get("place")
    return _BY_NAME.get(str(fields.get("class")), Error)(
        fields["primary"],
        detail=fields.get("detail"),
        hint=fields.get("hint"),
        place=Place(place["text"], place["start"], place["end"]) if isinstance(place, dict) else None,
    )
