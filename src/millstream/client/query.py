"""A query of a service: what `ms.Query` is, asked for over HTTP by its name."""

from __future__ import annotations

import json
import time
from typing import Any

from millstream.client.answers import AnswerCalls, AsyncAnswers, RemoteAnswers, instant_from
from millstream.client.talk import Pause, Talk, asked_property, asks
from millstream.drawing.plan import PlanView, check_format
from millstream.errors import Error
from millstream.wire.errors import error_of

_GLANCE = 0.1  # seconds


class QueryCalls(AnswerCalls):
    """What a standing question of a service can be asked."""

    @asked_property
    def cql(self) -> Talk[str]:
        """The text with all defaults written out."""
        return str((yield from self._about("cql")))

    @asked_property
    def defaults(self) -> Talk[list[str]]:
        return list((yield from self._about("defaults")))

    @asked_property
    def notices(self) -> Talk[list[str]]:
        """What its author should know of the past that it saw, as long as it concerns answers."""
        return list((yield from self._ask(""))["notices"])

    @asked_property
    def error(self) -> Talk[Error | None]:
        """What stopped the query, if something did: it has no answers any more."""
        return error_of((yield from self._ask("")))

    @asks
    def explain(self, format: str = "text") -> Talk[str]:  # noqa: A002 - as it is called in the statement
        """Its plan, how what is kept is kept, and what it shares: as text, json, dot or svg."""
        form = check_format(format)
        return (yield from self._plan()).in_format(form)

    @asks
    def plan(self) -> Talk[PlanView]:
        """Its plan with what its operators have done: `str(plan)`, `plan.document`, or drawn by a notebook."""
        return (yield from self._plan())

    def _plan(self) -> Talk[PlanView]:
        found = yield from self._ask("/explain", format="json")
        return PlanView(found["text"], json.loads(found["plan"]))

    @asks
    def stats(self) -> Talk[dict[str, Any]]:
        return (yield from self._stats())

    def _stats(self) -> Talk[dict[str, Any]]:
        found: dict[str, Any] = yield from self._ask("/stats")
        return {
            name: instant_from(value) if name in ("final", "approximate_until") else value
            for name, value in found.items()
        }

    @asked_property
    def backfill(self) -> Talk[dict[str, Any] | None]:
        """How far the past has been worked through, while it is."""
        found: dict[str, Any] | None = (yield from self._stats()).get("backfill")
        return found

    @asked_property
    def is_filling(self) -> Talk[bool]:
        """Whether the past that is kept is still being worked through in the background."""
        return (yield from self._stats()).get("backfill") is not None

    @asks
    def wait(self, timeout: float | None = None) -> Talk[bool]:
        """Wait until the past that is kept has been worked through; tells whether it has, in so many seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (yield from self._stats()).get("backfill") is not None:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            yield Pause(_GLANCE)
        return True

    @asked_property
    def is_approximate(self) -> Talk[bool]:
        return bool((yield from self._stats())["approximate"])


class RemoteQuery(QueryCalls, RemoteAnswers):
    """A standing question of a service."""

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self.kind} {self.cql}>"


class AsyncQuery(QueryCalls, AsyncAnswers):
    """A standing question of a service, for who awaits."""

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self.kind}>"
