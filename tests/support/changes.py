"""Changes of a table, step by step through the operator that applies them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from tests.support.instants import LAST, Row

from millstream.kernel.batch import batch_schema
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.types import BIGINT, STRING, Field, Schema

SCHEMA: Schema = (Field("k", BIGINT), Field("v", BIGINT))
REJECTED: Schema = (*SCHEMA, Field("op", STRING))


def as_batch(changes: Sequence[Any]) -> pl.DataFrame:
    rows = [(*change.values, change.ts, change.ts + 1, 1, change.key) for change in changes]
    return pl.DataFrame(rows, schema=batch_schema(REJECTED, arrival=True), orient="row")


def stepped(operator: Operator, changes: Sequence[Any], cuts: list[int]) -> list[Row]:
    """All rows of the output; each step ends at one of the frontiers, and changes come when they must."""
    state: State = NO_STATE
    output: list[Row] = []
    before = -1
    for after in [*cuts, LAST]:
        due = [change for change in changes if before < change.ts <= after]
        new, state = operator.step([as_batch(due)], state, Progress((before,), (after,)))
        output += new.rows()
        before = after
    return output
