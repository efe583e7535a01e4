"""A template of a service: what `ms.Template` is, asked for over HTTP by its name."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, overload

import pyarrow as pa

from millstream.client.answers import RemoteAnswers
from millstream.client.query import RemoteQuery
from millstream.errors import EvaluationError
from millstream.names import MISSING
from millstream.wire.arrow import from_arrow_stream

_GLANCE = 0.1  # seconds


class RemoteTemplate(RemoteAnswers, Sequence[RemoteQuery]):
    """Queries of one text, of a service."""

    what = "template"
    path = "templates"

    def __len__(self) -> int:
        return int(self._ask("")["queries"])

    @overload
    def __getitem__(self, index: int) -> RemoteQuery: ...
    @overload
    def __getitem__(self, index: slice) -> list[RemoteQuery]: ...
    def __getitem__(self, index: int | slice) -> RemoteQuery | list[RemoteQuery]:
        return self._queries()[index]

    def __iter__(self) -> Iterator[RemoteQuery]:
        return iter(self._queries())

    def _queries(self) -> list[RemoteQuery]:
        return [RemoteQuery(self._service, about) for about in self._ask("/queries")["queries"]]

    @property
    def text(self) -> str:
        return str(self._about("text"))

    @property
    def failed(self) -> dict[str, EvaluationError]:
        """The queries that have failed, by name: they have no answers any more."""
        return {name: EvaluationError(said) for name, said in self._ask("")["failed"].items()}

    @property
    def notices(self) -> list[str]:
        """What a reader should know of the queries that have no rows in answers."""
        return list(self._ask("")["notices"])

    def stats(self) -> dict[str, Any]:
        found = self._ask("")
        return {name: found[name] for name in ("queries", "running", "filling", "failed", "mode")}

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the past that is kept has been worked through; tells whether it has, in so many seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._ask("")["filling"]:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(_GLANCE)
        return True

    def _table(self, body: bytes) -> pa.Table:
        """With the queries that have no rows, and why, in the metadata."""
        table, note = from_arrow_stream(body)
        missing = note.get("missing")
        return table if not missing else table.replace_schema_metadata({MISSING: json.dumps(missing)})

    def __repr__(self) -> str:
        return f"<Template {self.name}: {len(self)} queries {self.text}>"
