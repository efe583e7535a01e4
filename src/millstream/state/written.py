"""Files that a piece of work has written: whoever works owns them until a commit names them, and removes the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from millstream.state.store import Store
from millstream.state.tail import is_in_tail


class Written:
    """The files that one piece of work has written. Nobody else knows them yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.names: set[str] = set()

    def add(self, names: Iterable[str]) -> None:
        self.names.update(names)

    def keep_only(self, names: Collection[str]) -> None:
        """Remove all but these."""
        gone = self.names.difference(names)
        self._store.pool.forget(gone)
        # A part of the tail lies beside what others have committed: it goes with the file, once nothing is named there.
        self._store.sweep((name for name in gone if not is_in_tail(name)), names)
        self.names.intersection_update(names)

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *_: object) -> None:
        """What was written was of use only until here."""
        self.keep_only(())
