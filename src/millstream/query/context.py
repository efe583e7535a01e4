"""What queries need of the database that they stand in, and what those of a template have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from millstream.engine.engine import Engine
from millstream.language.binder import BoundQuery
from millstream.plan.lowering.lower import Options

if TYPE_CHECKING:
    from millstream.query.query import Query


@dataclass(frozen=True, eq=False)
class QueryContext:
    """What queries need of the database that they stand in."""

    engine: Engine
    options: Callable[[], Options]  # how plans are run, by the settings of now
    tick_clocks: Callable[[], None]
    drop: Callable[[str], None]
    drop_template: Callable[[str], None]


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
