"""The routes under /v1: the Python contract, one for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Annotated, Any, Literal

import pyarrow as pa
from fastapi import APIRouter, Depends, Header, Query, Request, Response

from millstream import query as standing
from millstream.database import Database
from millstream.drawing.plan import PlanView
from millstream.errors import AccessError, Error, InputError, LimitError, NameError, TooLargeError
from millstream.inspection.listing import Wanted
from millstream.plan.definitions import StreamDefinition
from millstream.service import documents as doc
from millstream.service.answers import (
    PARQUET,
    FileFormat,
    NotThere,
    as_json,
    described,
    download,
    extent_of,
    part,
    part_of_each,
    rows,
)
from millstream.service.callers import Caller, current_caller
from millstream.service.events import Body, EventStream, Follows
from millstream.service.gate import RequestRefused
from millstream.service.inspection_documents import Extent
from millstream.service.many import Limit, Offset, body_of, registration
from millstream.service.roles import Change, needed_for
from millstream.service.tokens import Role
from millstream.service.work import DatabaseService
from millstream.service.writable import WritableNames
from millstream.statements.result import Result
from millstream.wire.bodies import pieces_of
from millstream.wire.media import RowFormat, accepted, sent
from millstream.wire.rows import columns_of, encode
from millstream.wire.values import instant_of

At = Annotated[str | None, Query(description="An instant: a number of ticks, or a timestamp's text.", max_length=64)]
Key = Annotated[
    str | None, Header(description="Rows sent again with the same key within 24 hours count once.", max_length=200)
]
Download = Annotated[
    FileFormat | None, Query(alias="format", description="As a file to be kept; otherwise Accept names the format.")
]
PlanFormat = Literal["text", "json", "dot", "svg"]
Most = Annotated[
    int | None,
    Query(
        ge=0, le=1 << 31, description="So many rows at most: the first, of streams and changes the last; with `total`."
    ),
]
State = Literal["running", "filling", "failed"]
Sort = Literal["state", "name", "cost", "rows", "registered"]
_MOST_TEXT = 1 << 20  # characters, of those who may read only
ROWS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": doc.Rows,
        "content": {kind: {} for kind in (*map(str, RowFormat), PARQUET) if kind != str(RowFormat.JSON)},
        "description": "The rows, in the format that Accept names; with `format`, a file, perhaps of Parquet.",
    }
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            str(RowFormat.JSON): {
                "schema": {"type": "array", "items": {"anyOf": [{"type": "array"}, {"type": "object"}]}}
            },
            str(RowFormat.NDJSON): {"schema": {"type": "string"}},
            str(RowFormat.CSV): {"schema": {"type": "string"}},
            str(RowFormat.ARROW): {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def needs(role: Role) -> Any:
    """A route for callers of a role, or more."""

    async def check(request: Request) -> None:  # what is not async would be given a thread
        check_role(request, role)

    return Depends(check)


def check_role(request: Request, role: Role) -> None:
    had = request.scope.get("role")
    if had is None or had < role:
        raise RequestRefused(403, AccessError(f"this needs a token for {role}", detail=f"the token is for {had}"))


def check_names(what: str, *names: str | None) -> None:
    """Refuse a caller who may change some names only, and not these."""
    try:
        current_caller().writable.check(names, what)
    except AccessError as error:
        raise RequestRefused(403, error) from None


def check_writable(caller: Caller, what: str, names: Sequence[str] | None) -> None:
    """The same for many names, in a thread that works for the caller."""
    try:
        caller.writable.check([None] if names is None else names, what)
    except AccessError as error:
        raise RequestRefused(403, error) from None


def check_room(service: DatabaseService, follows: Follows) -> None:
    """Refuse another one who stays."""
    if service.limits.followers and follows.count >= service.limits.followers:
        raise LimitError(f"there are {follows.count} followers already", hint="come back later, or use /changes")


def _query(database: Database, name: str) -> standing.Query:
    try:
        return database.query(name)
    except NameError as error:
        raise NotThere(error) from None


def routes(service: DatabaseService, follows: Callable[[], Follows]) -> APIRouter:
    """All routes of a service."""
    router = APIRouter(prefix="/v1")
    router.include_router(_statements(service))
    router.include_router(_queries(service, follows))
    router.include_router(_inputs(service))
    return router


def _statements(service: DatabaseService) -> APIRouter:
    router, database = APIRouter(tags=["statements"]), service.database

    @router.post("/execute", response_model=doc.Done, summary="Run statements; gives the last one's result")
    async def execute(request: Request, asked: doc.Statements) -> Response:
        form = accepted(request.headers.get("accept"))

        caller, changes = current_caller(), list[Change]()

        def compute() -> Response:
            check_role(request, needed_for(asked.text).role)
            return _done(request, database.execute(asked.text), form)

        def work() -> Response | None:
            needed = needed_for(asked.text)
            check_role(request, needed.role)
            _check_changes(database, caller.writable, needed.changes)
            if needed.role == Role.READ:
                return None  # it is not for those who write
            changes.extend(needed.changes)
            if needed.concerns_sources:
                with service.sources.paused():
                    return _done(request, database.execute(asked.text), form)
            return _done(request, database.execute(asked.text), form)

        reads = request.scope["role"] == Role.READ
        if reads and len(asked.text) > _MOST_TEXT:
            raise TooLargeError(f"a text of more than {_MOST_TEXT:,} characters", hint="a token for write may send it")
        try:
            done = None if reads else await service.write(asked.text, work)
        except Error as error:
            for change in changes:  # of several statements those before the one that failed have been run
                service.changed(change.did, *_named(change), failed=type(error).__name__)
            raise
        for change in changes:
            service.changed(change.did, *_named(change))
        return await service.compute(asked.text, compute) if done is None else done

    @router.post("/explain", response_model=doc.Plan, summary="The plan of a query", dependencies=[needs(Role.READ)])
    async def explain(asked: doc.PlanQuestion) -> Response:
        return await service.compute(asked.cql, lambda: _explained(database.plan(asked.cql), asked.form))

    @router.get(
        "/stats", response_model=dict[str, Any], summary="What the database holds", dependencies=[needs(Role.READ)]
    )
    async def stats() -> Response:
        return await service.read(lambda: as_json(database.stats()))

    return router


def _check_changes(database: Database, writable: WritableNames, changes: Iterable[Change]) -> None:
    """Refuse statements that change what is not within the caller's names; those of a template change its queries."""
    if not writable.patterns:
        return
    names = {template.name.lower(): template for template in database.templates()}
    try:
        for change in changes:
            writable.check([change.name], change.did)
            template = names.get((change.name or "").lower()) if change.is_template else None
            writable.check(() if template is None else [query.name for query in template], change.did)
    except AccessError as error:
        raise RequestRefused(403, error) from None


