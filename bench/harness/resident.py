"""The memory of a process and all that it started, sampled while it runs, and their processor time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass
class Peak:
    bytes: int = 0


def processes_of(root: int) -> list[int]:
    """A process and those below it."""
    children: dict[int, list[int]] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += children.get(process, [])
    return found


def resident(root: int) -> int:
    """Bytes that they have in memory; what several of them share is counted once (`Pss`)."""
    return sum(map(_share, processes_of(root)))


def processor_seconds(root: int | None = None) -> float:
    """That a process, this one by default, and those below it have had, with those below them that have ended."""
    return sum(map(_ticks, processes_of(root or os.getpid()))) / os.sysconf("SC_CLK_TCK")


def _ticks(process: int) -> int:
    try:
        return sum(map(int, (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()[11:15]))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _share(process: int) -> int:
    try:
        text = (PROC / str(process) / "smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))


@contextmanager
def peak_of(root: int, seconds: float = 0.05) -> Iterator[Peak]:
    """The most that a process and those below it have in memory while the block runs."""
    peak, ended = Peak(resident(root)), threading.Event()

    def watch() -> None:
        while not ended.wait(seconds):
            peak.bytes = max(peak.bytes, resident(root))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()
