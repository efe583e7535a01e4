"""JSON that writes half of a surrogate pair, `"\\ud800"`, which is no text: Spark reads it as `?` and does not say so.

So where texts have a `?`, the file they came from is searched for such halves, which is cheap. A file that has some is
read once more, line by line, with those lines marked: a marked line is no JSON, and thus malformed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from millstream.spark.shapes import PACKED, local_name, unpacked

MARK = "\x00"
_PIECE = 1 << 24  # bytes that are searched at a time
# A half without its other half; and what an escaped backslash may hide, which is looked at more closely.
_SUSPICIOUS = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]|\\\\u[dD]"
)


def has_halves(path: str, start: int, length: int, names: Sequence[str]) -> bool:
    """Whether a line of a part of a file may write half a character in one of these columns. Files of other file
    systems, and those packed in ways of Hadoop's, are not searched."""
    name = local_name(unquote(path))
    if name is None or name.lower().endswith(tuple(PACKED)):
        return False
    return any(is_broken(line, names) for piece in _pieces(name, start, length) for line in _suspicious(piece))


def _pieces(name: str, start: int, length: int) -> Iterator[bytes]:
    """The lines that begin in a part of a file, many at a time, and perhaps some around."""
    with unpacked(name) as file:
        file.seek(start)
        packed = not start and hasattr(file, "peek") and name.lower().endswith((".gz", ".bz2", ".zst"))
        while packed or file.tell() <= start + length:
            piece = file.read(_PIECE) + file.readline()
            if not piece:
                return
            yield piece


def _suspicious(piece: bytes) -> Iterator[bytes]:
    end = 0
    for found in _SUSPICIOUS.finditer(piece):
        if found.start() >= end:
            start, end = piece.rfind(b"\n", 0, found.start()) + 1, piece.find(b"\n", found.end())
            end = len(piece) if end < 0 else end
            yield piece[start:end]


def is_broken(line: bytes, names: Sequence[str]) -> bool:
    """Whether a suspicious line has half a character in one of these columns, or cannot be understood."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return True
    rows = found if isinstance(found, list) else [found]
    return any(broken_column(row, names) is not None for row in rows)


def broken_column(row: Any, names: Iterable[str]) -> str | None:
    """The first of the columns whose text has half a character in it."""
    values = row if isinstance(row, dict) else {}
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
            return name
    return None


def marking(names: Sequence[str]) -> Any:
    """For `mapInArrow`: lines as bytes, with a mark before those that are broken."""
    return partial(_marked, tuple(names))


def _marked(names: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        lines = batch.column(0).to_pylist()
        made = [MARK.encode() + line if _is_to_be_marked(line, names) else line for line in lines]
        yield pa.RecordBatch.from_arrays([pa.array(made, batch.schema.field(0).type)], names=batch.schema.names)


def _is_to_be_marked(line: bytes, names: Sequence[str]) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return _SUSPICIOUS.search(line) is not None and is_broken(line, names)
