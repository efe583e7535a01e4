"""Tables that statements change: each change is rows from its instant on, added or taken away."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import InputError
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_columns
from millstream.kernel.relational.change_log import DELETES, INSERTS, UPDATES
from millstream.kernel.scalar.evaluate import evaluate, select_true
from millstream.kernel.scalar.expressions import Expression
from millstream.plan.definitions import TableDefinition


def inserted(table: pa.Table, at: int) -> Batch:
    """The rows of an Arrow table, in the relation from `at` on."""
    frame = pl.from_arrow(table)
    if not isinstance(frame, pl.DataFrame):
        raise AssertionError("rows that are no table")
    names = value_columns(table.num_columns)
    return _from(frame.rename(dict(zip(frame.columns, names, strict=True))), at, pl.lit(1, pl.Int64))


def with_operations(table: pa.Table, definition: TableDefinition) -> pa.Table:
    """The changes with their operations in lower case; one that is unknown refuses them all."""
    allowed = [*INSERTS, *DELETES, *(UPDATES if definition.key else ())]
    position = table.column_names.index(definition.operation)
    said = pc.utf8_lower(table.column(position))
    wrong = pc.invert(pc.fill_null(pc.is_in(said, pa.array(allowed)), False))
    if pc.any(wrong).as_py():
        row = pc.index(wrong, True).as_py()
        raise InputError(
            f'table {definition.name}: row {row + 1}: "{definition.operation}" says {said[row].as_py()!r}',
            hint=f"it is one of {', '.join(map(repr, allowed))}"
            + ("" if definition.key else "; update needs a table with a KEY"),
        )
    return table.set_column(position, table.schema.field(position), said)


def bag_at(history: Batch, width: int, at: int) -> Batch:
    """The table at an instant: its rows, and how many copies of each."""
    columns = value_columns(width)
    alive = history.filter((pl.col(START) <= at) & (pl.col(END) > at))
    return alive.group_by(columns).agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) > 0)


def deleted(bag: Batch, condition: Expression | None, at: int) -> Batch:
    chosen = bag if condition is None else select_true(bag, condition)
    return _from(chosen, at, -pl.col(WEIGHT))


def updated(bag: Batch, condition: Expression | None, values: Sequence[Expression], at: int) -> Batch:
    chosen = bag if condition is None else select_true(bag, condition)
    new = pl.concat([evaluate(chosen, values, value_columns(len(values))), chosen.select(WEIGHT)], how="horizontal")
    return pl.concat([_from(chosen, at, -pl.col(WEIGHT)), _from(new, at, pl.col(WEIGHT))])


def replaced(
    bag: Batch,
    given: Batch,
    key: Sequence[str],
    values: Sequence[Expression],
    condition: Expression | None,
    at: int,
) -> tuple[Batch, Batch, Batch]:
    """What becomes of rows whose keys new rows have, one each: those that go, those that come in their places (values
    are over the old row and the new one behind it), and all that were met."""
    width = len(values)
    names = value_columns(2 * width)
    new = given.select(pl.col(one).alias(other) for one, other in zip(names[:width], names[width:], strict=True))
    given_key = [names[width + names.index(column)] for column in key]
    met = bag.join(new, left_on=key, right_on=given_key, how="inner", nulls_equal=True, coalesce=False)
    chosen = met if condition is None else select_true(met, condition)
    gone = chosen.select(*names[:width], WEIGHT)
    made = pl.concat([evaluate(chosen, values, names[:width]), chosen.select(WEIGHT)], how="horizontal")
    return _from(gone, at, -pl.col(WEIGHT)), _from(made, at, pl.col(WEIGHT)), met


def _from(rows: Batch, at: int, weight: pl.Expr) -> Batch:
    values = [name for name in rows.columns if not name.startswith("_")]
    return rows.select(
        *values, pl.lit(at, pl.Int64).alias(START), pl.lit(INF, pl.Int64).alias(END), weight.alias(WEIGHT)
    )
