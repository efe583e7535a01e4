"""What routes for many queries have in common: rows of parameters in the body of a request, and lists of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request, Response

from millstream import query as standing
from millstream.service import documents as doc
from millstream.service.answers import as_json
from millstream.wire.arrow import BodyLimits, from_arrow_stream
from millstream.wire.bodies import check_document
from millstream.wire.media import RowFormat, sent

Offset = Annotated[int, Query(ge=0, le=1 << 31)]
Limit = Annotated[int | None, Query(ge=0, le=1 << 31)]
_Asked = TypeVar("_Asked", doc.Registrations, doc.TemplateRegistration)


def body_of(model: type[doc.Registrations | doc.TemplateRegistration]) -> dict[str, Any]:
    """For the description of a route: a document, or an Arrow stream of parameters with the rest in its metadata."""
    return {
        "requestBody": {
            "required": True,
            "content": {
                str(RowFormat.JSON): {"schema": model.model_json_schema()},
                str(RowFormat.ARROW): {"schema": {"type": "string", "format": "binary"}},
            },
        }
    }


def registration(request: Request, body: bytes, model: type[_Asked], limits: BodyLimits) -> tuple[_Asked, Any]:
    """What is asked for, and the rows of parameters."""
    if sent(request.headers.get("content-type")) == RowFormat.ARROW:
        rows, said = from_arrow_stream(body, limits)
        return model.model_validate({**said, "rows": []}), rows
    check_document(body, limits)
    asked = model.model_validate_json(body)
    return asked, [tuple(row) if isinstance(row, list) else row for row in asked.rows]


def listed(queries: Sequence[standing.Query], offset: int, limit: int | None) -> Response:
    """Some of them, and how many there are."""
    shown = queries[offset:] if limit is None else queries[offset : offset + limit]
    about = [{"name": query.name, "kind": query.kind, "mode": query.mode} for query in shown]
    return as_json({"queries": about, "total": len(queries)})
