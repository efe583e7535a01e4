"""Tables as text, in columns that are aligned."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from wcwidth import wcswidth

_JOINER = "\u200d"
MOST = 10_000  # rows that are shown; more is a mistake on a screen


def aligned(table: pa.Table, most: int = MOST) -> str:
    """The rows below a header; numbers to the right, NULL as such, line ends as \\n."""
    shown = table.slice(0, most)
    columns = [[shown_value(value) for value in values_of(column)] for column in shown.columns]
    numeric = [is_number(field.type) for field in table.schema]
    widths = [
        max([_width(name), *map(_width, column)]) for name, column in zip(table.column_names, columns, strict=True)
    ]
    header = " | ".join(_padded(name, width, False) for name, width in zip(table.column_names, widths, strict=True))
    lines = [header.rstrip(), "-+-".join("-" * width for width in widths)]
    for row in zip(*columns, strict=True):
        cells = zip(row, widths, numeric, strict=True)
        lines.append(" | ".join(_padded(text, width, right) for text, width, right in cells).rstrip())
    lines.append(row_count(table, most))
    return "\n".join(lines)


def values_of(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """The values of a column; as texts where Python has none of them, which knows the years 1 to 9999 only."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        import polars as pl  # slow to import, and most do without

        return pl.Series(column).cast(pl.String).to_list()


def row_count(table: pa.Table, most: int) -> str:
    count = table.num_rows
    return f"({count} row{'' if count == 1 else 's'}{f', {most} shown' if count > most else ''})"


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def shown_value(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "x'" + value.hex() + "'"
    text = str(value)
    if text.isprintable():
        return text
    # What is not printable would break the columns, or the terminal; what joins emoji is a part of them.
    shown = (c if c.isprintable() or c == _JOINER else c.encode("unicode_escape").decode() for c in text)
    return "".join(shown)


def _width(text: str) -> int:
    """Columns of a terminal."""
    if text.isascii():
        return len(text)
    width: int = wcswidth(text)
    return width if width >= 0 else len(text)


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space
