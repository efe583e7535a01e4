"""Errors of rows that are never taken back: they are certain, and only awaited until their instant is final."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream.errors import EvaluationError
from millstream.kernel.batch import END, INF, START, Batch, value_column, value_columns
from millstream.kernel.operator import EVERYWHERE, NO_STATE, Segment, State, own
from millstream.kernel.scalar.program import DETAIL, HINT, PRIMARY
from millstream.types import STRING, Field, Schema

ERROR: Schema = tuple(Field(name, STRING) for name in (PRIMARY, DETAIL, HINT))
ERROR_COLUMNS = value_columns(len(ERROR))
ERROR_QUERY = value_column(len(ERROR))  # in a group
PENDING = "pending"
# An instant that is not known yet: as many rows as a window counts have not come.
OPEN = INF - 2


def awaited(state: State, errors: Sequence[Batch], first: int, low: int, of: Sequence[str] = ()) -> State:
    """The state of a step that awaits the first of errors which are certain, or that of each query in the column `of`;
    raises it when its instant is final."""
    known = state.get(PENDING, state.get(EVERYWHERE + PENDING, ()))
    come = [batch for batch in errors if batch.height]
    if not known and not come:
        return NO_STATE
    columns = [*ERROR_COLUMNS, *of, START, END]
    arrived = pl.concat([batch.select(columns) for batch in come]) if come else known[0].clear()
    if first == OPEN:  # any of them may be the first that counts
        return {EVERYWHERE + PENDING: (*known, arrived) if arrived.height else known}
    arrived = arrived.filter(pl.col(END) > first)
    pending: tuple[Segment, ...] = known
    if any((segment[END] <= first).any() for segment in known):
        left = pl.concat(known).filter(pl.col(END) > first)
        known = pending = (left,) if left.height else ()
    if arrived.height:
        earliest = _earliest([*known, arrived], of)
        if not known or not earliest.equals(_earliest(known, of)):
            pending = (earliest,)
    if not pending:
        return NO_STATE
    soonest = _earliest(pending)
    if max(soonest[START].item(), first) <= low:
        raise error_in(soonest)
    return {EVERYWHERE + PENDING: pending}


def _earliest(errors: Sequence[Segment], of: Sequence[str] = ()) -> Segment:
    ordered = pl.concat(errors).sort(START, *ERROR_COLUMNS, *of, nulls_last=False)
    return ordered.unique(of, keep="first", maintain_order=True) if of else ordered.head(1)


def error_in(rows: pl.DataFrame) -> EvaluationError:
    """The first of some errors."""
    primary, detail, hint = rows.select(ERROR_COLUMNS).row(0)
    return EvaluationError(primary, detail=detail, hint=hint)


def pending_of_queries(state: State, queries: pl.Series) -> State:
    """What is awaited for some queries of a group."""
    return {name: tuple(own(segment, ERROR_QUERY, queries) for segment in kept) for name, kept in state.items()}