def _named(change: Change) -> list[str]:
    return [] if change.name is None else [change.name]


def _explained(plan: PlanView, form: PlanFormat) -> Response:
    return as_json({"plan": plan.in_format(form), "text": plan.text})


def _done(request: Request, result: Result, form: RowFormat) -> Response:
    """What a statement gave: rows with the rest beside them, or the rest alone."""
    said: dict[str, Any] = {"message": result.message}
    if result.notices:
        said["notices"] = list(result.notices)
    if result.waiting:
        said["waiting"] = result.waiting
    if result.query is not None:
        said["query"] = described(result.query)
    if result.insert is not None:
        said["insert"] = {"accepted": result.insert.accepted, "late": result.insert.late}
    if result.table is None:
        return as_json(said)
    request.scope["budget"].check(result.table.num_rows, result.table.nbytes)
    return Response(encode(result.table, form, said), headers={"content-type": str(form)})


def _queries(service: DatabaseService, follows: Callable[[], Follows]) -> APIRouter:
    router, database = APIRouter(tags=["queries"]), service.database

    async def answer(
        name: str, ask: Callable[[standing.Query], pa.Table], respond: Callable[[standing.Query, pa.Table], Response]
    ) -> Response:
        found = _query(database, name)
        await service.filled([found])
        # What is kept is read; what is computed from history leaves the threads that read to others.
        if found.mode == "none":
            return await service.compute(f"the answer of {name}", lambda: respond(found, ask(found)))
        return await service.read(lambda: respond(found, ask(found)))

    @router.get(
        "/queries",
        response_model=doc.Listed,
        summary="Queries with their states, those that failed first",
        dependencies=[needs(Role.READ)],
    )
    async def queries(
        offset: Offset = 0,
        limit: Limit = None,
        search: Annotated[str, Query(description="A part of their names.", max_length=1024)] = "",
        state: Annotated[State | None, Query(description="Only those in this state.")] = None,
        template: Annotated[str | None, Query(description="Those of a template, or of none.", max_length=1024)] = None,
        sort: Annotated[Sort, Query(description="What comes first; `cost` and `rows`: the most.")] = "state",
    ) -> Response:
        wanted = Wanted(search, state, template, sort, offset, limit)
        return await service.read(lambda: as_json(database.inspection.listing.page(wanted)))

    @router.post(
        "/queries",
        response_model=doc.About,
        status_code=201,
        summary="Register a query",
        dependencies=[needs(Role.WRITE)],
    )
    async def register(asked: doc.Registration) -> Response:
        check_names("register", asked.name)
        made = list[str]()

        def work() -> Response:
            query = database.register(asked.cql, asked.name, asked.mode)
            made.append(query.name)
            return as_json(described(query), 201)

        done = await service.write(f"register {asked.name or asked.cql}", work)
        service.changed("register", *made)
        return done

    @router.post(
        "/queries/many",
        response_model=doc.Registered,
        status_code=201,
        summary="Register a template for each of many rows of parameters",
        description="As JSON, or as an Arrow stream of parameters whose schema's metadata has `template`, `names` and "
        "`mode` as JSON under the key `millstream`.",
        dependencies=[needs(Role.WRITE)],
        openapi_extra=body_of(doc.Registrations),
    )
    async def register_many(request: Request) -> Response:
        body, caller, names = await request.body(), current_caller(), list[str]()

        def work() -> Response:
            asked, given = registration(request, body, doc.Registrations, service.limits.body)
            check_writable(caller, "register", asked.names)
            made = database.register_many(asked.template, given, asked.names, asked.mode)
            kind, columns = (made[0].kind, columns_of(made[0].schema)) if made else (None, [])
            notices = [query.notices for query in made] if any(query.notices for query in made) else []
            names.extend(query.name for query in made)
            mode = asked.mode.lower()
            said = {"names": names, "kind": kind, "mode": mode, "columns": columns, "notices": notices}
            return as_json(said, 201)

        done = await service.write("register many queries", work)
        service.changed("register", *names)
        return done

    @router.post(
        "/results",
        response_model=doc.Rows,
        responses=ROWS,
        summary="The answers of many queries in one table",
        dependencies=[needs(Role.READ)],
    )
    async def results(request: Request, asked: doc.Questions) -> Response:
        wanted = None if asked.queries is None else [_query(database, name) for name in asked.queries]
        await service.filled(database.queries() if wanted is None else wanted)

        def work() -> Response:
            table = database.results(wanted, instant(asked.at))
            if asked.limit is None:
                return rows(request, table)
            return part_of_each(request, table, asked.limit, newest="_ts" in table.column_names)

        return await service.read(work)

    @router.get(
        "/queries/{name:path}/result",
        response_model=doc.Rows,
        responses=ROWS,
        summary="The answer now, or at an instant",
        dependencies=[needs(Role.READ)],
    )
    async def result(request: Request, name: str, at: At = None, form: Download = None, limit: Most = None) -> Response:
        def respond(query: standing.Query, table: pa.Table) -> Response:
            if form is not None:
                return download(request, table, name, form)
            return part(request, table, limit, newest=query.kind == "stream")

        return await answer(name, lambda query: query.result(instant(at)), respond)

    @router.get(
        "/queries/{name:path}/extent",
        response_model=Extent,
        summary="The instants that it can be asked for",
        dependencies=[needs(Role.READ)],
    )
    async def extent(name: str) -> Response:
        return await service.read(lambda: as_json(extent_of(_query(database, name))))

    @router.get(
        "/queries/{name:path}/changes",
        response_model=doc.Rows,
        responses=ROWS,
        summary="The final changes after an instant",
        dependencies=[needs(Role.READ)],
    )
    async def changes(
        request: Request, name: str, since: At = None, form: Download = None, limit: Most = None
    ) -> Response:
        def respond(query: standing.Query, table: pa.Table) -> Response:
            return part(request, table, limit, newest=True) if form is None else download(request, table, name, form)

        return await answer(name, lambda query: query.changes(instant(since)), respond)

    @router.get(
        "/queries/{name:path}/follow",
        responses={200: {"content": {"text/event-stream": {"schema": {}}}, "description": "Events with the changes."}},
        summary="The changes as they become final, as server-sent events",
        description="Each event has as its id the instant up to which all changes were sent, and as its data what "
        "/changes would give: as JSON, or (`rows=arrow`) an Arrow stream in base64. Last-Event-ID goes on from there.",
        dependencies=[needs(Role.READ)],
    )
    async def follow(
        name: str,
        since: At = None,
        form: Annotated[Body, Query(alias="rows", description="What data consists of.")] = "json",
        timeout: Annotated[float | None, Query(gt=0, le=15, description="End when nothing comes for so long.")] = None,
        last_event_id: Annotated[str | None, Header(max_length=64)] = None,
    ) -> Response:
        check_room(service, follows())

        def begin() -> tuple[standing.Query, standing.Bookmark]:
            query = _query(database, name)
            reader = query.reader
            bookmark = reader.keep(
                reader.bookmark(instant(last_event_id or since)), database.settings.max_follower_bytes
            )
            reader.next_changes(bookmark, 1)  # so that what is wrong with it is said before events begin
            database.engine.invocations.count("follow")
            return query, bookmark

        query, bookmark = await service.read(begin)
        return EventStream(follows().events(query, bookmark, form, timeout))

    @router.get(
        "/queries/{name:path}/explain", response_model=doc.Plan, summary="Its plan", dependencies=[needs(Role.READ)]
    )
    async def explain(name: str, form: Annotated[PlanFormat, Query(alias="format")] = "text") -> Response:
        return await service.read(lambda: _explained(_query(database, name).plan(), form))

    @router.get(
        "/queries/{name:path}/stats",
        response_model=dict[str, Any],
        summary="How it does",
        dependencies=[needs(Role.READ)],
    )
    async def stats(name: str) -> Response:
        return await service.read(lambda: as_json(_query(database, name).stats()))

    @router.get("/queries/{name:path}", response_model=doc.About, summary="A query", dependencies=[needs(Role.READ)])
    async def query(name: str) -> Response:
        return await service.read(lambda: as_json(described(_query(database, name))))

    @router.delete(
        "/queries/{name:path}", response_model=doc.Message, summary="Drop a query", dependencies=[needs(Role.WRITE)]
    )
    async def drop(name: str) -> Response:
        check_names("drop query", name)

        def work() -> Response:
            found = _query(database, name)
            found.drop()
            return as_json({"message": f"query {found.name} dropped"})

        done = await service.write(f"drop query {name}", work)
        service.changed("drop query", name)
        return done

    return router


