"""What queries need of the database that they stand in, and what those of a template have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from millstream.drawing.plan import PlanView
from millstream.engine.engine import Engine
from millstream.errors import EvaluationError
from millstream.language.binder import BoundQuery
from millstream.plan.lowering.options import Options

if TYPE_CHECKING:
    from millstream.query.query import Query


@dataclass(frozen=True, eq=False)
class QueryContext:
    """What queries need of the database that they stand in."""

    engine: Engine
    options: Callable[[], Options]  # how plans are run, by the settings of now
    bring_up_to_now: Callable[[Collection[str]], None]  # sources that are going to be read
    drop: Callable[[str], None]
    drop_template: Callable[[str], None]
    plan_of: Callable[[Query], PlanView]
    pointed: Callable[[Query, EvaluationError], None]  # into the text of the query


@dataclass(frozen=True)
class PlanChange:
    """What came of planning a query again by later statistics: it moves to another plan, has moved, or stays; since
    which epoch, and why."""

    state: str
    epoch: int
    reason: str

    @staticmethod
    def of(entry: Mapping[str, Any]) -> PlanChange:
        """Of a query that has moved, by its entry."""
        return PlanChange("moved", entry["epoch"], entry["reason"])

    def entry(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "reason": self.reason}

    def __str__(self) -> str:
        return f"{self.state} since epoch {self.epoch}: {self.reason}"


class TemplatePlan(Protocol):
    """What queries have in common but for their constants."""

    @property
    def name(self) -> str: ...

    def values(self, queries: Sequence[Query]) -> pl.DataFrame:
        """The parameters of queries, in their order."""
        ...

    def texts(self, queries: Sequence[Query]) -> list[str]:
        """The texts of queries, in their order."""
        ...

    def own(self, query: Query) -> BoundQuery:
        """A query as if it had come alone: its text and plan with its own constants."""
        ...

    def explain(self, query: Query) -> list[str]:
        """The same as `sharing` in words."""
        ...

    def sharing(self, query: Query) -> dict[str, Any]:
        """What a query shares, and what serves it."""
        ...
