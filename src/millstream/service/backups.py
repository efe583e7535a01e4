"""Backups of a database that is served: one at a time, in a thread of its own; whoever asked looks how far it is."""

from __future__ import annotations

import threading
from typing import Any

from fastapi import APIRouter, Response

from millstream.database import Database
from millstream.errors import CatalogError, Error
from millstream.service import documents as doc
from millstream.service.answers import as_json
from millstream.service.routes import needs
from millstream.service.tokens import Role
from millstream.service.work import DatabaseService
from millstream.wire.errors import document


class Backups:
    """The backup under way, or the last one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self.state: dict[str, Any] = {"state": "none"}

    def start(self, path: str, copy: bool) -> dict[str, Any]:
        with self._lock:
            if self.state["state"] == "running":
                raise CatalogError("a backup is under way already", detail=f"to {self.state['path']}")
            self.state = {"state": "running", "path": path, "bytes": 0, "of_bytes": None}
        threading.Thread(target=self._make, args=(path, copy), name="millstream-backup", daemon=True).start()
        return self.state

    def _make(self, path: str, copy: bool) -> None:
        def on_progress(done: int, size: int) -> None:
            self.state = {"state": "running", "path": path, "bytes": done, "of_bytes": size}

        try:
            made = self._database.backup(path, copy=copy, progress=on_progress)
        except Error as error:
            self.state = {"state": "failed", "path": path, **document(error)}
        except Exception as error:  # whatever it is: whoever asked must hear of it
            self.state = {"state": "failed", "path": path, **document(Error(f"the backup has failed: {error!r}"))}
        else:
            about = {"epoch": made.epoch, "files": made.files, "bytes": made.bytes, "of_bytes": made.bytes}
            self.state = {"state": "done", "path": str(made.path), **about}


def backup_routes(service: DatabaseService) -> APIRouter:
    router, backups = APIRouter(prefix="/v1", tags=["service"]), Backups(service.database)

    @router.post(
        "/backup",
        response_model=doc.BackupState,
        status_code=202,
        summary="Copy the database to a new or empty directory where the service runs",
        dependencies=[needs(Role.ADMIN)],
    )
    async def backup(asked: doc.BackupWanted) -> Response:
        state = backups.start(asked.path, asked.copies)
        service.changed("backup", path=asked.path)
        return as_json(state, 202)

    @router.get(
        "/backup",
        response_model=doc.BackupState,
        summary="How far the backup is, or how the last one ended",
        dependencies=[needs(Role.ADMIN)],
    )
    async def state() -> Response:
        return as_json(backups.state)

    return router
