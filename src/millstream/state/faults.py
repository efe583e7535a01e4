"""Places where a test may stop the process, to prove that nothing committed is lost and nothing uncommitted is seen.

`MILLSTREAM_FAULT=point` kills the process (as kill -9 does) when it reaches the point; `point:3` at the third time.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

POINTS = (
    "epoch-started",
    "history-written",
    "segment-half-written",
    "segment-written",
    "epoch-run",
    "catalog-half-written",
    "catalog-written",
    "catalog-renamed",
    "manifest-half-written",
    "manifest-written",
    "manifest-renamed",
    "before-sweep",
    "sink-written",
)

_reached: Counter[str] = Counter()


def reach(point: str) -> None:
    wanted, _, times = os.environ.get("MILLSTREAM_FAULT", "").partition(":")
    if wanted == point:
        _reached[point] += 1
        if _reached[point] >= int(times or 1):
            os.kill(os.getpid(), signal.SIGKILL)
