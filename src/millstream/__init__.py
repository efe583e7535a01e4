"""Millstream: thousands of standing CQL questions over streams, answered by one shared Spark pipeline."""

from millstream.connect import connect
from millstream.database import Database
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
from millstream.ingest.insert import InsertResult
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
