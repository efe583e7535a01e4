"""Files that a piece of work has written: whoever works owns them until a commit names them, and removes the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from millstream.state.store import Store


class Written:
    """The files that one piece of work has written. Nobody else knows them yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.names: set[str] = set()

    def add(self, names: Iterable[str]) -> None:
        self.names.update(names)

    def keep_only(self, names: Collection[str]) -> None:
        """Remove all but these."""
        self._store.sweep(self.names, names)
        self.names.intersection_update(names)

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *_: object) -> None:
        """What was written was of use only until here."""
        self.keep_only(())
