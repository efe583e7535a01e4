"""What a statement gives."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.answers.result import StatementResult
from millstream.ingest.table_rows import InsertResult
from millstream.query import Query


@dataclass(eq=False, repr=False)
class Result(StatementResult):
    """What a statement gave: a message, and rows, a text or a query where there are some.

    One can print it, go through its rows, fetch them, and hand it to whatever takes Arrow.
    """

    query: Query | None = None
    insert: InsertResult | None = None
