"""CREATE and DROP of streams, tables and views."""

from __future__ import annotations

from dataclasses import asdict

from millstream.catalog.entries import Declarations, Entry
from millstream.catalog.objects import kind_of
from millstream.catalog.session import Session
from millstream.connectors.feeds import feed_of
from millstream.connectors.source_loop import SourceLoop, needs_spark
from millstream.engine.engine import Engine
from millstream.errors import CatalogError, Error
from millstream.ingest.external import External
from millstream.ingest.insert import Inputs
from millstream.language import statements as st
from millstream.language.statement_parser import parse
from millstream.language.type_names import stored_text
from millstream.plan.definitions import Definition, TableDefinition, ViewDefinition
from millstream.queries.registry import Registry
from millstream.statements.definitions import Definitions
from millstream.statements.result import Result


class ObjectStatements:
    """Declares what queries read, and forgets what nobody reads."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        registry: Registry,
        inputs: Inputs,
        source_loop: SourceLoop,
        external: External | None,
    ) -> None:
        self._engine, self._session, self._registry = engine, session, registry
        self._inputs, self._source_loop, self._external = inputs, source_loop, external
        self._definitions = Definitions(engine, session)

    def create(self, statement: st.CreateStream | st.CreateTable | st.CreateView) -> Result:
        session, place = self._session, statement.place
        with self._engine.lock:
            name, message = self._definitions.define(statement, session.settings)
            kind = kind_of(session.catalog[name.key])
            try:
                declared = session.declared.with_entry(
                    kind, name.text, text=place.text[place.start : place.end], settings=asdict(session.settings)
                )
                if isinstance(statement, st.CreateView) or statement.source is None:
                    session.declare(declared)
                else:
                    self._declare_external(session.catalog[name.key], statement.source, declared)
            except BaseException:
                self._definitions.forget(name.key)
                raise
        return Result(message)

    def _declare_external(self, definition: Definition, source: st.UsingClause, declared: Declarations) -> None:
        """Declare what is read from outside: a feed that `run` reads, or a table that is read now."""
        if isinstance(definition, ViewDefinition):
            raise AssertionError("views read what is inside")
        if self._external is None:
            raise needs_spark(f"{kind_of(definition)} {definition.name} is read")
        feed = feed_of(definition)
        try:
            if feed is not None:
                self._external.check_feed(feed)
                self._source_loop.forget(feed.key)
                self._session.declare(declared)
            elif isinstance(definition, TableDefinition):
                rows = self._external.read(definition, self._session.settings.max_value_bytes)
                self._inputs.read_table(definition, rows, declared.entries)
                self._session.declared = declared
        except Error as error:
            error.place = error.place or source.place
            raise

    def drop(self, statement: st.Drop) -> Result:
        kind, name, session = statement.kind.lower(), statement.name, self._session
        session.catalog.find(kind, name)
        owned = self._definitions.owned(name.key)
        users = session.catalog.users(owned) + self._registry.readers(set(owned))
        if users:
            raise CatalogError(
                f'{kind} "{name}" is in use',
                detail=f"by {', '.join(users)}",
                hint="drop those first",
                place=name.place,
            )
        self.check_not_read(name)
        settings = session.settings.without_stream(name.key)
        declared = session.declared.without(kind, name.key)
        if settings != session.settings:
            declared = declared.with_settings(settings)
        self._engine.sources.drop(owned, declared.entries)
        session.declared, session.settings = declared, settings
        self._definitions.forget(name.key)
        self._source_loop.forget(name.key)
        return Result(f"{kind} {name} dropped")

    def check_not_read(self, name: st.Name) -> None:
        """Refuse to drop what a run reads from."""
        self._source_loop.check_not_read(name.text)

    def recover(self, entry: Entry) -> None:
        """Have what an earlier process declared."""
        with stored_text():
            (statement,) = parse(entry["text"])
            self._definitions.define(statement, self._session.settings_of(entry))
