"""Tables as people see them: on a terminal as wide as that is, elsewhere as plain text that other programs take."""

from __future__ import annotations

from typing import TextIO

import pyarrow as pa

from millstream.answers.aligned import MOST, aligned, is_number, row_count, shown_value, values_of


def write_table(out: TextIO, table: pa.Table, most: int = MOST) -> None:
    """Write the first rows, and how many there are."""
    if out.isatty() and table.num_columns:
        _write_wide(out, table, most)
    else:
        out.write(f"{aligned(table, most)}\n")
    out.flush()


def _write_wide(out: TextIO, table: pa.Table, most: int) -> None:
    """What is too long for the terminal goes on in further lines of its cell."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for field in table.schema:
        drawn.add_column(
            Text(shown_value(field.name)), justify="right" if is_number(field.type) else "left", overflow="fold"
        )
    for batch in table.slice(0, most).to_batches(1_000):
        for row in zip(*(values_of(column) for column in batch.columns), strict=True):
            drawn.add_row(*(Text("NULL", style="dim") if value is None else Text(shown_value(value)) for value in row))
    console = Console(file=out, highlight=False)
    console.print(drawn)
    console.print(row_count(table, most), markup=False)
