"""A case: what a database is told, step by step. It prints as a script, from which a `.cql` test can be made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.properties.kinds import written

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Insert:
    stream: str
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        rows = ", ".join(f"({', '.join(written(value) for value in row)})" for row in self.rows)
        return f"INSERT INTO {self.stream} VALUES {rows};"


@dataclass(frozen=True)
class Advance:
    """A heartbeat in ticks, of one stream or of all."""

    stream: str | None
    to: int

    def __str__(self) -> str:
        return f"ADVANCE {self.stream or ''}{' ' if self.stream else ''}TO {self.to};"


@dataclass(frozen=True)
class Change:
    """A statement that changes a table; it may be one that is refused because it comes too late."""

    text: str

    def __str__(self) -> str:
        return f"{self.text};"


@dataclass(frozen=True)
class Register:
    query: str
    text: str

    def __str__(self) -> str:
        return f"REGISTER QUERY {self.query} AS {self.text};"


@dataclass(frozen=True)
class Drop:
    query: str

    def __str__(self) -> str:
        return f"DROP QUERY {self.query};"


Action = Insert | Advance | Change | Register | Drop


@dataclass(frozen=True)
class Case:
    """`definitions` are SET and CREATE statements; `probes` say which of the final instants are looked at."""

    definitions: tuple[str, ...]
    actions: tuple[Action, ...]
    probes: tuple[int, ...] = (0,)

    @property
    def queries(self) -> dict[str, str]:
        return {action.query: action.text for action in self.actions if isinstance(action, Register)}

    def __str__(self) -> str:
        return "\n".join([*(f"{text};" for text in self.definitions), *map(str, self.actions)])

    def __repr__(self) -> str:
        return f"\n{self}\n"


def in_single_rows(case: Case) -> Case:
    """The same, every row inserted alone."""
    actions: list[Action] = []
    for action in case.actions:
        actions += [Insert(action.stream, (row,)) for row in action.rows] if isinstance(action, Insert) else [action]
    return replace(case, actions=tuple(actions))


def in_large_batches(case: Case) -> Case:
    """The same, all rows of a stream between two heartbeats or changes of tables in one insert."""
    actions: list[Action] = []
    waiting: dict[str, Row] = {}
    for action in case.actions:
        if isinstance(action, Insert):
            waiting[action.stream] = waiting.get(action.stream, ()) + action.rows
            continue
        if isinstance(action, Advance | Change):
            actions += [Insert(stream, rows) for stream, rows in waiting.items()]
            waiting = {}
        actions.append(action)
    actions += [Insert(stream, rows) for stream, rows in waiting.items()]
    return replace(case, actions=tuple(actions))


def registered_first(case: Case) -> Case:
    """The same, all queries registered before the first row."""
    return _with_queries_at(case, front=True)


def registered_last(case: Case) -> Case:
    """The same, all queries registered after the last row."""
    return _with_queries_at(case, front=False)


def _with_queries_at(case: Case, *, front: bool) -> Case:
    queries = [action for action in case.actions if isinstance(action, Register)]
    others = [action for action in case.actions if not isinstance(action, Register | Drop)]
    return replace(case, actions=tuple([*queries, *others] if front else [*others, *queries]))


def only(case: Case, query: str) -> Case:
    """The same with one query alone."""
    kept = [a for a in case.actions if not isinstance(a, Register | Drop) or a.query == query]
    return replace(case, actions=tuple(kept))
