"""Queries that can be looked at: their plans in words, as documents, and drawn in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from millstream.drawing.plan import PlanView, check_format
from millstream.engine.life import Life, under_way

if TYPE_CHECKING:
    from millstream.query.context import QueryContext


class Explained:
    """What a query says of its plan."""

    _context: QueryContext

    @property
    def life(self) -> Life:
        return self._context.engine.life

    def explain(self, format: str = "text") -> str:  # noqa: A002 - as it is called in the statement
        """Its plan, how what is kept is kept, and what it shares: as text, json, dot or svg."""
        return self.plan().in_format(check_format(format))

    @under_way
    def plan(self) -> PlanView:
        """Its plan with what its operators have done: `str(plan)`, `plan.document`, or drawn by a notebook."""
        return self._context.plan_of(cast(Any, self))
