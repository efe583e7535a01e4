"""Functions and aggregates in Python, as users hand them over: checked, and made what queries call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.errors import BindError
from millstream.kernel.aggregation.aggregate_calls import UserAggregate
from millstream.kernel.scalar.functions_user import UserFunction
from millstream.language.statement_parser import parse_type
from millstream.names import shown_name, why_unusable
from millstream.types import DataType


def function_of(name: str, body: Callable[..., Any], returns: str, columns: str) -> UserFunction:
    _check_name(name)
    if columns not in ("polars", "arrow"):
        raise BindError(f"columns is 'polars' or 'arrow', not {columns!r}")
    return UserFunction(name.lower(), body, parse_type(returns), "arrow" if columns == "arrow" else "polars")


def aggregate_of(name: str, definition: type[UserAggregate], returns: str) -> tuple[type[UserAggregate], DataType]:
    _check_name(name)
    missing = [part for part in ("initialize", "iterate", "terminate") if not hasattr(definition, part)]
    if missing:
        raise BindError(f"aggregate {name} has no method {missing[0]}")
    return definition, parse_type(returns)


def _check_name(name: str) -> None:
    reason = why_unusable(name)
    if reason is None and not name.isidentifier():
        reason = "a function's name has letters, digits and _"
    if reason is not None:
        raise BindError(f'"{shown_name(name)}" cannot be a function\'s name', detail=reason)
