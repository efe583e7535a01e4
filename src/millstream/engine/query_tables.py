"""Query tables as a snapshot has them, and as earlier formats had them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal

import polars as pl

from millstream.kernel.operator import EVERYWHERE
from millstream.kernel.sharing.parameters import SHAPE, packed
from millstream.state.snapshot import Names, QueryTable, Snapshot
from millstream.state.store import Store

AdmissionState = Literal["admitted", "waiting", "failed"]
KINDS: tuple[AdmissionState, ...] = "admitted", "waiting", "failed"
NAME = "name"  # of the query that a row is of; a row that has only the words of one has none
EQUAL_TO = "equal_to"  # of a query that is equal to another: the number of the row that it has


def admitted_tables(snapshot: Snapshot, steps: Collection[str]) -> dict[str, Names]:
    """The query tables that the selections among some steps read."""
    tables = snapshot.query_tables
    return {step: table.admitted for step, table in tables.items() if step in steps and table.admitted}


def failure_key(edge: str, query: int) -> str:
    """Under which a snapshot has what stopped one query of a group."""
    return f"{edge}#{query}"


# Query tables before format 5: a part of the state of their selections, a synopsis for each shape


_OF_OLD: Mapping[str, AdmissionState] = {
    f"{EVERYWHERE}queries/": "admitted",
    "waiting/queries/": "waiting",
    "failed/queries/": "failed",
}


def upgraded(snapshot: Snapshot, store: Store) -> Snapshot:
    """A snapshot of an earlier format with its query tables where they belong."""
    tables = dict(snapshot.query_tables)
    for step, synopses in snapshot.states.items():
        found: dict[AdmissionState, list[pl.DataFrame]] = {}
        for synopsis, names in synopses.items():
            for prefix, kind in _OF_OLD.items():
                if synopsis.startswith(prefix):
                    shape = pl.lit(synopsis.removeprefix(prefix)).alias(SHAPE)
                    found.setdefault(kind, []).extend(store.read(name).with_columns(shape) for name in names)
        if found:
            with store.file("queries") as writer:
                written = {kind: tuple([writer.write(f) for f in packed(frames)]) for kind, frames in found.items()}
            tables[step] = QueryTable(**written)
    if tables.keys() == snapshot.query_tables.keys():
        return snapshot
    states = {
        step: {key: names for key, names in synopses.items() if not key.startswith(tuple(_OF_OLD))}
        for step, synopses in snapshot.states.items()
    }
    kept = {step: synopses for step, synopses in states.items() if synopses}
    return replace(snapshot, states=kept).with_query_tables(tables)
