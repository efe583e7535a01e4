"""Room for texts that are nested: parentheses inside parentheses cost the parser some twenty calls each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_CALLS = 8_000  # enough for 300 parentheses, and far from what a thread's stack holds
_lock = Lock()
_inside = 0
_before = 0


@contextmanager
def room_to_nest() -> Iterator[None]:
    """Within the block calls may be nested more deeply than Python lets them by default. The limit is one for all
    threads: it falls back when the last of them has left."""
    global _inside, _before
    with _lock:
        if not _inside:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, _CALLS))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                sys.setrecursionlimit(_before)
