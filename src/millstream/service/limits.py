"""What one caller may ask for: how large, how often, for how long."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from millstream.service.connections import ConnectionLimits as ConnectionLimits
from millstream.wire.arrow import BodyLimits as BodyLimits

_REMEMBERED = 10_000  # callers


@dataclass(frozen=True)
class ServiceLimits:
    """0 means no limit."""

    request_bytes: int = 64 << 20
    body: BodyLimits = field(default_factory=lambda: BodyLimits(10_000_000, 1 << 30))  # what a request unpacks to
    requests_per_second: float = 1000.0  # of one token, or of one address where there are no tokens
    seconds: float = 60.0  # that an answer may take
    followers: int = 1000
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    body_bytes_per_second: float = 16384.0  # after the first seconds; slower bodies are given up
    concurrent: int = 64  # pieces of work of one caller at a time
    workers: int = 2  # processes for what is computed from history
    worker_memory: int = 1 << 30  # bytes, of each


class Rates:
    """A bucket of tokens per caller: it fills at the rate, and holds two seconds' worth."""

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._now = per_second, now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when that was

    def wait(self, caller: str) -> float:
        """Seconds until the caller may ask again; 0 where it may now."""
        if not self._rate:
            return 0.0
        now, full = self._now(), max(2 * self._rate, 1.0)
        left, at = self._buckets.pop(caller, (full, now))
        left = min(full, left + (now - at) * self._rate)
        allowed = left >= 1.0
        self._buckets[caller] = (left - 1.0 if allowed else left, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)  # who has not asked for the longest time
        return 0.0 if allowed else (1.0 - left) / self._rate
