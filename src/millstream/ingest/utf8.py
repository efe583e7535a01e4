"""Texts from outside: bytes that only claim to be UTF-8 are found before anybody works with them.

Arrow takes strings over without looking at them, and Polars panics on the first that is broken, wherever it is met.
"""

from __future__ import annotations

import pyarrow as pa

_SHOWN = 40  # bytes of a broken text that an error shows


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_valid(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether all texts of a column of strings are UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def readable(column: pa.Array) -> tuple[pa.Array, list[tuple[int, bytes]]]:
    """A column of strings, or of bytes that should be strings, as one of UTF-8: with the rows that were not, whose
    bytes are spelled out instead (`caf\\xe9`)."""
    if is_text(column.type) and is_valid(column):
        return column, []
    try:
        texts = column.cast(pa.string())
        if is_valid(texts):
            return texts, []
    except pa.ArrowInvalid:
        pass
    shown, broken = [], []
    for row, value in enumerate(as_bytes(column).to_pylist()):
        try:
            shown.append(None if value is None else value.decode("utf-8"))
        except UnicodeDecodeError:
            shown.append(value.decode("utf-8", "backslashreplace"))
            broken.append((row, value))
    return pa.array(shown, pa.string()), broken


def as_bytes(column: pa.Array) -> pa.Array:
    """The same values, of which nothing is claimed."""
    if not is_text(column.type):
        return column
    if pa.types.is_string_view(column.type):
        return column.view(pa.binary_view())
    return column.view(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())


def shown(value: bytes) -> str:
    """Broken text as an error shows it: from just before the first byte that is wrong."""
    try:
        value.decode("utf-8")
        start = 0
    except UnicodeDecodeError as error:
        start = max(0, error.start - _SHOWN // 2)
    cut = value[start : start + _SHOWN]
    before, after = "..." if start else "", "..." if start + _SHOWN < len(value) else ""
    return f"{before}{cut.decode('utf-8', 'backslashreplace')}{after}"
