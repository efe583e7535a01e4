"""How long what waits for the disk takes: another machine's disk is another one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any
from unittest.mock import patch


@dataclass
class Syncs:
    count: int = 0
    seconds: float = 0.0

    def reset(self) -> None:
        self.count, self.seconds = 0, 0.0


@contextmanager
def timed_syncs() -> Iterator[Syncs]:
    """Counts the syncs of this process while the block runs. Of several at a time each counts as a whole."""
    syncs, lock = Syncs(), Lock()

    def timed(sync: Callable[[Any], None]) -> Callable[[Any], None]:
        def run(descriptor: Any) -> None:
            begun = time.perf_counter()
            sync(descriptor)
            taken = time.perf_counter() - begun
            with lock:
                syncs.count, syncs.seconds = syncs.count + 1, syncs.seconds + taken

        return run

    with patch("os.fsync", timed(os.fsync)), patch("os.fdatasync", timed(os.fdatasync)):
        yield syncs
