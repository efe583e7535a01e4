"""What a process is at, in a file that outlives it: which steps its threads run now.

    running         a place for each thread that runs steps, with the name of the step that it is at
    suspects.json   how often in a row processes have ended at a step

A name is written before its step begins and is not synced: it must survive the process, not the machine. All of the
file is allocated when it is made, so that a full disk says so then.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

RUNNING, SUSPECTS = "running", "suspects.json"
_PLACES, _LENGTH = 64, 512
_EMPTY = bytes(_LENGTH)
_MOST_SUSPECTS = 1_000
_log = logging.getLogger(__name__)
_open: WeakSet[RunningSteps] = WeakSet()


def forget_all() -> None:
    """The process is left as it is, on purpose: nothing that it is at has ended it."""
    for steps in [*_open]:
        steps.forget()


class RunningSteps:
    """The file of a process; nobody else writes it: another process that takes the database makes a file of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.unlink(missing_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(self._file, 0, _PLACES * _LENGTH)
            os.pwrite(self._file, bytes(_PLACES * _LENGTH), 0)
        except OSError:
            os.close(self._file)
            raise
        self._free = [*range(_PLACES)]
        self._lock = threading.Lock()
        self._is_broken = self._is_closed = False
        _open.add(self)

    @contextmanager
    def place(self) -> Iterator[Callable[[str], None]]:
        """Where the thread says which step it is at, until the block ends."""
        with self._lock:
            place = self._free.pop() if self._free and not self._is_closed else None
        if place is None:
            yield lambda step: None
            return
        used = False

        def at(step: str) -> None:
            nonlocal used
            used = True
            self._write(place, step.encode()[:_LENGTH].ljust(_LENGTH, b"\0"))

        try:
            yield at
        finally:
            with self._lock:
                if used and not self._is_closed:
                    self._write(place, _EMPTY)
                self._free.append(place)

    def _write(self, place: int, content: bytes) -> None:
        try:
            os.pwrite(self._file, content, place * _LENGTH)
        except OSError as error:
            if not self._is_broken:
                self._is_broken = True
                _log.warning("what is run cannot be noted: %s", error.strerror)

    def forget(self) -> None:
        """The process ends well."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._file), self._path.stat()):
                self._path.unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._file)


def steps_in(path: Path) -> set[str]:
    """The steps that a process was at when it ended."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return set()
    places = (content[start : start + _LENGTH] for start in range(0, len(content), _LENGTH))
    found = (place.rstrip(b"\0").decode("utf-8", "replace") for place in places)
    return {step for step in found if step}


class Suspects:
    """The steps at which processes have ended, and how often in a row."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / SUSPECTS
        self.deaths: dict[str, int] = self._kept()
        noted = steps_in(directory / RUNNING)
        for step in sorted(noted):
            self.deaths[step] = self.deaths.pop(step, 0) + 1  # those that were noted last are kept longest
        for step in [*self.deaths][:-_MOST_SUSPECTS]:
            del self.deaths[step]
        if noted:
            self.keep()

    def _kept(self) -> dict[str, int]:
        try:
            found = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            _log.warning("%s cannot be read, and is left out: %s", self._path, error)
            return {}
        if not isinstance(found, Mapping):
            return {}
        return {str(step): count for step, count in found.items() if isinstance(count, int)}

    def keep(self) -> None:
        """Have the next process know of them, if this one ends too."""
        try:
            if not self.deaths:
                self._path.unlink(missing_ok=True)
                return
            replacement = self._path.with_suffix(".new")
            replacement.write_text(json.dumps(self.deaths))
            replacement.replace(self._path)
        except OSError as error:
            _log.warning("%s cannot be written: %s", self._path, error.strerror)
