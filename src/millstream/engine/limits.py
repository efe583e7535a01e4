"""Limits on what one query may hold: rows of its result, and bytes of state.

A query that comes near a limit is noticed; one that passes it is stopped alone, with an error that says so. Counting is
done only where the bytes of an edge let it be possible that one of its queries is near.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from millstream.engine.reports import bytes_of, shown_bytes
from millstream.errors import EvaluationError
from millstream.kernel.batch import value_column
from millstream.kernel.lazy.matched_selection import MatchedSelection
from millstream.kernel.lazy.matches import Matches
from millstream.kernel.lazy.postings import Postings, is_packed
from millstream.kernel.lazy.ranked_tree import RankedTree, counts_of, is_tree, size_of
from millstream.kernel.lazy.tree_selection import TreeSelection
from millstream.kernel.scalar.value_size import MAX_VALUE_BYTES
from millstream.kernel.sharing.lineage import BLOCK, BLOCK_SIZE, lineage_of

if TYPE_CHECKING:
    from millstream.engine.engine import Engine

_LEAST_ROW = 24  # bytes of a row's start, end and weight
_LEAST_MATCH = 8  # bytes of an instant
_LEAST_POSTING = 1 / 8  # bytes of a bit
_LEAST_LEAF = 1  # bytes of the place of a row, which may be packed
NEAR = 0.8
Counts = dict[int | None, int]  # by query of a group, or None for a query of its own


@dataclass(frozen=True)
class Limits:
    """Of rows and state, 0 stands for no limit; one value always has one."""

    rows: int = 0
    state: int = 0
    value_bytes: int = MAX_VALUE_BYTES


@dataclass(frozen=True)
class Notice:
    """A query that is near a limit, or past it."""

    edge: str
    query: int | None
    held: int
    limit: int
    what: str
    setting: str

    @property
    def is_past(self) -> bool:
        return self.held > self.limit

    def __str__(self) -> str:
        held, limit = (f"{n:,} rows" if self.what == "rows" else shown_bytes(n) for n in (self.held, self.limit))
        return f"holds {held} of {self.what}, of {limit} that {self.setting} allows"

    def error(self) -> EvaluationError:
        return EvaluationError(
            f"the query was stopped: it {self}",
            hint=f"drop it, or raise {self.setting} and register it again",
        )


def notices(engine: Engine, edges: set[str]) -> Iterator[Notice]:
    """The queries among those that show some edges that are near a limit."""
    limits = engine.limits
    for edge in edges if limits.rows else ():
        names = engine.snapshot.results.get(edge, ())
        if sum(map(engine.store.size, names)) / _least_row(engine, edge) >= NEAR * limits.rows:
            counts = _rows(engine, edge, [engine.store.read(name) for name in names])
            yield from _near(edge, counts, limits.rows, "rows", "max_query_rows")
    for edge in edges if limits.state else ():
        held: Counts = {None: _own_state(engine, edge)}
        if edge in engine.groups:
            # What is kept for all is divided evenly: nothing says whose it is.
            queries = engine.groups.taking_part(engine.groups[edge])
            held = dict.fromkeys(queries, held[None] // max(len(queries), 1))
        yield from _near(edge, held, limits.state, "state", "max_query_state")


def _least_row(engine: Engine, edge: str) -> float:
    """The bytes that a row of one query takes at least."""
    operator = next((step.operator for step in engine.pipeline.steps if step.name == edge), None)
    if isinstance(operator, MatchedSelection):
        return _LEAST_POSTING
    if isinstance(operator, TreeSelection):
        return _LEAST_LEAF
    return _LEAST_MATCH if isinstance(operator, Matches | RankedTree) else _LEAST_ROW


def _near(edge: str, held: Counts, limit: int, what: str, setting: str) -> Iterator[Notice]:
    for query, count in held.items():
        if count >= NEAR * limit:
            yield Notice(edge, query, count, limit, what, setting)


def _rows(engine: Engine, edge: str, frames: list[pl.DataFrame]) -> Counts:
    if edge not in engine.groups:
        return {None: sum(size_of(frame) if is_tree(frame) else frame.height for frame in frames)}
    counts = np.zeros(engine.groups.next_query(engine.groups[edge]) + BLOCK_SIZE, np.int64)
    for frame in frames:
        if is_packed(frame) or is_tree(frame):
            queries, held = counts_of(frame) if is_tree(frame) else Postings(frame).counts()
            counts[queries] += held
            continue
        if engine.groups[edge].lifted.expanded:
            counts += np.bincount(frame[value_column(0)].to_numpy(), minlength=counts.size)
            continue
        blocks, lineage = frame[BLOCK].to_numpy(), lineage_of(frame)
        for block in np.unique(blocks):
            bits = np.unpackbits(lineage[blocks == block].view(np.uint8), axis=1, bitorder="little")
            counts[block * BLOCK_SIZE : block * BLOCK_SIZE + bits.shape[1]] += bits.sum(axis=0, dtype=np.int64)
    return {int(query): int(counts[query]) for query in np.flatnonzero(counts)}


def _own_state(engine: Engine, edge: str) -> int:
    """The bytes of state of the steps that only this edge needs."""
    own = engine.steps_only_for(edge)
    return sum(bytes_of(engine.snapshot.states.get(step, {}), engine.store) for step in own)
