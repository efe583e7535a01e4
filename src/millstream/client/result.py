"""What a statement gave, when a service ran it."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.answers.result import StatementResult
from millstream.client.query import AsyncQuery, RemoteQuery
from millstream.ingest.table_rows import InsertResult


@dataclass(eq=False, repr=False)
class RemoteResult(StatementResult):
    """A message, and rows, a text or a query where there are some: as `ms.Result`."""

    query: RemoteQuery | None = None
    insert: InsertResult | None = None


@dataclass(eq=False, repr=False)
class AsyncResult(StatementResult):
    """The same, with a query for who awaits."""

    query: AsyncQuery | None = None
    insert: InsertResult | None = None
