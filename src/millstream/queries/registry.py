"""The standing queries of a database: how they come, are found, come back after a restart, and go.

A query runs on a plan of its own, or as a row of a group: one plan for all queries that differ only in what they
select. A template is what queries of one text have in common but for their constants; it is what the catalog keeps, and
the queries are rows of the group's query table, with their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from sqlglot import exp

from millstream.catalog.entries import Declarations, Entry, statistics_entry, statistics_of
from millstream.engine.answers import relation_at
from millstream.engine.engine import steps_name
from millstream.engine.groups.admission import WAITING, Group, numbers_of
from millstream.engine.history.past import Past
from millstream.errors import BindError, CatalogError, Error, InputError, Place
from millstream.kernel.batch import value_column
from millstream.kernel.scalar.expressions import Literal, Parameter
from millstream.kernel.sharing.keyed_selection import equality_key
from millstream.kernel.sharing.parameters import QUERY, with_values
from millstream.language import statements as st
from millstream.language.bind_parameters import filled, with_constants
from millstream.language.binder import BoundQuery
from millstream.language.literal_masks import Masked, converted, in_conditions, masked, sources_of, with_marks
from millstream.language.statement_parser import check_text, parse, parse_query, parse_type
from millstream.language.syntax import numbered_parameters
from millstream.names import shown_name, why_unusable
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.cost import SourceStatistics, selectivity
from millstream.plan.explain_groups import service_of
from millstream.plan.fingerprint import fingerprint
from millstream.plan.grouping import Shape, Split, has_many_constants, shape_of, split
from millstream.plan.kept_columns import joins_made, kept_columns, shared_stems
from millstream.plan.lowering.lower import Options
from millstream.plan.lowering.matches import LazyPlan
from millstream.plan.nodes import map_expressions, sources
from millstream.queries.modes import Eager, Keeping, KeptWindows, Lazy, Modes, Nothing, NotLazy, kept_windows, steps_of
from millstream.queries.none_mode import ROWS, Unkept, rows_of
from millstream.queries.notices import counted_by, found_by_counting, of_the_past, past_in, with_past
from millstream.queries.parameters import parameter_columns
from millstream.queries.unopened import UnopenedQuery
from millstream.query import Query
from millstream.settings import Settings
from millstream.state.notes import Record
from millstream.types import BOOLEAN, DataType, to_polars

if TYPE_CHECKING:
    from millstream.database import Database

NAME, MODE, TEXT, TEMPLATE = "name", "mode", "text", "template"
QUERY_NAME = "_query"
# From so many queries of one skeleton on, further ones share a plan. Fewer are as well off with plans of their own.
ENOUGH_TO_SHARE = 8
# Of a join, those that together want so much of it: then one join of all rows costs less than one for each.
WORTH_ONE_JOIN = 0.5
# So many queries that ask for the same value may become rows of their own before bits are cheaper.
MOST_PER_VALUE = 32
_COUNTS = "exact answers begin once its windows have counted enough rows"


@dataclass(frozen=True, eq=False)
class Template:
    """What queries have in common but for their constants, as it was bound, and under which settings."""

    name: str
    bound: BoundQuery
    settings: Settings
    statistics: dict[str, Any]
    group: Group
    shape: Shape
    parameters: tuple[DataType, ...]
    # Of mode LAZY: what is done with the matches that the group keeps, and the sources that they are made from.
    lazy: LazyPlan | None = None
    inputs: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class _KnownText:
    """Texts of a template that differ in constants only: which constant is which parameter, and the other constants,
    which are the same in all of them."""

    template: Template
    sources: tuple[int, ...]
    fixed: tuple[tuple[int, Literal], ...]


class PlannedOtherwise(Exception):
    """What is kept for a query is not what its plan of today would keep."""


class Registry:
    """Owns the queries of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queries: dict[str, Query] = {}
        self._templates: dict[str, Template] = {}
        # Queries with plans of their own, by the group they could be in: the part of its rows that each wants.
        self._alone: dict[str, dict[str, float]] = {}
        self._texts: dict[tuple[str, ...], list[_KnownText]] = {}
        self._texts_under: tuple[Entry, ...] = ()  # what was declared when they were learned
        self._modes = Modes(database.engine)
        self._unkept = Unkept(database, self._modes)
        self._asked_for: dict[tuple[str, str], set[object]] = {}  # by group and shape: the values of keys
        # Of selections whose queries were moved, since groups are planned otherwise now: what keeps those apart.
        self._apart: dict[str, str] = {}

    def __iter__(self) -> Iterator[Query]:
        return iter(list(self._queries.values()))  # others may come and go meanwhile

    def __len__(self) -> int:
        return len(self._queries)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._queries

    def find(self, name: str, place: Place | None = None) -> Query:
        if name.lower() not in self._queries:
            known = [query.name for query in self]
            raise self._database.catalog.unknown("query", name, known, place)
        return self._queries[name.lower()]

    def readers(self, names: set[str]) -> list[str]:
        """The queries that read one of these objects."""
        return [query.name for query in self if query.reads & names]

    # Registering

    def register_text(self, text: str, name: str | None, mode: str) -> Query:
        """Make a text a standing query. One like which there are some in a group is not even parsed."""
        check_text(text)
        with self._database.engine.lock:
            found = masked(text) if mode.lower() == "eager" else None
            known = self._known_texts(found) if found is not None else None
            if found is not None and known is not None:
                query = self._register_known(known, found, text, name, mode)
                if query is not None:
                    return query
            statement = st.Query(Place(text, 0, len(text)), parse_query(text))
            query = self.register(name, mode, statement)
            if found is not None and known is None and query.template is not None:
                self._learn(found, statement, self._templates[query.template])
        return query

    def _known_texts(self, found: Masked) -> _KnownText | None:
        if self._texts_under is not self._database.declared.entries:
            # Something was declared since: names may mean something else now.
            self._texts.clear()
            self._texts_under = self._database.declared.entries
        for known in self._texts.get(found.tokens, ()):
            if all(found.constants[number] == constant for number, constant in known.fixed):
                return known
        return None

    def _register_known(self, known: _KnownText, found: Masked, text: str, name: str | None, mode: str) -> Query | None:
        """None where the query must be planned after all."""
        template = known.template
        columns = []
        for index, (number, kind) in enumerate(zip(known.sources, template.shape.parameters, strict=True)):
            value = converted(found.constants[number], kind)
            if value is None:
                return None
            columns.append(pl.Series(value_column(index), [value], to_polars(kind)))
        constants = pl.DataFrame(columns)
        if template.group.key is not None and not self._has_room(template.group, template.shape, constants):
            return None
        past = of_the_past(self._database.engine, template.bound)
        if past.unseen is not None or self._differs_by_its_past(template.group, past):
            return None
        name, mode = name or self._free_names(1)[0], mode.lower()
        self._check_free([name], None)
        record = {NAME: name, MODE: mode, TEXT: text}
        return self._enlist(template, _with_names(constants, [name], mode, text, template.name), record, past)[0]

    def _learn(self, found: Masked, statement: st.Query, template: Template) -> None:
        """Find out which constants of a text are which parameters of its template."""
        text = statement.place.text
        wanted = in_conditions(statement.query, found)
        probe, marks = with_marks(text, found, wanted)
        try:
            plan = self.planned(self._database.binder(probe).bind(parse_query(probe)))[0].plan
        except Error:
            return  # a mark is no date, say; such texts are bound one by one
        taken = split(plan)
        if taken is None or taken.skeleton != template.group.split.skeleton:
            return
        shape, values = shape_of(taken.condition)
        sources = sources_of(values, shape.parameters, marks) if shape.name == template.shape.name else None
        if sources is not None:
            fixed = tuple((n, constant) for n, constant in enumerate(found.constants) if n not in marks)
            self._texts.setdefault(found.tokens, []).append(_KnownText(template, sources, fixed))
            self._texts_under = self._database.declared.entries

    def register(
        self, name: str | None, mode: str | None, statement: st.RegisterQuery | st.Query, *, recorded: bool = False
    ) -> Query:
        """Make a query a standing one; where there is a record of it already, the caller commits."""
        database, engine = self._database, self._database.engine
        place = statement.name.place if isinstance(statement, st.RegisterQuery) else None
        with engine.lock:
            name, mode = name or self._free_names(1)[0], (mode or "eager").lower()
            self._check_free([name], place)
            unplanned = database.binder(statement.place.text).bind(statement.query)
            bound, statistics = self.planned(unplanned)
            text, past = statement_text(statement), of_the_past(engine, bound)
            if past.unseen is not None:
                return self._register_alone(name, mode, text, bound, statistics, _COUNTS)
            if mode != "eager":
                return self._register_in_mode(name, mode, text, unplanned, bound, statistics)
            alone = database.settings.sharing == "off" or (not recorded and has_many_constants(bound.plan))
            found = None if alone else split(bound.plan)
            if found is not None:
                shape, constants = _constants(found)
                group = self._group(found, shape, constants)
                wanted = _wanted(found, statistics)
                if self._is_to_share(group, wanted) and not self._differs_by_its_past(group, past):
                    self._gather(group)
                    template = self._template(bound, statistics, group, shape, (), text)
                    rows = _with_names(constants, [name], mode, text, template.name)
                    record = {} if recorded else {NAME: name, MODE: mode, TEXT: text}
                    return self._enlist(template, rows, record)[0]
                query = self._register_alone(name, mode, text, bound, statistics)
                self._alone.setdefault(group.edge, {})[name.lower()] = wanted
                return query
            return self._register_alone(name, mode, text, bound, statistics)

    def register_many(self, text: str, rows: Any, names: Sequence[str] | None, mode: str) -> list[Query]:
        """Queries of one template, each with its own values for the parameters."""
        database, engine = self._database, self._database.engine
        tree = parse_query(text)
        count = len(numbered_parameters(tree))
        if not count:
            raise BindError("a template without parameters", hint="write ? where queries differ, or use register")
        kinds, values = parameter_columns(rows, count)
        if names is not None and len(names) != values.height:
            raise InputError(f"{values.height} rows, and {len(names)} names")
        for name in names or ():
            check_query_name(name)
        mode = mode.lower()
        with engine.lock:
            shown = list(names) if names is not None else self._free_names(values.height)
            self._check_free(shown, None)
            if not values.height:
                return []
            unplanned = database.binder(text, kinds).bind(tree)
            bound, statistics = self.planned(unplanned)
            past = of_the_past(engine, bound)
            if past.unseen is not None:
                return self._register_each(text, values, shown, mode)
            if mode == "none":
                database.check_number_of_queries(len(self._queries) + values.height)
                made = self._unkept.register(text, bound, statistics, kinds, values, shown)
                self._queries.update((query.name.lower(), query) for query in made or ())
                return self._register_each(text, values, shown, mode) if made is None else made
            lazy, found = None, split(bound.plan) if mode == "eager" else None
            if mode == "lazy" and (shared := self._shared_lazy(unplanned, statistics)) is not None:
                lazy, found = shared
            if found is None:
                return self._register_each(text, values, shown, mode)
            shape = Shape(found.condition, kinds)
            group = self._group(found, shape, values)
            if self._differs_by_its_past(group, past):
                return self._register_each(text, values, shown, mode)
            template = self._template(bound, statistics, group, shape, kinds, text, lazy)
            return self._enlist(template, _with_names(values, shown, mode, None, template.name))

    def _register_each(self, template: str, values: pl.DataFrame, names: Sequence[str], mode: str) -> list[Query]:
        """Where no plan can be shared, each query gets one of its own."""
        queries = []
        for name, row in zip(names, values.iter_rows(), strict=True):
            text = with_constants(template, row)
            queries.append(self.register(name, mode, st.Query(Place(text, 0, len(text)), parse_query(text))))
        return queries

    def _lazy_plan(
        self, unplanned: BoundQuery, statistics: dict[str, Any], known: KeptWindows | None = None
    ) -> LazyPlan | NotLazy:
        database = self._database
        plan = database.rewritten_for_matches(unplanned, statistics_of(statistics)).plan
        return self._modes.plan(plan, database.options(), database.settings.stem_window, known)

    def _shared_lazy(
        self, unplanned: BoundQuery, statistics: dict[str, Any], known: KeptWindows | None = None
    ) -> tuple[LazyPlan, Split] | None:
        """A query's plan for the matches that a group keeps, and what the group is of."""
        found = self._lazy_plan(unplanned, statistics, known)
        if isinstance(found, NotLazy):
            return None
        return self._modes.shared(found, unplanned.plan, self._database.settings.stem_window, known)

    def planned(self, bound: BoundQuery) -> tuple[BoundQuery, dict[str, Any]]:
        """The query with its plan, and the statistics that this was chosen by."""
        read = {source.name for source in sources(bound.plan)}
        known = self._database.engine.statistics(read)
        joins = [node for node in bound.plan.walk() if isinstance(node, lo.Join)]
        if joins:
            pipeline = self._database.engine.pipeline
            for source, kept in kept_columns(pipeline).items():
                if source in read:
                    known[source] = replace(known.get(source, SourceStatistics()), kept=kept)
            of_views = any(join.of_view for join in joins)
            for source, made in joins_made(pipeline, read).items() if of_views else ():
                known[source] = replace(known.get(source, SourceStatistics()), made=made)
        return self._database.rewritten(bound, known), statistics_entry(known)

    def _group(self, found: Split, shape: Shape, constants: pl.DataFrame) -> Group:
        """The group for queries of a shape: by the value of a column that they ask for, where there are not too many
        of them for each value."""
        groups, options = self._database.engine.groups, self._database.options()
        asked = equality_key(shape.condition)
        if asked is not None and asked[0].type != BOOLEAN and isinstance(asked[1], Parameter):
            keyed = groups.find(found, asked[0], options)
            if self._has_room(keyed, shape, constants):
                return keyed
        return groups.find(found, None, options)

    def _has_room(self, keyed: Group, shape: Shape, constants: pl.DataFrame) -> bool:
        """Whether there are not too many queries for each value of the key with these."""
        asked = equality_key(shape.condition)
        if asked is None or not isinstance(asked[1], Parameter):
            raise AssertionError(f"{shape.condition} asks for no value")
        values = constants[value_column(asked[1].index)]
        known = self._asked_for.get((keyed.edge, shape.name), set())
        count = self._database.engine.groups.next_query(keyed) + len(values)
        return count <= MOST_PER_VALUE * (len(known) + (values.n_unique() if len(values) > 1 else 1))

    def _is_to_share(self, group: Group, wanted: float = 0.0) -> bool:
        """Whether a query should come to a group, given the part of the rows of the FROM list that it wants."""
        if self._database.settings.sharing == "on" or group.edge in self._database.engine.groups:
            return True
        alone = self._alone.get(group.edge, {})
        if len(alone) >= ENOUGH_TO_SHARE:
            return True
        # One join of all rows instead of several of some.
        joins = len(sources(group.split.core)) > 1
        return joins and bool(alone) and sum(alone.values()) + wanted >= WORTH_ONE_JOIN

    def _gather(self, group: Group) -> None:
        """Have the queries come to a group that have run by plans of their own, as long as there was nothing to run
        on: afterwards it would have to be run again, and history may not have all of it any more."""
        for name in self._alone.pop(group.edge, {}):
            query, entry = self._queries.get(name), self._database.declared.find("query", name)
            if query is not None and entry is not None and self._has_seen_nothing(query, entry):
                self._move(query, entry, group)

    def _has_seen_nothing(self, query: Query, entry: Entry) -> bool:
        as_now = entry["settings"] == asdict(self._database.settings) and query.mode == "eager"
        history = self._database.engine.snapshot.history
        return as_now and not query.is_filling and not any(history.get(source) for source in query.keeping.inputs)

    def _move(self, query: Query, entry: Entry, group: Group) -> None:
        database, before, own = self._database, self._database.declared, query.keeping
        found = split(query.bound.plan)
        if found is None or found.skeleton != group.split.skeleton:
            return  # another one of that name, which could not be registered, was noted
        shape, constants = _constants(found)
        database.declared = before.without("query", query.name)
        try:
            template = self._template(query.bound, entry["statistics"], group, shape, (), entry["text"])
            rows = _with_names(constants, [query.name], query.mode, entry["text"], template.name)
            (moved,) = self._enlist(template, rows)
        except BaseException:
            database.declared = before
            raise
        query.join(moved)
        self._queries[query.name.lower()] = query
        self._modes.hide(query.name, own, database.declared.entries)

    def _differs_by_its_past(self, group: Group, past: Past) -> bool:
        """Whether what the group's selection reads has seen more of the past than is kept, or will have: then the state
        there is does not go with what a new query has seen."""
        if not past.apart:
            return False
        if past.covered and past.counted:
            return True  # a group counts what fails from now on
        engine, below = self._database.engine, [s for s in group.pipeline.steps if s.name not in group.above]
        if engine.holds_state_of(step.name for step in below):
            return True
        others = engine.pasts.get(group.edge, {}).values()
        keeps = any(step.operator.distribution.keys is not None for step in below)
        return keeps and any(other.kept != past.kept for other in others)

    def _template(
        self,
        bound: BoundQuery,
        statistics: dict[str, Any],
        group: Group,
        shape: Shape,
        kinds: tuple[DataType, ...],
        text: str,
        lazy: LazyPlan | None = None,
    ) -> Template:
        """The template that queries of this text belong to; declared when the first of them is."""
        outside: tuple[object, ...] = bound.kind, tuple(f.name for f in bound.schema), tuple(map(str, kinds))
        outside = (*outside, bool(kinds) and text)
        if lazy is not None:
            outside = *outside, lazy.above, lazy.parts[0].windows
        name = fingerprint((group.edge, shape.name, outside))
        if name not in self._templates:
            settings = self._database.settings
            inputs = frozenset() if lazy is None else self._database.engine.sources_of(bound.plan, group.options)
            made = Template(name, bound, settings, statistics, group, shape, kinds, lazy, inputs)
            self._templates[name] = made
            if lazy is not None:
                self._modes.note(lazy)
            self._database.declared = self._database.declared.with_entry(
                "template",
                name,
                text=text,
                parameters=[str(kind) for kind in kinds],
                settings=asdict(settings),
                statistics=statistics,
                edge=group.edge,
                selection=group.selection,
                steps=steps_name(self._database.engine.groups.steps_of(group.split, group.key, group.options)),
                keyed=group.key is not None,
                **({} if lazy is None else {"kept": {lazy.parts[0].identity: lazy.parts[0].kept}}),
            )
        return self._templates[name]

    def _enlist(
        self, template: Template, rows: pl.DataFrame, record: Record | None = None, past: Past | None = None
    ) -> list[Query]:
        database, engine, group = self._database, self._database.engine, template.group
        past = past or of_the_past(engine, template.bound)
        first = engine.groups.next_query(group)
        rows = rows.with_columns(pl.Series(QUERY, range(first, first + rows.height), pl.Int64))
        before = database.declared
        try:
            database.check_number_of_queries(len(self._queries) + rows.height)
            database.declared = with_past(before, template.name, first, rows.height, past)
            engine.enlist(group, template.shape, rows, database.declared.entries, record, past)
        except BaseException:
            database.declared = before
            if not any(query.template == template.name for query in self._queries.values()):
                database.declared = self._without(template.name)
            raise
        return self._add_rows(template, rows, lambda _: past)

    def _add_rows(self, template: Template, rows: pl.DataFrame, past: Callable[[int], Past]) -> list[Query]:
        edge, bound = template.group.edge, template.bound
        asked = equality_key(template.shape.condition) if template.group.key is not None else None
        if asked is not None and isinstance(asked[1], Parameter):
            values = rows[value_column(asked[1].index)].to_list()
            self._asked_for.setdefault((edge, template.shape.name), set()).update(values)
        queries = [
            Query(
                self._database,
                name,
                mode,
                bound,
                self._kept_in_group(template, number),
                number,
                template.name,
                past(number),
            )
            for name, mode, number in zip(rows[NAME], rows[MODE], rows[QUERY], strict=True)
        ]
        self._queries.update((query.name.lower(), query) for query in queries)
        return queries

    def _kept_in_group(self, template: Template, number: int) -> Keeping:
        bound, group, engine = template.bound, template.group, self._database.engine
        if template.lazy is None:
            return Eager(engine, group.edge, bound.schema, bound.kind == "stream", number)
        return Lazy(engine, template.lazy, (group.edge,), template.inputs, bound.schema, group.options, number)

    def _register_in_mode(
        self,
        name: str,
        mode: str,
        text: str,
        unplanned: BoundQuery,
        bound: BoundQuery,
        statistics: dict[str, Any],
    ) -> Query:
        """A query that does not ask for its answer to be kept; where it must be after all, the query says why."""
        database = self._database
        database.check_number_of_queries(len(self._queries) + 1)
        content = {"shown": name, "mode": mode, "text": text, "settings": asdict(database.settings)}
        content["statistics"] = statistics
        if mode == "lazy" and (shared := self._to_share_matches(name, unplanned, bound, statistics, text)) is not None:
            template, constants = shared
            return self._enlist(template, _with_names(constants, [name], mode, text, template.name))[0]
        keeping = self._keeping(name, mode, unplanned, bound, statistics, None)
        if isinstance(keeping, str):
            return self._register_alone(name, mode, text, bound, statistics, keeping)
        past = of_the_past(database.engine, bound)
        content |= past.entry()
        keeping = self._by_past(keeping, bound, past)
        if isinstance(keeping, Lazy) and past.apart and any(map(database.engine.shown, keeping.edges)):
            # Others have seen more of the past than is kept: their matches do not go with what this query has seen.
            content["apart"] = name.lower()
            keeping = self._by_past(keeping, bound, past, name.lower())
        if isinstance(keeping, Lazy):
            declared = database.declared.with_entry("query", name, **content, **kept_windows(keeping))
            self._modes.show(keeping, database.declared.entries, declared.entries, firsts=past.kept)
        elif isinstance(keeping, Nothing):
            declared = database.declared.with_entry("query", name, **content, edges=list(keeping.edges))
            self._modes.show_nothing(keeping, declared.entries, firsts=past.kept)
        else:
            raise AssertionError(f"{name} keeps its answer")
        database.declared = declared
        self._queries[name.lower()] = query = Query(database, name, mode, bound, keeping, past=past)
        return query

    def _to_share_matches(
        self, name: str, unplanned: BoundQuery, bound: BoundQuery, statistics: dict[str, Any], text: str
    ) -> tuple[Template, pl.DataFrame] | None:
        """The template and the constants of a query whose matches are to be kept with those of others."""
        if self._database.settings.sharing == "off" or has_many_constants(bound.plan):
            return None
        shared = self._shared_lazy(unplanned, statistics)
        if shared is None:
            return None
        lazy, found = shared
        shape, constants = _constants(found)
        group = self._group(found, shape, constants)
        if not self._is_to_share(group):
            self._alone.setdefault(group.edge, {})[name.lower()] = 0.0
            return None
        if self._differs_by_its_past(group, of_the_past(self._database.engine, bound)):
            return None
        return self._template(bound, statistics, group, shape, (), text, lazy), constants

    def _keeping(
        self,
        name: str,
        mode: str,
        unplanned: BoundQuery,
        bound: BoundQuery,
        statistics: dict[str, Any],
        known: KeptWindows | None,
    ) -> Keeping | str:
        """What a query of mode LAZY or NONE keeps, or why its answer is kept."""
        database, options = self._database, self._database.options()
        if mode == "none":
            return self._modes.nothing(name, bound.plan, bound.schema, options)
        found = self._lazy_plan(unplanned, statistics, known)
        if isinstance(found, NotLazy):
            return found.reason
        found = self._modes.with_tree(found, bound.plan, database.settings.stem_window, known)
        return self._modes.lazy(found, bound.plan, bound.schema, options)

    def _register_alone(
        self, name: str, mode: str, text: str, bound: BoundQuery, statistics: dict[str, Any], reason: str = ""
    ) -> Query:
        database, engine = self._database, self._database.engine
        database.check_number_of_queries(len(self._queries) + 1)
        past = of_the_past(engine, bound)
        # Others see more of the past, or less: their state does not go with what a query has seen that is apart.
        options = replace(
            self._options(past, name.lower() if past.apart else ""), counting=counted_by(bound.plan, past)
        )
        declared = database.declared.with_entry(
            "query",
            name,
            shown=name,
            mode=mode,
            text=text,
            settings=asdict(database.settings),
            statistics=statistics,
            edge=engine.edge_of(bound.plan, options),
            steps=engine.steps_of(bound.plan, options=options),
            **past.entry(),
            **({"apart": options.apart} if options.apart else {}),
        )
        edge = engine.show(bound.plan, options, declared.entries, past.kept)
        database.declared = declared
        own = Eager(engine, edge, bound.schema, bound.kind == "stream", reason=reason)
        query = Query(database, name, mode, bound, own, past=past)
        query.finding = partial(found_by_counting, bound.plan, past, options, engine)
        self._queries[name.lower()] = query
        return query

    def _check_free(self, names: Sequence[str], place: Place | None) -> None:
        seen: set[str] = set()
        for name in names:
            key = name.lower()
            if key in self._queries or key in seen:
                raise CatalogError(
                    f'there is a query "{name}" already', hint="drop it first, or choose another name", place=place
                )
            seen.add(key)

    def _free_names(self, count: int) -> list[str]:
        names: list[str] = []
        number = len(self._queries)
        while len(names) < count:
            number += 1
            if f"q{number}" not in self._queries:
                names.append(f"q{number}")
        return names

    # Answers of many

    def results(self, queries: Sequence[Query], at: Any) -> pa.Table:
        schemas = {(query.kind, query.schema) for query in queries}
        if len(schemas) != 1:
            raise InputError(
                "queries with different columns in one table" if schemas else "no queries to ask",
                hint="ask those with the same columns together",
            )
        by_group: dict[tuple[str, str | None], list[Query]] = {}
        for query in queries:
            by_group.setdefault((query.edge, query.template), []).append(query)
        return pa.concat_tables([table for members in by_group.values() for table in self._results(members, at)])

    def _results(self, queries: Sequence[Query], at: Any) -> Iterator[pa.Table]:
        first, engine = queries[0], self._database.engine
        is_group = first.number is not None and first.kind == "relation" and engine.groups[first.edge].lifted.expanded
        if not is_group or (at is None and first.has_pending):
            for query in queries:
                found = query.result(at)
                names = pa.array([query.name] * found.num_rows, pa.string())
                yield found.add_column(0, QUERY_NAME, names)
            return
        for query in queries:
            query.wait()
            engine.check(query.edge, query.number)
        names = {query.number: query.name for query in queries}
        rows, tick = first.rows_of_group(at)
        wanted = rows.filter(pl.col(value_column(0)).is_in(list(names)))
        found = relation_at(wanted, (ph.QUERY, *first.fields), tick)
        shown = pl.Series(found[ph.QUERY.name]).replace_strict(names, return_dtype=pl.String)
        yield found.set_column(0, QUERY_NAME, shown.to_arrow().cast(pa.string()))

    # What is shared

    def explain(self, bound: BoundQuery) -> list[str]:
        """What a query would share if it were registered now, what it would add, and what would serve it."""
        engine, options = self._database.engine, self._database.options()
        alone = self._database.settings.sharing == "off" or has_many_constants(bound.plan)
        found = None if alone else split(bound.plan)
        if found is not None:
            shape, constants = _constants(found)
            group = self._group(found, shape, constants)
            read = {source.name for source in sources(bound.plan)}
            if self._is_to_share(group, _wanted(found, statistics_entry(engine.statistics(read)))):
                return self._explain_group(group, found)
        own = engine.pipeline_of(bound.plan, options)
        known = {step.name for step in engine.pipeline.steps}
        shared = [step.name for step in own.steps if step.name in known]
        lines = [f"shares {len(shared)} of its {len(own.steps)} operators: {', '.join(shared)}"] if shared else []
        stems = shared_stems(own, engine.pipeline)
        return lines + ([f"keeps the rows of {', '.join(stems)} together with other joins"] if stems else [])

    def _explain_group(self, group: Group, found: Split) -> list[str]:
        count = self._database.engine.shown(group.edge)
        others = f"with {count} others" if count else "of its own, which others may join"
        shape, values = shape_of(found.condition)
        service = service_of(shape.condition, keyed=group.key is not None, constants=values)
        return [f"a row of the query table of a group {others}", *service.lines()]

    def sharing(self, query: Query) -> dict[str, Any]:
        """What a query of a group shares, and what serves it."""
        template = self._templates[query.template or ""]
        service = service_of(template.shape.condition, keyed=template.group.key is not None)
        return {
            "shared_by": self._database.engine.shown(query.edge),
            "indexes": [service.key] if service.key is not None else list(service.attributes),
            "unindexed": list(service.residual),
        }

    # What a query is by itself

    def own(self, query: Query) -> BoundQuery:
        """A query of a template as if it were alone: its text and plan with its own constants."""
        if query.template in self._unkept:
            return self._unkept.own(query)
        template = self._templates[query.template or ""]
        tables = self._database.engine.groups.tables(template.group)
        row = tables[template.shape.name].row(by_predicate=pl.col(QUERY) == query.number, named=True)
        if row[TEXT] is not None:
            (statement,) = parse(row[TEXT])
            return self._rebound(template, statement.query, row[TEXT])  # type: ignore[attr-defined]
        values = [row[value_column(index)] for index in range(len(template.parameters))]
        plan = template.bound.plan.transform(lambda node: map_expressions(node, lambda e: with_values(e, values)))
        return replace(template.bound, plan=plan, tree=filled(template.bound.cql, values))

    def _rebound(self, template: Template, tree: exp.Query, text: str) -> BoundQuery:
        bound = self._database.binder(text, template.parameters, template.settings).bind(tree)
        return self._database.rewritten(bound, statistics_of(template.statistics), template.settings)

    # What an earlier process registered

    def recover(self, entry: Entry) -> None:
        """Go on with what is kept for a query, or for those of a template; PlannedOtherwise where that does not fit."""
        if entry["kind"] == "template":
            self.recover_template(entry)
        else:
            self.recover_query(entry)

    def recover_recorded(self, record: Record) -> None:
        """A query of which there is no more than a record."""
        self._register_said(record[NAME], record[MODE], record[TEXT], recorded=True)

    def register_again(self, entry: Entry) -> None:
        """A query of which there is no more than an entry."""
        self._register_said(entry["shown"], entry["mode"], entry["text"], recorded=False)

    def _register_said(self, name: str, mode: str, text: str, *, recorded: bool) -> None:
        self.register(name, mode, _said(text), recorded=recorded)

    def entry_of(self, record: Record) -> Entry:
        """A record as an entry of the catalog."""
        settings = asdict(self._database.settings)
        content = {"shown": record[NAME], "mode": record[MODE], "text": record[TEXT], "settings": settings}
        return {"kind": "query", "name": record[NAME].lower(), **content, "statistics": {}}

    def recover_query(self, entry: Entry) -> None:
        database, engine = self._database, self._database.engine
        statement = _said(entry["text"])
        unplanned = database.binder(entry["text"]).bind(statement.query)
        bound = database.rewritten(unplanned, statistics_of(entry["statistics"]))
        past = past_in(entry)
        keeping: Keeping | str = "" if past.unseen is None else _COUNTS
        if entry["mode"] != "eager" and past.unseen is None:
            kept = entry.get("kept")
            keeping = self._keeping(entry["name"], entry["mode"], unplanned, bound, entry["statistics"], kept)
        if not isinstance(keeping, str):
            keeping = self._by_past(keeping, bound, past, entry.get("apart", ""))
            self._recover_keeping(entry, keeping, past)
            self._queries[entry["name"]] = Query(database, entry["shown"], entry["mode"], bound, keeping, past=past)
            return
        options = replace(self._options(past, entry.get("apart", "")), counting=counted_by(bound.plan, past))
        edge = engine.edge_of(bound.plan, options)
        steps = engine.steps_of(bound.plan, options=options)
        if (edge, steps) != (entry.get("edge"), entry.get("steps", steps)):
            raise PlannedOtherwise
        engine.attach(bound.plan, options, past.kept)
        own = Eager(engine, edge, bound.schema, bound.kind == "stream", reason=keeping)
        query = Query(database, entry["shown"], entry["mode"], bound, own, past=past)
        query.finding = partial(found_by_counting, bound.plan, past, options, engine)
        self._queries[entry["name"]] = query
        found = None if has_many_constants(bound.plan) else split(bound.plan)
        if found is not None and entry["mode"] == "eager":
            group = self._group(found, *_constants(found))
            self._alone.setdefault(group.edge, {})[entry["name"]] = _wanted(found, entry["statistics"])

    def _options(self, past: Past, apart: str = "") -> Options:
        """How the plan of a query is run that has so much of the past."""
        is_open = past.unseen is not None
        return replace(self._database.options(), apart=apart, first_counted=past.counted, is_open=is_open)

    def _by_past(self, keeping: Keeping, bound: BoundQuery, past: Past, apart: str = "") -> Keeping:
        """What a query keeps that has so much of the past."""
        if not apart and not past.counted:
            return keeping
        if isinstance(keeping, Lazy):
            return self._modes.lazy(keeping.plan, bound.plan, bound.schema, self._options(past, apart))
        return self._modes.counting(keeping, self._options(past)) if isinstance(keeping, Nothing) else keeping

    def _recover_keeping(self, entry: Entry, keeping: Keeping, past: Past) -> None:
        known = frozenset(entry.get("edges", ()))
        if isinstance(keeping, Nothing):
            if "edges" not in entry:
                self._modes.engine.retention.recomputed.pop(entry["name"], None)
                raise PlannedOtherwise
            if not known.issuperset(keeping.edges):
                self._replace_entry(entry, {**entry, "edges": list(keeping.edges)})
            self._modes.show_nothing(keeping, self._database.declared.entries, known, past.kept)
        if not isinstance(keeping, Lazy):
            return
        if not known.issuperset(keeping.edges) or steps_of(keeping) != entry.get("steps", steps_of(keeping)):
            raise PlannedOtherwise
        entries = self._database.declared.entries
        self._modes.show(keeping, entries, entries, known, past.kept)

    def recover_template(self, entry: Entry) -> None:
        database, engine = self._database, self._database.engine
        kinds = tuple(parse_type(kind) for kind in entry["parameters"])
        statement = _said(entry["text"])
        numbered_parameters(statement.query)
        unplanned = database.binder(entry["text"], kinds).bind(statement.query)
        bound = database.rewritten(unplanned, statistics_of(entry["statistics"]))
        if ROWS in entry:
            self._queries.update((query.name.lower(), query) for query in self._unkept.recover(entry, bound))
            return
        lazy, found = None, None if "kept" in entry else split(bound.plan)
        if "kept" in entry and (shared := self._shared_lazy(unplanned, entry["statistics"], entry["kept"])) is not None:
            lazy, found = shared
        if found is None:
            raise PlannedOtherwise
        shape = Shape(found.condition, kinds) if kinds else shape_of(found.condition)[0]
        asked = equality_key(shape.condition) if entry["keyed"] else None
        key = asked[0] if asked else None
        group = engine.groups.find(found, key, replace(database.options(), apart=entry.get("apart", "")))
        steps = steps_name(engine.groups.steps_of(found, key, group.options))
        if (group.selection, steps) != (entry["selection"], entry.get("steps", steps)):
            group, entry = self._moved(entry, bound, shape, lambda apart: engine.groups.find(found, key, apart))
        known = entry["statistics"]
        inputs = frozenset() if lazy is None else engine.sources_of(bound.plan, group.options)
        template = Template(entry["name"], bound, database.settings, known, group, shape, kinds, lazy, inputs)
        self._templates[template.name] = template
        if lazy is not None:
            self._modes.note(lazy)
        rows = engine.recover_group(group, shape, lambda table: table.filter(pl.col(TEMPLATE) == template.name))
        pasts = {number: past_in(entry, number) for number in rows[QUERY]}
        waiting = numbers_of(engine.groups.tables(group, WAITING))
        engine.see_from(group.edge, {number: past for number, past in pasts.items() if number in waiting})
        self._add_rows(template, rows, pasts.__getitem__)

    def _moved(
        self, entry: Entry, bound: BoundQuery, shape: Shape, group_of: Callable[[Options], Group]
    ) -> tuple[Group, Entry]:
        """The group that the queries of a template are in from now on, since it is planned otherwise than by the
        version that wrote it: they wait there, with what is kept of the past now."""
        database, groups, selection = self._database, self._database.engine.groups, entry["selection"]
        past = of_the_past(database.engine, bound)
        counts = past.apart and past.covered and past.counted  # a group counts what fails from now on
        if past.unseen is not None or counts or shape.name not in groups.kept_under(selection):
            raise PlannedOtherwise
        if selection not in self._apart:
            is_used = bool(groups.kept_under(group_of(database.options()).selection))
            # What others have there goes with another past, and has other numbers.
            self._apart[selection] = selection if past.apart or is_used else ""
        apart = self._apart[selection]
        group = group_of(replace(database.options(), apart=apart))
        last = max(groups.next_query(group), database.engine.snapshot.queries.get(entry["edge"], 0))
        changed = {key: value for key, value in entry.items() if key not in ("notices", "apart")}
        steps = groups.steps_of(group.split, group.key, group.options)
        changed |= {
            "edge": group.edge,
            "selection": group.selection,
            "steps": steps_name(steps),
            **({"apart": apart} if apart else {}),
        }
        changed |= {"notices": [[0, last, list(past.notices), *past.content()]]} if past.is_told else {}
        self._replace_entry(entry, changed)
        chosen = pl.col(TEMPLATE) == entry["name"]
        groups.move(selection, entry["edge"], group, chosen, database.declared.entries)
        return group, changed

    def taken_apart(self, entry: Entry) -> list[Entry]:
        """The queries of a template as if each had come alone."""
        tables = [rows_of(entry)] if ROWS in entry else []
        if not tables:
            kept = self._database.engine.groups.kept_under(entry["selection"]).values()
            tables = [table.filter(pl.col(TEMPLATE) == entry["name"]) for table in kept]
        common = {"kind": "query", "settings": entry["settings"], "statistics": entry["statistics"]}
        count = len(entry["parameters"])
        return [
            {
                **common,
                "name": row[NAME].lower(),
                "shown": row[NAME],
                "mode": row.get(MODE, "none"),
                "text": row.get(TEXT) or _with_constants(entry["text"], [row[value_column(n)] for n in range(count)]),
            }
            for table in tables
            for row in table.iter_rows(named=True)
        ]

    def add_unopened(self, entry: Entry) -> None:
        """A query that this version cannot open."""
        self._modes.engine.retention.recomputed.pop(entry["name"], None)
        self._queries[entry["name"]] = UnopenedQuery(self._database, entry)

    def _replace_entry(self, entry: Entry, changed: Entry) -> None:
        self._database.declared = self._database.declared.replacing(entry, changed)

    # Dropping

    def drop(self, query: Query) -> None:
        database, engine = self._database, self._database.engine
        with engine.lock:
            self.find(query.name)  # which another thread may just have dropped
            if query.template in self._unkept:
                self._unkept.drop(query)
            elif query.number is None:
                declared = database.declared.without("query", query.name)
                self._modes.hide(query.name, query.keeping, declared.entries)
                if isinstance(query, UnopenedQuery):
                    engine.declare(declared.entries)
                database.declared = declared
            else:
                declared = self._without_template(query)
                engine.dismiss(query.edge, [query.number], declared.entries)
                database.declared = declared
            del self._queries[query.name.lower()]
            for alone in self._alone.values():
                alone.pop(query.name.lower(), None)
            query.close()

    def _without_template(self, query: Query) -> Declarations:
        """What is declared when a query is gone, and with it its template if it was the last one."""
        users = sum(other.template == query.template for other in self._queries.values())
        return self._database.declared if users > 1 or query.template is None else self._without(query.template)

    def _without(self, template: str) -> Declarations:
        lazy = self._templates.pop(template).lazy
        if lazy is not None:
            self._modes.forget(lazy)
        return self._database.declared.without("template", template)


