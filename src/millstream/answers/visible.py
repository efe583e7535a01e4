"""Tables that one can see, and hand on as they are to whoever takes Arrow."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millstream.answers.aligned import aligned, is_number, shown_value
from millstream.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes

MOST = 20  # rows that are shown where nobody says how many
_BATCH = 10_000  # rows that are made into tuples at a time


class Visible:
    """Something with a table: shown as text and HTML, and taken by pandas, Polars, DuckDB and pyarrow as it is."""

    def arrow(self) -> pa.Table:
        raise NotImplementedError

    def df(self) -> pd.DataFrame:
        """As a pandas table."""
        table: pd.DataFrame = self.arrow().to_pandas()
        return table

    def pl(self) -> pl.DataFrame:
        """As a Polars table."""
        import polars

        return polars.DataFrame(self.arrow())

    def show(self, rows: int = MOST) -> None:
        """Print the first rows."""
        sys.stdout.write(f"{aligned(self.arrow(), rows)}\n")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str | None:
        return html(self.arrow(), MOST)


class Answering(Visible):
    """Something that one asks for its answer, which is the table."""

    name: str
    if TYPE_CHECKING:  # of a service it is a plain attribute

        @property
        def kind(self) -> str: ...

    def result(self, at: Any = None) -> pa.Table:
        raise NotImplementedError

    def changes(self, since: Any = None) -> pa.Table:
        raise NotImplementedError

    def arrow(self) -> pa.Table:
        """The answer now."""
        return self.result()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows of the answer now."""
        return _tuples(self.arrow())

    def show(self, rows: int = MOST, *, at: Any = None) -> None:
        """Print the first rows of the answer now, or at an instant."""
        sys.stdout.write(f"{aligned(self.result(at), rows)}\n")

    def show_changes(self, since: Any = None, rows: int = MOST) -> None:
        """Print the first rows of `changes(since)`: what came (`_weight` 1) and went (-1), and when."""
        sys.stdout.write(f"{aligned(self.changes(since), rows)}\n")

    def plot(
        self,
        y: str | Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        since: Any = None,
        ax: Any = None,
    ) -> Axes:
        """Draw its numbers over time with matplotlib: a line for each column `y` (all that are numbers, where nobody
        says) and each value of the columns `by` (those that are texts), into the axes `ax` or new ones; gives these."""
        from millstream.answers.plotting import plot

        is_stream = self.kind == "stream"
        return plot(self.changes(since), is_stream=is_stream, title=self.name, y=y, by=by, ax=ax)


class AnswerRows(Visible):
    """A table whose rows one can go through, as often as one likes, or fetch one after the other."""

    _fetched = 0

    def __len__(self) -> int:
        return int(self.arrow().num_rows)

    def __bool__(self) -> bool:
        return True  # a statement was run, whether it gave rows or not

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples that know the names of their columns: so `pandas.DataFrame(answer)` has them."""
        table = self.arrow()
        row = type("Row", (tuple,), {"_fields": tuple(table.column_names), "__slots__": ()})
        for batch in table.to_batches(_BATCH):
            yield from map(row, _tuples(batch))

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None where all were fetched."""
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows, at most so many."""
        rows = _tuples(self.arrow().slice(self._fetched, max(size, 0)))
        self._fetched += len(rows)
        return rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows that were not fetched yet."""
        return self.fetchmany(self.arrow().num_rows)


def _tuples(rows: pa.Table | pa.RecordBatch) -> list[tuple[Any, ...]]:
    if not rows.num_columns:
        return [()] * rows.num_rows
    try:
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    except (OverflowError, ValueError) as error:
        raise InputError(
            "an answer has a date that is none of Python's", detail=str(error), hint="take it as Arrow: .arrow()"
        ) from None


def html(table: pa.Table, most: int) -> str:
    """The first rows as HTML, which has nothing in it that a value could run."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
    numeric = [is_number(field.type) for field in table.schema]
    lines = [
        "".join(
            f'<td style="text-align: {"right" if right else "left"}">{escape(shown_value(value))}</td>'
            for value, right in zip(row, numeric, strict=True)
        )
        for row in _tuples(table.slice(0, most))
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    count = f"{table.num_rows} row{'' if table.num_rows == 1 else 's'}"
    shown = f"{count}, {most} shown" if table.num_rows > most else count
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{shown}</p>"
