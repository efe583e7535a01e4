"""Where the time of a run goes: the functions that took most of it."""

from __future__ import annotations

import cProfile
import io
import pstats
from collections.abc import Callable
from pathlib import Path

LINES = 15


def write_profile(path: Path, title: str, run: Callable[[], object]) -> None:
    """Run once more under the profiler, and write its top lines by own time, then by time with callees."""
    profiler = cProfile.Profile()
    profiler.runcall(run)
    text = io.StringIO()
    statistics = pstats.Stats(profiler, stream=text).strip_dirs()
    statistics.sort_stats("tottime").print_stats(LINES)
    statistics.sort_stats("cumtime").print_stats(r"kernel|\.py.*\((step|updated)\)", LINES)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{title}\n{text.getvalue()}")
