"""Where a snapshot has the query tables of groups: beside the state of the step that selects for a group's queries."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.kernel.operator import EVERYWHERE
from millstream.kernel.pending_errors import PENDING
from millstream.state.snapshot import Names

TABLE = f"{EVERYWHERE}queries/"  # the queries that take part, by shape
WAITING = "waiting/queries/"
FAILED = "failed/queries/"


def query_tables(synopses: Mapping[str, Names]) -> dict[str, Names]:
    """What a step keeps beside its shards' state: the query tables of its group."""
    return {name: names for name, names in synopses.items() if name.startswith((TABLE, WAITING, FAILED))}


def shape_of(synopsis: str) -> str:
    return synopsis.removeprefix(TABLE).removeprefix(WAITING).removeprefix(FAILED)


def pending_errors(synopses: Mapping[str, Names]) -> dict[str, Names]:
    """What a selection holds of errors that are to come."""
    return {name: names for name, names in synopses.items() if name == EVERYWHERE + PENDING}


def failure_key(edge: str, query: int) -> str:
    """Under which a snapshot has what stopped one query of a group."""
    return f"{edge}#{query}"
