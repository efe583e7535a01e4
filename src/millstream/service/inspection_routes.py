"""The routes for those who look inside: the live plan, texts before they are run, streams, settings, and the like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from millstream.errors import NameError
from millstream.service import inspection_documents as doc
from millstream.service.answers import NotThere, as_json, rows
from millstream.service.callers import current_caller
from millstream.service.documents import Question, Rows
from millstream.service.events import EventStream, Follows
from millstream.service.plan_events import PlanWatch
from millstream.service.routes import check_room, instant, needs
from millstream.service.tokens import Role, Tokens
from millstream.service.work import DatabaseService
from millstream.wire.keywords import KEYWORDS
from millstream.wire.values import literal

System = Literal["epochs", "operators", "queries", "streams", "routing", "sinks"]
Few = Annotated[int, Query(ge=0, le=10_000)]
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {}}}, "description": "Events with what has changed."}
}


def inspection_routes(
    service: DatabaseService, follows: Callable[[], Follows], version: str, *, tokens: Tokens | None
) -> APIRouter:
    """All of them."""
    router = APIRouter(prefix="/v1")
    router.include_router(_plan(service, follows))
    router.include_router(_streams(service))
    router.include_router(_service(service, version, tokens=tokens))
    return router


def _plan(service: DatabaseService, follows: Callable[[], Follows]) -> APIRouter:
    router, inspection = APIRouter(tags=["plan"]), service.database.inspection
    held: list[PlanWatch] = []

    @router.get(
        "/plan",
        response_model=doc.PlanGraph,
        summary="The shared plan as a graph, or a query's part of it, with what its operators do and hold",
        dependencies=[needs(Role.READ)],
    )
    async def plan(
        query: Annotated[str | None, Query(description="A query's name.", max_length=1024)] = None,
    ) -> Response:
        def work() -> Response:
            if query is None:
                return as_json(inspection.plan())
            try:
                return as_json(inspection.plan_of(query))
            except NameError as error:
                raise NotThere(error) from None

        return await service.read(work)

    @router.get(
        "/plan/events",
        responses=_EVENTS,
        summary="The numbers of the plan that have changed, as server-sent events, about once a second",
        description="The first says of which version of the plan numbers come; `structure` that it is another one.",
        dependencies=[needs(Role.READ)],
    )
    async def events(
        timeout: Annotated[float | None, Query(gt=0, le=3600, description="End after so many seconds.")] = None,
    ) -> Response:
        check_room(service, follows())
        if not held:
            held.append(PlanWatch(service, follows()))
        return EventStream(held[0].events(timeout))

    @router.get(
        "/plan/{node:path}/queries",
        response_model=doc.Sharers,
        summary="The queries that share an operator",
        dependencies=[needs(Role.READ)],
    )
    async def sharers(node: str, offset: Annotated[int, Query(ge=0, le=1 << 31)] = 0, limit: Few = 100) -> Response:
        def work() -> Response:
            try:
                found, total = inspection.plans.sharers(node, offset, limit)
            except NameError as error:
                raise NotThere(error) from None
            about = [{"name": query.name, "kind": query.kind, "mode": query.mode} for query in found]
            return as_json({"queries": about, "total": total})

        return await service.read(work)

    @router.post(
        "/check",
        response_model=doc.Checked,
        summary="What is wrong with a query, or what it would be, share and cost; nothing is registered",
        dependencies=[needs(Role.READ)],
    )
    async def check(asked: Question) -> Response:
        # To plan a text is work, of which only so much is done at a time.
        return await service.compute("check", lambda: as_json(inspection.check(asked.cql)))

    @router.get(
        "/names",
        response_model=doc.Names,
        summary="What may be named in a text: objects, columns, queries, functions, keywords",
        dependencies=[needs(Role.READ)],
    )
    async def names() -> Response:
        return await service.read(lambda: as_json({**inspection.names(), "keywords": KEYWORDS}))

    return router


def _streams(service: DatabaseService) -> APIRouter:
    router, inspection = APIRouter(tags=["streams"]), service.database.inspection

    @router.get(
        "/streams",
        response_model=doc.Streams,
        summary="Streams and tables: what comes, how far they are, what is kept",
        dependencies=[needs(Role.READ)],
    )
    async def streams() -> Response:
        return await service.read(lambda: as_json({"streams": inspection.streams.all()}))

    def kept(name: str, path: str, summary: str, ask: Callable[[str, int], Any]) -> None:
        @router.get(
            f"/streams/{{name:path}}/{path}",
            response_model=Rows,
            summary=summary,
            name=name,
            dependencies=[needs(Role.READ)],
        )
        async def newest(request: Request, name: str, limit: Few = 100) -> Response:
            def work() -> Response:
                try:
                    return rows(request, ask(name, limit))
                except NameError as error:
                    raise NotThere(error) from None

            return await service.read(work)

    kept("late", "late", "The last elements that came too late, the newest first", inspection.streams.late)
    kept("malformed", "malformed", "The last rows that could not be read", inspection.streams.malformed)

    @router.get(
        "/system/{stream}",
        response_model=Rows,
        summary="What was noticed lately: the last rows of a system stream, without feeding it",
        dependencies=[needs(Role.READ)],
    )
    async def system(
        request: Request,
        stream: System,
        since: Annotated[
            str | None, Query(description="Rows after this timestamp, or microsecond.", max_length=64)
        ] = None,
        until: Annotated[
            str | None, Query(description="Rows up to this timestamp, or microsecond.", max_length=64)
        ] = None,
        limit: Few = 1000,
    ) -> Response:
        def work() -> Response:
            return rows(request, inspection.recent(stream, instant(since), limit, instant(until)))

        return await service.read(work)

    return router


def _service(service: DatabaseService, version: str, *, tokens: Tokens | None) -> APIRouter:
    router, database = APIRouter(tags=["settings"]), service.database
    inspection = database.inspection

    @router.get("/settings", response_model=doc.Settings, summary="All settings", dependencies=[needs(Role.READ)])
    async def settings() -> Response:
        return await service.read(lambda: as_json({"settings": inspection.settings()}))

    @router.put(
        "/settings/{name}",
        response_model=doc.Setting,
        summary="Change a setting, as SET does; with `running` for queries that run too",
        dependencies=[needs(Role.ADMIN)],
    )
    async def change(name: str, asked: doc.SettingValue) -> Response:
        def work() -> Response:
            known = {each["name"] for each in inspection.settings()}
            if name not in known:
                raise NotThere(NameError(f'unknown setting "{name}"'))
            database.execute(f"SET {name} = {literal(asked.value)}")
            found = next(each for each in inspection.settings() if each["name"] == name)
            return as_json({**found, "queries": inspection.apply(name)} if asked.running else found)

        done = await service.write(f"set {name}", work)
        service.changed("set", name)
        return done

    @router.get("/sinks", response_model=doc.Sinks, summary="All sinks", dependencies=[needs(Role.READ)])
    async def sinks() -> Response:
        return await service.read(lambda: as_json({"sinks": inspection.sinks()}))

    @router.get("/me", response_model=doc.Me, summary="Who asks, and whom", dependencies=[needs(Role.READ)])
    async def me(request: Request) -> Response:
        role: Role = request.scope["role"]
        return as_json(
            {
                "role": str(role),
                "names": [*current_caller().writable.patterns],
                "version": version,
                "database": inspection.database,
                "tokens": tokens is not None and tokens.are_asked_for(),
            }
        )

    return router
