"""What reads a view that is replaced: views and queries that are planned again over the new one.

They keep their columns, or the view is not replaced: whoever follows them goes by these. All are read over the new view
before anything is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from millstream.catalog.alterations import AS_OF
from millstream.catalog.comments import comment_of
from millstream.catalog.entries import Entry
from millstream.catalog.objects import CatalogOfObjects
from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.errors import CatalogError, Error
from millstream.language import statements as st
from millstream.language.binder import BoundQuery
from millstream.language.statement_parser import parse
from millstream.language.type_names import stored_text
from millstream.plan.definitions import Definition, ViewDefinition
from millstream.queries.planner import Planner
from millstream.queries.registration import statement_of
from millstream.queries.standing import StandingQueries
from millstream.query import Query
from millstream.statements.definitions import view_of
from millstream.types import Schema, show_schema


@dataclass(frozen=True)
class View:
    """One as it is to be, and its entry."""

    definition: ViewDefinition
    entry: Entry


@dataclass(frozen=True)
class ReplacedQuery:
    """A query that is planned again: as it was said, and by whom it is planned."""

    name: str
    mode: str
    text: str
    planner: Planner
    comment: str | None


@dataclass(frozen=True)
class Replaced:
    """A view that takes the place of another one, with all that reads it; views before those that read them."""

    message: str
    views: Sequence[View]
    views_before: Sequence[View]
    queries: Sequence[ReplacedQuery]

    @property
    def names(self) -> list[str]:
        return [view.definition.name for view in self.views[1:]] + [query.name for query in self.queries]


class Dependants:
    """Those of a view. All under the engine's lock."""

    def __init__(self, session: Session, planner: Planner, queries: StandingQueries, sinks: Sinks) -> None:
        self._session, self._planner, self._queries, self._sinks = session, planner, queries, sinks

    def replaced(self, statement: st.CreateView) -> Replaced:
        """What is to be in the place of a view and of what reads it; an error where something cannot be read over the
        new one as before."""
        session, settings = self._session, self._session.settings
        new, message = view_of(session, statement, settings)
        text = statement.place.text[statement.place.start : statement.place.end]
        entry = {"kind": "view", "name": statement.name.key, "text": text, "settings": asdict(settings)}
        key, views = statement.name.key, [View(new, entry | session.alterations.entry())]
        trial = CatalogOfObjects(session.catalog.all)
        trial.change([key], new)
        self._refuse_circle(new, key, statement)
        changed = {key}
        for each in self._view_entries():
            before = session.catalog[each["name"]]
            if isinstance(before, ViewDefinition) and before.reads & changed:
                again = self._view_again(each, before, trial, statement)
                trial.change([each["name"]], again)
                changed.add(each["name"])
                views.append(View(again, each))
        queries = [self._again(self._queries.registry.find(name), trial, statement) for name in self._readers(changed)]
        before_them = [self._as_it_is(view.definition.name.lower()) for view in views]
        return Replaced(message, views, before_them, queries)

    def _refuse_circle(self, new: ViewDefinition, key: str, statement: st.CreateView) -> None:
        """A view does not read itself, by others either."""
        waiting, seen = [*new.reads], set[str]()
        while waiting:
            read = waiting.pop()
            if read == key:
                raise CatalogError(
                    f'view "{statement.name}" would read itself',
                    hint="write what it was made of, or give the new one another name",
                    place=statement.name.place,
                )
            definition = self._session.catalog.get(read)
            if isinstance(definition, ViewDefinition) and read not in seen:
                seen.add(read)
                waiting += definition.reads

    def _view_entries(self) -> list[Entry]:
        return [entry for entry in self._session.declared.entries if entry["kind"] == "view"]

    def _readers(self, views: set[str]) -> list[str]:
        return self._queries.registry.readers(views)

    def _as_it_is(self, key: str) -> View:
        definition, entry = self._session.catalog[key], self._session.declared.find("view", key)
        if not isinstance(definition, ViewDefinition) or entry is None:
            raise AssertionError(f"no view {key}")
        return View(definition, entry)

    def _names(self, trial: CatalogOfObjects, as_of: int) -> Mapping[str, Definition]:
        return replace(self._session.alterations, catalog=trial).definitions(as_of)

    def _view_again(
        self, entry: Entry, before: ViewDefinition, trial: CatalogOfObjects, statement: st.CreateView
    ) -> ViewDefinition:
        said, as_of = _create_view(entry), entry.get(AS_OF, 0)
        settings = self._session.settings_of(entry)
        try:
            again, _ = view_of(self._session, said, settings, as_of, self._names(trial, as_of))
        except Error as error:
            raise _refused("view", before.name, statement, str(error)) from error
        _check_same("view", before.name, before.columns, before.plan.kind, again.columns, again.plan.kind, statement)
        return again

    def _again(self, query: Query, trial: CatalogOfObjects, statement: st.CreateView) -> ReplacedQuery:
        if query.member_of is not None:
            why = f"it is of the template {query.member_of.name}, whose queries come together"
            raise _refused("query", query.name, statement, why)
        if followed := self._sinks.of(query):
            why = f"the sink {followed[0]} follows it, and would be told of two queries as of one"
            raise _refused("query", query.name, statement, why)
        text, planner = self._said(query)
        as_of = planner.as_of or 0
        binder = self._session.binder(text, planner.settings, names=self._names(trial, as_of))
        try:
            with stored_text():
                bound = binder.bind(statement_of(text).query)
        except Error as error:
            raise _refused("query", query.name, statement, str(error)) from error
        before: BoundQuery = query.bound
        _check_same("query", query.name, before.schema, before.kind, bound.schema, bound.kind, statement)
        comment = comment_of(self._session.declared, "query", query.name)
        return ReplacedQuery(query.name, query.mode, text, planner, comment)

    def _said(self, query: Query) -> tuple[str, Planner]:
        """The text of a query, and who reads it as it was read."""
        declared = self._session.declared
        entry = declared.find("query", query.name)
        if entry is not None:
            return entry["text"], self._planner.of(entry)
        shared = None if query.template is None else declared.find("template", query.template.name)
        if shared is None:
            raise AssertionError(f"query {query.name} is in no entry")
        return query.bound.as_said, self._planner.of(shared)

    # Changing

    def change_views(self, views: Sequence[View]) -> None:
        """Have views as they are to be, behind all that they read."""
        session = self._session
        keys = {("view", view.definition.name.lower()) for view in views}
        declared = session.declared.without_all(keys)
        for view in views:
            declared = declared.with_entry(**view.entry)
        session.declare(declared)
        for view in views:
            session.catalog.change([view.definition.name.lower()], view.definition)

    def register(self, query: ReplacedQuery) -> Query:
        """A query that was dropped, over the views of now."""
        with stored_text():
            said = statement_of(query.text)
            return self._queries.registration.register(query.name, query.mode, said, query.planner)


def _create_view(entry: Entry) -> st.CreateView:
    with stored_text():
        (said,) = parse(entry["text"])
    if not isinstance(said, st.CreateView):
        raise AssertionError(f"no view: {entry['text']}")
    return said


def _check_same(
    kind: str, name: str, before: Schema, was: str, now: Schema, becomes: str, statement: st.CreateView
) -> None:
    if was != becomes:
        raise _refused(kind, name, statement, f"it would be a {becomes}, and is a {was}")
    if [*before] != [*now]:
        raise _refused(
            kind, name, statement, f"it would have the columns {show_schema(now)}, and has {show_schema(before)}"
        )


def _refused(kind: str, name: str, statement: st.CreateView, why: str) -> CatalogError:
    return CatalogError(
        f'view "{statement.name}" cannot be replaced: {kind} "{name}" reads it',
        detail=why,
        hint=f"change or drop {name} first; DROP VIEW {statement.name} CASCADE drops all that reads it",
        place=statement.name.place,
    )
