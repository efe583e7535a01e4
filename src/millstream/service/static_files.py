"""The page: files that were built from `page/` and lie in the package (`static/`).

They hold no data, so that whoever reaches the service may have them, also before a token was entered. A browser that
shows them is told to load nothing from elsewhere and to run and apply nothing that stands in the text of a document.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request, Response

from millstream.errors import NameError
from millstream.service.answers import NotThere

# Everything by default from the service itself: scripts, styles, the worker that lays out the plan, requests. No inline
# style is needed either: the editor makes its style sheets as objects, in a shadow tree (page/src/editor/code.ts).
POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "frame-src 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "json": "application/json",
}


@dataclass(frozen=True)
class StaticFile:
    """A file with what is said of it."""

    content: bytes
    compressed: bytes
    media_type: str
    etag: str


@cache
def static_files() -> dict[str, StaticFile]:
    """All files of the page by their paths, read once."""
    return {path: _read(path, file) for path, file in _below(files("millstream.service") / "static", "")}


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        path = f"{prefix}/{entry.name}"
        found += _below(entry, path) if entry.is_dir() else [(path, entry)]
    return found


def _read(path: str, file: Traversable) -> StaticFile:
    content = file.read_bytes()
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return StaticFile(content, gzip.compress(content, mtime=0), _TYPES[path.rpartition(".")[2]], etag)


def is_static(path: str) -> bool:
    """Whether a path is one of the page's, which need no token."""
    return path == "/" or path in static_files()


def page_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    @router.head("/")
    async def page(request: Request) -> Response:
        return _answer(request, "/index.html")

    @router.get("/assets/{name}")
    @router.head("/assets/{name}")
    async def asset(request: Request, name: str) -> Response:
        return _answer(request, f"/assets/{name}")

    return router


def _answer(request: Request, path: str) -> Response:
    file = static_files().get(path)
    if file is None:
        raise NotThere(NameError(f"there is nothing at {path}", hint="see /docs"))
    # Names stay the same from one version to the next, so that a browser asks each time whether a file has changed.
    headers = {**SECURITY_HEADERS, "etag": file.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    headers["content-type"] = file.media_type
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, headers=headers | {"content-encoding": "gzip"})
    return Response(file.content, headers=headers)
