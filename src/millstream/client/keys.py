"""The keys that a client gives to its inserts by itself: each thread that inserts has a name of its own, and counts."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

KEY = "Idempotency-Key"


class CountingKeys:
    """Names that no other client has, each with the number of its next insert."""

    def __init__(self) -> None:
        self._free: list[tuple[str, int]] = []
        self._lock = threading.Lock()

    @contextmanager
    def next(self, given: str | None = None) -> Iterator[str]:
        """A key for the block, which sends one insert: the one that is given, or a new one. A name is used again once
        its insert was answered; where that is not known, it is left."""
        if given is not None:
            yield given
            return
        with self._lock:
            name, number = self._free.pop() if self._free else (uuid.uuid4().hex, 1)
        yield f"{name}#{number}"
        with self._lock:
            self._free.append((name, number + 1))
