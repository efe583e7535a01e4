"""Millstream: thousands of standing CQL questions over streams, answered by one shared Spark pipeline."""

from millstream.connect import connect
from millstream.database import Database, Result
from millstream.errors import (
    BindError,
    CatalogError,
    ClosedError,
    Error,
    EvaluationError,
    InputError,
    NameError,
    NotSupportedError,
    SetupError,
    StateError,
    StatementError,
    SyntaxError,
    TimeError,
    TypeError,
)
from millstream.inputs import InsertResult
from millstream.query import Query

__version__ = "0.1.0"

__all__ = [
    "BindError",
    "CatalogError",
    "ClosedError",
    "Database",
    "Error",
    "EvaluationError",
    "InputError",
    "InsertResult",
    "NameError",
    "NotSupportedError",
    "Query",
    "Result",
    "SetupError",
    "StateError",
    "StatementError",
    "SyntaxError",
    "TimeError",
    "TypeError",
    "connect",
]
