"""Functions and aggregates in Python, as users hand them over: checked, made what queries call, and kept as entries.

An entry holds the user's own object and plain values, so that no class of ours is named on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from millstream.catalog.entries import Entry, Pickler
from millstream.errors import BindError
from millstream.kernel.aggregation.aggregate_calls import UserAggregate
from millstream.kernel.scalar.functions_user import UserFunction
from millstream.kernel.windows.time import UserWindow
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


def window_of(name: str, body: Callable[..., Any]) -> UserWindow:
    _check_name(name)
    if name.upper() in ("NOW", "RANGE", "ROWS", "TUMBLE", "HOP", "SESSION", "PARTITION", "BEGIN"):
        raise BindError(f'"{name}" is a window already', hint="choose another name")
    if not callable(body):
        raise BindError(f"window {name} is no function", hint="it takes values and instants, and gives intervals")
    return UserWindow(name.lower(), body)


def window_entry(window: UserWindow, pickler: Pickler) -> dict[str, Any]:
    return {"body": pickler.pack(window.body)}


def window_from(entry: Entry, pickler: Pickler) -> UserWindow:
    return UserWindow(entry["name"], pickler.unpack(entry["body"]))


def _type_entry(kind: DataType) -> dict[str, Any]:
    """Lists say what they are of; nothing else does, as before there were any."""
    own = {name: value for name, value in asdict(kind).items() if name != "element"}
    return own if kind.element is None else {**own, "element": _type_entry(kind.element)}


def _type_from(entry: Mapping[str, Any]) -> DataType:
    element = entry.get("element")
    return DataType(**{**entry, "element": None if element is None else _type_from(element)})


def function_entry(function: UserFunction, pickler: Pickler) -> dict[str, Any]:
    return {"body": pickler.pack(function.body), "returns": _type_entry(function.returns), "columns": function.columns}


def function_from(entry: Entry, pickler: Pickler) -> UserFunction:
    body = pickler.unpack(entry["body"])
    if "returns" not in entry:  # up to format 3 all of it was pickled
        old: UserFunction = body
        return old
    return UserFunction(entry["name"], body, _type_from(entry["returns"]), entry["columns"])


def aggregate_entry(definition: type[UserAggregate], returns: DataType, pickler: Pickler) -> dict[str, Any]:
    return {"body": pickler.pack(definition), "returns": _type_entry(returns)}


def aggregate_from(entry: Entry, pickler: Pickler) -> tuple[type[UserAggregate], DataType]:
    body = pickler.unpack(entry["body"])
    if "returns" not in entry:
        old: tuple[type[UserAggregate], DataType] = body
        return old
    return body, _type_from(entry["returns"])


def as_written_now(entry: Entry, pickler: Pickler) -> Entry:
    """An entry of users' code as this version writes it, so that it is known again when it is said again."""
    if "returns" in entry or entry["kind"] == "window":
        return entry
    named = {"kind": entry["kind"], "name": entry["name"]}
    if entry["kind"] == "function":
        return named | function_entry(function_from(entry, pickler), pickler)
    return named | aggregate_entry(*aggregate_from(entry, pickler), pickler)


def _check_name(name: str) -> None:
    reason = why_unusable(name)
    if reason is None and not name.isidentifier():
        reason = "a function's name has letters, digits and _"
    if reason is not None:
        raise BindError(f'"{shown_name(name)}" cannot be a function\'s name', detail=reason)
