"""Commits: the snapshot that counts, and the files that it and its readers need.

    work writes files ──▶ commit(the snapshot that names them) ──▶ files that nobody needs any more are removed

A file is needed by the committed snapshot, or by somebody who reads in the background and has pinned it. Work that
commits does so within `writing`: whatever it has written and no commit names is removed when it ends, well or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

from millstream.engine.life import Life
from millstream.engine.lock import CommitLock
from millstream.engine.notifier import Notifier
from millstream.errors import StateError
from millstream.state.faults import reach
from millstream.state.manifest import Journal
from millstream.state.notes import Record
from millstream.state.pins import Pins
from millstream.state.snapshot import Catalog, Snapshot
from millstream.state.store import Store
from millstream.state.used_names import UsedNames
from millstream.state.written import Written

_Item = TypeVar("_Item")
_FORGETTING = 4  # readers hold at most a quarter more than they need


class Pending(Protocol):
    """What waits to be kept by the next commit, whatever that is for."""

    @property
    def has_pending(self) -> bool: ...

    def with_pending(self, snapshot: Snapshot) -> Snapshot: ...

    def release(self) -> set[str]:
        """It is committed; gives names that were written on the way, and may be of no use."""
        ...


class Commits:
    """Owns the committed snapshot. Commits are made under the lock; whoever reads does not wait for it."""

    def __init__(self, journal: Journal, store: Store, life: Life, notifier: Notifier, snapshot: Snapshot) -> None:
        self.journal, self.store, self.life, self.notifier = journal, store, life, notifier
        self.lock = CommitLock()
        self.pins = Pins()
        self.pending: Pending | None = None
        self.on_commit: Callable[[Snapshot], None] = lambda snapshot: None
        self._snapshot = snapshot
        self._used = UsedNames(snapshot)
        self._gone = 0  # names, since readers were last told to forget
        self._put_off: set[str] | None = None  # within `as_one`: what is to be swept in the end

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def commit(self, snapshot: Snapshot) -> None:
        """Make a snapshot the one that counts, and remove what only the one before it needed."""
        self.life.check_commits()
        with self.lock:
            self.life.check_commits()
            if self._put_off is not None:
                self.carry(snapshot)
                return
            if self.pending is not None:
                snapshot = self.pending.with_pending(snapshot)
            change = self._used.change_to(snapshot)
            self.lock.defer_interrupts()
            self.journal.commit(snapshot, self.store.syncing_names(change.added))
            on_the_way = set[str]() if self.pending is None else self.pending.release()
            self._snapshot = snapshot
            self._used.apply(change)
            self.notifier.notify()
            reach("before-sweep")
            gone = change.removed | self.pins.taken_over() | on_the_way
            self._let_forget(snapshot, len(gone))
            self._remove(gone)

    def _let_forget(self, snapshot: Snapshot, gone: int) -> None:
        """Readers forget what is gone, which costs as much as there are names: once a good part of them has changed."""
        self._gone += gone
        if self._gone * _FORGETTING >= len(self._used):
            self._gone = 0
            self.on_commit(snapshot)

    def _remove(self, names: Iterable[str]) -> None:
        """Remove files that neither the snapshot nor who reads beside it needs."""
        gone = {name for name in names if name not in self._used}
        if gone:
            self.store.sweep(gone, self._used.in_files_of(gone) | self.pins.names)

    @contextmanager
    def as_one(self) -> Iterator[None]:
        """What a block commits, all by one commit in the end. Where it raises, what it did until then is committed:
        whoever cannot go on puts back what was there first."""
        with self.lock:
            if self._put_off is not None:
                yield
                return
            self._put_off = set()
            try:
                yield
            finally:
                put_off, self._put_off = self._put_off, None
                self.commit(self._snapshot)
                self.sweep(put_off)

    def record(self, record: Record) -> None:
        """Keep how queries come and go until the next commit does."""
        if self._put_off is None:
            self.journal.note(record)

    def declare(self, catalog: Catalog) -> None:
        """Commit what the database has declared."""
        self.commit(self.snapshot.with_catalog(catalog))

    def commit_pending(self) -> None:
        """Commit what waits for the next commit."""
        if self.pending is not None and self.pending.has_pending:
            self.commit(self.snapshot)

    def note(self, snapshot: Snapshot) -> None:
        """Let a snapshot count that names what the committed one names; the next commit carries it."""
        with self.lock:
            self.carry(snapshot)
            self.notifier.notify()

    def carry(self, snapshot: Snapshot) -> None:
        """The same with what can be found out again, so that nobody need be told."""
        self._snapshot = snapshot

    @contextmanager
    def without_runs(self, edges: Collection[str]) -> Iterator[None]:
        """What is committed within says no more how far runs through history for these edges are. If that fails, the
        next commit says it still."""
        runs = self._snapshot.runs
        self.carry(self._snapshot.without_runs(edges))
        try:
            yield
        except BaseException:
            self.carry(replace(self._snapshot, runs=runs))
            raise

    # Files

    @contextmanager
    def writing(self) -> Iterator[Written]:
        """Who works adds what it writes; in the end that is removed which neither the snapshot nor a reader needs."""
        written = Written(self.store)
        try:
            yield written
        finally:
            self.sweep(written.names)

    def sweep(self, names: Iterable[str]) -> None:
        """Remove what nobody needs among files that were written: neither the snapshot, nor who reads beside it."""
        if self._put_off is not None:
            self._put_off.update(names)
            return
        if self.journal.is_in_doubt:
            return
        self._remove(names)

    def pin(self, reader: object, names: Iterable[str]) -> None:
        """Keep files that a reader in the background needs, instead of those that it needed before."""
        with self.lock:
            if before := self.pins.pin(reader, names):
                self.sweep(before)

    def unpin(self, reader: object) -> None:
        with self.lock:
            self.pin(reader, ())
            self.pins.unpin(reader)

    # Reading

    def read(self, reader: Callable[[Snapshot], _Item]) -> _Item:
        """What a reader makes of the committed snapshot.

        Readers do not wait for epochs: what a snapshot names stays the same, and is there until some commit later.
        """
        while True:
            snapshot = self.snapshot
            try:
                return reader(snapshot)
            except StateError:
                if self.snapshot is snapshot:
                    self.journal.check_current()
                    raise  # not because a commit has removed what the one before it named, ours or another owner's

    def reading(self, sources: Collection[str]) -> AbstractContextManager[Snapshot]:
        """The committed snapshot, whose history of some sources is there until the block ends."""

        def names(snapshot: Snapshot) -> Iterator[str]:
            return (file.name for source in sources for file in snapshot.history.get(source, ()))

        return self.pins.reading(lambda: self.snapshot, names)
