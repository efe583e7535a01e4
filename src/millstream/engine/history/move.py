"""Moves: queries go on by another plan, whose past is worked through beside the one that runs.

    the old plan's rows before an instant, the new plan's from there on  ──one commit──▶  what is shown

Both plans say the same of all instants that history covers. Where it was cut, the new plan is right from an instant on,
and what came before stays as the old plan has said it. Of matches (mode LAZY), which have no instants but those of
their elements, the old ones stay whose youngest element came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.engine.groups.group import Group
from millstream.errors import Error
from millstream.kernel.batch import END, START, Batch
from millstream.kernel.columns import only, with_columns
from millstream.kernel.lazy.matches import is_matches, youngest_of
from millstream.kernel.pipeline import Pipeline
from millstream.kernel.storage.segments import numbers
from millstream.state.snapshot import Catalog, Names, Snapshot
from millstream.state.store import Store, Writer
from millstream.state.written import Written


@dataclass(frozen=True, eq=False)
class Move:
    """From the edges that a query shows to those of another plan, in pairs, which is right from the instant `start` on
    when it is run over the elements from `firsts` on. All calls come under the engine's lock."""

    edges: tuple[tuple[str, str], ...]
    pipeline: Pipeline
    firsts: Mapping[str, int]
    start: int
    catalog: Callable[[], Catalog | None]  # what is declared by the commit; None where the query is gone
    moved: Callable[[], None]  # it is committed
    ended: Callable[[Error | None], None]  # it will not be

    @property
    def befores(self) -> tuple[str, ...]:
        return tuple(before for before, _ in self.edges)

    @property
    def afters(self) -> tuple[str, ...]:
        return tuple(after for _, after in self.edges)


@dataclass(frozen=True, eq=False)
class LeavingMove(Move):
    """Of one query out of its group: the commit that has its own plan has it in the group no more."""

    rows: Callable[[int], Batch]  # of the query, as far as they begin up to an instant


@dataclass(frozen=True, eq=False)
class GroupMove(Move):
    """Of a group as a whole: it goes on by the plan of another one, which is of the same queries."""

    group: Group
    target: Group


def after_move(snapshot: Snapshot, move: Move, store: Store, written: Written) -> Snapshot:
    """The snapshot in which the edges that a query moves to show what the query does: the old rows of instants before
    `start`, and the new ones of those from there on."""
    if move.start <= 0:
        return snapshot
    found: dict[str, Names] = {}
    with store.file("moves") as writer:
        for before, after in move.edges:
            new = _after(snapshot.results.get(after, ()), move.start, store, writer)
            if isinstance(move, LeavingMove):
                found[after] = (*_written(_cut(move.rows(move.start), move.start), writer), *new)
            else:
                found[after] = (*_before(snapshot.results.get(before, ()), move.start, store, writer), *new)
            written.add(found[after])
    return snapshot.with_results_of(found)


def _before(names: Names, start: int, store: Store, writer: Writer) -> Iterator[str]:
    for name in names:
        rows = store.read_once(name)
        if START not in rows.columns:
            yield from _chosen(name, rows, youngest_of(rows) < start, writer)
            continue
        if (numbers(rows, END) <= start).all():
            yield name
        else:
            yield from _written(_cut(rows, start), writer)


def _cut(rows: pl.DataFrame, start: int) -> pl.DataFrame:
    """What rows say of instants before one."""
    rows = with_columns(rows, pl.Series(END, np.minimum(numbers(rows, END), start)))
    return only(rows, numbers(rows, START) < start)


def _written(rows: pl.DataFrame, writer: Writer) -> Iterator[str]:
    if rows.height:
        yield writer.write(rows)


def _after(names: Names, start: int, store: Store, writer: Writer) -> Iterator[str]:
    for name in names:
        rows = store.read_once(name)
        if START not in rows.columns:
            yield from _chosen(name, rows, youngest_of(rows) >= start, writer)
            continue
        starts = numbers(rows, START)
        if (starts >= start).all():
            yield name
            continue
        rows = with_columns(rows, pl.Series(START, np.maximum(starts, start)))
        yield from _written(only(rows, numbers(rows, END) > start), writer)


def _chosen(name: str, rows: pl.DataFrame, chosen: np.ndarray, writer: Writer) -> Iterator[str]:
    """Some of a segment of matches."""
    if not is_matches(rows):
        raise AssertionError("neither rows nor matches")
    if chosen.all():
        yield name
    elif chosen.any():
        yield writer.write(only(rows, chosen))
