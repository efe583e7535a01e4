"""Makes streams, tables and views known: to the catalog, and those that hold rows to the engine.

Some tables come with others: what came too late, what could not be applied, what could not be
read, and which files.
"""

from __future__ import annotations

from millstream.catalog.session import Session
from millstream.connectors.feeds import files_table, unreadable_table
from millstream.engine.engine import Engine
from millstream.engine.sources import SourceRow
from millstream.errors import BindError
from millstream.ingest.insert import late_table, malformed_table
from millstream.language import statements as st
from millstream.language.definer import altered, check_source_name, define_stream, define_table
from millstream.plan.definitions import StreamDefinition, TableDefinition, ViewDefinition
from millstream.settings import Settings
from millstream.types import Field


class Definitions:
    """Adds to the catalog and takes from it; nothing of this lasts by itself."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self._engine, self._session, self._catalog = engine, session, session.catalog

    def define(self, statement: st.Statement, settings: Settings, *, enforces: bool = True) -> tuple[st.Name, str]:
        """What a statement says is known from now on, read under these settings; gives its name, and what to tell.
        Tables that are older than keys that are kept to (not `enforces`) stay as they were."""
        match statement:
            case st.CreateStream():
                return statement.name, self.add(define_stream(statement), statement.name)
            case st.CreateTable():
                return statement.name, self.add(define_table(statement, enforces=enforces), statement.name)
            case st.CreateView():
                return statement.name, self._view(statement, settings)
            case _:
                raise AssertionError(f"{type(statement).__name__} defines nothing")

    def owned(self, key: str) -> list[str]:
        """An object and the tables that come with it."""
        return [other for other in self._catalog if other == key or other.startswith(f"{key}.")]

    def forget(self, key: str) -> None:
        for owned in self.owned(key):
            self._catalog.remove(owned)

    def add(self, definition: StreamDefinition | TableDefinition, name: st.Name | None = None) -> str:
        """Have a stream or table from now on; gives what to tell."""
        return (
            self._table(definition, name) if isinstance(definition, TableDefinition) else self._stream(definition, name)
        )

    def alter(self, key: str, statement: st.Alteration) -> StreamDefinition | TableDefinition:
        """Have a stream or table as a statement leaves it, in the place of what it was."""
        before = self._catalog[key]
        if isinstance(before, ViewDefinition):
            raise AssertionError("views are replaced")
        after = altered(before, statement)
        self.forget(key)
        self.add(after)
        return after

    def _stream(self, definition: StreamDefinition, name: st.Name | None) -> str:
        self._catalog.add(definition, name)
        row = SourceRow(definition.columns, True, True, definition.retain)
        self._engine.sources.add(definition.name.lower(), row)
        self._add_table(late_table(definition))
        self._add_table(unreadable_table(definition))
        if definition.source is not None:
            self._add_table(files_table(definition))
        return f"stream {definition.name} created"

    def _table(self, definition: TableDefinition, name: st.Name | None) -> str:
        self._catalog.add(definition, name)
        key = definition.name.lower()
        if definition.log is None:
            self._engine.sources.add(key, SourceRow(definition.columns, False, False))
        else:
            self._engine.sources.add(key, SourceRow(definition.feed.columns, True, True))
            self._add_table(late_table(definition.feed))
            self._catalog.add(malformed_table(definition))
        if definition.source is not None:
            self._add_table(unreadable_table(definition))
            self._add_table(files_table(definition))
        return f"table {definition.name} created"

    def _add_table(self, table: TableDefinition) -> None:
        """A table that the engine fills itself."""
        self._catalog.add(table)
        self._engine.sources.add(table.name.lower(), SourceRow(table.columns, False, False))

    def _view(self, statement: st.CreateView, settings: Settings) -> str:
        view, message = self.view(statement, settings)
        self._catalog.add(view, statement.name)
        return message

    def view(self, statement: st.CreateView, settings: Settings) -> tuple[ViewDefinition, str]:
        """What a statement defines, and what to tell."""
        check_source_name(statement.name)
        # Kept as it was bound: it is rewritten as part of the queries that read it.
        bound = self._session.binder(statement.place.text, settings).bind(statement.query, outermost=False)
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
