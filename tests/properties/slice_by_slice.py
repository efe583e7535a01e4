"""Backfills that a test drives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.properties.driver import SideBySide

import millstream as ms
from millstream.database import Database


class SliceBySlice(SideBySide):
    """A database whose backfills go on by a slice when they are told to, and by no thread."""

    def __init__(self, path: Path | None, probes: tuple[int, ...]) -> None:
        self._path = path
        self._slices: Iterator[None] = iter(())
        super().__init__(self._open(), probes)

    def _open(self) -> Database:
        db = ms.connect(self._path, engine="inprocess")
        backfills = db.engine.backfills
        backfills.first_slice, backfills.most_left = 2, 2
        backfills.saved_every = 0.0  # so that whoever restarts goes on where it was
        self._slices = backfills.slices()
        return db

    def restart(self) -> None:
        if self._path is not None:
            self.db.close()
            self.db = self._open()

    def go_on(self, slices: int) -> None:
        for _ in range(slices):
            if next(self._slices, self) is self:
                self._slices = self.db.engine.backfills.slices()

    def finish(self) -> None:
        self._hand_over()
        for _ in self._slices:
            pass
        for _ in self.db.engine.backfills.slices():
            pass

    def _hand_over(self) -> None:
        """Queries of groups begin when they are asked, and would then wait for slices that nobody runs."""
        for name in self.queries:
            self.db.engine.admitter.ask(self.db.query(name).edge)

    @property
    def answering(self) -> dict[str, str]:
        self._hand_over()
        return {name: text for name, text in self.queries.items() if not self.db.query(name).is_filling}
