"""Who changed what: a line of JSON for each change, appended to a file that its owner alone may read.

    {"at": "2026-11-18T12:00:00.123Z", "who": "token a", "from": "10.0.0.7", "did": "insert", "names": ["Trades"], ..}

Texts of statements are not in it, since they may have passwords in them: only what was done, and to what. A line has
left the process when its change is answered. A file of 64 MiB becomes FILE.1, and so on up to FILE.9, the oldest.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from millstream.errors import SetupError

FILE = "audit.jsonl"
_MOST = 64 << 20  # bytes of a file
_KEPT = 9  # files that are full
_NAMES = 1000  # of one line
_log = logging.getLogger(__name__)


class AuditLog:
    """A file of lines; any thread, and other processes, may append to it."""

    def __init__(self, file: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC), most: int = _MOST) -> None:
        self.file, self._now, self._most = file, now, most
        self._lock = threading.Lock()
        self._is_broken = False
        try:
            os.close(self._opened())
        except OSError as error:
            raise SetupError(f"the audit log {file} cannot be written", detail=error.strerror) from None

    def note(self, who: str, did: str, names: Iterable[str] = (), **more: Any) -> None:
        """A change that was made. One that cannot be written down is logged: it has been made."""
        shown = [*names]
        if len(shown) > _NAMES:
            more["of_names"], shown = len(shown), shown[:_NAMES]
        at = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"at": at, "who": who, "did": did, "names": shown, **more}) + "\n"
        with self._lock:
            try:
                self._append(line.encode())
                self._is_broken = False
            except OSError as error:
                if not self._is_broken:
                    _log.error("the audit log %s cannot be written: %s", self.file, error.strerror)
                self._is_broken = True

    def _append(self, line: bytes) -> None:
        file = self._opened()
        try:
            if os.fstat(file).st_size + len(line) > self._most:
                os.close(file)
                file = -1
                self._turn()
                file = self._opened()
            os.write(file, line)
        finally:
            if file >= 0:
                os.close(file)

    def _opened(self) -> int:
        return os.open(self.file, os.O_APPEND | os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)

    def _turn(self) -> None:
        """Begin a new file."""
        for number in range(_KEPT, 0, -1):
            older = self.file if number == 1 else self._numbered(number - 1)
            with suppress(FileNotFoundError):
                older.replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self.file.with_name(f"{self.file.name}.{number}")


def audit_of(directory: Path | None, file: Path | None) -> AuditLog | None:
    """The log of a database directory, or of a file; None where there is neither."""
    if file is None and directory is None:
        return None
    if file is None and directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    return AuditLog(file or (directory or Path()) / FILE)
