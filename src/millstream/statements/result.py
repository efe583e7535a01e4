"""What a statement gives."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from millstream.ingest.insert import InsertResult
from millstream.query import Query


@dataclass(frozen=True)
class Result:
    """What a statement gave: a message, and rows, a text or a query where there are some."""

    message: str
    table: pa.Table | None = None
    query: Query | None = None
    insert: InsertResult | None = None
    notices: tuple[str, ...] = ()  # what the author should know of the past that it saw

    def __str__(self) -> str:
        return self.message
