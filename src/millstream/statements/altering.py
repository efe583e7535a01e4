"""ALTER STREAM and ALTER TABLE: columns are added and renamed, RETAIN changes, and objects get other names.

Files that were written before stay as they are: what they do not have is the default, and what they call otherwise is
known. So each is one commit of what is declared.
"""

from __future__ import annotations

from collections.abc import Callable

from millstream.catalog.comments import COMMENT
from millstream.catalog.entries import Declarations, Entry
from millstream.catalog.session import Session
from millstream.connectors.source_loop import SourceLoop
from millstream.engine.engine import Engine
from millstream.errors import CatalogError
from millstream.language import statements as st
from millstream.language.definer import altered
from millstream.plan.definitions import StreamDefinition, TableDefinition
from millstream.statements.definitions import Definitions
from millstream.statements.result import Result

ALTERED = "altered"  # in the entry of a stream or table: the statements that changed it since, in order


class Altering:
    """Changes what is declared. All under the engine's lock."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        definitions: Definitions,
        source_loop: SourceLoop,
        users: Callable[[str], list[str]],
    ) -> None:
        self._engine, self._session, self._definitions = engine, session, definitions
        self._source_loop, self._users = source_loop, users

    def run(self, before: StreamDefinition | TableDefinition, kind: str, statement: st.Alteration) -> Result:
        after = altered(before, statement)  # which refuses what cannot be
        key = before.name.lower()
        if isinstance(statement, st.SetRetain):
            return self._set_retain(before, after, kind, statement)
        self._source_loop.check_not_read(before.name)
        self._check_unused(key, kind, statement)
        if isinstance(statement, st.Rename) and statement.column is None:
            return self._rename(before, after, kind, statement)
        declared = self._altered(kind, key, statement)
        if isinstance(statement, st.Rename) and statement.column is not None:
            old, new = (f"column {key}.{name.key}" for name in (statement.column, statement.to))
            declared = _with_comments(declared, {old: new})
        self._session.declare(declared)
        self._definitions.alter(key, statement)
        said = f"column {statement.column.name} added" if isinstance(statement, st.AddColumn) else "column renamed"
        return Result(f"{kind} {before.name}: {said}")

    def _check_unused(self, key: str, kind: str, statement: st.AddColumn | st.Rename) -> None:
        if users := self._users(key):
            raise CatalogError(
                f'{kind} "{statement.name}" is in use',
                detail=f"by {', '.join(users)}",
                hint="what reads it was planned with its columns: drop those first, and create them again",
                place=statement.name.place,
            )

    def _altered(self, kind: str, key: str, statement: st.Alteration) -> Declarations:
        """What is declared, with a statement behind those that made an object what it is."""
        declared, place = self._session.declared, statement.place
        entry = self._entry(kind, key)
        texts = [*entry.get(ALTERED, ()), place.text[place.start : place.end]]
        return declared.replacing(entry, {**entry, ALTERED: texts})

    def _entry(self, kind: str, key: str) -> Entry:
        entry = self._session.declared.find(kind, key)
        if entry is None:
            raise CatalogError(f'{kind} "{key}" was declared by nobody', hint="it is Millstream's own")
        return entry

    def _set_retain(
        self,
        before: StreamDefinition | TableDefinition,
        after: StreamDefinition | TableDefinition,
        kind: str,
        statement: st.SetRetain,
    ) -> Result:
        if not isinstance(before, StreamDefinition) or not isinstance(after, StreamDefinition):
            raise AssertionError("tables keep everything")
        key, engine = before.name.lower(), self._engine
        is_longer = before.retain is not None and (after.retain is None or after.retain > before.retain)
        if is_longer and (users := self._users(key)):
            raise CatalogError(
                f'stream "{statement.name}" is in use',
                detail=f"by {', '.join(users)}, of whose past no more is kept than RETAIN has said",
                hint="a shorter RETAIN is possible; for a longer one drop those first",
                place=statement.name.place,
            )
        declared = self._altered(kind, key, statement)
        if is_longer:
            # What was cut until now stays cut, and is noted as such.
            engine.commit(engine.retention.with_cuts(engine.snapshot).with_catalog(declared.entries))
            self._session.declared = declared
            engine.sources.lengthen()
        else:
            self._session.declare(declared)
        self._definitions.alter(key, statement)
        retain = "FOREVER" if after.retain is None else after.domain.duration(after.retain)
        return Result(f"{kind} {before.name}: retain {retain}")

    def _rename(
        self,
        before: StreamDefinition | TableDefinition,
        after: StreamDefinition | TableDefinition,
        kind: str,
        statement: st.Rename,
    ) -> Result:
        session, key, new = self._session, before.name.lower(), after.name.lower()
        if before.source is not None:
            raise CatalogError(
                f"{kind} {before.name} is read from outside, and how far is noted under its name",
                hint="drop it, and create it with the other name",
                place=statement.name.place,
            )
        if new != key and new in session.catalog:
            raise CatalogError(
                f'"{statement.to}" is there already', hint="choose another name", place=statement.to.place
            )
        owned = self._definitions.owned(key)
        names = {each: f"{new}{each.removeprefix(key)}" for each in owned}
        entry, declared = self._entry(kind, key), self._altered(kind, key, statement)
        there = declared.find(kind, key)
        if there is None:
            raise AssertionError(f"no entry of {entry['name']}")
        declared = declared.replacing(there, {**there, "name": new})
        about = {f"{kind} {key}": f"{kind} {new}"}
        about |= {f"column {key}.{f.name.lower()}": f"column {new}.{f.name.lower()}" for f in before.columns}
        declared = _with_comments(declared, about)
        settings = session.settings.with_stream_renamed(key, new)
        if settings != session.settings:
            declared = declared.with_settings(settings)
        self._engine.sources.rename(names, declared.entries)
        session.declared, session.settings = declared, settings
        self._definitions.alter(key, statement)
        return Result(f"{kind} {before.name} is called {after.name} now")


def _with_comments(declared: Declarations, names: dict[str, str]) -> Declarations:
    """What was said of objects and columns, under their new names."""
    for entry in declared.entries:
        if entry["kind"] == COMMENT and entry["name"] in names:
            declared = declared.replacing(entry, {**entry, "name": names[entry["name"]]})
    return declared
