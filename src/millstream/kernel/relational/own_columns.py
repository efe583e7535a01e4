"""Columns that are made with the constants of a row's query when the query is read."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.keys import Positions
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.relational.linear import Project
from millstream.kernel.scalar.expressions import Column, Expression, shift_columns
from millstream.kernel.sharing.parameters import parameters_as_columns
from millstream.kernel.storage.segments import gather
from millstream.types import Schema


def made_for_one(rows: Batch, columns: Sequence[Expression], schema: Schema) -> Batch:
    """The rows of one query, whose constants stand in the expressions."""
    return Project(schema, columns).step([rows], NO_STATE, Progress((), ()))[0]


def made_for_many(
    rows: Batch, columns: Sequence[Expression], schema: Schema, constants: pl.DataFrame, at: Positions
) -> Batch:
    """The rows of many queries, each behind what says its query: `at` is where the constants of that are."""
    width = rows.width - 3
    own = [c.alias(value_column(width + place)) for place, c in enumerate(gather(constants, constants.columns, at))]
    first = schema[0]
    computed = [parameters_as_columns(shift_columns(e, 1), width) for e in columns]
    return made_for_one(rows.hstack(own), [Column(first.type, 0, first.name), *computed], schema)
