"""A template of a service: what `ms.Template` is, asked for over HTTP by its name."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, overload

import pyarrow as pa

from millstream.client.answers import AnswerCalls, AsyncAnswers, RemoteAnswers
from millstream.client.query import AsyncQuery, RemoteQuery
from millstream.client.talk import Pause, Talk, asked_property, asks
from millstream.errors import EvaluationError
from millstream.names import MISSING
from millstream.wire.arrow import from_arrow_stream

_GLANCE = 0.1  # seconds


class TemplateCalls(AnswerCalls):
    """What queries of one text can be asked together."""

    what = "template"
    path = "templates"

    @asked_property
    def text(self) -> Talk[str]:
        return str((yield from self._about("text")))

    @asked_property
    def failed(self) -> Talk[dict[str, EvaluationError]]:
        """The queries that have failed, by name: they have no answers any more."""
        return {name: EvaluationError(said) for name, said in (yield from self._ask(""))["failed"].items()}

    @asked_property
    def notices(self) -> Talk[list[str]]:
        """What a reader should know of the queries that have no rows in answers."""
        return list((yield from self._ask(""))["notices"])

    @asks
    def stats(self) -> Talk[dict[str, Any]]:
        found = yield from self._ask("")
        return {name: found[name] for name in ("queries", "running", "filling", "failed", "mode")}

    @asks
    def wait(self, timeout: float | None = None) -> Talk[bool]:
        """Wait until the past that is kept has been worked through; tells whether it has, in so many seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (yield from self._ask(""))["filling"]:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            yield Pause(_GLANCE)
        return True

    @asks
    def _count(self) -> Talk[int]:
        return int((yield from self._ask(""))["queries"])

    @asks
    def _listed(self) -> Talk[list[dict[str, Any]]]:
        return list((yield from self._ask("/queries"))["queries"])

    def _table(self, body: bytes) -> pa.Table:
        """With the queries that have no rows, and why, in the metadata."""
        table, note = from_arrow_stream(body)
        missing = note.get("missing")
        return table if not missing else table.replace_schema_metadata({MISSING: json.dumps(missing)})


class RemoteTemplate(TemplateCalls, RemoteAnswers, Sequence[RemoteQuery]):
    """Queries of one text, of a service."""

    def __len__(self) -> int:
        return self._count()

    @overload
    def __getitem__(self, index: int) -> RemoteQuery: ...
    @overload
    def __getitem__(self, index: slice) -> list[RemoteQuery]: ...
    def __getitem__(self, index: int | slice) -> RemoteQuery | list[RemoteQuery]:
        return self._queries()[index]

    def __iter__(self) -> Iterator[RemoteQuery]:
        return iter(self._queries())

    def _queries(self) -> list[RemoteQuery]:
        return [RemoteQuery(self._client, about) for about in self._listed()]

    def __repr__(self) -> str:
        return f"<Template {self.name}: {len(self)} queries {self.text}>"


class AsyncTemplate(TemplateCalls, AsyncAnswers):
    """Queries of one text, of a service, for who awaits: `async for query in template`."""

    async def count(self) -> int:
        """How many queries there are."""
        return await self._count()

    async def queries(self) -> list[AsyncQuery]:
        return [AsyncQuery(self._client, about) for about in await self._listed()]

    async def __aiter__(self) -> AsyncIterator[AsyncQuery]:
        for query in await self.queries():
            yield query

    def __repr__(self) -> str:
        return f"<Template {self.name}>"
