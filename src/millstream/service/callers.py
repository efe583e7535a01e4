"""Who asks: by which token or from which address, for what, with which budget, and whether they still wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from millstream.errors import TooLargeError
from millstream.service.writable import WritableNames

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@dataclass(frozen=True)
class Budget:
    """What a token may take: pieces of work at a time, the seconds of each, the rows and bytes of one insert or answer.
    0 stands for what the service allows anybody."""

    concurrent: int = 0
    seconds: float = 0.0
    rows: int = 0
    bytes: int = 0

    def check(self, rows: int, size: int) -> None:
        """Refuse an answer of so many rows and bytes."""
        for count, most, what in ((rows, self.rows, "rows"), (size, self.bytes, "bytes")):
            if most and count > most:
                raise TooLargeError(
                    f"an answer of {count:,} {what} is more than the {most:,} of this token", hint="ask for less"
                )


async def _for_ever() -> MutableMapping[str, Any]:
    await asyncio.Event().wait()
    return {}


@dataclass(frozen=True)
class Caller:
    name: str = ""
    path: str = ""
    budget: Budget = Budget()
    receive: Receive = _for_ever
    writable: WritableNames = field(default_factory=WritableNames)
    address: str = ""

    async def gone(self) -> None:
        """Wait until nobody waits for the answer any more. What it has sent was read before."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


_current: ContextVar[Caller] = ContextVar("caller", default=Caller())  # noqa: B039 - it is frozen


def current_caller() -> Caller:
    """Whose request this task answers."""
    return _current.get()


def set_caller(caller: Caller) -> None:
    _current.set(caller)