def _wanted(found: Split, statistics: dict[str, Any]) -> float:
    """The part of the rows of the FROM list that a query wants."""
    return selectivity(lo.Filter(found.core, found.condition), statistics_of(statistics))


def _constants(found: Split) -> tuple[Shape, pl.DataFrame]:
    """The shape of a condition, and a row of its constants."""
    shape, values = shape_of(found.condition)
    columns = [
        pl.Series(value_column(index), [value], to_polars(kind))
        for index, (kind, value) in enumerate(zip(shape.parameters, values, strict=True))
    ]
    return shape, pl.DataFrame(columns)


def check_query_name(name: str) -> None:
    if reason := why_unusable(name):
        raise BindError(f'"{shown_name(name)}" cannot be a query\'s name', detail=reason)


def statement_text(statement: st.Statement) -> str:
    place = statement.place
    return place.text[place.start : place.end]


def _with_names(values: pl.DataFrame, names: Sequence[str], mode: str, text: str | None, template: str) -> pl.DataFrame:
    """Rows of a query table: constants, names, modes, and the texts of those that came one by one."""
    named = pl.DataFrame({NAME: list(names)}, schema={NAME: pl.String()}).with_columns(
        pl.lit(mode.lower()).alias(MODE), pl.lit(text, pl.String).alias(TEXT), pl.lit(template).alias(TEMPLATE)
    )
    return named if not values.width else values.hstack(named)


def _with_constants(template: str, values: Sequence[object]) -> str:
    try:
        return with_constants(template, values)
    except Error:
        return f"{template} -- {', '.join(map(repr, values))}"  # which says why it cannot be read


def _said(text: str) -> st.RegisterQuery | st.Query:
    (statement,) = parse(text)
    if not isinstance(statement, st.RegisterQuery | st.Query):
        raise AssertionError(f"not a query: {text}")
    return statement
