"""Templates of mode NONE: queries of which nothing is kept but their constants.

They have one plan with parameters, which is bound once. A query's own plan is made from it when its answer is asked
for. The catalog has one entry for all of them, with a row of names and constants for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from millstream.catalog.entries import Declarations, Entry
from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.engine.materialization import Unmaterialized
from millstream.engine.past import Past
from millstream.errors import NotSupportedError
from millstream.kernel.batch import value_column, value_columns
from millstream.language.bind_parameters import filled, with_own_names
from millstream.language.binder import BoundQuery
from millstream.language.expanded_texts import texts_of_template
from millstream.plan.parameters import with_parameters
from millstream.queries.modes import Modes
from millstream.queries.named_templates import OF, packed, unpacked
from millstream.queries.notices import of_the_past, past_in
from millstream.queries.parameters import stored_kinds
from millstream.queries.planner import Planned
from millstream.queries.registry import Registry
from millstream.query import Query, QueryContext
from millstream.types import DataType, to_polars

NAME, ROWS = "name", "rows"


@dataclass(eq=False)
class NoneTemplate:
    """A plan with parameters, and the queries that have it."""

    name: str
    bound: BoundQuery
    parameters: tuple[DataType, ...]
    names: set[str] = field(default_factory=set)  # of the queries that are there

    def own(self, query: Query) -> BoundQuery:
        """A query as if it had come alone: its text and plan with its own constants."""
        materialization, bound = query.materialization, self.bound
        if not isinstance(materialization, Unmaterialized) or materialization.values is None:
            raise AssertionError(f"{query.name} is of no template")
        values = materialization.values
        plan = with_parameters(bound.plan, values)
        return replace(with_own_names(replace(bound, plan=plan), values), tree=filled(bound.as_said, values))

    def values(self, queries: Sequence[Query]) -> pl.DataFrame:
        """The parameters of queries, in their order."""
        found = [
            query.materialization.values or () for query in queries if isinstance(query.materialization, Unmaterialized)
        ]
        types = {value_column(n): to_polars(kind) for n, kind in enumerate(self.parameters)}
        return pl.DataFrame(found, schema=types, orient="row")

    def texts(self, queries: Sequence[Query]) -> list[str]:
        """The texts of queries, in their order."""
        return texts_of_template(self.bound.cql, self.values(queries).iter_rows())

    def explain(self, query: Query) -> list[str]:
        others = len(self.names) - 1
        return [f"when asked with the {others} others of its template: one run through history"] if others else []

    def sharing(self, query: Query) -> dict[str, Any]:
        """Nothing is kept that could be shared."""
        return {}


class NoneTemplates:
    """The templates of mode NONE of a database."""

    def __init__(
        self, engine: Engine, session: Session, registry: Registry, modes: Modes, context: QueryContext
    ) -> None:
        self._engine, self._session, self._registry = engine, session, registry
        self._modes, self._context = modes, context
        self._templates: dict[str, NoneTemplate] = {}

    def register(
        self,
        text: str,
        planned: Planned,
        kinds: Sequence[DataType],
        values: pl.DataFrame,
        names: Sequence[str],
        of: str | None = None,
    ) -> list[Query] | None:
        """Of a template that has a name, perhaps. None where answers must be kept after all."""
        self._registry.check_room(values.height, planned.planner.settings)
        number = 1
        while f"_unkept-{number}" in self._templates:
            number += 1
        name = f"_unkept-{number}"
        materialization = self._materialization(name, planned)
        if isinstance(materialization, str):
            return None
        past = of_the_past(self._engine, planned.bound)
        rows = values.with_columns(pl.Series(NAME, names, pl.String))
        declared = self._session.declared.with_entry(
            "template",
            name,
            text=text,
            parameters=[str(kind) for kind in kinds],
            **planned.entry(),
            **past.entry(),
            **{ROWS: packed(rows)},
            **({} if of is None else {OF: of}),
        )
        try:
            self._session.declare(declared)
        except BaseException:
            self._engine.retention.recomputed.pop(name, None)
            raise
        return self._added(name, planned.bound, tuple(kinds), materialization, rows, past)

    def recover(self, entry: Entry, planned: Planned) -> list[Query]:
        """Have the queries that an earlier process registered."""
        materialization = self._materialization(entry["name"], planned)
        if isinstance(materialization, str):
            raise NotSupportedError("its answers must be kept", detail=materialization)
        kinds = stored_kinds(entry["parameters"])
        return self._added(entry["name"], planned.bound, kinds, materialization, rows_of(entry), past_in(entry))

    def _materialization(self, name: str, planned: Planned) -> Unmaterialized | str:
        bound = planned.bound
        return self._modes.none_mode(name, bound.plan, bound.schema, planned.planner.options)

    def _added(
        self,
        name: str,
        bound: BoundQuery,
        kinds: tuple[DataType, ...],
        materialization: Unmaterialized,
        rows: pl.DataFrame,
        past: Past,
    ) -> list[Query]:
        self._templates[name] = template = NoneTemplate(name, bound, kinds, set(rows[NAME]))
        values = rows.select(value_columns(rows.width - 1))
        shared = replace(materialization, parameters=kinds)
        queries = [
            Query(self._context, shown, "none", bound, replace(shared, values=own), template=template, past=past)
            for shown, own in zip(rows[NAME], values.iter_rows(), strict=True)
        ]
        self._registry.add(queries)
        return queries

    def drop(self, query: Query, template: NoneTemplate) -> None:
        """A query is gone, and with the last one its template."""
        name, declared = template.name, self._session.declared
        left = template.names - {query.name}
        self._session.declare(declared.without("template", name) if not left else self._without(name, query.name))
        template.names = left
        if not left:
            self.forget(template)

    def forget(self, template: NoneTemplate) -> None:
        """Its last query is gone, and this is committed."""
        self._templates.pop(template.name, None)
        self._engine.retention.recomputed.pop(template.name, None)

    def _without(self, template: str, query: str) -> Declarations:
        declared = self._session.declared
        entry = declared.find("template", template)
        if entry is None:
            raise AssertionError(f"{template} is not declared")
        return declared.replacing(entry, {**entry, ROWS: packed(unpacked(entry[ROWS]).filter(pl.col(NAME) != query))})


def rows_of(entry: Entry) -> pl.DataFrame:
    """The names and constants of the queries of a template."""
    return unpacked(entry[ROWS])
