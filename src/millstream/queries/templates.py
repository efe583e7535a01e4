"""Templates: what queries of a group have in common but for their conditions.

Queries that are registered together have one text with parameters, and one shape of condition. Those that come one by
one may have any condition: their texts are in the query table, and one of these is that of the template. The catalog
has an entry for each template, so that it does not grow with queries or shapes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

import polars as pl

from millstream.catalog.entries import Declarations, statistics_of
from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.engine.groups.group import Group
from millstream.engine.groups.new_rows import MODE, TEMPLATE, TEXT, ManyRows, NewRows
from millstream.engine.materialization import Eager, Lazy, Materialization
from millstream.engine.past import Past
from millstream.engine.plans import steps_name
from millstream.engine.query_tables import NAME
from millstream.kernel.batch import value_column, value_columns
from millstream.kernel.sharing.parameters import QUERY
from millstream.language.bind_parameters import filled, with_own_names
from millstream.language.binder import BoundQuery
from millstream.language.expanded_texts import ExpandedTexts, texts_of_template
from millstream.language.statement_parser import parse, parse_query
from millstream.language.type_names import stored_text
from millstream.plan.explain import explain
from millstream.plan.explain_groups import IndexUse, lines_of_member, service_of
from millstream.plan.fingerprint import fingerprint
from millstream.plan.lowering.matches import LazyPlan
from millstream.plan.own_columns import is_parametrised
from millstream.plan.parameters import with_parameters
from millstream.plan.shapes import Shape
from millstream.queries.modes import Modes
from millstream.queries.named_templates import OF
from millstream.queries.notices import of_the_past, with_past
from millstream.queries.own_columns import MemberColumns
from millstream.queries.planner import Planned
from millstream.queries.registry import Registry
from millstream.queries.sharing_choice import SharingChoice
from millstream.query import Query, QueryContext
from millstream.settings import Settings
from millstream.state.notes import Record
from millstream.types import DataType, to_polars

CUT = "cut"  # in an entry: where its queries differ, if not in what they select of the FROM list
CORE = "core"  # in an entry: by what the core of its group was planned, if not by its statistics
DROPPED = "dropped"  # in a record: the query that is gone
_QUERY = re.compile(r"\s*REGISTER\s+QUERY\s.*?\sAS\s", re.IGNORECASE | re.DOTALL)  # what stands before a query's text


@dataclass(frozen=True, eq=False)
class GroupTemplate:
    """A template for queries of one shape: as one of them was planned, and the group of its queries."""

    name: str
    planned: Planned
    group: Group
    shape: Shape
    parameters: tuple[DataType, ...]
    # Of mode LAZY: what is done with the matches that the group keeps, and the sources that they are made from.
    lazy: LazyPlan | None = None
    inputs: frozenset[str] = frozenset()
    of: str | None = None  # the name that the template has for users, if it has one

    @property
    def bound(self) -> BoundQuery:
        return self.planned.bound

    @property
    def mode(self) -> str:
        """By what is kept for its queries: those of other modes may have asked for less."""
        return "eager" if self.lazy is None else "lazy"

    def text_of(self, query: Query) -> str | None:
        """As it was said; None of one that came with others."""
        return self._row_of(query)[TEXT]  # type: ignore[no-any-return]

    def _row_of(self, query: Query) -> dict[str, Any]:
        tables = self.planned.planner.engine.groups.tables.rows(self.group)
        return tables[self.shape.name].row(by_predicate=pl.col(QUERY) == query.number, named=True)

    def own(self, query: Query) -> BoundQuery:
        """A query as if it had come alone: its text and plan with its own constants."""
        planner, row = self.planned.planner, self._row_of(query)
        if row[TEXT] is not None:
            with stored_text():
                (statement,) = parse(row[TEXT])
                bound = planner.bind(row[TEXT], statement.query, self.parameters)  # type: ignore[attr-defined]
                return planner.rewritten(bound, statistics_of(self.planned.statistics))
        values = [row[value_column(index)] for index in range(len(self.parameters))]
        plan = with_parameters(self.bound.plan, values)
        return replace(with_own_names(replace(self.bound, plan=plan), values), tree=filled(self.bound.as_said, values))

    def values(self, queries: Sequence[Query]) -> pl.DataFrame:
        """The parameters of queries, in their order."""
        return self._rows([query.number for query in queries]).select(value_columns(len(self.parameters)))

    def texts(self, queries: Sequence[Query]) -> list[str]:
        """The texts of queries, in their order."""
        rows = self._rows([query.number for query in queries])
        said = rows[TEXT]
        if said.null_count():
            return texts_of_template(self.bound.cql, rows.select(value_columns(len(self.parameters))).iter_rows())
        with stored_text():
            expanded = ExpandedTexts(self._expanded)
            return [expanded.of(_QUERY.sub("", text, count=1)) for text in said]

    def _expanded(self, text: str) -> str:
        return self.planned.planner.bind(text, parse_query(text)).cql

    def constants(self, numbers: Sequence[int | None]) -> pl.DataFrame:
        """What queries of these numbers have for the parameters of their shape, in their order."""
        return self._rows(numbers).select(value_columns(len(self.shape.parameters)))

    def constants_of(self, number: int) -> Sequence[object]:
        """Those of one query."""
        return self.constants([number]).row(0) if self.shape.parameters else ()

    @cached_property
    def has_constants_above(self) -> bool:
        """In mode LAZY: whether queries have constants of their own in what is done with the matches."""
        plans = () if self.lazy is None else (self.lazy.above, self.lazy.upper or self.lazy.above)
        return any(is_parametrised(e) for plan in plans for node in plan.walk() for e in node.computed)

    def _rows(self, queries: Sequence[int | None]) -> pl.DataFrame:
        """The rows of queries in the query table, in the order of the queries."""
        engine = self.planned.planner.engine
        numbers = pl.DataFrame(pl.Series(QUERY, queries, pl.Int64))
        rows = engine.reader.read(lambda snapshot: self._table())
        if not numbers[QUERY].is_in(rows[QUERY].implode()).all():  # a commit came between
            with engine.lock:
                rows = self._table()
        return numbers.join(rows, on=QUERY, how="left", maintain_order="left")

    def _table(self) -> pl.DataFrame:
        kinds = self.shape.parameters
        names = value_columns(len(kinds))
        rows = self.planned.planner.engine.groups.tables.rows(self.group).get(self.shape.name)
        if rows is None:
            types = {name: to_polars(kind) for name, kind in zip(names, kinds, strict=True)}
            rows = pl.DataFrame(schema={**types, QUERY: pl.Int64(), TEXT: pl.String()})
        return rows.select(QUERY, TEXT, *names)

    def sharing(self, query: Query) -> dict[str, Any]:
        """What a query of the group shares, and what serves it."""
        service = self._service(query)
        return {
            "shared_by": self.planned.planner.engine.shared_plan.shown[query.edge],
            "equal": self._equal(query),
            "indexes": [service.key] if service.key is not None else list(service.attributes),
            "unindexed": list(service.residual),
        }

    def explain(self, query: Query) -> list[str]:
        """The same in words."""
        others = self.planned.planner.engine.shared_plan.shown[query.edge] - 1
        constants = self._constants_of(query)
        lines = lines_of_member(self._service(query), self.shape.own_columns, constants, others, self._equal(query))
        core = self.group.core
        return lines if core is None else [*lines, *(f"its group reads {line}" for line in explain(core).splitlines())]

    def _equal(self, query: Query) -> int:
        """How many others have the same row of the query table."""
        return 0 if query.row is None else self.group.equal.number_of_names(query.row) - 1

    def _service(self, query: Query) -> IndexUse:
        """By which conditions a query is found, with its own constants."""
        constants = self._constants_of(query)
        return service_of(self.shape.condition, keyed=self.group.key is not None, constants=constants)

    def _constants_of(self, query: Query) -> Sequence[object]:
        return () if query.number is None else self.constants_of(query.number)


class Templates:
    """The templates of a database whose queries are in groups."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        registry: Registry,
        modes: Modes,
        choice: SharingChoice,
        context: QueryContext,
    ) -> None:
        self._engine, self._session, self._registry = engine, session, registry
        self._modes, self._choice, self._context = modes, choice, context
        self._templates: dict[str, dict[str, GroupTemplate]] = {}  # by name and shape
        self._shapes: Counter[tuple[str, str]] = Counter()  # by edge and shape: how many templates have it
        self._names: dict[object, str] = {}
        self._reasons: dict[tuple[str, str, str], str] = {}  # by template, shape and mode
        self._settings: tuple[Settings | None, str] = None, ""  # the last ones, and as a text

    def declared(
        self,
        planned: Planned,
        group: Group,
        shape: Shape,
        text: str,
        kinds: tuple[DataType, ...] = (),
        lazy: LazyPlan | None = None,
        of: str | None = None,
    ) -> GroupTemplate:
        """The template that queries of this text belong to; committed when the first of them is."""
        name = self._name(planned, group, shape, text, kinds, lazy, of)
        known = self._templates.get(name, {}).get(shape.name)
        if known is not None:
            return known
        # It stays under the settings of now, whatever they will be.
        planned = replace(planned, planner=planned.planner.fixed_now())
        if name not in self._templates:
            self._session.declared = self._session.declared.with_entry(
                "template",
                name,
                text=text,
                parameters=[str(kind) for kind in kinds],
                **planned.entry(),
                edge=group.edge,
                selection=group.selection,
                steps=steps_name(group.steps),
                keyed=group.key is not None,
                **({} if lazy is None else {"kept": {lazy.parts[0].identity: lazy.parts[0].kept}}),
                **({} if of is None else {OF: of}),
                **({} if group.split.cut == "from" else {CUT: group.split.cut}),
                **({} if group.core_said is None else {CORE: group.core_said}),
            )
        return self.add(name, planned, group, shape, kinds, lazy, of)

    def _name(
        self,
        planned: Planned,
        group: Group,
        shape: Shape,
        text: str,
        kinds: tuple[DataType, ...],
        lazy: LazyPlan | None,
        of: str | None,
    ) -> str:
        """Of the template that a text belongs to: by what is opened by its entry, whatever the condition is. Statistics
        count where they decide on an order of joins."""
        bound = planned.bound
        columns: tuple[object, ...] = tuple(f.name for f in bound.schema)
        columns = *columns, *planned.planner.known.values()
        above = () if lazy is None else (lazy.above, lazy.parts[0].windows)
        if kinds or (lazy is not None and group.split.is_join):
            outside: tuple[object, ...] = bound.kind, columns, tuple(map(str, kinds)), bool(kinds) and text, *above
            if of is not None:
                outside = *outside, of.lower()
            return fingerprint((group.identity, shape.name, outside))
        settings = planned.planner.settings
        if settings is not self._settings[0]:
            self._settings = settings, json.dumps(asdict(settings))
        equality = group.identity, bound.kind, columns, tuple(sorted(bound.reads)), self._settings[1], *above
        if group.split.is_join:
            return fingerprint((*equality, json.dumps(planned.statistics)))
        if equality not in self._names:
            self._names[equality] = fingerprint(equality)
        return self._names[equality]

    def add(
        self,
        name: str,
        planned: Planned,
        group: Group,
        shape: Shape,
        kinds: tuple[DataType, ...],
        lazy: LazyPlan | None,
        of: str | None = None,
    ) -> GroupTemplate:
        """Know a template that is declared, or about to be."""
        inputs = frozenset() if lazy is None else self._engine.plans.sources_of(planned.bound.plan, group.options)
        made = GroupTemplate(name, planned, group, shape, kinds, lazy, inputs, of)
        known = self._templates.setdefault(name, {})
        self._shapes[group.identity, shape.name] += shape.name not in known
        known[shape.name] = made
        if lazy is not None:
            self._modes.note(lazy)
        return made

    def enlist(
        self,
        template: GroupTemplate,
        rows: NewRows,
        settings: Settings,
        record: Record | None = None,
        past: Past | None = None,
    ) -> list[Query]:
        """Register queries of a template, by rows of the query table."""
        session, group = self._session, template.group
        past = past or of_the_past(self._engine, template.bound)
        first = self._engine.groups.tables.next_query(group)
        rows = rows.numbered(first, template.shape.name)
        before = session.declared
        try:
            self._registry.check_room(rows.height, settings)
            session.declared = with_past(before, template.name, first, rows.height, past)
            self._engine.admitter.enlist(group, template.shape, rows, session.declared.entries, record, past)
        except BaseException:
            session.declared = before
            if not self._registry.number_of(template):
                session.declared = self._without(template)
                self.forget(template)
            raise
        return self.add_rows(template, rows, lambda _: past)

    def add_rows(self, template: GroupTemplate, rows: NewRows, past: Callable[[int], Past]) -> list[Query]:
        """Have the queries of rows that are in the query table."""
        self._choice.has_joined(template.group, template.shape, rows)
        queries = [
            Query(
                self._context,
                name,
                mode,
                template.bound,
                self._materialization(template, number, mode),
                number,
                template,
                past(number),
            )
            for name, mode, number in zip(rows.names, rows.modes, rows.queries, strict=True)
        ]
        self._registry.add(queries)
        return queries

    def _materialization(self, template: GroupTemplate, number: int, mode: str) -> Materialization:
        bound, group = template.bound, template.group
        row = group.equal.row_of(number)
        if template.lazy is None:
            columns = MemberColumns(template, number) if template.shape.own_columns else None
            reason = "" if mode == "eager" else self._reason(template, mode)
            return Eager(self._engine.reader, group.edge, bound.schema, bound.kind == "stream", row, columns, reason)
        reader, edges = self._engine.reader, (group.edge,)
        constants = partial(template.constants_of, number) if template.has_constants_above else None
        return Lazy(reader, template.lazy, edges, template.inputs, bound.schema, group.options, row, constants)

    def _reason(self, template: GroupTemplate, mode: str) -> str:
        """Why the answers of queries are kept that did not ask for that."""
        key = template.name, template.shape.name, mode
        if key not in self._reasons:
            found = self._modes.materialization("", mode, template.planned, None)
            self._engine.retention.recomputed.pop("", None)  # where nothing would be kept: only queries of now count
            self._reasons[key] = found if isinstance(found, str) else ""
        return self._reasons[key]

    def drop(self, query: Query, template: GroupTemplate, *, recorded: bool = False) -> None:
        """A query is gone, and with the last one its template; where there is a record of it, the caller commits."""
        if query.number is None:
            raise AssertionError(f"{query.name} is in no group")
        is_last = self._registry.number_of(template) == 1
        declared = self._without(template) if is_last else self._session.declared
        record = {} if recorded else {DROPPED: query.name}
        self._engine.admitter.dismiss(query.edge, [query.number], declared.entries, record)
        self._session.declared = declared
        if is_last:
            self.forget(template)

    def _without(self, template: GroupTemplate) -> Declarations:
        """What is declared when there are no queries of this shape."""
        if len(self._templates[template.name]) > 1:
            return self._session.declared
        return self._session.declared.without("template", template.name)

    def forget(self, template: GroupTemplate) -> None:
        """Its last query is gone."""
        shapes = self._templates[template.name]
        del shapes[template.shape.name]
        if not shapes:
            del self._templates[template.name]
        key = template.group.identity, template.shape.name
        self._shapes[key] -= 1
        if not self._shapes[key]:
            del self._shapes[key]
            self._engine.groups.tables.forget_shape(template.group, template.shape)
            self._choice.forget_shape(template.group, template.shape)
        self._reasons = {known: why for known, why in self._reasons.items() if known[:2] != (template.name, key[1])}
        if template.lazy is not None:
            self._modes.forget(template.lazy)


def table_rows(values: pl.DataFrame, names: Sequence[str], mode: str, template: str) -> NewRows:
    """Rows of a query table: constants, names and mode of queries that came together."""
    named = pl.DataFrame({NAME: list(names)}, schema={NAME: pl.String()}).with_columns(
        pl.lit(mode).alias(MODE), pl.lit(None, pl.String).alias(TEXT), pl.lit(template).alias(TEMPLATE)
    )
    return ManyRows(named if not values.width else values.hstack(named))
