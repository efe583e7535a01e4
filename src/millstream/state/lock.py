"""One writer per database directory. The lock is the operating system's: it dies with its process.

Where it does not hold (somebody removed the file, a network file system forgot it), the numbers of the manifests do:
see `millstream.state.manifest`.
"""

from __future__ import annotations

import fcntl
import os
import socket
import weakref
from io import FileIO
from pathlib import Path

from millstream.errors import StateError
from millstream.state.layout import LOCK


class DirectoryLock:
    """Holds the directory until it is released, or the process ends. Forked processes do not hold it."""

    def __init__(self, directory: Path) -> None:
        self._file = _locked(directory)
        self._process = os.getpid()
        try:
            self._file.truncate(0)
            self._file.write(f"process {self._process} on {socket.gethostname()}\n".encode())
        except BaseException:  # as on a full disk
            self.release()
            raise
        _held.add(self)
        if not _is_watching_forks:
            _is_watching_forks.append(True)
            os.register_at_fork(after_in_child=_forget_all)

    def release(self) -> None:
        """Once; in a forked process nothing happens."""
        if self._process == os.getpid() and not self._file.closed:
            # Said explicitly: a forked process may still have the file open.
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()

    def forget(self) -> None:
        """Close the file in a process that was forked: the lock is that of the other one."""
        self._file.close()


_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()
_is_watching_forks: list[bool] = []


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


def _locked(directory: Path) -> FileIO:
    while True:
        file = (directory / LOCK).open("ab+", buffering=0)  # so that to close it cannot fail
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().decode(errors="replace").strip() or "another process"
            file.close()
            raise StateError(
                f"database {directory} is open already",
                detail=f"by {owner}",
                hint="a database has one writer: close it there first, or ask it by its address where it is served",
            ) from None
        except BaseException:
            file.close()
            raise
        if _is_still_there(file, directory / LOCK):
            return file
        file.close()  # removed by somebody before it was locked: others would not see this lock


def _is_still_there(file: FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
