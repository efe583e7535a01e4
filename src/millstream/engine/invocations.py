"""How often answers were asked for and given, by what was asked: in this process, or over the network."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

KINDS = ("result", "changes", "follow", "results", "execute")


class Invocations:
    """Counted in any thread."""

    def __init__(self) -> None:
        self._counts = Counter(dict.fromkeys(KINDS, 0))
        self._lock = threading.Lock()

    def count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def by_kind(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._counts)
