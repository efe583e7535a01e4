"""Stores of segments: immutable frames under names.

A segment is written once under a new name and never changed. The directory store writes Arrow IPC files, which are
mapped into memory when read, so that processes on one machine share them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import polars as pl
import pyarrow as pa


class Store(Protocol):
    """Where segments live."""

    def write(self, prefix: str, frame: pl.DataFrame) -> str:
        """Keep a frame; gives its name."""
        ...

    def read(self, name: str) -> pl.DataFrame: ...

    def remove(self, names: Iterable[str]) -> None: ...


class MemoryStore:
    """Segments of this process only."""

    def __init__(self) -> None:
        self._frames: dict[str, pl.DataFrame] = {}
        self._numbers = itertools.count()

    def write(self, prefix: str, frame: pl.DataFrame) -> str:
        name = f"{prefix}-{next(self._numbers)}"
        self._frames[name] = frame
        return name

    def read(self, name: str) -> pl.DataFrame:
        return self._frames[name]

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._frames.pop(name, None)


class DirectoryStore:
    """Segments as Arrow files in a directory that all processes of the database see."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._numbers = itertools.count()

    def __reduce__(self) -> tuple[object, ...]:
        return DirectoryStore, (self.directory,)

    def write(self, prefix: str, frame: pl.DataFrame) -> str:
        # The process id keeps the names of a retried task apart from those of its first attempt.
        name = f"{prefix}-{os.getpid()}-{next(self._numbers)}.arrow"
        table = frame.to_arrow()
        with (
            pa.OSFile(str(self.directory / name), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)
        return name

    def read(self, name: str) -> pl.DataFrame:
        table = pa.ipc.open_file(pa.memory_map(str(self.directory / name))).read_all()
        frame = pl.from_arrow(table)
        if not isinstance(frame, pl.DataFrame):
            raise AssertionError(f"segment {name} is not a table")
        return frame

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self.directory / name).unlink(missing_ok=True)
