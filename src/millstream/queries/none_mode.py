"""Templates of mode NONE: queries of which nothing is kept but their constants.

They have one plan with parameters, which is bound once. A query's own plan is made from it when its answer is asked
for. The catalog has one entry for all of them, with a row of names and constants for each.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from millstream.catalog.entries import Declarations, Entry
from millstream.engine.history.past import Past
from millstream.errors import NotSupportedError
from millstream.kernel.batch import value_columns
from millstream.kernel.sharing.parameters import with_values
from millstream.language.bind_parameters import filled
from millstream.language.binder import BoundQuery
from millstream.plan.nodes import map_expressions
from millstream.queries.modes import Modes, Nothing
from millstream.queries.notices import of_the_past, past_in
from millstream.query import Query
from millstream.types import DataType

if TYPE_CHECKING:
    from millstream.database import Database

NAME, ROWS = "name", "rows"


@dataclass
class _Template:
    bound: BoundQuery
    names: set[str] = field(default_factory=set)  # of the queries that are there


class Unkept:
    """The templates of mode NONE of a database."""

    def __init__(self, database: Database, modes: Modes) -> None:
        self._database = database
        self._modes = modes
        self._templates: dict[str, _Template] = {}

    def __contains__(self, name: str | None) -> bool:
        return name in self._templates

    def register(
        self,
        text: str,
        bound: BoundQuery,
        statistics: dict[str, Any],
        kinds: Sequence[DataType],
        values: pl.DataFrame,
        names: Sequence[str],
    ) -> list[Query] | None:
        """None where answers must be kept after all."""
        database, number = self._database, 1
        while f"_unkept-{number}" in self._templates:
            number += 1
        name = f"_unkept-{number}"
        keeping = self._modes.nothing(name, bound.plan, bound.schema, database.options())
        if isinstance(keeping, str):
            return None
        past = of_the_past(database.engine, bound)
        rows = values.with_columns(pl.Series(NAME, names, pl.String))
        declared = database.declared.with_entry(
            "template",
            name,
            text=text,
            parameters=[str(kind) for kind in kinds],
            settings=asdict(database.settings),
            statistics=statistics,
            **past.entry(),
            **{ROWS: _packed(rows)},
        )
        try:
            database.engine.declare(declared.entries)
        except BaseException:
            self._modes.engine.retention.recomputed.pop(name, None)
            raise
        database.declared = declared
        return list(self._queries(name, bound, keeping, rows, past))

    def recover(self, entry: Entry, bound: BoundQuery) -> list[Query]:
        """The queries that an earlier process registered."""
        name = entry["name"]
        keeping = self._modes.nothing(name, bound.plan, bound.schema, self._database.options())
        if isinstance(keeping, str):
            raise NotSupportedError("its answers must be kept", detail=keeping)
        return list(self._queries(name, bound, keeping, rows_of(entry), past_in(entry)))

    def _queries(
        self, name: str, bound: BoundQuery, keeping: Nothing, rows: pl.DataFrame, past: Past
    ) -> Iterator[Query]:
        self._templates[name] = _Template(bound, set(rows[NAME]))
        values = rows.select(value_columns(rows.width - 1))
        for shown, own in zip(rows[NAME], values.iter_rows(), strict=True):
            kept = replace(keeping, values=own)
            yield Query(self._database, shown, "none", bound, kept, template=name, past=past)

    def own(self, query: Query) -> BoundQuery:
        """A query as if it had come alone: its text and plan with its own constants."""
        keeping, bound = query.keeping, self._templates[query.template or ""].bound
        if not isinstance(keeping, Nothing) or keeping.values is None:
            raise AssertionError(f"{query.name} is of no template")
        values = keeping.values
        plan = bound.plan.transform(lambda node: map_expressions(node, lambda e: with_values(e, values)))
        return replace(bound, plan=plan, tree=filled(bound.cql, values))

    def drop(self, query: Query) -> None:
        """A query is gone, and with the last one its template."""
        database, name = self._database, query.template or ""
        left = self._templates[name].names - {query.name}
        declared = database.declared.without("template", name) if not left else self._without(name, query.name)
        database.engine.declare(declared.entries)
        database.declared = declared
        self._templates[name].names = left
        if not left:
            del self._templates[name]
            database.engine.retention.recomputed.pop(name, None)

    def _without(self, template: str, query: str) -> Declarations:
        def changed(entry: Entry) -> Entry:
            if (entry["kind"], entry["name"]) != ("template", template):
                return entry
            return {**entry, ROWS: _packed(_unpacked(entry[ROWS]).filter(pl.col(NAME) != query))}

        return Declarations(tuple(map(changed, self._database.declared.entries)))


def _packed(rows: pl.DataFrame) -> str:
    content = io.BytesIO()
    rows.write_ipc(content, compression="zstd")
    return base64.b85encode(content.getvalue()).decode()


def rows_of(entry: Entry) -> pl.DataFrame:
    """The names and constants of the queries of a template."""
    return _unpacked(entry[ROWS])


def _unpacked(text: str) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(base64.b85decode(text)))
