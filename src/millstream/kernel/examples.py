"""What the examples in the operators' docstrings are written with, beside the names of the operator's own module:
small batches, expressions over them, and operators that are run step by step and show what they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from millstream.kernel.batch import (
    ARRIVAL,
    BEFORE_TIME,
    BORN,
    END,
    INF,
    INTERVAL_COLUMNS,
    START,
    WEIGHT,
    Batch,
    value_columns,
)
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.ordering.sort_keys import SortKey
from millstream.kernel.scalar.expressions import Column, Literal, Parameter
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing.lineage import BLOCK, BLOCK_SIZE, LINEAGE, expand, lineage_of
from millstream.kernel.sharing.parameters import QUERIES, QUERY, SHAPE, packed
from millstream.types import BIGINT, Field, Schema

__all__ = [
    "BIGINT",
    "INF",
    "Run",
    "SortKey",
    "batch",
    "call",
    "column",
    "integers",
    "literal",
    "parameter",
    "queries",
    "show",
    "stream",
]


def integers(*names: str) -> Schema:
    return tuple(Field(name, BIGINT) for name in names)


def column(index: int) -> Column:
    return Column(BIGINT, index, f"c{index}")


def literal(value: int) -> Literal:
    return Literal(BIGINT, value)


def parameter(index: int) -> Parameter:
    """What each query has a value of its own for."""
    return Parameter(BIGINT, index)


def batch(*rows: Sequence[object]) -> Batch:
    """Rows of values, start, end and weight; of no columns where there are no rows."""
    width = len(rows[0]) - len(INTERVAL_COLUMNS) if rows else 0
    return pl.DataFrame(rows, schema=[*value_columns(width), *INTERVAL_COLUMNS], orient="row")


def stream(*elements: Sequence[object]) -> Batch:
    """Elements of values and an instant, in the order in which they arrive."""
    found = pl.DataFrame(elements, schema=[*value_columns(len(elements[0]) - 1), START], orient="row")
    return found.with_columns(
        (pl.col(START) + 1).alias(END),
        pl.lit(1, pl.Int64).alias(WEIGHT),
        pl.int_range(pl.len(), dtype=pl.Int64).alias(ARRIVAL),
    )


def queries(**shapes: Mapping[int, Sequence[int]]) -> State:
    """A query table: of each shape its queries, and the values of their parameters."""
    tables = []
    for name, members in shapes.items():
        width = max(map(len, members.values()))
        rows = [(number, *values) for number, values in members.items()]
        table = pl.DataFrame(rows, schema=[QUERY, *value_columns(width)], orient="row")
        tables.append(table.with_columns(pl.lit(name).alias(SHAPE)))
    return {QUERIES: tuple(packed(tables))}


class Run:
    """An operator from its first step on; `tables` are there in every one."""

    def __init__(self, operator: Operator, tables: State = NO_STATE) -> None:
        self.operator, self.tables = operator, tables
        self.output = pl.DataFrame()  # of the last step
        self.state: State = NO_STATE
        self._reached = BEFORE_TIME
        self._nothing: tuple[Batch, ...] = ()

    def step(self, *new: Batch | None, to: int) -> Shown:
        """What is new on each input (None: nothing), all of which are final up to an instant, as rows of the output."""
        inputs = [self._nothing[place] if one is None else one for place, one in enumerate(new)]
        progress = Progress((self._reached,) * len(inputs), (to,) * len(inputs))
        self.output, self.state = self.operator.step(inputs, {**self.state, **self.tables}, progress)
        self._reached, self._nothing = to, tuple(one.clear() for one in inputs)
        return show(self.output)

    def wait(self, *, to: int) -> Shown:
        """Nothing comes, and time passes."""
        return self.step(*self._nothing, to=to)


class Shown(str):
    """Lines that Python shows as they are."""

    def __repr__(self) -> str:
        return str(self)


def show(rows: Batch) -> Shown:
    """Each row as the equations have it, (values, [start, end), weight), by start and values. Lineage is shown as the
    queries that want the row, and what has no interval by the names of its columns."""
    lines = [_line(row, wanted) for row, wanted in zip(rows.iter_rows(named=True), _wanting(rows), strict=True)]
    return Shown("\n".join(text for _, text in sorted(lines)) or "nothing")


def _line(row: Mapping[str, object], wanted: Sequence[int]) -> tuple[tuple[int, str], str]:
    """The row, after what it is sorted by."""
    parts = [str(value) for name, value in row.items() if not name.startswith("_")]
    if START in row:
        parts += [f"[{row[START]}, {'INF' if row[END] == INF else row[END]})", f"{row[WEIGHT]:+}"]
    else:
        parts += [f"{name.removeprefix('_')} {value}" for name, value in row.items() if name.startswith("_")]
    parts += [f"born {row[BORN]}"] if BORN in row else []
    parts += [f"for {' '.join(map(str, wanted))}"] if wanted else []
    text = f"({', '.join(parts)})"
    return (int(str(row.get(START, 0))), text), text


def _wanting(rows: Batch) -> list[list[int]]:
    """The queries that want each row, as far as it has lineage."""
    found: list[list[int]] = [[] for _ in range(rows.height)]
    if LINEAGE in rows.columns:
        blocks = rows[BLOCK].to_list()
        for row, bit in zip(*(numbers.tolist() for numbers in expand(lineage_of(rows))), strict=True):
            found[row].append(blocks[row] * BLOCK_SIZE + bit)
    return found
