"""The least and the greatest value of each column, of frames and of files, None where they are not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq


def bounds_of_frame(frame: pl.DataFrame) -> dict[str, tuple[Any, Any] | None]:
    single = [column for column in frame.get_columns() if not column.dtype.is_nested()]  # lists have no order
    found = ((column.name, column.min(), column.max()) for column in single)
    return {name: None if least is None else (least, greatest) for name, least, greatest in found}


def bounds_of_file(path: Path) -> dict[str, tuple[Any, Any] | None]:
    """The least and greatest values that a Parquet file says its columns have, where it says so of all its parts."""
    try:
        footer = pq.read_metadata(path)
    except (OSError, pa.ArrowException):
        return {}  # whoever reads it will say why
    found: dict[str, tuple[Any, Any] | None] = {}
    for group in range(footer.num_row_groups):
        for place in range(footer.num_columns):
            column = footer.row_group(group).column(place)
            known, name = _least_and_greatest(column.statistics), column.path_in_schema
            before = found.get(name, known)
            if known is None or before is None:
                found[name] = None
            else:
                found[name] = min(before[0], known[0]), max(before[1], known[1])
    return found


def _least_and_greatest(statistics: Any) -> tuple[Any, Any] | None:
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        return statistics.min, statistics.max
    except (ValueError, OverflowError):
        return None  # a date that Python has no value for
