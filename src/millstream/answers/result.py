"""What a statement gives, here or at a service."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from millstream.answers.aligned import aligned
from millstream.answers.visible import MOST, AnswerRows
from millstream.errors import InputError


@dataclass(eq=False, repr=False)
class StatementResult(AnswerRows):
    """A message, and rows where the statement gives some."""

    message: str
    table: pa.Table | None = None
    notices: tuple[str, ...] = ()  # what the author should know: of the text, and of the past that it saw
    # Of an answer that rows will change which have come already: up to when it is, and what they wait for.
    waiting: str = field(default="", kw_only=True)

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table; `ms.InputError` where the statement gave none."""
        if self.table is None:
            raise InputError("the statement gave no rows", detail=self.message, hint="ask a query or SHOW for some")
        return self.table

    @property
    def has_rows(self) -> bool:
        """Whether there is a table to look at, and not only its message."""
        return self.table is not None and not self._is_text(self.table)

    def _is_text(self, table: pa.Table) -> bool:
        """Whether the rows are the message once more, a line each or as a whole: a plan, a statement."""
        if table.num_columns != 1 or table.num_rows not in (1, self.message.count("\n") + 1):
            return False
        return pa.types.is_string(table.schema.types[0]) and "\n".join(map(str, table[0].to_pylist())) == self.message

    def __str__(self) -> str:
        if self.table is None or not self.has_rows:
            return self.message
        return "\n".join([aligned(self.table, MOST), *self.notices])

    def __repr__(self) -> str:
        return str(self)  # what an interpreter shows of an answer is the answer

    def _repr_html_(self) -> str | None:
        return super()._repr_html_() if self.has_rows else None
