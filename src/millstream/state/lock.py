"""One writer per database directory. The lock is the operating system's: it dies with its process."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from millstream.errors import StateError


class DirectoryLock:
    """Holds the directory until it is released, or the process ends."""

    def __init__(self, directory: Path) -> None:
        self._file = (directory / "LOCK").open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            owner = self._file.read().strip() or "another process"
            self._file.close()
            raise StateError(
                f"database {directory} is open already",
                detail=f"by {owner}",
                hint="close it there first: a database has one writer",
            ) from None
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self._file.flush()

    def release(self) -> None:
        self._file.close()
