"""A query of a service: what `ms.Query` is, asked for over HTTP by its name."""

from __future__ import annotations

import json
import time
from typing import Any

from millstream.client.answers import RemoteAnswers, instant_from
from millstream.drawing.plan import PlanView, check_format
from millstream.errors import Error
from millstream.wire.errors import error_of

_GLANCE = 0.1  # seconds


class RemoteQuery(RemoteAnswers):
    """A standing question of a service."""

    @property
    def cql(self) -> str:
        """The text with all defaults written out."""
        return str(self._about("cql"))

    @property
    def defaults(self) -> list[str]:
        return list(self._about("defaults"))

    @property
    def notices(self) -> list[str]:
        """What its author should know of the past that it saw, as long as it concerns answers."""
        return list(self._ask("")["notices"])

    @property
    def error(self) -> Error | None:
        """What stopped the query, if something did: it has no answers any more."""
        return error_of(self._ask(""))

    def explain(self, format: str = "text") -> str:  # noqa: A002 - as it is called in the statement
        """Its plan, how what is kept is kept, and what it shares: as text, json, dot or svg."""
        return self.plan().in_format(check_format(format))

    def plan(self) -> PlanView:
        """Its plan with what its operators have done: `str(plan)`, `plan.document`, or drawn by a notebook."""
        found = self._ask("/explain", format="json")
        return PlanView(found["text"], json.loads(found["plan"]))

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("/stats")
        return {
            name: instant_from(value) if name in ("final", "approximate_until") else value
            for name, value in found.items()
        }

    @property
    def backfill(self) -> dict[str, Any] | None:
        """How far the past has been worked through, while it is."""
        found: dict[str, Any] | None = self.stats().get("backfill")
        return found

    @property
    def is_filling(self) -> bool:
        """Whether the past that is kept is still being worked through in the background."""
        return self.backfill is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the past that is kept has been worked through; tells whether it has, in so many seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.is_filling:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(_GLANCE)
        return True

    @property
    def is_approximate(self) -> bool:
        return bool(self.stats()["approximate"])

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self.kind} {self.cql}>"
