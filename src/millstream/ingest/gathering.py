"""Inserts that wait for one another, taken in together: one epoch and one commit for all that came meanwhile.

    insert ──▶ the first one leads ──▶ waits for the engine's lock ──▶ takes all that wait for its stream ──▶ tells them
               others wait for it                                      the next one that waits leads

What comes of rows does not depend on how they were cut, so nobody can tell, but by the time that it takes. An insert
that is wrong fails alone; where an epoch fails, those that were in it are tried one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.engine.lock import CommitLock
from millstream.errors import Error
from millstream.ingest.table_rows import InsertResult
from millstream.plan.definitions import StreamDefinition, TableDefinition

_MOST = 200_000  # rows that are taken in together
_PATIENCE = 0.001  # seconds


@dataclass(eq=False)
class WaitingInsert:
    """Typed rows for a stream or table, and what became of them."""

    target: StreamDefinition | TableDefinition  # as it was when the rows were typed
    rows: pa.Table
    key: str | None = None
    digest: str = ""
    is_single: bool = False  # to be taken in by an epoch of its own
    outcome: InsertResult | None = None
    error: Error | None = None
    _notified: threading.Event = field(default_factory=threading.Event)

    @property
    def is_done(self) -> bool:
        return self.outcome is not None or self.error is not None

    def wait(self) -> None:
        """Until it is done, or leads."""
        self._notified.wait()

    def notify(self) -> None:
        self._notified.set()

    def result(self) -> InsertResult:
        if self.error is not None:
            raise self.error
        if self.outcome is None:
            raise AssertionError("an insert that nobody took in")
        return self.outcome


# Takes some of them in, from the first one on, under the lock: those are done then.
Take = Callable[[Sequence[WaitingInsert]], None]


class Gathering:
    """Inserts of all threads. One of them leads: it takes others in with its own."""

    def __init__(self, lock: CommitLock, take: Take) -> None:
        self._lock, self._take = lock, take
        self._waiting: list[WaitingInsert] = []  # the first one leads
        self._own = threading.Condition()
        self._together = 1  # how many were taken in the last time

    def insert(self, insert: WaitingInsert) -> InsertResult:
        if self._lock.is_mine:  # others may wait for this thread
            self._take([insert])
            return insert.result()
        with self._own:
            self._waiting.append(insert)
            self._own.notify()
            leads = self._waiting[0] is insert
        try:
            if not leads:
                insert.wait()
            if not insert.is_done:
                self._lead(insert)
        finally:
            self._leave(insert)
        return insert.result()

    def _lead(self, insert: WaitingInsert) -> None:
        try:
            with self._own:
                # Those who were in the last one and come again are waited for, but not for long.
                self._own.wait_for(lambda: len(self._waiting) >= self._together, timeout=_PATIENCE)
            with self._lock:
                with self._own:
                    together = _together(self._waiting)
                    self._together = len(together)
                self._take(together)
        finally:
            with self._own:
                done = [each for each in self._waiting if each.is_done]
                self._waiting = [each for each in self._waiting if each is insert or not each.is_done]
            for each in done:
                each.notify()

    def _leave(self, insert: WaitingInsert) -> None:
        """However it ended; whoever is the first then leads."""
        with self._own:
            led = self._waiting[:1] == [insert]
            if insert in self._waiting:
                self._waiting.remove(insert)
            if led and self._waiting:
                self._waiting[0].notify()


def _together(waiting: Sequence[WaitingInsert]) -> list[WaitingInsert]:
    """Those for the stream of the first one, in order, as far as they are not too many; changes of tables alone."""
    first = waiting[0]
    found, rows = [first], first.rows.num_rows
    for insert in waiting[1:] if isinstance(first.target, StreamDefinition) and not first.is_single else ():
        rows += insert.rows.num_rows
        if rows > _MOST:
            break
        if insert.target is first.target and not insert.is_single:
            found.append(insert)
    return found
