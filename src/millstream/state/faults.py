"""Places where a test may stop the process, to prove that nothing committed is lost and nothing uncommitted is seen.

`MILLSTREAM_FAULT=point` kills the process (as kill -9 does) when it reaches the point; `point:3` at the third time.
`point:3:stop` only stops it there (as kill -STOP does), so that another process can take the database over meanwhile.
With `MILLSTREAM_FAULT_MARK=file` that happens once for all processes: the one that dies leaves the file behind.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

POINTS = (
    "epoch-started",
    "history-written",
    "segment-half-written",
    "segment-written",
    "files-merged",
    "merges-written",
    "epoch-run",
    "tail-synced",
    "catalog-half-written",
    "catalog-written",
    "catalog-renamed",
    "manifest-half-written",
    "manifest-written",
    "manifest-linked",
    "manifest-counts",
    "changes-half-written",
    "changes-written",
    "change-counts",
    "before-sweep",
    "sink-written",
    "backfill-slice-run",
    "backfill-saved",
    "backfill-finished",
    "plan-moved",
)

_reached: Counter[str] = Counter()


def reach(point: str) -> None:
    wanted, _, how = os.environ.get("MILLSTREAM_FAULT", "").partition(":")
    if wanted == point:
        times, _, stops = how.partition(":")
        _reached[point] += 1
        if stops:
            if _reached[point] == int(times or 1):
                os.kill(os.getpid(), signal.SIGSTOP)
        elif _reached[point] >= int(times or 1) and _is_first():
            os.kill(os.getpid(), signal.SIGKILL)


def _is_first() -> bool:
    mark = os.environ.get("MILLSTREAM_FAULT_MARK")
    if mark is None:
        return True
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
