"""CREATE and DROP of streams, tables and views."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from millstream.catalog.alterations import AS_OF
from millstream.catalog.comments import without_comments
from millstream.catalog.entries import Declarations, Entry
from millstream.catalog.objects import kind_of
from millstream.catalog.session import Session
from millstream.connectors.feeds import feed_of
from millstream.connectors.source_loop import SourceLoop, needs_spark
from millstream.connectors.source_reports import read_report
from millstream.engine.engine import Engine
from millstream.errors import CatalogError, Error
from millstream.ingest.external import External
from millstream.ingest.insert import Inputs
from millstream.language import statements as st
from millstream.language.statement_parser import parse
from millstream.language.type_names import stored_text
from millstream.names import shortly
from millstream.plan.definitions import (
    DIRECTORY,
    Definition,
    ExternalData,
    StreamDefinition,
    TableDefinition,
    ViewDefinition,
)
from millstream.queries.registry import Registry
from millstream.statements.altering import Altering
from millstream.statements.definitions import Definitions
from millstream.statements.result import Result

_ENFORCES = "enforces"  # in the entry of a table: it was made when keys were kept to
_EDGE = "edge"  # in the entry of a stream or table: where its rows are, if another had the name of it before


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
        self._altering = Altering(engine, session, self._definitions, source_loop, self.users)

    def create(self, statement: st.CreateStream | st.CreateTable | st.CreateView) -> Result:
        session, place = self._session, statement.place
        with self._engine.lock:
            directory = _directory_of(statement)
            name, message = self._definitions.define(statement, session.settings, directory=directory)
            kind = kind_of(session.catalog[name.key])
            try:
                text = place.text[place.start : place.end]
                content: dict[str, object] = {"text": text, "settings": asdict(session.settings)}
                content |= {_ENFORCES: True} if kind == "table" else {}
                content |= session.alterations.entry() if kind == "view" else {}
                edge = session.catalog[name.key].edge
                content |= {_EDGE: edge} if edge != name.key else {}
                content |= {DIRECTORY: directory} if directory is not None else {}
                declared = session.declared.with_entry(kind, name.text, **content)
                if isinstance(statement, st.CreateView) or statement.source is None:
                    session.declare(declared)
                else:
                    message += self._declare_external(session.catalog[name.key], statement.source, declared)
            except BaseException:
                self._definitions.forget(name.key)
                raise
        return Result(message)

    def _declare_external(self, definition: Definition, source: st.UsingClause, declared: Declarations) -> str:
        """Declare what is read from outside: a feed that `run` reads, or a table that is read now. Gives what came of
        that."""
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
                return ": its rows come when db.run(), `millstream run` or \\run in the shell reads them"
            if not isinstance(definition, TableDefinition):
                raise AssertionError(f"{definition.name} is read by nobody")
            rows = self._external.read(definition, self._session.settings.max_value_bytes)
            report = read_report(self._engine.store, definition, rows)
            self._inputs.read_table(definition, rows, declared.entries)
            self._session.declared = declared
            return report
        except Error as error:
            error.place = error.place or source.place
            raise

    def drop(self, statement: st.Drop) -> Result:
        kind, name, session = statement.kind.lower(), statement.name, self._session
        session.catalog.find(kind, name)
        edges = self._definitions.edges(name.key)
        if users := self.users(name.key):
            raise CatalogError(
                f'{kind} "{name}" is in use',
                detail=f"by {shortly(users)}",
                hint=f"drop those first, or DROP {statement.kind.upper()} {name} CASCADE drops all that reads it",
                place=name.place,
            )
        self.check_not_read(name)
        settings = session.settings.without_stream(name.key)
        declared = without_comments(session.declared.without(kind, name.key), kind, [name.key])
        if settings != session.settings:
            declared = declared.with_settings(settings)
        self._engine.sources.drop(edges, declared.entries)
        session.declared, session.settings = declared, settings
        self._definitions.forget(name.key)
        self._source_loop.forget(edges[0])
        return Result(f"{kind} {name} dropped")

    def users(self, key: str) -> list[str]:
        """The views and queries that read an object, or a table that comes with it."""
        edges = self._definitions.edges(key)
        return self._session.catalog.users(edges) + self._registry.readers({*edges})

    def alter(self, statement: st.Alteration) -> Result:
        """ALTER STREAM and ALTER TABLE, by one commit."""
        kind = "stream" if isinstance(statement, st.SetRetain) else statement.kind.lower()
        with self._engine.lock:
            definition = self._session.catalog.find(kind, statement.name)
            if not isinstance(definition, StreamDefinition | TableDefinition):
                raise AssertionError(f"a {kind} that is none")
            return self._altering.run(definition, kind, statement)

    def check_not_read(self, name: st.Name) -> None:
        """Refuse to drop what a run reads from."""
        self._source_loop.check_not_read(name.text)

    def recover(self, entry: Entry) -> None:
        """Have what an earlier process declared."""
        with stored_text():
            (statement,) = parse(entry["text"])
            settings, enforces = self._session.settings_of(entry), entry.get(_ENFORCES, False)
            name, _ = self._definitions.define(
                statement,
                settings,
                enforces=enforces,
                edge=entry.get(_EDGE),
                as_of=entry.get(AS_OF, 0),
                directory=entry.get(DIRECTORY),
            )
            self._altering.recover(name.key, entry)


def _directory_of(statement: st.CreateStream | st.CreateTable | st.CreateView) -> str | None:
    """From where what a statement reads is seen, if that matters."""
    source = None if isinstance(statement, st.CreateView) else statement.source
    if source is None or not ExternalData(source.format, source.options).is_relative:
        return None
    return str(Path.cwd())
