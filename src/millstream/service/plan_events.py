"""The live plan over HTTP: server-sent events with the numbers that have changed.

    data: {"epoch": 40, "version": 3}                      the first: of which plan numbers are told from now on
    data: {"epoch": 41, "nodes": {"filter-1f": {"rows_in": 5000, "rate": 120.0}}, "edges": {"s>filter-1f": {...}}}
    data: {"epoch": 42, "structure": true, "version": 4}   the plan is another one: ask for it anew

They come about once a second as long as something changes; where only the epoch has, they say that. All who watch share
what is read for them.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator

from millstream.errors import ClosedError
from millstream.inspection.watching import Look
from millstream.service.events import ALIVE, Follows, event, happens
from millstream.service.work import DatabaseService

EVERY = 1.0  # seconds
_ALIVE_EVERY = 15.0
_RESTLESS = 60.0  # seconds after the last commit for which rates may still change


class PlanWatch:
    """Looks at the plan for all who watch it."""

    def __init__(self, service: DatabaseService, follows: Follows) -> None:
        self._service, self._follows = service, follows
        self._last: tuple[float, Look] | None = None

    async def events(self, timeout: float | None = None) -> AsyncGenerator[bytes]:
        """For one who watches, from what there is now on, for so many seconds or until it leaves."""
        self._follows.count += 1
        try:
            async for each in self._events(timeout):
                yield each
        except ClosedError:
            return  # the service stops, and who watches asks again
        finally:
            self._follows.count -= 1

    async def _events(self, timeout: float | None) -> AsyncGenerator[bytes]:
        known, begun = await self._look(), time.monotonic()
        yield event(None, json.dumps({"epoch": known.epoch, "version": known.version}))
        committed = said = begun
        while not self._service.stopping.is_set() and (timeout is None or time.monotonic() < begun + timeout):
            moved, is_calm = self._follows.moved, time.monotonic() - committed > _RESTLESS
            if await happens(moved, min(_ALIVE_EVERY if is_calm else EVERY, timeout or _ALIVE_EVERY)):
                committed = time.monotonic()
                await happens(self._service.stopping, EVERY)  # commits that come soon after are told together
            now = await self._look()
            content, is_later, known = now.since(known), now.epoch > known.epoch, now
            if content or is_later:
                yield event(None, json.dumps({"epoch": now.epoch, **content}))
                said = time.monotonic()
            elif time.monotonic() - said > _ALIVE_EVERY:
                yield ALIVE
                said = time.monotonic()

    async def _look(self) -> Look:
        if self._last is None or time.monotonic() - self._last[0] > EVERY / 2:
            found = await self._service.follow(self._service.database.inspection.look)
            self._last = time.monotonic(), found
        return self._last[1]
