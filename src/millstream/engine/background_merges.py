"""Merges that take longer than an epoch may: done beside the epochs, and committed between two of them.

    epoch: finds what is to be merged ──▶ little: done by its own tasks
                                      └─▶ more: waits ──▶ a lot of it merged without the lock ──▶ one commit

What a snapshot says is the same before and after, so nobody waits for it, and nothing is lost where it comes to
nothing: a merge of which a part is gone by then (its query was dropped, history was cut), or which would leave out what
may be asked for again (RETAIN has become longer), is forgotten, and what is there is looked at again. What is read
meanwhile is pinned. The thread gives way to epochs, and ends when nothing waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from millstream.engine.commits import Commits
from millstream.engine.epochs.caution import Caution, TriedMerges
from millstream.engine.epochs.commit import after_merges
from millstream.engine.epochs.merging import Merge, perform
from millstream.errors import Error
from millstream.state.faults import reach
from millstream.state.snapshot import Snapshot
from millstream.state.store import DirectoryStore

LOT = 1 << 22  # bytes that are merged before a commit, or one merge that has more
MOST = 64  # merges before a commit
_GIVING_WAY = 0.5  # seconds that merges wait for an epoch to end
_AT_A_TIME = 0.05  # seconds of merging, after which they wait again
_log = logging.getLogger(__name__)


class BackgroundMerges:
    """Merges that wait, and the thread that does them. `may_count` says whether a merge is still of use in a
    snapshot; `have_counted` is told of those that were committed, under the lock."""

    def __init__(
        self,
        commits: Commits,
        caution: Caution,
        may_count: Callable[[Merge, Snapshot], bool],
        have_counted: Callable[[Sequence[Merge]], None],
    ) -> None:
        self._commits, self._caution = commits, caution
        self._may_count, self._have_counted = may_count, have_counted
        self._lock = threading.Lock()  # of what follows; taken after the engine's, never before
        self._waiting: dict[str, Merge] = {}
        self._begun: dict[str, Merge] = {}
        self._undone: list[Merge] = []
        self._thread: threading.Thread | None = None
        self._is_closed = self._has_failed = False

    def claim(self, name: str) -> Merge | None:
        """The merge by a name that waits or is done now."""
        return self._begun.get(name) or self._waiting.get(name)

    def taken_undone(self) -> list[Merge]:
        """Those that have come to nothing since this was last asked."""
        with self._lock:
            undone, self._undone = self._undone, []
        return undone

    def offer(self, merges: Iterable[Merge]) -> None:
        """Have merges done, none of which is claimed."""
        with self._lock:
            self._waiting |= {merge.name: merge for merge in merges}
            if self._thread is None and self._waiting and not self._is_closed:
                self._thread = threading.Thread(target=self._work, name="millstream-merges", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Until all that was offered is done."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Nothing is begun any more; what is under way is waited for, and counts."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        try:
            while lot := self._next_lot():
                self._do(lot)
            self._has_failed = False
        except Error as error:
            self._fail(error)
        except Exception as error:  # of whatever kind: nobody needs a merge
            self._fail(error)
            raise

    def _fail(self, error: Exception) -> None:
        """Another owner may have the directory, or the disk be full: epochs say so. They offer again what was left."""
        with self._lock:
            self._undone += self._waiting.values()
            self._waiting, self._thread = {}, None
        if not self._has_failed and not self._commits.life.is_closing:
            _log.warning("small files were not merged: %s", error)
        self._has_failed = True

    def _next_lot(self) -> list[Merge]:
        """Some that wait, and may be read until they are given back; the thread ends where there is none."""
        with self._commits.lock, self._lock:
            lot, size, store = list[Merge](), 0, self._commits.store
            while self._waiting and len(lot) < MOST and not self._is_closed:
                name, merge = next(iter(self._waiting.items()))
                size += merge.bytes(store)
                if lot and size > LOT:
                    break
                del self._waiting[name]
                if merge.is_found_in(self._commits.snapshot):
                    lot.append(merge)
            self._begun = {merge.name: merge for merge in lot}
            if lot:
                self._commits.pin(self, (name for merge in lot for name in merge.names_read()))
            else:
                self._thread = None
            return lot

    def _do(self, lot: Sequence[Merge]) -> None:
        commits, made = self._commits, list[Merge]()
        try:
            lot = self._harmless(lot)
            epoch = commits.snapshot.epoch
            with commits.store.file(f"e{epoch}", synced=False) as writer, self._caution.noted():
                for merge in self._giving_way(lot):
                    done = None if self._is_closed else perform(merge, commits.store, writer, epoch)
                    if done is not None:
                        made.append(done)
            commits.store.sync(name for merge in made for name in merge.written() if "@" in name)
            reach("merges-written")
            self._publish(made)
        finally:
            with commits.lock, self._lock:
                self._undone += (merge for merge in self._begun.values() if merge.is_found_in(commits.snapshot))
                self._begun = {}
                commits.sweep(name for merge in made for name in merge.written())
                commits.unpin(self)

    def _harmless(self, lot: Sequence[Merge]) -> list[Merge]:
        """Those that do not end the process which does them."""
        names, store = [merge.name for merge in lot], self._commits.store
        given_up = self._caution.given_up(names)
        lot = [merge for merge in lot if merge.name not in given_up]
        if not isinstance(store, DirectoryStore):
            return lot

        def tried() -> TriedMerges:
            store.sync_tail()
            return TriedMerges(store.directory, tuple(lot))

        culprits = self._caution.culprits((merge.name for merge in lot), tried)
        return [merge for merge in lot if merge.name not in culprits]

    def _giving_way(self, lot: Sequence[Merge]) -> Iterator[Merge]:
        """From time to time the epoch that runs is waited for, if one does, but not for ever: there may be one after
        the other."""
        until = 0.0
        for merge in lot:
            if time.monotonic() >= until:
                if self._commits.lock.acquire(timeout=_GIVING_WAY):
                    self._commits.lock.release()
                until = time.monotonic() + _AT_A_TIME
            yield merge

    def _publish(self, made: Sequence[Merge]) -> None:
        """Those that are still of use count from now on."""
        commits = self._commits
        with commits.lock:
            commits.journal.check_current()
            counting = [merge for merge in made if self._may_count(merge, commits.snapshot)]
            if counting:
                commits.commit(after_merges(commits.snapshot, counting))
                self._have_counted(counting)
