"""Errors as documents: of the same class, with the same words and place at the other end; nonsense is no error."""

from __future__ import annotations

import json
from typing import Any

import pytest

import millstream as ms
from millstream import errors
from millstream.errors import Error, Place
from millstream.wire.errors import document, error_of

CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Error)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_comes_back(kind: type[Error]) -> None:
    error = kind("it is so", detail="since\nthat", hint='do "this"', place=Place("SELECT ä\nFROM s", 9, 13))
    found = error_of(json.loads(json.dumps(document(error))))
    assert type(found) is kind
    assert str(found) == str(error)


def test_what_is_not_said_is_not_sent() -> None:
    assert document(ms.InputError("no"))["error"].keys() == {"class", "message", "primary"}


def test_a_class_that_is_not_known_here_is_an_error() -> None:
    assert type(error_of({"error": {"class": "ErrorOfTomorrow", "primary": "new"}})) is Error


@pytest.mark.parametrize("answer", [None, [], "error", {}, {"error": "no"}, {"error": {}}, {"error": {"primary": 3}}])
def test_other_documents_are_none(answer: Any) -> None:
    assert error_of(answer) is None
