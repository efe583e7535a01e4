"""The service as an ASGI app."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from millstream.database import Database
from millstream.errors import Error, InputError, NameError
from millstream.service import documents as doc
from millstream.service.answers import NotThere, as_json, error_response
from millstream.service.audit import AuditLog
from millstream.service.backups import backup_routes
from millstream.service.events import Follows
from millstream.service.gate import RequestGate, RequestRefused
from millstream.service.health import Health, readiness
from millstream.service.inspection_routes import inspection_routes
from millstream.service.limits import ServiceLimits
from millstream.service.reference import REFERENCE_HEADERS, reference
from millstream.service.request_ids import request_id
from millstream.service.request_log import RequestLog
from millstream.service.routes import needs, routes
from millstream.service.sources import SourceReader
from millstream.service.static_files import page_routes
from millstream.service.template_routes import template_routes
from millstream.service.tokens import Role, Tokens
from millstream.service.work import DatabaseService
from millstream.service.work_routes import work_routes

_log = logging.getLogger(__name__)


def create_app(
    database: Database,
    *,
    version: str,
    tokens: Tokens | None = None,
    limits: ServiceLimits | None = None,
    sources: SourceReader,
    audit: AuditLog | None = None,
) -> FastAPI:
    """An app that serves a database; without tokens everybody who reaches it may do everything."""
    limits = limits or ServiceLimits()
    held: dict[str, Any] = {}

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        held["follows"] = follows = Follows(service)
        end = service.metrics.serve(service, lambda: follows.count)
        watch = asyncio.create_task(health.watch())
        yield
        service.stopping.set()
        watch.cancel()
        end()
        held["follows"].close()
        service.close()

    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": doc.ErrorResponse} for status in (400, 401, 403, 404, 409, 410, 413, 422, 429, 503)
    }
    app = FastAPI(
        title="Millstream",
        version=version,
        summary="Standing CQL queries over streams: register, ask, follow.",
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        responses=responses,
    )
    service = DatabaseService(database, limits, sources, audit)
    health = Health(service)
    app.state.service = service
    _handle_errors(app)
    app.include_router(routes(service, lambda: held["follows"]))
    app.include_router(template_routes(service, lambda: held["follows"]))
    app.include_router(inspection_routes(service, lambda: held["follows"], version, tokens=tokens))
    app.include_router(backup_routes(service))
    app.include_router(work_routes(service))
    app.include_router(page_routes())
    _pages(app, service, health)
    app.add_middleware(RequestGate, tokens=tokens, limits=limits, refused=service.metrics.refused)
    app.add_middleware(RequestLog, metrics=service.metrics)
    return app


def _pages(app: FastAPI, service: DatabaseService, health: Health) -> None:
    @app.get(
        "/healthz", summary="Whether the service is well, and if not, why", response_model=doc.Health, tags=["service"]
    )
    async def healthy(request: Request) -> Response:
        reasons = await health.reasons()
        status = "stopping" if service.stopping.is_set() else "degraded" if reasons else "ok"
        in_full = (request.scope.get("role") or 0) >= Role.READ
        shown = [reason.shown(in_full=in_full) for reason in reasons]
        return as_json({"status": status, **({"reasons": shown} if shown else {})})

    @app.get(
        "/readyz",
        summary="Whether the service takes requests",
        response_model=doc.Readiness,
        responses={503: {"model": doc.Readiness}},
        tags=["service"],
    )
    async def ready() -> Response:
        reason = readiness(service)
        return as_json({"ready": reason is None, **({"reason": reason} if reason else {})}, 503 if reason else 200)

    @app.get(
        "/metrics",
        summary="What is counted, for Prometheus",
        response_class=PlainTextResponse,
        dependencies=[needs(Role.READ)],
        tags=["service"],
    )
    async def metrics(request: Request) -> Response:
        accept = request.headers.get("accept", "")
        said = service.watching.submit(service.metrics.exposition, accept)
        text, kind = await asyncio.wrap_future(said)
        return Response(text, media_type=kind)

    @app.get("/docs", include_in_schema=False, dependencies=[needs(Role.READ)])
    async def documentation() -> Response:
        return HTMLResponse(reference(app.openapi()), headers=REFERENCE_HEADERS)


def _handle_errors(app: FastAPI) -> None:
    """Every error is the same document."""
    handler = app.exception_handler

    @handler(Error)
    async def of_ours(request: Request, error: Error) -> Response:
        return error_response(error)

    @handler(NotThere)
    async def not_there(request: Request, error: NotThere) -> Response:
        return error_response(error.error, 404)

    @handler(RequestRefused)
    async def of_the_gate(request: Request, error: RequestRefused) -> Response:
        response = error_response(error.error, error.status_code)
        response.raw_headers.extend(error.more)
        return response

    @handler(ClientDisconnect)
    async def of_nobody_there(request: Request, error: ClientDisconnect) -> Response:
        return error_response(InputError("the caller went before the body had come"))

    @handler(HTTPException)
    async def of_http(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            said: Error = NameError(f"there is nothing at {request.url.path}", hint="see /docs")
        else:
            said = InputError(str(error.detail))
        response = error_response(said, error.status_code)
        response.headers.update(error.headers or {})
        return response

    @handler(RequestValidationError)
    async def of_requests(request: Request, error: RequestValidationError) -> Response:
        return error_response(_invalid(error.errors()), 422)

    @handler(ValidationError)
    async def of_documents(request: Request, error: ValidationError) -> Response:
        return error_response(_invalid(error.errors(include_url=False)), 422)

    @handler(Exception)
    async def of_nobody(request: Request, error: Exception) -> Response:
        _log.exception("%s %s", request.method, request.url.path, exc_info=error)
        return error_response(
            Error("the service failed", detail=repr(error), hint=f"see its log for request {request_id()}"), 500
        )


def _invalid(found: Any) -> InputError:
    details = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found]
    hint = "/docs shows what each request takes, as JSON"
    return InputError("the request is not as it should be", detail="; ".join(details), hint=hint)
