"""ALTER STREAM and ALTER TABLE: columns are added and renamed, RETAIN changes, and objects get other names.

Files that were written before stay as they are: what they do not have is the default, and what they call otherwise is
known. Texts that read the object go by what they knew (`catalog.alterations`), so that views and queries keep columns,
plans and state. So each is one commit of what is declared.
"""

from __future__ import annotations

from collections.abc import Callable

from millstream.catalog.alterations import NUMBERS
from millstream.catalog.comments import COMMENT
from millstream.catalog.entries import Declarations, Entry
from millstream.catalog.session import Session
from millstream.connectors.source_loop import SourceLoop
from millstream.engine.engine import Engine
from millstream.engine.sources import Floors
from millstream.errors import CatalogError
from millstream.language import statements as st
from millstream.language.definer import altered
from millstream.language.instants import shown_instant
from millstream.language.statement_parser import parse
from millstream.names import shortly
from millstream.plan.definitions import StreamDefinition, TableDefinition
from millstream.statements.definitions import Definitions
from millstream.statements.result import Result

ALTERED = "altered"  # in the entry of a stream or table: the statements that changed it since, in order
_FLOORS = "floors"  # in the entry of a stream: what could be asked for when its RETAIN became longer


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
        if isinstance(statement, st.Rename) and statement.column is not None and _is_read_by_name(before):
            raise CatalogError(
                f'column "{statement.column}" of {before.name} is found by its name where it is read from',
                detail="by another name it would be NULL in all rows to come",
                hint=f"name it in a view: CREATE VIEW .. AS SELECT {statement.column} AS {statement.to}, ..",
                place=statement.column.place,
            )
        self._source_loop.check_not_read(before.name)
        number = self._session.alterations.last + 1
        if isinstance(statement, st.AddColumn) and isinstance(before, TableDefinition) and before.log is not None:
            self._check_unread(key, statement)
            number = 0
        if isinstance(statement, st.Rename) and statement.column is None:
            return self._rename(before, after, kind, statement, number)
        declared = self._altered(kind, key, statement, number)
        if isinstance(statement, st.Rename) and statement.column is not None:
            old, new = (f"column {key}.{name.key}" for name in (statement.column, statement.to))
            declared = _with_comments(declared, {old: new})
        self._session.declare(declared)
        self._definitions.alter(key, statement, number)
        self._definitions.call_anew()
        said = f"column {statement.column.name} added" if isinstance(statement, st.AddColumn) else "column renamed"
        return Result(f"{kind} {before.name}: {said}{self._for_readers(key)}")

    def _check_unread(self, key: str, statement: st.AddColumn) -> None:
        if users := self._users(key):
            raise CatalogError(
                f'table "{statement.name}" is in use',
                detail=f"by {shortly(users)}; a change that takes a row away says all its columns, "
                "and they would take away others without the new one",
                hint="drop those first, and create them again",
                place=statement.name.place,
            )

    def _for_readers(self, key: str) -> str:
        """What those who read it should know."""
        users = self._users(key)
        return f"; {shortly(users)} {'keeps' if len(users) == 1 else 'keep'} the columns of before" if users else ""

    def _altered(self, kind: str, key: str, statement: st.Alteration, number: int) -> Declarations:
        """What is declared, with a statement behind those that made an object what it is."""
        declared, place = self._session.declared, statement.place
        entry = self._entry(kind, key)
        texts = [*entry.get(ALTERED, ()), place.text[place.start : place.end]]
        numbers = [*_numbers(entry), number]
        return declared.replacing(entry, {**entry, ALTERED: texts, NUMBERS: numbers})

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
        declared, notice = self._altered(kind, key, statement, 0), ""
        if is_longer:
            # What was cut until now stays cut, and is noted as such: of history, and of what is kept for queries.
            snapshot = engine.retention.with_cuts(engine.snapshot)
            floors = engine.retention.floors(before.edge, snapshot)
            entry = declared.find(kind, key)
            if entry is not None and floors:
                said = [[sorted(sources), first] for sources, first in floors.items()]
                declared = declared.replacing(entry, {**entry, _FLOORS: [*entry.get(_FLOORS, ()), *said]})
            engine.commit(snapshot.with_catalog(declared.entries))
            self._session.declared = declared
            engine.sources.lengthen(floors)
            cut = max([snapshot.progress(before.edge).cut, *floors.values()])
            notice = f"; what was before {shown_instant(cut, before.domain)} stays forgotten" if cut else ""
        else:
            self._session.declare(declared)
        self._definitions.alter(key, statement, 0)
        retain = "FOREVER" if after.retain is None else after.domain.duration(after.retain)
        return Result(f"{kind} {before.name}: retain {retain}{notice}")

    def _rename(
        self,
        before: StreamDefinition | TableDefinition,
        after: StreamDefinition | TableDefinition,
        kind: str,
        statement: st.Rename,
        number: int,
    ) -> Result:
        session, key, new = self._session, before.name.lower(), after.name.lower()
        if new != key and new in session.catalog:
            raise CatalogError(
                f'"{statement.to}" is there already', hint="choose another name", place=statement.to.place
            )
        entry, declared = self._entry(kind, key), self._altered(kind, key, statement, number)
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
        session.declare(declared)
        session.settings = settings
        self._definitions.alter(key, statement, number)
        self._definitions.call_anew()
        return Result(f"{kind} {before.name} is called {after.name} now")

    def recover(self, key: str, entry: Entry) -> None:
        """Have an object as an earlier process has altered it."""
        for text, number in zip(entry.get(ALTERED, ()), _numbers(entry), strict=True):
            (alteration,) = parse(text)
            if isinstance(alteration, st.AddColumn | st.Rename | st.SetRetain):
                key = self._definitions.alter(key, alteration, number).name.lower()
            if isinstance(alteration, st.SetRetain):
                self._engine.sources.lengthen({})
        floors: Floors = {frozenset(sources): first for sources, first in entry.get(_FLOORS, ())}
        if floors:
            self._engine.sources.lengthen(floors)


def _is_read_by_name(definition: StreamDefinition | TableDefinition) -> bool:
    """Whether its columns are found by their names outside; else they are by their places in a line."""
    source = definition.source
    if source is None:
        return False
    header = next((value for key, value in source.options if key.lower() == "header"), "false")
    return source.format not in ("csv", "text") or header.lower() == "true"


def _numbers(entry: Entry) -> list[int]:
    """Those of its alterations: of some that were made while nobody read it, none is kept."""
    count = len(entry.get(ALTERED, ()))
    return [*entry.get(NUMBERS, [0] * count)]


def _with_comments(declared: Declarations, names: dict[str, str]) -> Declarations:
    """What was said of objects and columns, under their new names."""
    for entry in declared.entries:
        if entry["kind"] == COMMENT and entry["name"] in names:
            declared = declared.replacing(entry, {**entry, "name": names[entry["name"]]})
    return declared
