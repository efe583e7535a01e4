"""Rows on their way to a query table.

A frame of one row costs more than all else that it takes to register a query. So a query that comes alone is a tuple
until somebody reads the table, or a commit writes it: then it is in one frame with all others of the same types.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Protocol

import numpy as np
import polars as pl

from millstream.engine.query_tables import EQUAL_TO, NAME
from millstream.kernel.batch import value_column
from millstream.kernel.columns import only
from millstream.kernel.sharing.parameters import QUERY, SHAPE
from millstream.kernel.sharing.selection_keys import SelectionKeys
from millstream.types import DOUBLE, STRING, DataType, to_polars

MODE, TEXT, TEMPLATE = "mode", "text", "template"
_NUMBERED = {QUERY: pl.Int64(), SHAPE: pl.String()}


class NewRows(Protocol):
    """Queries of one shape that come together."""

    @property
    def height(self) -> int: ...

    @property
    def queries(self) -> list[int]: ...

    @property
    def names(self) -> list[str]: ...

    @property
    def modes(self) -> list[str]: ...

    def numbered(self, first: int, shape: str) -> NewRows:
        """The same with numbers from one on, and the name of their shape."""
        ...

    def constants(self, index: int) -> Sequence[object]:
        """What they have for a parameter."""
        ...

    def selected(self, keys: SelectionKeys, width: int) -> list[Hashable]:
        """The keys of what they select, by so many constants."""
        ...

    def frame(self) -> pl.DataFrame: ...


@dataclass(frozen=True, eq=False)
class _Columns:
    """Those of queries with constants of some types."""

    kinds: tuple[DataType, ...]
    schema: dict[str, pl.DataType]

    def frame(self, rows: Sequence[tuple[object, ...]]) -> pl.DataFrame:
        return pl.DataFrame(rows, schema=self.schema, orient="row")


@lru_cache(maxsize=1 << 12)
def _columns(kinds: tuple[DataType, ...], *, has_row_of_other: bool = False) -> _Columns:
    values = {value_column(index): to_polars(kind) for index, kind in enumerate(kinds)}
    texts = {column: pl.String() for column in (NAME, MODE, TEXT, TEMPLATE)}
    return _Columns(kinds, {**values, **texts, **_NUMBERED, **({EQUAL_TO: pl.Int64()} if has_row_of_other else {})})


@dataclass(frozen=True, eq=False)
class SingleRow:
    """A query that comes alone: its constants, and its name, mode, text and template."""

    kinds: tuple[DataType, ...]
    values: tuple[object, ...]
    name: str
    mode: str
    text: str
    template: str
    number: int = -1
    shape: str = ""

    height = 1

    @property
    def queries(self) -> list[int]:
        return [self.number]

    @property
    def names(self) -> list[str]:
        return [self.name]

    @property
    def modes(self) -> list[str]:
        return [self.mode]

    def numbered(self, first: int, shape: str) -> SingleRow:
        return replace(self, number=first, shape=shape)

    def constants(self, index: int) -> Sequence[object]:
        return self.values[index : index + 1]

    def selected(self, keys: SelectionKeys, width: int) -> list[Hashable]:
        if width == len(self.kinds) and all(map(_is_as_read, self.values, self.kinds)):
            return [keys.of(self.values)]
        return keys.of_rows(self.frame(), width)

    def row(self) -> tuple[object, ...]:
        return *self.values, self.name, self.mode, self.text, self.template, self.number, self.shape

    def frame(self) -> pl.DataFrame:
        return _columns(self.kinds).frame([self.row()])


def _is_as_read(value: object, kind: DataType) -> bool:
    """Whether a constant is the same object when it is read from a table; a FLOAT, say, is rounded there."""
    if kind.is_integer:
        return type(value) is int
    return type(value) is (float if kind == DOUBLE else str) if kind in (DOUBLE, STRING) else False


@dataclass(frozen=True, eq=False)
class ManyRows:
    """Queries that come together, as a frame."""

    rows: pl.DataFrame

    @property
    def height(self) -> int:
        return self.rows.height

    @property
    def queries(self) -> list[int]:
        return self.rows[QUERY].to_list()

    @property
    def names(self) -> list[str]:
        return self.rows[NAME].to_list()

    @property
    def modes(self) -> list[str]:
        return self.rows[MODE].to_list()

    def numbered(self, first: int, shape: str) -> ManyRows:
        numbers = pl.Series(QUERY, range(first, first + self.height), pl.Int64)
        shapes = pl.repeat(shape, self.height, dtype=pl.String, eager=True).alias(SHAPE)
        return ManyRows(self.rows.hstack([numbers, shapes]))

    def constants(self, index: int) -> Sequence[object]:
        return self.rows[value_column(index)].to_list()

    def selected(self, keys: SelectionKeys, width: int) -> list[Hashable]:
        return keys.of_rows(self.rows, width)

    def frame(self) -> pl.DataFrame:
        return self.rows


@dataclass
class HeldRows:
    """What waits to be written, in the order in which it came as far as the types are the same. Queries come under the
    lock of commits, but whoever reads does not hold it."""

    _frames: list[pl.DataFrame] = field(default_factory=list)
    _single: dict[_Columns, list[tuple[object, ...]]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __bool__(self) -> bool:
        return bool(self._frames or self._single)

    def add(self, rows: NewRows) -> None:
        if isinstance(rows, SingleRow):
            self._add(_columns(rows.kinds), rows.row())
        else:
            self._frames.append(rows.frame())

    def add_equal(self, rows: NewRows, having: Sequence[int]) -> NewRows | None:
        """Add those that have rows of others; gives those that have rows of their own."""
        if isinstance(rows, SingleRow):
            self._add(_columns(rows.kinds, has_row_of_other=True), (*rows.row(), *having))
            return None
        marked = rows.frame().with_columns(pl.Series(EQUAL_TO, having, pl.Int64))
        self._frames.append(marked.filter(pl.col(EQUAL_TO) != pl.col(QUERY)))
        own = marked.filter(pl.col(EQUAL_TO) == pl.col(QUERY)).drop(EQUAL_TO)
        return ManyRows(own) if own.height else None

    def _add(self, columns: _Columns, row: tuple[object, ...]) -> None:
        with self._lock:
            self._single.setdefault(columns, []).append(row)

    def frames(self) -> list[pl.DataFrame]:
        """All of it; of one frame the columns are the same, and not the shapes."""
        with self._lock:
            self._frames += [columns.frame(rows) for columns, rows in self._single.items()]
            self._single.clear()
            return [*self._frames]

    def without(self, queries: Collection[int]) -> HeldRows:
        gone = np.fromiter(queries, np.int64)
        stay = [~np.isin(rows[QUERY].to_numpy(), gone) for rows in self.frames()]
        return HeldRows([only(rows, kept) for rows, kept in zip(self.frames(), stay, strict=True) if kept.any()])
