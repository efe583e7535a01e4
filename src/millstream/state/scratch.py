"""A store of a process that may read a database, and changes nothing in it: what it writes stays in its memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from millstream.state.store import DirectoryStore, MemoryStore, Writer


class ScratchStore(DirectoryStore):
    """Reads the files of a directory, and segments of its own beside them."""

    def __init__(self, directory: Path, budget: int | None = None) -> None:
        super().__init__(directory, budget)
        self._memory = MemoryStore()

    def _has(self, name: str) -> bool:
        """Whether it is one of its own: those of files say where in which one they lie."""
        return "#" not in name

    @contextmanager
    def file(self, label: str, *, synced: bool = True) -> Iterator[Writer]:
        with self._memory.file(label) as writer:
            yield writer

    def read(self, name: str) -> pl.DataFrame:
        return self._memory.read(name) if self._has(name) else super().read(name)

    def read_once(self, name: str) -> pl.DataFrame:
        return self._memory.read(name) if self._has(name) else super().read_once(name)

    def size(self, name: str) -> int:
        return self._memory.size(name) if self._has(name) else super().size(name)

    def height(self, name: str) -> int:
        return self._memory.height(name) if self._has(name) else super().height(name)

    def write_history(self, source: str, period: int, label: str, frame: pl.DataFrame, *, apart: bool = False) -> str:
        return self._memory.write_history(source, period, label, frame, apart=apart)

    def read_history(self, name: str, wanted: pl.Expr | None = None) -> pl.DataFrame:
        return self._memory.read_history(name, wanted) if self._has(name) else super().read_history(name, wanted)

    def bounds(self, name: str, columns: Iterable[str]) -> Mapping[str, tuple[Any, Any] | None]:
        return self._memory.bounds(name, columns) if self._has(name) else super().bounds(name, columns)

    def sync(self, names: Iterable[str]) -> None:
        """Nothing of it lasts."""
