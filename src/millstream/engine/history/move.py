"""Moves: a query goes on by another plan, whose past is worked through beside the one that runs.

    the old plan's rows before an instant, the new plan's from there on  ──one commit──▶  what the query shows

Both plans say the same of all instants that history covers. Where it was cut, the new plan is right from an instant on,
and what came before stays as the old plan has said it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.errors import Error
from millstream.kernel.batch import END, START
from millstream.kernel.columns import only, with_columns
from millstream.kernel.pipeline import Pipeline
from millstream.kernel.storage.segments import numbers
from millstream.state.snapshot import Catalog, Names, Snapshot
from millstream.state.store import Store, Writer
from millstream.state.written import Written


@dataclass(frozen=True, eq=False)
class Move:
    """From the edge that a query shows to that of another plan, which is right from the instant `start` on when it is
    run over the elements from `firsts` on. All calls come under the engine's lock."""

    before: str
    after: str
    pipeline: Pipeline
    firsts: Mapping[str, int]
    start: int
    catalog: Callable[[], Catalog | None]  # what is declared by the commit; None where the query is gone
    moved: Callable[[], None]  # it is committed
    ended: Callable[[Error | None], None]  # it will not be


def after_move(snapshot: Snapshot, move: Move, store: Store, written: Written) -> Snapshot:
    """The snapshot in which the edge that a query moves to shows what the query does: the old rows of instants before
    `start`, and the new ones of those from there on."""
    old, new, start = snapshot.results.get(move.before, ()), snapshot.results.get(move.after, ()), move.start
    if start <= 0:
        return snapshot
    with store.file("moves") as writer:
        found = (*_before(old, start, store, writer), *_after(new, start, store, writer))
    written.add(found)
    return snapshot.with_results_of({move.after: found})


def _before(names: Names, start: int, store: Store, writer: Writer) -> Iterator[str]:
    for name in names:
        rows = store.read_once(name)
        ends = numbers(rows, END)
        if (ends <= start).all():
            yield name
            continue
        rows = with_columns(rows, pl.Series(END, np.minimum(ends, start)))
        rows = only(rows, numbers(rows, START) < start)
        if rows.height:
            yield writer.write(rows)


def _after(names: Names, start: int, store: Store, writer: Writer) -> Iterator[str]:
    for name in names:
        rows = store.read_once(name)
        starts = numbers(rows, START)
        if (starts >= start).all():
            yield name
            continue
        rows = with_columns(rows, pl.Series(START, np.maximum(starts, start)))
        rows = only(rows, numbers(rows, END) > start)
        if rows.height:
            yield writer.write(rows)
