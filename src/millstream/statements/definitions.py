"""Makes streams, tables and views known: to the catalog, and those that hold rows to the engine.

Some tables come with others: what came too late, what could not be applied, what could not be
read, and which files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, count

from millstream.catalog.alterations import AS_OF
from millstream.catalog.objects import kind_of
from millstream.catalog.session import Session
from millstream.connectors.feeds import files_table, unreadable_table
from millstream.engine.engine import Engine
from millstream.engine.sources import SourceRow
from millstream.errors import BindError
from millstream.ingest.insert import late_table, malformed_table
from millstream.language import statements as st
from millstream.language.definer import Altered, altered, check_source_name, define_stream, define_table, with_edge
from millstream.language.statement_parser import parse
from millstream.language.type_names import stored_text
from millstream.plan.definitions import Definition, StreamDefinition, TableDefinition, ViewDefinition
from millstream.settings import Settings
from millstream.types import Field


def _located(definition: Altered, directory: str | None) -> Altered:
    source = definition.source
    return definition if source is None else replace(definition, source=source.seen_from(directory))


class Definitions:
    """Adds to the catalog and takes from it; nothing of this lasts by itself."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self._engine, self._session, self._catalog = engine, session, session.catalog

    def define(
        self,
        statement: st.Statement,
        settings: Settings,
        *,
        enforces: bool = True,
        edge: str | None = None,
        as_of: int | None = None,
        directory: str | None = None,
    ) -> tuple[st.Name, str]:
        """What a statement says is known from now on, read under these settings and by the names of then; gives its
        name, and what to tell. Relative paths are those of a directory. Tables that are older than keys that are
        kept to (not `enforces`) stay as they were."""
        match statement:
            case st.CreateStream():
                stream = _located(define_stream(statement), directory)
                return statement.name, self.add(self._placed(stream, edge), statement.name)
            case st.CreateTable():
                table = _located(define_table(statement, enforces=enforces), directory)
                return statement.name, self.add(self._placed(table, edge), statement.name)
            case st.CreateView():
                return statement.name, self._view(statement, settings, as_of)
            case _:
                raise AssertionError(f"{type(statement).__name__} defines nothing")

    def owned(self, key: str) -> list[str]:
        """An object and the tables that come with it."""
        return [other for other in self._catalog if other == key or other.startswith(f"{key}.")]

    def edges(self, key: str) -> list[str]:
        """Where their rows are, those of the object first."""
        return [self._catalog[each].edge for each in self.owned(key)]

    def forget(self, key: str) -> None:
        for owned in self.owned(key):
            self._catalog.remove(owned)

    def alter(self, key: str, statement: st.Alteration, number: int) -> StreamDefinition | TableDefinition:
        """Have a stream or table as a statement leaves it, in the place of what it was; by a number where texts that
        read it may be older."""
        before = self._catalog[key]
        if isinstance(before, ViewDefinition):
            raise AssertionError("views are replaced")
        after, owned = altered(before, statement, is_read=bool(number)), self.owned(key)
        if number:
            self._session.alterations.note(number, [self._catalog[each] for each in owned])
        with_rows = self._with_rows(after)
        for source, row in with_rows:
            if row is not None:
                self._engine.sources.add(source.edge, row)
        self._engine.runner.planner.forget()
        self._catalog.change(owned, *(source for source, _ in with_rows))
        return after

    def call_anew(self) -> None:
        """Have the texts and plans of views say what they read as that is called now."""
        for entry in self._session.declared.entries:
            if entry["kind"] == "view":
                with stored_text():
                    (statement,) = parse(entry["text"])
                    if isinstance(statement, st.CreateView):
                        settings, as_of = self._session.settings_of(entry), entry.get(AS_OF, 0)
                        self._catalog.change(
                            [statement.name.key], view_of(self._session, statement, settings, as_of)[0]
                        )

    def add(self, definition: StreamDefinition | TableDefinition, name: st.Name | None = None) -> str:
        """Have a stream or table from now on, with the tables that the engine fills itself; gives what to tell."""
        for source, row in self._with_rows(definition):
            self._catalog.add(source, name if source is definition else None)
            if row is not None:
                self._engine.sources.add(source.edge, row)
        return f"{kind_of(definition)} {definition.name} created"

    def _with_rows(
        self, definition: StreamDefinition | TableDefinition
    ) -> list[tuple[StreamDefinition | TableDefinition, SourceRow | None]]:
        """An object and the tables that come with it, each with what the engine keeps of it."""
        found: list[tuple[StreamDefinition | TableDefinition, SourceRow | None]] = []
        own: list[TableDefinition] = []
        match definition:
            case StreamDefinition():
                found.append((definition, SourceRow(definition.columns, True, True, definition.retain)))
                own += [late_table(definition), unreadable_table(definition)]  # what windows leave out goes there too
            case TableDefinition(log=None):
                found.append((definition, SourceRow(definition.columns, False, False)))
            case TableDefinition():
                found.append((definition, SourceRow(definition.feed.columns, True, True)))
                own.append(late_table(definition.feed))
                found.append((malformed_table(definition), None))
        if definition.source is not None:
            own += [files_table(definition)]
            own += [unreadable_table(definition)] if isinstance(definition, TableDefinition) else []
        found += [(table, SourceRow(table.columns, False, False)) for table in own]
        return [(each, row if row is None else replace(row, name=each.name)) for each, row in found]

    def _placed(self, definition: Altered, edge: str | None) -> Altered:
        """With an edge of its own for its rows: what has the name of it may be called otherwise now."""
        edge = edge or self.free_edge(definition.name.lower())
        return definition if edge == definition.edge else with_edge(definition, edge)

    def free_edge(self, key: str) -> str:
        """Where the rows of a new object of this name are kept."""
        taken = {each.edge for each in self._catalog.values()}
        return next(edge for edge in chain([key], (f"{key}~{n}" for n in count(2))) if edge not in taken)

    def _view(self, statement: st.CreateView, settings: Settings, as_of: int | None) -> str:
        view, message = view_of(self._session, statement, settings, as_of)
        self._catalog.add(view, statement.name)
        return message


def view_of(
    session: Session,
    statement: st.CreateView,
    settings: Settings,
    as_of: int | None = None,
    names: Mapping[str, Definition] | None = None,
) -> tuple[ViewDefinition, str]:
    """What a statement defines, and what to tell."""
    check_source_name(statement.name)
    # Kept as it was bound: it is rewritten as part of the queries that read it.
    text = statement.place.text
    bound = session.binder(text, settings, as_of=as_of, names=names).bind(statement.query, outermost=False)
    if as_of is not None:
        bound = replace(bound, as_of=as_of, as_called_now=session.as_called_now)
    columns = bound.schema
    if statement.columns:
        if len(statement.columns) != len(columns):
            raise BindError(
                f"view {statement.name} names {len(statement.columns)} columns, but there are {len(columns)}",
                place=statement.columns[0].place,
            )
        columns = tuple(Field(n.text, f.type) for n, f in zip(statement.columns, columns, strict=True))
    view = ViewDefinition(statement.name.text, columns, bound.plan, bound.domain, bound.cql, bound.reads)
    return view, "\n".join([f"view {view.name} created: a {bound.kind}", *bound.defaults])
