"""Logs of records since a manifest, one line each with a checksum: notes, until the next commit holds what they say,
and commits that changed too little to be worth a manifest.

Each commit has a file of its own for what is noted after it: processes that take a database over from one another never
write to the same one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any
from weakref import finalize

from millstream.state.faults import reach
from millstream.state.files import checksum, damaged, sync_data, sync_directory

Record = Mapping[str, Any]
NOTES, CHANGES = "notes", "changes"
OF_OLD = "notes.log"  # of earlier versions: one file for all commits, whose lines say which one they follow


class Notes:
    """What is noted after the manifest of a number."""

    def __init__(self, directory: Path, version: int, kind: str = NOTES) -> None:
        self.version, self.kind = version, kind
        self.path = directory / f"{kind}-{version:010d}.log"
        self.length = 0  # what is known to be on disk
        self._file: FileIO | None = None  # kept open: many notes may follow each other

    def append(self, record: Record) -> None:
        """On disk when this returns. What an attempt that failed has left is written over."""
        content = json.dumps({"version": self.version, **record}, separators=(",", ":")).encode()
        line = checksum(content).encode() + b" " + content + b"\n"
        try:
            if self._file is None:
                self._file = FileIO(self.path, "w")
                finalize(self, self._file.close).atexit = False  # databases are closed later than that
            self._file.seek(self.length)
            _write_all(self._file, line[: len(line) // 2])
            reach(f"{self.kind}-half-written")
            _write_all(self._file, line[len(line) // 2 :])
            sync_data(self._file.fileno())
            if not self.length:
                sync_directory(self.path.parent)
            reach(f"{self.kind}-written")
        except OSError:
            with suppress(OSError):  # whoever opens it next does not take half a line for one either
                os.truncate(self.path, self.length)
            raise
        self.length += len(line)

    @property
    def is_in_doubt(self) -> bool:
        """Whether more may be there than was told: where a line could neither be written nor taken back."""
        try:
            return self.path.stat().st_size > self.length
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Nothing is noted any more."""
        if self._file is not None:
            self._file.close()

    def read(self) -> list[Record]:
        is_old = self.kind == NOTES and not self.path.exists()
        return self._records(self.path.with_name(OF_OLD) if is_old else self.path)

    def _records(self, path: Path) -> list[Record]:
        if not path.exists():
            return []
        found = []
        *lines, rest = path.read_bytes().split(b"\n")  # one that was cut short: nobody was told that it is kept
        if rest and checksum(rest[:-1].partition(b" ")[2]).encode() == rest.partition(b" ")[0]:
            raise damaged(path, f"line {len(lines) + 1} is all there, but for its end")
        for number, line in enumerate(lines, 1):
            expected, _, content = line.partition(b" ")
            if checksum(content).encode() != expected:
                raise damaged(path, f"the checksum of line {number} does not agree with what it holds")
            record = json.loads(content)
            if record["version"] == self.version:
                found.append(record)
        return found


def _write_all(file: FileIO, content: bytes) -> None:
    """A disk that is nearly full may take a part."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
