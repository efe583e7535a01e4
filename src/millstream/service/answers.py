"""Responses: rows in the format that was asked for, documents, and errors with the status that fits them."""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import quote

import polars as pl
import pyarrow as pa
from fastapi import Request, Response

from millstream import errors
from millstream.errors import Error
from millstream.names import MISSING
from millstream.query import Query
from millstream.service.request_ids import error_document
from millstream.wire.errors import document
from millstream.wire.media import RowFormat, accepted
from millstream.wire.rows import columns_of, encode, parquet
from millstream.wire.values import json_value

_STATUS: tuple[tuple[type[Error], int], ...] = (
    (errors.AccessError, 403),
    (errors.TooLargeError, 413),
    (errors.LimitError, 503),
    (errors.CatalogError, 409),
    (errors.ConstraintError, 409),
    (errors.TimeError, 409),
    (errors.EvaluationError, 422),
    (errors.ClosedError, 410),
    (errors.StateError, 500),
    (errors.SetupError, 500),
    (Error, 400),
)


FileFormat = Literal["csv", "json", "arrow", "parquet"]
PARQUET = "application/vnd.apache.parquet"
_FILES = {"csv": RowFormat.CSV, "json": RowFormat.JSON, "arrow": RowFormat.ARROW}


class NotThere(Exception):
    """What a path names is not there."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.primary)
        self.error = error


def status_of(error: Error) -> int:
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def error_response(error: Error, status: int | None = None) -> Response:
    return as_json(error_document(error), status or status_of(error))


def as_json(content: Any, status: int = 200) -> Response:
    body = json.dumps(json_value(content), ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, status, media_type="application/json")


def rows(request: Request, table: pa.Table, note: dict[str, Any] | None = None) -> Response:
    """A table in the format that the request accepts."""
    request.scope["budget"].check(table.num_rows, table.nbytes)
    form, note = accepted(request.headers.get("accept")), {**(note or {}), **notes_of(table)}
    media = f"{form}; header=present; charset=utf-8" if form == RowFormat.CSV else str(form)
    return Response(encode(table, form, note), media_type=None, headers={"content-type": media})


def part(request: Request, table: pa.Table, limit: int | None, *, newest: bool) -> Response:
    """At most so many rows of a table, its first or its last ones, and `total`: how many there are."""
    if limit is None:
        return rows(request, table)
    first = max(0, table.num_rows - limit) if newest else 0
    return rows(request, table.slice(first, limit), {"total": table.num_rows})


def part_of_each(request: Request, table: pa.Table, limit: int, *, newest: bool) -> Response:
    """At most so many rows of each query of a table, its first or its last ones, and `totals`: how many each has."""
    numbered = pl.DataFrame({"query": pl.Series(pl.from_arrow(table.column("_query"))), "row": range(table.num_rows)})
    groups = numbered.group_by("query", maintain_order=True)
    chosen = (groups.tail(limit) if newest else groups.head(limit)).get_column("row").sort()
    totals = dict(groups.len().iter_rows())
    return rows(request, table.take(chosen.to_arrow()), {"totals": totals})


def download(request: Request, table: pa.Table, name: str, form: FileFormat) -> Response:
    """A table as a file, which a browser keeps under the name of a query."""
    request.scope["budget"].check(table.num_rows, table.nbytes)
    content = parquet(table) if form == "parquet" else encode(table, _FILES[form], notes_of(table))
    media = PARQUET if form == "parquet" else str(_FILES[form])
    file = quote(f"{name}.{form}", safe="")
    plain = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name) or "query"
    disposition = f"attachment; filename=\"{plain}.{form}\"; filename*=UTF-8''{file}"
    return Response(content, headers={"content-type": media, "content-disposition": disposition})


def notes_of(table: pa.Table) -> dict[str, Any]:
    """What is said beside the rows of a table: the queries of a template that have none, and why."""
    missing = (table.schema.metadata or {}).get(MISSING)
    return {"missing": json.loads(missing)} if missing else {}


def described(query: Query) -> dict[str, Any]:
    """All that there is to know of a query but its answer."""
    about: dict[str, Any] = {
        "name": query.name,
        "kind": query.kind,
        "mode": query.mode,
        "columns": columns_of(query.schema),
        "cql": query.cql,
        "defaults": query.defaults,
        "notices": query.notices,
        "final": None,
    }
    if (error := query.error) is not None:
        return about | document(error)
    return about | {"final": query.final}


def extent_of(query: Query) -> dict[str, Any]:
    """The first and the last instant that a query can be asked for, and their type; none of one that has failed, or
    whose past is still worked through."""
    first, final, kind = query.instants.extent()
    return {"first_answerable": first, "final": final, "type": kind}
