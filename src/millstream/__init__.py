"""Millstream: thousands of standing CQL questions over streams, answered by one shared Spark pipeline."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from millstream.errors import (
    AccessError,
    BindError,
    CatalogError,
    ClosedError,
    Error,
    EvaluationError,
    InputError,
    LimitError,
    NameError,
    NotSupportedError,
    ServiceError,
    SetupError,
    StateError,
    StatementError,
    SyntaxError,
    TimeError,
    TypeError,
)

if TYPE_CHECKING:
    from millstream.database import Database
    from millstream.ingest.insert import InsertResult
    from millstream.opening import connect
    from millstream.query import Query, Template
    from millstream.statements.result import Result

__version__ = "0.1.0"

__all__ = [
    "AccessError",
    "BindError",
    "CatalogError",
    "ClosedError",
    "Database",
    "Error",
    "EvaluationError",
    "InputError",
    "InsertResult",
    "LimitError",
    "NameError",
    "NotSupportedError",
    "Query",
    "Result",
    "ServiceError",
    "SetupError",
    "StateError",
    "StatementError",
    "SyntaxError",
    "Template",
    "TimeError",
    "TypeError",
    "connect",
]

# What is loaded when it is asked for: to import the package costs next to nothing.
_LATER = {
    "Database": "millstream.database",
    "InsertResult": "millstream.ingest.insert",
    "Query": "millstream.query",
    "Result": "millstream.statements.result",
    "Template": "millstream.query",
    "connect": "millstream.opening",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
