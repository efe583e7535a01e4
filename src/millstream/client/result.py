"""What a statement gave, when a service ran it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from millstream.client.query import RemoteQuery
from millstream.ingest.insert import InsertResult


@dataclass(frozen=True)
class RemoteResult:
    """A message, and rows, a text or a query where there are some: as `ms.Result`."""

    message: str
    table: pa.Table | None = None
    query: RemoteQuery | None = None
    insert: InsertResult | None = None
    notices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.message
