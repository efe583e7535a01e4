"""`millstream serve` as a supervisor runs it: started again whenever it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.serving import LIMIT, until

_SERVE = [sys.executable, "-c", "from millstream.cli import app; app()", "serve"]


class Supervised:
    """A service in a process of its own, at one port from its first start on."""

    def __init__(self, directory: Path, *options: str, **environment: str) -> None:
        self._directory, self._options, self.log = directory, options, directory.with_suffix(".log")
        self._environment = environment
        self.port, self.starts = 0, 0
        self._is_over, self._lock = False, threading.Lock()
        self.process = self._started()
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _started(self) -> subprocess.Popen[str]:
        with self.log.open("a") as log:
            process = subprocess.Popen(
                [*_SERVE, str(self._directory), "--port", str(self.port), *self._options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **self._environment},
                cwd=self._directory.parent,  # where what requests name without a place goes
            )
        assert process.stdout is not None
        with process.stdout as said:  # it says nothing more than this
            found = re.search(r"https?://[^:]+:(\d+)", said.readline())
        if found is not None:
            self.port = int(found[1])
            self.starts += 1
        return process

    def _supervise(self) -> None:
        while True:
            self.process.wait()
            with self._lock:
                if self._is_over:
                    return
                self.process = self._started()

    def kill(self) -> None:
        """End it at once, and wait until it is back."""
        before = self.starts
        self.process.send_signal(signal.SIGKILL)
        self.await_start(before)

    def await_start(self, before: int) -> None:
        """Wait until it was started more than so many times."""
        until(lambda: self.starts > before)

    def stop(self) -> None:
        with self._lock:
            self._is_over = True
            self.process.terminate()
        try:
            self.process.wait(LIMIT)
        finally:
            self.process.kill()
            self._thread.join(LIMIT)

    def said(self) -> str:
        """What it has written to its standard error, in all its lives."""
        return self.log.read_text()


@contextmanager
def supervised(directory: Path, *options: str, **environment: str) -> Iterator[Supervised]:
    service = Supervised(directory, *options, **environment)
    try:
        assert service.starts, service.said()
        yield service
    finally:
        service.stop()
