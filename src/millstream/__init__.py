"""Millstream: thousands of standing CQL questions over streams, answered by one shared Spark pipeline."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from millstream.errors import (
    AccessError,
    BindError,
    CancelledError,
    CatalogError,
    ClosedError,
    ConstraintError,
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
    TooLargeError,
    TypeError,
)

if TYPE_CHECKING:
    from millstream.database import Database
    from millstream.ingest.table_rows import InsertResult
    from millstream.inspection.run_report import RunReport
    from millstream.opening import connect, connect_async
    from millstream.query import Query, Template
    from millstream.statements.result import Result
    from millstream.upkeep.checking import CheckReport, check
    from millstream.upkeep.upgrading import UpgradeReport, upgrade

__version__ = "0.1.0"
logging.getLogger(__name__).addHandler(logging.NullHandler())  # quiet, unless who uses it wants to hear

__all__ = [
    "AccessError",
    "BindError",
    "CancelledError",
    "CatalogError",
    "CheckReport",
    "ClosedError",
    "ConstraintError",
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
    "RunReport",
    "ServiceError",
    "SetupError",
    "StateError",
    "StatementError",
    "SyntaxError",
    "Template",
    "TimeError",
    "TooLargeError",
    "TypeError",
    "UpgradeReport",
    "check",
    "connect",
    "connect_async",
    "upgrade",
]

# What is loaded when it is asked for: to import the package costs next to nothing.
_LATER = {
    "CheckReport": "millstream.upkeep.checking",
    "Database": "millstream.database",
    "InsertResult": "millstream.ingest.table_rows",
    "Query": "millstream.query",
    "Result": "millstream.statements.result",
    "RunReport": "millstream.inspection.run_report",
    "Template": "millstream.query",
    "UpgradeReport": "millstream.upkeep.upgrading",
    "check": "millstream.upkeep.checking",
    "connect": "millstream.opening",
    "connect_async": "millstream.opening",
    "upgrade": "millstream.upkeep.upgrading",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
