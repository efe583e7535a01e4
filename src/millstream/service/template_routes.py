"""The routes under /v1/templates: queries of one text, read together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Header, Query, Request, Response

from millstream import query as standing
from millstream.database import Database
from millstream.errors import NameError
from millstream.service import documents as doc
from millstream.service.answers import FileFormat, NotThere, as_json, download, rows
from millstream.service.callers import current_caller
from millstream.service.events import Body, EventStream, Follows
from millstream.service.many import Limit, Offset, body_of, listed, registration
from millstream.service.routes import ROWS, At, Download, check_room, check_writable, instant, needs
from millstream.service.tokens import Role
from millstream.service.work import DatabaseService
from millstream.wire.rows import columns_of


def _template(database: Database, name: str) -> standing.Template:
    try:
        return database.template(name)
    except NameError as error:
        raise NotThere(error) from None


def described(template: standing.Template) -> dict[str, Any]:
    """All that there is to know of a template but its answers and its queries."""
    stats = template.stats()
    failed = stats["failed"]
    return {
        "name": template.name,
        "kind": template.kind,
        "mode": template.mode,
        "text": template.text,
        "parameters": [str(kind) for kind in template.parameters],
        "columns": columns_of(template.schema),
        "queries": stats["queries"],
        "running": stats["running"],
        "filling": stats["filling"],
        "failed": failed,
        "notices": template.notices,
        "final": None if failed and len(failed) == stats["queries"] else template.final,
    }


def template_routes(service: DatabaseService, follows: Callable[[], Follows]) -> APIRouter:
    router, database = APIRouter(prefix="/v1", tags=["templates"]), service.database

    async def answer(
        request: Request, name: str, ask: Callable[[standing.Template], pa.Table], form: FileFormat | None
    ) -> Response:
        found = _template(database, name)
        await service.until_idle(lambda: bool(found.members.filling().any()))
        # What is kept is read; what is computed from history leaves the threads that read to others.

        def respond() -> Response:
            return rows(request, ask(found)) if form is None else download(request, ask(found), name, form)

        return await (
            service.compute(f"the answers of {name}", respond) if found.mode == "none" else service.read(respond)
        )

    @router.get("/templates", response_model=doc.Templates, summary="All templates", dependencies=[needs(Role.READ)])
    async def templates() -> Response:
        return await service.read(lambda: as_json({"templates": [*map(described, database.templates())]}))

    @router.post(
        "/templates",
        response_model=doc.AboutTemplate,
        status_code=201,
        summary="Register queries of a template, for each of many rows of parameters; declares it unless it is there",
        description="As JSON, or as an Arrow stream of parameters whose schema's metadata has `name`, `text`, `names` "
        "and `mode` as JSON under the key `millstream`.",
        dependencies=[needs(Role.WRITE)],
        openapi_extra=body_of(doc.TemplateRegistration),
    )
    async def register(request: Request) -> Response:
        body, caller, named = await request.body(), current_caller(), list[str]()

        def work() -> Response:
            asked, given = registration(request, body, doc.TemplateRegistration, service.limits.body)
            check_writable(caller, "register", [asked.name, *(asked.names or ())])
            if given is not None and len(given) and asked.names is None:
                check_writable(caller, "register", None)
            named.extend([asked.name, *(asked.names or ())])
            made = database.register_many(asked.text, given, asked.names, asked.mode, template=asked.name)
            return as_json(described(made), 201)

        done = await service.write("register queries of a template", work)
        service.changed("register in template", *named)
        return done

    @router.get(
        "/templates/{name:path}/queries",
        response_model=doc.Listed,
        summary="The queries of a template",
        dependencies=[needs(Role.READ)],
    )
    async def queries(name: str, offset: Offset = 0, limit: Limit = None) -> Response:
        return await service.read(lambda: listed([*_template(database, name)], offset, limit))

    @router.get(
        "/templates/{name:path}/result",
        response_model=doc.Rows,
        responses=ROWS,
        summary="The answers of all queries now, or at an instant",
        dependencies=[needs(Role.READ)],
    )
    async def result(request: Request, name: str, at: At = None, form: Download = None) -> Response:
        return await answer(request, name, lambda template: template.result(instant(at)), form)

    @router.get(
        "/templates/{name:path}/changes",
        response_model=doc.Rows,
        responses=ROWS,
        summary="The final changes of all queries after an instant",
        dependencies=[needs(Role.READ)],
    )
    async def changes(request: Request, name: str, since: At = None, form: Download = None) -> Response:
        return await answer(request, name, lambda template: template.changes(instant(since)), form)

    @router.get(
        "/templates/{name:path}/follow",
        responses={200: {"content": {"text/event-stream": {"schema": {}}}, "description": "Events with the changes."}},
        summary="The changes of all queries as they become final, as server-sent events",
        description="As those of a query. Last-Event-ID goes on from there, and says which queries were told of: "
        "those that came later begin with all that holds.",
        dependencies=[needs(Role.READ)],
    )
    async def follow(
        name: str,
        since: At = None,
        form: Annotated[Body, Query(alias="rows", description="What data consists of.")] = "json",
        timeout: Annotated[float | None, Query(gt=0, le=15, description="End when nothing comes for so long.")] = None,
        last_event_id: Annotated[str | None, Header(max_length=16_384)] = None,
    ) -> Response:
        check_room(service, follows())

        def begin() -> tuple[standing.Template, standing.Bookmark]:
            template = _template(database, name)
            reader = template.reader
            said, _, told_of = (last_event_id or since or "").partition(";")
            place = reader.marked(reader.bookmark(instant(said or None)), told_of)
            reader.keep(place, database.settings.max_follower_bytes)
            reader.next_changes(place, 1)  # so that what is wrong with it is said before events begin
            database.engine.invocations.count("follow")
            return template, place

        template, place = await service.read(begin)
        return EventStream(follows().events(template, place, form, timeout))

    @router.get(
        "/templates/{name:path}",
        response_model=doc.AboutTemplate,
        summary="A template",
        dependencies=[needs(Role.READ)],
    )
    async def template(name: str) -> Response:
        return await service.read(lambda: as_json(described(_template(database, name))))

    @router.delete(
        "/templates/{name:path}",
        response_model=doc.Message,
        summary="Drop a template and all of its queries",
        dependencies=[needs(Role.WRITE)],
    )
    async def drop(name: str) -> Response:
        caller = current_caller()

        def work() -> Response:
            found = _template(database, name)
            check_writable(caller, "drop template", [found.name, *(query.name for query in found)])
            count = len(found)
            found.drop()
            return as_json({"message": f"template {found.name} and its {count} queries dropped"})

        done = await service.write(f"drop template {name}", work)
        service.changed("drop template", name)
        return done

    return router
