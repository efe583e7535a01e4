"""What is under way for callers, and how it is ended."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from millstream.errors import NameError
from millstream.service import documents as doc
from millstream.service.answers import NotThere, as_json
from millstream.service.routes import needs
from millstream.service.tokens import Role
from millstream.service.work import DatabaseService


def work_routes(service: DatabaseService) -> APIRouter:
    """Callers see and end their own work, and who may do everything that of all."""
    router, works = APIRouter(prefix="/v1", tags=["work"]), service.database.engine.works

    def may_see(request: Request, caller: str) -> bool:
        return bool(request.scope["role"] == Role.ADMIN or request.scope["caller"] == caller)

    @router.get("/work", response_model=doc.WorkList, summary="What is under way", dependencies=[needs(Role.READ)])
    async def work(request: Request) -> Response:
        found: list[dict[str, Any]] = [
            {"id": each.id, "what": each.what, "caller": each.caller, "seconds": round(each.seconds, 3)}
            for each in works
            if may_see(request, each.caller)
        ]
        return as_json({"work": found})

    @router.delete("/work/{number}", response_model=doc.Message, summary="End work", dependencies=[needs(Role.READ)])
    async def cancel(request: Request, number: int) -> Response:
        try:
            found = works.find(number)
            if not may_see(request, found.caller):
                raise NameError(f"there is no work {number} of yours under way")
            works.cancel(number, f"{request.scope['caller']} cancelled it")
        except NameError as error:
            raise NotThere(error) from None
        service.changed("end work", number=number)
        return as_json({"message": f"work {number} is ended"})

    return router
