"""Functions and aggregates that users write in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.catalog.entries import Entry, Pickler
from millstream.catalog.session import Session
from millstream.catalog.user_code import (
    aggregate_entry,
    aggregate_from,
    aggregate_of,
    as_written_now,
    function_entry,
    function_from,
    function_of,
    window_entry,
    window_from,
    window_of,
)
from millstream.engine.engine import Engine
from millstream.errors import CatalogError
from millstream.kernel.aggregation.aggregate_calls import UserAggregate


class UserCodeStatements:
    """Declares users' code, and finds it again."""

    def __init__(self, engine: Engine, session: Session, pickler: Pickler) -> None:
        self._engine, self._session, self._pickler = engine, session, pickler

    def create_function(self, name: str, body: Callable[..., Any], returns: str, columns: str) -> None:
        function = function_of(name, body, returns, columns)
        if self._is_new("function", name, function_entry(function, self._pickler)):
            self._session.code = self._session.code.with_function(function)

    def create_aggregate(self, name: str, definition: type[UserAggregate], returns: str) -> None:
        aggregate = aggregate_of(name, definition, returns)
        if self._is_new("aggregate", name, aggregate_entry(*aggregate, self._pickler)):
            self._session.code = self._session.code.with_aggregate(name.lower(), *aggregate)

    def create_window(self, name: str, body: Callable[..., Any]) -> None:
        window = window_of(name, body)
        if self._is_new("window", name, window_entry(window, self._pickler)):
            self._session.code = self._session.code.with_window(window)

    def _is_new(self, kind: str, name: str, content: Entry) -> bool:
        """Declare users' code; saying again what an earlier process said is welcome, and changes nothing."""
        with self._engine.lock:
            declared = self._session.declared
            kinds = ("window",) if kind == "window" else ("function", "aggregate")
            found = next((entry for each in kinds if (entry := declared.find(each, name)) is not None), None)
            if found is not None:
                if as_written_now(found, self._pickler) == {"kind": kind, "name": name.lower(), **content}:
                    return False
                raise CatalogError(f'there is a {kinds[0]} "{name}" already', hint="choose another name")
            self._session.declare(declared.with_entry(kind, name, **content))
            return True

    def recover(self, entry: Entry) -> None:
        """Have what an earlier process declared."""
        code = self._session.code
        if entry["kind"] == "function":
            self._session.code = code.with_function(function_from(entry, self._pickler))
        elif entry["kind"] == "window":
            self._session.code = code.with_window(window_from(entry, self._pickler))
        else:
            self._session.code = code.with_aggregate(entry["name"], *aggregate_from(entry, self._pickler))
