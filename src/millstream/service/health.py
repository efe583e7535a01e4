"""Whether the service is well, and if not, why.

It lives as long as it answers (`/healthz`, 200): something that asks for an operator's attention makes it degraded, and
a restart would not help. It is ready (`/readyz`, 200) as long as it takes requests and can commit; else it says 503.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from millstream.errors import ClosedError
from millstream.service.work import DatabaseService

_log = logging.getLogger(__name__)
_FRESH = 1.0  # seconds for which what was found is told again
_EVERY = 10.0  # seconds between looks that nobody asked for
_PATIENCE = 2.0  # seconds that who asks waits for a look
_NAMED = 10


@dataclass(frozen=True)
class Reason:
    """Something that asks for attention. `names` are for those who may read."""

    what: str
    count: int
    names: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    def shown(self, *, in_full: bool) -> dict[str, Any]:
        said: dict[str, Any] = {"what": self.what, "count": self.count}
        return said | {"names": [*self.names], "details": [*self.details]} if in_full else said


@dataclass
class Health:
    """Looked at when somebody asks, and now and then, so that what begins and ends is logged."""

    service: DatabaseService
    _found: tuple[Reason, ...] = ()
    _at: float = float("-inf")
    _looking: asyncio.Task[None] | None = field(default=None, repr=False)

    async def reasons(self) -> tuple[Reason, ...]:
        """Why it is degraded: as of a moment ago, or as it was known if looking takes long."""
        if time.monotonic() - self._at > _FRESH:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
            await asyncio.wait({self._looking}, timeout=_PATIENCE)
        return self._found

    async def watch(self) -> None:
        while True:
            await self.reasons()
            await asyncio.sleep(_EVERY)

    async def _look(self) -> None:
        service = self.service
        if service.stopping.is_set():
            return
        try:
            found = await asyncio.wrap_future(service.watching.submit(lambda: (*_reasons(service),)))
        except ClosedError:
            return  # it has just been closed
        before, self._found, self._at = {each.what: each for each in self._found}, found, time.monotonic()
        service.is_degraded = bool(found)
        for reason in found:
            if reason.what not in before or before[reason.what].names != reason.names:
                said = {"what": reason.what, "count": reason.count, "names": [*reason.names]}
                names = ", ".join(reason.names)
                _log.warning("degraded: %s: %s", reason.what, names or reason.count, extra={"data": said})
        for what in before.keys() - {reason.what for reason in found}:
            _log.info("no longer: %s", what, extra={"data": {"what": what}})


def _reasons(service: DatabaseService) -> Iterable[Reason]:
    database = service.database
    found = database.inspection.troubles()
    for what, named in found.items():
        if named:
            names = (*named,)[:_NAMED]
            yield Reason(what, len(named), names, tuple(named[name] for name in names))
    error = service.sources.error
    if error is not None:
        yield Reason("sources cannot be read", 1, (), (error.primary,))


def readiness(service: DatabaseService) -> str | None:
    """Why it takes no requests, or cannot do what they ask."""
    if service.stopping.is_set():
        return "it is stopping"
    if service.database.is_closed:
        return "the database is closed"
    return service.database.inspection.why_not_writable()
