"""The file that its owner appends to: pieces of work that are too small for a file of their own lie in it one after the
other.

Names of segments say where they lie, so that what was committed is the same whatever comes behind it; how much of the
file counts is what the manifest names. One piece of work appends at a time, and another one has a file of its own
meanwhile. The file is on disk when a commit asks for that, once for all that was appended since. What fails is cut off
again, and what a process leaves that was killed lies behind everything that counts. The next owner begins another file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from weakref import finalize

from millstream.state.files import sync_data

PREFIX = "tail"  # of the names of such files, which a backup must copy
_LONG = 1 << 20  # bytes after which another file is begun


def is_in_tail(name: str) -> bool:
    """Whether a segment lies in such a file, beside those of others."""
    return name.startswith(f"{PREFIX}-")


class Tail:
    """The file, and how much of it is whole."""

    def __init__(self, new_path: Callable[[], Path]) -> None:
        self._new_path = new_path
        self._lock = threading.Lock()  # of who appends
        self._file: BinaryIO | None = None
        self._length = 0
        self._unsynced: set[Path] = set()
        self._syncing = threading.Lock()
        self.path: Path | None = None
        self.is_lasting = False  # whether its name is on disk

    def take(self) -> bool:
        """Whether nobody else appends; who gets it gives it back."""
        return self._lock.acquire(blocking=False)

    def give_back(self) -> None:
        self._lock.release()

    def open(self) -> tuple[BinaryIO, Path, int]:
        """The file, its path, and where to go on."""
        if self._file is None or self._length >= _LONG:
            self._begin()
        assert self._file is not None
        assert self.path is not None
        return self._file, self.path, self._length

    def _begin(self) -> None:
        if self._file is not None:
            self._file.close()
        path = self._new_path()
        self._file = path.open("xb")
        finalize(self, self._file.close).atexit = False  # databases that nobody closes are closed later than that
        self.path, self._length, self.is_lasting = path, 0, False

    def appended(self, length: int) -> None:
        """What was written up to a length is whole."""
        assert self._file is not None
        assert self.path is not None
        self._file.flush()
        self._length = length
        self._unsynced.add(self.path)

    def undo(self) -> None:
        """What was written since counts as nothing: another file is begun, since this one may have anything behind."""
        if self._file is None or self.path is None:
            return
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            if self._length:
                os.truncate(self.path, self._length)
            else:
                self.path.unlink(missing_ok=True)
        self._file = self.path = None

    def forget(self, path: Path) -> None:
        """A file is gone, with what was appended to it and came to nothing."""
        self._unsynced.discard(path)

    def close(self) -> None:
        """Nothing is appended any more, but by who begins another file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def sync(self) -> None:
        """Have all that was appended on disk; whoever comes meanwhile waits for it."""
        with self._syncing:
            while self._unsynced:
                path = next(iter(self._unsynced))
                self._unsynced.discard(path)  # before, so that what is appended meanwhile is not forgotten
                try:
                    _sync(path)
                except BaseException:
                    self._unsynced.add(path)
                    raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_data(descriptor)
    finally:
        os.close(descriptor)
