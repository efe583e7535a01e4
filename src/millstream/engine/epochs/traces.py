"""Which step a process was at when it died: written down before each step, in a file for each stage that is run.

Only work that has killed its processes before is traced, since it costs a file per stage. What is written has left the
process at once, so that it is there whatever happens to the process next; it need not outlive the machine.
"""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

_ENDING = ".seg"  # what a killed driver leaves is removed with the segments that nothing names
_DONE = "."


class Trace:
    """The steps of one stage on one shard, as far as they have got."""

    def __init__(self, prefix: str) -> None:
        self._path = Path(f"{prefix}-{uuid.uuid4().hex}{_ENDING}")

    def at(self, step: str) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(f"{step}\n".encode())

    def done(self) -> None:
        self.at(_DONE)


class NoTrace(Trace):
    """Of work that is not suspected."""

    def __init__(self) -> None:
        pass

    def at(self, step: str) -> None:
        pass


def trace(prefix: str) -> Trace:
    return Trace(prefix) if prefix else NoTrace()


def deaths(prefix: str) -> Counter[str]:
    """How many processes went no further than each step."""
    last = (path.read_text().splitlines()[-1:] for path in _files(prefix))
    return Counter(step for steps in last for step in steps if step != _DONE)


def forget(prefix: str) -> None:
    for path in _files(prefix):
        path.unlink(missing_ok=True)


def _files(prefix: str) -> list[Path]:
    start = Path(prefix)
    return [*start.parent.glob(f"{start.name}-*{_ENDING}")]
