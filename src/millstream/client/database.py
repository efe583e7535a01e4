"""`ms.connect("http://...")`: the database that a service serves, with the methods of a local one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, overload
from urllib.parse import quote

import pyarrow as pa

from millstream.client.answers import instant_to
from millstream.client.http import ServiceClient
from millstream.client.keys import CountingKeys
from millstream.client.query import RemoteQuery
from millstream.client.records import json_rows
from millstream.client.result import RemoteResult
from millstream.client.template import RemoteTemplate
from millstream.drawing.plan import PlanView, check_format, whole_text
from millstream.errors import BindError, Error, InputError, NotSupportedError
from millstream.ingest.table_rows import InsertResult
from millstream.ingest.typed_rows import as_arrow
from millstream.language.given_values import Given, with_values
from millstream.language.statement_parser import parse_query
from millstream.language.syntax import numbered_parameters
from millstream.queries.parameters import parameter_arrays
from millstream.wire.arrow import from_arrow_stream, to_arrow_stream
from millstream.wire.errors import error_of
from millstream.wire.media import RowFormat

_GLANCE = 0.2  # seconds


@dataclass(frozen=True)
class RemoteBackup:
    """A copy that a service has made: where, of which epoch, and how much there is of it."""

    path: Path
    epoch: int
    files: int
    bytes: int


class RemoteDatabase:
    """Streams, tables, views and standing queries of a service."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._service, self._keys = ServiceClient(url, token), CountingKeys()
        try:
            self._service.get("/v1/queries", limit=0)  # so that a wrong address or token is told now
        except Error:
            self._service.close()
            raise

    def execute(self, text: str, params: Given | None = None) -> RemoteResult:
        """Run all statements of a text; gives the last one's result. `params` has values for ?, or for :name."""
        said_text = text if params is None else with_values(text, params)
        answer = self._service.post("/v1/execute", {"text": said_text}, accept=RowFormat.ARROW)
        if answer.kind.startswith(str(RowFormat.ARROW)):
            table, said = from_arrow_stream(answer.body)
        else:
            table, said = None, answer.json()
        query = RemoteQuery(self._service, said["query"]) if said.get("query") else None
        insert = InsertResult(**said["insert"]) if said.get("insert") else None
        return RemoteResult(said["message"], table, tuple(said.get("notices", ())), query, insert)

    def register(self, cql: str, name: str | None = None, mode: str = "eager") -> RemoteQuery:
        """Make a text a standing query, from now on and over the past that is kept."""
        answer = self._service.post("/v1/queries", {"cql": cql, "name": name, "mode": mode})
        return RemoteQuery(self._service, answer.json())

    @overload
    def register_many(
        self, text: str, rows: Any, names: Sequence[str] | None = None, mode: str | None = None
    ) -> list[RemoteQuery]: ...
    @overload
    def register_many(
        self, text: str, rows: Any, names: Sequence[str] | None = None, mode: str | None = None, *, template: str
    ) -> RemoteTemplate: ...
    def register_many(
        self,
        text: str,
        rows: Any,
        names: Sequence[str] | None = None,
        mode: str | None = None,
        *,
        template: str | None = None,
    ) -> list[RemoteQuery] | RemoteTemplate:
        """Make a text a standing query for each row, whose values stand for its parameters (?), in order; with the name
        of a template they are its queries, and the template is given."""
        count = len(numbered_parameters(parse_query(text)))
        if not count:
            raise BindError("a template without parameters", hint="write ? where queries differ, or use register")
        arrays = parameter_arrays(rows, count)
        table = pa.Table.from_arrays(arrays, [f"p{place}" for place in range(count)])
        note: dict[str, Any] = {} if names is None else {"names": list(names)}
        note |= {} if mode is None else {"mode": mode}
        if template is not None:
            body = to_arrow_stream(table, {"name": template, "text": text, **note})
            return RemoteTemplate(
                self._service, self._service.post("/v1/templates", body=body, kind=RowFormat.ARROW).json()
            )
        body = to_arrow_stream(table, {"template": text, **note})
        made = self._service.post("/v1/queries/many", body=body, kind=RowFormat.ARROW).json()
        common = {"kind": made["kind"], "mode": made["mode"], "columns": made["columns"]}
        notices = made["notices"] or [[]] * len(made["names"])
        return [
            RemoteQuery(self._service, {"name": name, "notices": own_notices, **common})
            for name, own_notices in zip(made["names"], notices, strict=True)
        ]

    def template(self, name: str) -> RemoteTemplate:
        return RemoteTemplate(self._service, self._service.get(f"/v1/templates/{quote(name, safe='')}").json())

    def templates(self) -> list[RemoteTemplate]:
        return [
            RemoteTemplate(self._service, about) for about in self._service.get("/v1/templates").json()["templates"]
        ]

    def query(self, name: str) -> RemoteQuery:
        return RemoteQuery(self._service, self._service.get(f"/v1/queries/{quote(name, safe='')}").json())

    def queries(self) -> list[RemoteQuery]:
        return [
            RemoteQuery(self._service, about)
            for about in self._service.get("/v1/queries", sort="registered").json()["queries"]
        ]

    def results(self, queries: Sequence[RemoteQuery | str] | None = None, at: Any = None) -> pa.Table:
        """The answers of many queries with the same columns in one table, each row with its query's name (`_query`).
        Queries are given as such or by name."""
        given = [queries] if isinstance(queries, str | RemoteQuery) else queries
        names = None if given is None else [query if isinstance(query, str) else query.name for query in given]
        asked = {"queries": names, "at": instant_to(at)}
        return from_arrow_stream(self._service.post("/v1/results", asked, accept=RowFormat.ARROW).body)[0]

    def explain(self, cql: str, format: str = "text") -> str:  # noqa: A002 - as it is called in the statement
        """The plan of a query, the defaults it would get, and what it would share: as text, json, dot or svg."""
        asked = {"cql": cql, "format": check_format(format)}
        return str(self._service.post("/v1/explain", asked).json()["plan"])

    def plan(self, cql: str | None = None) -> PlanView:
        """The plan of a query that is not registered, or the shared plan of all that are; it draws itself in a
        notebook."""
        if cql is None:
            document = self._service.get("/v1/plan").json()
            return PlanView(whole_text(document), document)
        found = self._service.post("/v1/explain", {"cql": cql, "format": "json"}).json()
        return PlanView(found["text"], json.loads(found["plan"]), measured=False)

    def insert(self, name: str, rows: Any, key: str | None = None) -> InsertResult:
        """Add rows to a stream, or changes to a table declared CHANGES BY. All of them or none.

        Rows are tuples, dicts, or a pyarrow, polars or pandas table. Tables travel as Arrow. After a lost connection
        they are sent again, with a key by which they count once; give one to send them again from another process.
        """
        table = as_arrow(rows)
        if table is not None:
            body, kind = to_arrow_stream(table), RowFormat.ARROW
        else:
            body, kind = json_rows(name, rows), RowFormat.JSON
        path = f"/v1/streams/{quote(name, safe='')}/rows"
        with self._keys.next(key) as own:
            return InsertResult(**self._service.insert(path, body, kind, own).json())

    def advance(self, name: str | None = None, *, to: Any) -> None:
        """A heartbeat: no element at or before `to` comes any more, on one stream or on all."""
        place = instant_to(to)
        if place is None:
            raise InputError("None is not an instant", hint="give a number of ticks or a timestamp")
        self._service.post("/v1/advance", {"stream": name, "to": to if isinstance(to, int) else place})

    def run(self, until: str | float | None = "idle") -> None:
        """Have the service read its sources until they have no more, or for so many seconds, and wait for it."""
        if until is None:
            raise NotSupportedError("a service reads its sources all the time", hint='use run("idle") to wait for it')
        if until != "idle" and (isinstance(until, bool) or not isinstance(until, int | float) or until < 0):
            raise BindError(f'run is until "idle" or for a number of seconds, not {until!r}')
        self._service.post("/v1/run", {"until": until})

    def resume_sink(self, name: str) -> None:
        """Try a paused sink again, from the delivery that failed."""
        self._service.post(f"/v1/sinks/{quote(name, safe='')}/resume")

    def backup(
        self, path: Any, *, copy: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> RemoteBackup:
        """Have the service copy its database to a new or empty directory there, and wait for it."""
        found = self._service.post("/v1/backup", {"path": str(path), "copy": copy}).json()
        while found["state"] == "running":
            if progress is not None and found["of_bytes"] is not None:
                progress(found["bytes"], found["of_bytes"])
            time.sleep(_GLANCE)
            found = self._service.get("/v1/backup").json()
        if found["state"] != "done":
            raise error_of(found) or Error("the backup has failed")
        if progress is not None:
            progress(found["bytes"], found["bytes"])
        return RemoteBackup(Path(found["path"]), found["epoch"], found["files"], found["bytes"])

    def create_function(self, name: str, body: Callable[..., Any], returns: str, *, columns: str = "polars") -> None:
        raise _not_sent("functions")

    def create_aggregate(self, name: str, definition: type[Any], returns: str) -> None:
        raise _not_sent("aggregates")

    def create_sink(self, name: str, query: Any, deliver: Callable[..., Any]) -> None:
        raise _not_sent("sinks")

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = self._service.get("/v1/stats").json()
        return found

    @property
    def is_closed(self) -> bool:
        return self._service.is_closed

    def close(self) -> None:
        """Leave the service, which goes on."""
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Database {self._service.url}>"


def _not_sent(what: str) -> Error:
    return NotSupportedError(
        f"{what} written in Python are not sent over the network",
        hint="open the database where it lies, with ms.connect(path), and create them there; queries may use them",
    )
