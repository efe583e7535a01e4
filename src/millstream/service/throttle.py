"""Warnings of others that come once for each request: now and then one is logged, with how many came since."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

_EVERY = 1.0  # seconds between lines of one kind
_REMEMBERED = 1_000  # kinds


class _Throttle(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, tuple[float, int]] = {}  # by message: when, and how many were left out since

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True  # errors are few, and each may be another one
        now, kind = time.monotonic(), str(record.msg)
        logged, left_out = self._logged.get(kind, (-_EVERY, 0))
        if now - logged < _EVERY:
            self._logged[kind] = logged, left_out + 1
            return False
        if len(self._logged) >= _REMEMBERED:
            self._logged.clear()
        self._logged[kind] = now, 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} more of the kind)", ()
            record.data = {"count": left_out + 1}
        return True


@contextmanager
def throttled(logger: logging.Logger) -> Iterator[None]:
    """What a logger warns of within the block is logged once a second for each kind."""
    throttle = _Throttle()
    logger.addFilter(throttle)
    try:
        yield
    finally:
        logger.removeFilter(throttle)
