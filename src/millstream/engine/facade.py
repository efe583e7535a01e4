"""The part of a database that is its engine's alone: work that is listed and ended, and backups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from millstream.engine.backups import Backup, backup
from millstream.engine.engine import Engine
from millstream.engine.life import Closable, Life, under_way
from millstream.engine.works import Work


class EngineFacade(Closable):
    """What a database has its engine do, from any thread."""

    engine: Engine
    _dumps: Callable[[object], bytes]  # also what users have written

    def __repr__(self) -> str:
        directory = self.engine.journal.directory
        return f"<{type(self).__name__} {'of this process' if directory is None else directory.parent}>"

    @property
    def life(self) -> Life:
        return self.engine.life

    def compute_apart(self, processes: int, memory: int) -> None:
        """Have what is guarded (`works`) computed by processes that may die alone, each with so many bytes."""
        self.engine.evaluation.compute_apart(processes, memory, self._dumps)

    def work(self) -> list[Work]:
        """What callers wait for now: each with its id, what it is, and the seconds since it was begun."""
        self.check_open()
        return [*self.engine.works]

    def cancel(self, number: int) -> None:
        """End work by its id, from another thread: who waits for it gets a CancelledError. What is committed stays."""
        self.check_open()
        self.engine.works.cancel(number)

    @under_way
    def backup(
        self, path: str | Path, *, copy: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Backup:
        """Make a copy of the database as of now in a new or empty directory, while everything goes on.

        Files are linked where both lie on one file system, which takes no room; `copy` makes copies of them there too.
        `progress` is told the bytes done and the bytes in all.
        """
        return backup(self.engine, Path(path), copy=copy, on_progress=progress or (lambda done, of: None))
