"""Reads the sources of a database while it is served: `db.run` in a thread, again and again.

A run reads the sources that there are when it begins. So a statement that adds or drops one is run between two runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from millstream.database import Database
from millstream.errors import Error

_log = logging.getLogger(__name__)
_GLANCE = 0.1  # seconds
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds, after a run that failed


class SourceReader:
    """Keeps a run going; `error` is why the last one ended, until one goes well again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.error: Error | None = None
        self._free = threading.Lock()  # held by the run, or by who needs that none goes on
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, name="millstream-sources", daemon=True)

    def start(self) -> None:
        self._wanted.set()
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """End the run with the batches under way; whether that was done in time."""
        self._stopped.set()
        self._wanted.set()
        deadline = time.monotonic() + timeout
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._database.end_run()  # again and again: a run that has only just begun does not hear it
            self._thread.join(_GLANCE)
        return not self._thread.is_alive()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No run goes on inside the block."""
        self._wanted.clear()
        while not self._free.acquire(timeout=_GLANCE):
            self._database.end_run()
        try:
            yield
        finally:
            self._wanted.set()
            self._free.release()

    def _read(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopped.is_set():
            self._wanted.wait()
            with self._free:
                if self._stopped.is_set() or not self._wanted.is_set():
                    continue
                try:
                    self._database.run(None)
                    self.error, pause = None, _FIRST_PAUSE
                    continue
                except Error as error:
                    self.error = error
                    _log.error("sources: %s", error)
                except Exception as error:  # of Spark, say; shown at /healthz, and tried again
                    self.error = Error(f"reading the sources failed: {error!r}")
                    _log.exception("sources")
            if self._database.is_closed:
                return
            self._stopped.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
