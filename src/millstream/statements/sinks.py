"""CREATE SINK and DROP SINK, and sinks that are Python callables."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from millstream.catalog.comments import without_comments
from millstream.catalog.entries import Declarations, Entry
from millstream.catalog.session import Session
from millstream.connectors.sinks import CALLABLE, Deliver, Sink, Sinks
from millstream.connectors.source_loop import needs_spark
from millstream.engine.backups import PAUSED
from millstream.engine.engine import Engine
from millstream.errors import BindError, CatalogError, Error
from millstream.ingest.external import External
from millstream.language import statements as st
from millstream.language.definer import check_name
from millstream.names import shown_name, why_unusable
from millstream.plan.definitions import DIRECTORY, FILE_FORMATS, ExternalData
from millstream.queries.standing import StandingQueries
from millstream.query import Query, Template
from millstream.statements.result import Result

_TEMPLATE = "template"  # in the entry of a sink: what it follows, where that is no query


class SinkStatements:
    """Sinks are declared here, and served by `connectors/sinks.py`."""

    def __init__(
        self, engine: Engine, session: Session, queries: StandingQueries, sinks: Sinks, external: External | None
    ) -> None:
        self._engine, self._session, self._queries = engine, session, queries
        self._sinks, self._external = sinks, external

    def create(self, statement: st.CreateSink) -> Result:
        self.check(statement)
        self.declare(statement)
        self._sinks.flush()
        return Result(f"sink {statement.name} created")

    def check(self, statement: st.CreateSink) -> None:
        """Refuse a sink that cannot be."""
        name, target = statement.name, statement.target
        check_name(name)
        self._followed(statement)
        if self._external is None:
            raise needs_spark(f"sink {name} is written")
        try:
            located = ExternalData(target.format, target.options).seen_from(str(Path.cwd()))
            self._check_path(name, located)
            self._external.check_sink(located)
        except Error as error:
            error.place = error.place or target.place
            raise

    def _check_path(self, name: st.Name, target: ExternalData) -> None:
        """Two sinks in one directory would overwrite each other's deliveries; in one that a stream is read from, these
        would come again as its rows."""
        path = target.option("path")
        if path is None or target.format.lower() not in FILE_FORMATS:
            return
        for stream in self._session.catalog.streams():
            if stream.source is not None and _same_place(stream.source.option("path") or "", path):
                hint = "write to another place: what is delivered would come again as rows"
                raise CatalogError(f"{path} is where stream {stream.name} is read from", hint=hint)
        for entry in self._session.declared.entries:
            if entry["kind"] == "sink" and "format" in entry and entry["name"] != name.key:
                other = _target(entry)
                if other.format.lower() in FILE_FORMATS and _same_place(other.option("path") or "", path):
                    raise CatalogError(
                        f"{path} is where sink {entry['shown']} writes", hint="each sink needs a directory of its own"
                    )

    def declare(self, statement: st.CreateSink) -> None:
        """Have a sink that was checked, from now on."""
        name, target = statement.name, statement.target
        with self._engine.commits.as_one():
            self._sinks.check_free(name.text, name.place)
            query = self._followed(statement)
            content: dict[str, Any] = {"format": target.format, "options": [*target.options]}
            if ExternalData(target.format, target.options).is_relative:
                content[DIRECTORY] = str(Path.cwd())
            declared = self._session.declared.with_entry("sink", name.text, **_entry(name.text, query), **content)
            self._session.declare(declared)
            self._attach(declared.entries[-1])

    def _followed(self, statement: st.CreateSink) -> Query | Template:
        known, name = self._queries.named if statement.of_template else self._queries.registry, statement.query
        return known.find(name.text, name.place)

    def create_callable(self, name: str, query: str | Query | Template, deliver: Deliver) -> None:
        if reason := why_unusable(name):
            raise BindError(f'"{shown_name(name)}" cannot be a sink\'s name', detail=reason)
        if isinstance(query, Template):
            found: Query | Template = self._queries.named.find(query.name)
        else:
            found = self._queries.registry.find(query if isinstance(query, str) else query.name)
        with self._engine.lock:
            if not self._sinks.is_callable_for(name, found):
                self._sinks.check_free(name)
                self._session.declare(self._session.declared.with_entry("sink", name, **_entry(name, found)))
            self._sinks.add(Sink(name, found, CALLABLE, deliver))
        self._sinks.flush()

    def resume(self, name: str) -> None:
        """Try a paused sink again, from the delivery that failed."""
        with self._engine.lock:
            sink = self._sinks.find(name)
            sink.error = None
            self._sinks.forgive(sink)
            entries = self._session.declared.entries
            entry = self._session.declared.find("sink", name)
            if entry is not None and PAUSED in entry:
                kept = ({k: v for k, v in e.items() if e is not entry or k != PAUSED} for e in entries)
                self._session.declare(Declarations(tuple(kept)))
        self._sinks.flush()

    def drop(self, statement: st.Drop) -> Result:
        name = statement.name
        self._sinks.find(name.text, name.place)
        declared = without_comments(self._session.declared.without("sink", name.key), "sink", [name.key])
        self._sinks.drop(name.key, declared.entries)
        self._session.declared = declared
        return Result(f"sink {name} dropped")

    def recover(self) -> None:
        """Have the sinks that an earlier process declared."""
        for entry in self._session.declared.entries:
            if entry["kind"] == "sink":
                self._attach(entry)

    def _attach(self, entry: Entry) -> None:
        is_template = _TEMPLATE in entry
        known = self._queries.named if is_template else self._queries.registry
        query = known.find(entry[_TEMPLATE if is_template else "query"])
        if "format" not in entry:
            self._sinks.add(Sink(entry["shown"], query, CALLABLE, None))
            return
        target, external = _target(entry), self._external
        deliver = None if external is None else partial(external.write, target)
        self._sinks.add(Sink(entry["shown"], query, entry["format"], deliver, entry.get(PAUSED)))


def _target(entry: Entry) -> ExternalData:
    """Where a sink writes, wherever the database is opened."""
    options = tuple((str(key), str(value)) for key, value in entry["options"])
    return ExternalData(entry["format"], options).seen_from(entry.get(DIRECTORY))


def _same_place(one: str, other: str) -> bool:
    return os.path.normpath(one.removeprefix("file:")) == os.path.normpath(other.removeprefix("file:"))


def _entry(name: str, followed: Query | Template) -> dict[str, str]:
    return {"shown": name, _TEMPLATE if isinstance(followed, Template) else "query": followed.name}