def _inputs(service: DatabaseService) -> APIRouter:
    router, database = APIRouter(tags=["rows and time"]), service.database

    @router.post(
        "/streams/{name:path}/rows",
        response_model=doc.Inserted,
        summary="Put rows into a stream, or changes into a table declared CHANGES BY: all of them or none",
        dependencies=[needs(Role.WRITE)],
        openapi_extra=_BODY,
    )
    async def insert(request: Request, name: str, idempotency_key: Key = None) -> Response:
        check_names("insert", name)
        body, budget, counts = await request.body(), current_caller().budget, dict[str, int]()

        def work() -> Response:
            form = sent(request.headers.get("content-type"))
            try:
                target = database.catalog.fed_by_rows(name)
            except NameError as error:
                raise NotThere(error) from None
            stream = target if isinstance(target, StreamDefinition) else target.feed
            limits = service.limits.body.within(budget.rows, budget.bytes)
            # Clients send rows again that were not answered: what ends one process after the other is refused.
            with database.engine.runner.caution.guarded(f"rows for {name}", blake2b(body).hexdigest()):
                pieces = pieces_of(body, form, stream.input_columns, stream.name, limits)
                done = database.insert_pieces(name, pieces, limits.check, idempotency_key)
            counts.update(accepted=done.accepted, late=done.late)
            return as_json(counts)

        done = await service.write(f"insert into {name}", work)
        service.changed("insert", name, **counts, **({} if idempotency_key is None else {"key": idempotency_key}))
        return done

    @router.post("/advance", response_model=doc.Message, summary="A heartbeat", dependencies=[needs(Role.WRITE)])
    async def advance(asked: doc.Heartbeat) -> Response:
        check_names("advance", asked.stream)

        def work() -> Response:
            database.advance(asked.stream, to=instant(asked.to))
            return as_json({"message": f"advanced to {asked.to}"})

        done = await service.write("advance", work)
        service.changed("advance", *([] if asked.stream is None else [asked.stream]), to=asked.to)
        return done

    @router.post(
        "/run",
        response_model=doc.Message,
        summary="Read the sources until they have no more, or for so many seconds",
        description="They are read all the time anyway: this is for those who want to wait for it.",
        dependencies=[needs(Role.ADMIN)],
    )
    async def run(asked: doc.Run) -> Response:
        if not isinstance(asked.until, str) and not 0 <= asked.until <= 1e6:
            raise InputError(f"run is for a number of seconds, not {asked.until}")

        def work() -> Response:
            with service.sources.paused():
                database.run(asked.until)
            return as_json({"message": "done"})

        done = await service.write("run", work)
        service.changed("run", until=asked.until)
        return done

    @router.post(
        "/sinks/{name:path}/resume",
        response_model=doc.Message,
        summary="Try a paused sink again",
        dependencies=[needs(Role.ADMIN)],
    )
    async def resume(name: str) -> Response:
        def work() -> Response:
            try:
                database.resume_sink(name)
            except NameError as error:
                raise NotThere(error) from None
            return as_json({"message": f"sink {name} resumed"})

        done = await service.write(f"resume sink {name}", work)
        service.changed("resume sink", name)
        return done

    return router


def instant(value: int | str | None) -> int | str | None:
    return instant_of(value) if isinstance(value, str) else value
