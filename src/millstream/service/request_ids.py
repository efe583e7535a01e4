"""The name of a request: the caller's own (`X-Request-ID`), or one that it is given. It stands in the answer, in errors
and in the log, for everything that is done for the request, in whatever thread."""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar
from typing import Any

from millstream.errors import Error
from millstream.wire.errors import document

HEADER = b"x-request-id"
_FINE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")  # what can stand in a line of a log as it is
_current: ContextVar[str] = ContextVar("request_id", default="")


def begin_request(given: bytes | None) -> str:
    """Have what follows belong to a request; gives its name."""
    name = given.decode() if given is not None and _FINE.fullmatch(given) else secrets.token_hex(8)
    _current.set(name)
    return name


def request_id() -> str:
    """Of the request that is being answered; empty where none is."""
    return _current.get()


def error_document(error: Error) -> dict[str, Any]:
    """An error as an answer has it."""
    said, name = document(error), request_id()
    if name:
        said["error"]["request_id"] = name
    return said
