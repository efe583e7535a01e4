"""`ms.connect("http://...")`: the database that a service serves, with the methods of a local one; and the same for who
awaits, `ms.connect_async("http://...")`."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import pyarrow as pa

from millstream.answers.result import StatementResult
from millstream.client.answers import instant_to
from millstream.client.http import AsyncServiceClient, ServiceClient, quoted
from millstream.client.keys import KEY, CountingKeys
from millstream.client.query import AsyncQuery, QueryCalls, RemoteQuery
from millstream.client.records import json_rows
from millstream.client.result import AsyncResult, RemoteResult
from millstream.client.talk import Asynchronous, Pause, Service, Synchronous, Talk, asks, get, post
from millstream.client.template import AsyncTemplate, RemoteTemplate, TemplateCalls
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
Q = TypeVar("Q", bound=QueryCalls)
T = TypeVar("T", bound=TemplateCalls)
R = TypeVar("R", bound=StatementResult)


@dataclass(frozen=True)
class RemoteBackup:
    """A copy that a service has made: where, of which epoch, and how much there is of it."""

    path: Path
    epoch: int
    files: int
    bytes: int


class DatabaseCalls(Generic[Q, T, R]):
    """What the database of a service can be asked: streams, tables, views and standing queries."""

    _service: Service
    _keys: CountingKeys
    # What stands for queries, templates and results.
    _query_of: Callable[[dict[str, Any]], Q]
    _template_of: Callable[[dict[str, Any]], T]
    _result_of: Callable[[str, pa.Table | None, tuple[str, ...], Q | None, InsertResult | None], R]

    def _greet(self) -> Talk[None]:
        yield from self._service.asked(get("/v1/queries", limit=0))  # so that a wrong address or token is told now

    @asks
    def execute(self, text: str, params: Given | None = None) -> Talk[R]:
        """Run all statements of a text; gives the last one's result. `params` has values for ?, or for :name."""
        said_text = text if params is None else with_values(text, params)
        answer = yield from self._service.asked(post("/v1/execute", {"text": said_text}, accept=RowFormat.ARROW))
        if answer.kind.startswith(str(RowFormat.ARROW)):
            table, said = from_arrow_stream(answer.body)
        else:
            table, said = None, answer.json()
        query = self._query_of(said["query"]) if said.get("query") else None
        insert = InsertResult(**said["insert"]) if said.get("insert") else None
        result = self._result_of(said["message"], table, tuple(said.get("notices", ())), query, insert)
        result.waiting = said.get("waiting", "")
        return result

    @asks
    def register(self, cql: str, name: str | None = None, mode: str = "eager") -> Talk[Q]:
        """Make a text a standing query, from now on and over the past that is kept."""
        answer = yield from self._service.asked(post("/v1/queries", {"cql": cql, "name": name, "mode": mode}))
        return self._query_of(answer.json())

    @asks
    def register_many(
        self,
        text: str,
        rows: Any,
        names: Sequence[str] | None = None,
        mode: str | None = None,
        *,
        template: str | None = None,
    ) -> Talk[Any]:
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
            answer = yield from self._service.asked(post("/v1/templates", body=body, kind=RowFormat.ARROW))
            return self._template_of(answer.json())
        body = to_arrow_stream(table, {"template": text, **note})
        made = (yield from self._service.asked(post("/v1/queries/many", body=body, kind=RowFormat.ARROW))).json()
        common = {"kind": made["kind"], "mode": made["mode"], "columns": made["columns"]}
        notices = made["notices"] or [[]] * len(made["names"])
        return [
            self._query_of({"name": name, "notices": own_notices, **common})
            for name, own_notices in zip(made["names"], notices, strict=True)
        ]

    @asks
    def template(self, name: str) -> Talk[T]:
        return self._template_of((yield from self._service.asked(get(f"/v1/templates/{quoted(name)}"))).json())

    @asks
    def templates(self) -> Talk[list[T]]:
        answer = yield from self._service.asked(get("/v1/templates"))
        return [self._template_of(about) for about in answer.json()["templates"]]

    @asks
    def query(self, name: str) -> Talk[Q]:
        return self._query_of((yield from self._service.asked(get(f"/v1/queries/{quoted(name)}"))).json())

    @asks
    def queries(self) -> Talk[list[Q]]:
        answer = yield from self._service.asked(get("/v1/queries", sort="registered"))
        return [self._query_of(about) for about in answer.json()["queries"]]

    @asks
    def results(self, queries: Sequence[QueryCalls | str] | None = None, at: Any = None) -> Talk[pa.Table]:
        """The answers of many queries with the same columns in one table, each row with its query's name (`_query`).
        Queries are given as such or by name."""
        given = [queries] if isinstance(queries, str | QueryCalls) else queries
        names = None if given is None else [query if isinstance(query, str) else query.name for query in given]
        asked = {"queries": names, "at": instant_to(at)}
        answer = yield from self._service.asked(post("/v1/results", asked, accept=RowFormat.ARROW))
        return from_arrow_stream(answer.body)[0]

    @asks
    def explain(self, cql: str, format: str = "text") -> Talk[str]:  # noqa: A002 - as it is called in the statement
        """The plan of a query, the defaults it would get, and what it would share: as text, json, dot or svg."""
        asked = {"cql": cql, "format": check_format(format)}
        return str((yield from self._service.asked(post("/v1/explain", asked))).json()["plan"])

    @asks
    def plan(self, cql: str | None = None) -> Talk[PlanView]:
        """The plan of a query that is not registered, or the shared plan of all that are; it draws itself in a
        notebook."""
        if cql is None:
            document = (yield from self._service.asked(get("/v1/plan"))).json()
            return PlanView(whole_text(document), document)
        found = (yield from self._service.asked(post("/v1/explain", {"cql": cql, "format": "json"}))).json()
        return PlanView(found["text"], json.loads(found["plan"]), measured=False)

    @asks
    def insert(self, name: str, rows: Any, key: str | None = None) -> Talk[InsertResult]:
        """Add rows to a stream, or changes to a table declared CHANGES BY. All of them or none.

        Rows are tuples, dicts, or a pyarrow, polars or pandas table. Tables travel as Arrow. After a lost connection
        they are sent again, with a key by which they count once; give one to send them again from another process.
        """
        table = as_arrow(rows)
        if table is not None:
            body, kind = to_arrow_stream(table), RowFormat.ARROW
        else:
            body, kind = json_rows(name, rows), RowFormat.JSON
        with self._keys.next(key) as own:
            ask = post(f"/v1/streams/{quoted(name)}/rows", body=body, kind=kind, more={KEY: own})
            return InsertResult(**(yield from self._service.asked(ask)).json())

    @asks
    def advance(self, name: str | None = None, *, to: Any) -> Talk[None]:
        """A heartbeat: no element at or before `to` comes any more, on one stream or on all."""
        place = instant_to(to)
        if place is None:
            raise InputError("None is not an instant", hint="give a number of ticks or a timestamp")
        said = {"stream": name, "to": to if isinstance(to, int) else place}
        yield from self._service.asked(post("/v1/advance", said))

    @asks
    def run(self, until: str | float | None = "idle") -> Talk[None]:
        """Have the service read its sources until they have no more, or for so many seconds, and wait for it."""
        if until is None:
            raise NotSupportedError("a service reads its sources all the time", hint='use run("idle") to wait for it')
        if until != "idle" and (isinstance(until, bool) or not isinstance(until, int | float) or until < 0):
            raise BindError(f'run is until "idle" or for a number of seconds, not {until!r}')
        yield from self._service.asked(post("/v1/run", {"until": until}))

    @asks
    def resume_sink(self, name: str) -> Talk[None]:
        """Try a paused sink again, from the delivery that failed."""
        yield from self._service.asked(post(f"/v1/sinks/{quoted(name)}/resume"))

    @asks
    def backup(
        self, path: Any, *, copy: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Talk[RemoteBackup]:
        """Have the service copy its database to a new or empty directory there, and wait for it."""
        found = (yield from self._service.asked(post("/v1/backup", {"path": str(path), "copy": copy}))).json()
        while found["state"] == "running":
            if progress is not None and found["of_bytes"] is not None:
                progress(found["bytes"], found["of_bytes"])
            yield Pause(_GLANCE)
            found = (yield from self._service.asked(get("/v1/backup"))).json()
        if found["state"] != "done":
            raise error_of(found) or Error("the backup has failed")
        if progress is not None:
            progress(found["bytes"], found["bytes"])
        return RemoteBackup(Path(found["path"]), found["epoch"], found["files"], found["bytes"])

    @asks
    def stats(self) -> Talk[dict[str, Any]]:
        found: dict[str, Any] = (yield from self._service.asked(get("/v1/stats"))).json()
        return found

    def create_function(self, name: str, body: Callable[..., Any], returns: str, *, columns: str = "polars") -> None:
        raise _not_sent("functions")

    def create_aggregate(self, name: str, definition: type[Any], returns: str) -> None:
        raise _not_sent("aggregates")

    def create_sink(self, name: str, query: Any, deliver: Callable[..., Any]) -> None:
        raise _not_sent("sinks")

    @property
    def is_closed(self) -> bool:
        return self._service.is_closed

    def __repr__(self) -> str:
        return f"<Database {self._service.url}>"


class RemoteDatabase(DatabaseCalls[RemoteQuery, RemoteTemplate, RemoteResult], Synchronous):
    """Streams, tables, views and standing queries of a service."""

    if TYPE_CHECKING:  # what is given depends on what is asked for

        @overload  # type: ignore[override]
        def register_many(
            self, text: str, rows: Any, names: Sequence[str] | None = None, mode: str | None = None
        ) -> list[RemoteQuery]: ...
        @overload
        def register_many(
            self, text: str, rows: Any, names: Sequence[str] | None = None, mode: str | None = None, *, template: str
        ) -> RemoteTemplate: ...
        def register_many(self, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(self, url: str, token: str | None = None) -> None:
        self._client = self._service = service = ServiceClient(url, token)
        self._keys = CountingKeys()
        self._query_of = lambda about: RemoteQuery(service, about)
        self._template_of = lambda about: RemoteTemplate(service, about)
        self._result_of = RemoteResult
        try:
            service.do(self._greet())
        except Error:
            service.close()
            raise

    def close(self) -> None:
        """Leave the service, which goes on."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncDatabase(DatabaseCalls[AsyncQuery, AsyncTemplate, AsyncResult], Asynchronous):
    """The same for who awaits: methods and properties that ask the service give coroutines."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        async def register_many(
            self, text: str, rows: Any, names: Sequence[str] | None = None, mode: str | None = None
        ) -> list[AsyncQuery]: ...
        @overload
        async def register_many(
            self, text: str, rows: Any, names: Sequence[str] | None = None, mode: str | None = None, *, template: str
        ) -> AsyncTemplate: ...
        async def register_many(self, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(self, url: str, token: str | None = None) -> None:
        self._client = self._service = service = AsyncServiceClient(url, token)
        self._keys = CountingKeys()
        self._query_of = lambda about: AsyncQuery(service, about)
        self._template_of = lambda about: AsyncTemplate(service, about)
        self._result_of = AsyncResult

    async def _opened(self) -> Self:
        try:
            await self._client.do(self._greet())
        except BaseException:
            await self._client.close()
            raise
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        """So that a wrong address or token is told at once."""
        return self._opened().__await__()

    async def close(self) -> None:
        """Leave the service, which goes on."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return await self._opened()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _not_sent(what: str) -> Error:
    return NotSupportedError(
        f"{what} written in Python are not sent over the network",
        hint="open the database where it lies, with ms.connect(path), and create them there; queries may use them",
    )
