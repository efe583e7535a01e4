"""What is there already: statements that can be said twice.

IF NOT EXISTS leaves alone what has the name, whatever it is like. A file that is run again leaves alone what it
declared the last time, in the same words; where the words are others, that is an error, and not silence.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from millstream.catalog.objects import kind_of
from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.errors import CatalogError, Error
from millstream.language import statements as st
from millstream.language.dialect import CQL
from millstream.queries.planner import Planner
from millstream.queries.standing import StandingQueries
from millstream.query import Query
from millstream.statements.result import Result


class Existing:
    """Looks for what a statement would create or drop."""

    def __init__(self, session: Session, planner: Planner, queries: StandingQueries, sinks: Sinks) -> None:
        self._session, self._planner, self._queries, self._sinks = session, planner, queries, sinks

    def instead(self, statement: st.Statement, *, again: bool) -> Result | None:
        """What to answer where there is nothing to do; `again` where statements may have been run before."""
        match statement:
            case st.Drop(if_exists=True) if self._named(statement.kind.lower(), statement.name) is None:
                return Result(f"there is no {statement.kind.lower()} {statement.name}: nothing to drop")
            case st.AddColumn() | st.Rename() | st.SetRetain():
                return self._instead_of_altering(statement, again)
            case st.CreateStream() | st.CreateTable() | st.CreateView() | st.CreateSink() | st.RegisterQuery():
                return self._instead_of_creating(statement, again)
            case _:
                return None

    def _instead_of_altering(self, statement: st.Alteration, again: bool) -> Result | None:
        """Where a column is there already, or the same was said before."""
        kind = "stream" if isinstance(statement, st.SetRetain) else statement.kind.lower()
        place, entries = statement.place, self._session.declared.entries
        found = self._session.catalog.get(statement.name.key)
        if isinstance(statement, st.AddColumn) and statement.if_not_exists and found is not None:
            names = {field.name.lower() for field in found.columns}
            if statement.column.name.key in names:
                return Result(f"{kind} {found.name} has a column {statement.column.name} already")
        said = _words(place.text[place.start : place.end])
        before = (text for entry in entries if entry["kind"] == kind for text in entry.get("altered", ()))
        if again and any(_words(text) == said for text in before):
            return Result(f"{kind} {statement.name} is altered so already")
        return None

    def _instead_of_creating(self, statement: st.Creation, again: bool) -> Result | None:
        kind, name = _kind_of(statement), statement.name
        found = self._named(kind, name)
        if again and found is None and (renamed := self._renamed(statement)) is not None:
            return Result(f"{kind} {name} is there already, and is called {renamed} now")
        or_replace = not isinstance(statement, st.CreateStream | st.CreateTable) and statement.or_replace
        if found is None or not (statement.if_not_exists or or_replace or again):
            return None
        if or_replace and not self._is_same(statement):
            return None
        if not statement.if_not_exists and not self._is_same(statement):
            raise CatalogError(
                f'there is a {kind} "{found}" already, and it is another one',
                hint="drop it first, or choose another name",
                place=name.place,
            )
        query = self._queries.registry.get(name.text) if kind == "query" else None
        return Result(f"{kind} {found} is there already", query=query)

    def _renamed(self, statement: st.Creation) -> str | None:
        """What an object that the same words declared is called now."""
        kind, place = _kind_of(statement), statement.place
        renamed = [entry for entry in self._session.declared.entries if entry["kind"] == kind and "altered" in entry]
        said = _words(place.text[place.start : place.end]) if renamed else []
        return next((entry["name"] for entry in renamed if _words(entry["text"]) == said), None)

    def _named(self, kind: str, name: st.Name) -> str | None:
        """The name of what is there, as it was written."""
        match kind:
            case "query":
                query = self._queries.registry.get(name.text)
                return None if query is None else query.name
            case "template":
                return next((each.name for each in self._queries.named if each.name.lower() == name.key), None)
            case "sink":
                sink = self._sinks.by_name.get(name.key)
                return None if sink is None else sink.name
            case _:
                found = self._session.catalog.get(name.key)
                return None if found is None or kind_of(found) != kind or "." in found.name else found.name

    def _is_same(self, statement: st.Creation) -> bool:
        if isinstance(statement, st.RegisterQuery):
            query = self._queries.registry.find(statement.name.text)
            return query.mode == (statement.mode or "EAGER").lower() and self._says_the_same(query, statement)
        entry = self._session.declared.find(_kind_of(statement), statement.name.text)
        if entry is None:
            return False
        if isinstance(statement, st.CreateSink):
            followed = entry.get("template" if statement.of_template else "query", "").lower()
            options = {(str(key), str(value)) for key, value in entry.get("options", ())}
            same_target = (entry.get("format"), options) == (statement.target.format, {*statement.target.options})
            return same_target and followed == statement.query.key
        place = statement.place
        return _words(entry["text"]) == _words(place.text[place.start : place.end])

    def _says_the_same(self, query: Query, statement: st.RegisterQuery) -> bool:
        """As texts are read now, or were when the query was registered: what they name may be called otherwise now."""
        text, tree, known = statement.place.text, statement.query, query.bound
        try:
            then = self._planner.read_as(known).bind(text, tree.copy())
        except Error:
            then = None
        if then is not None and then.as_said == known.as_said:
            return True
        return self._planner.bind(text, tree).cql == known.cql


def _kind_of(statement: st.Creation) -> str:
    kinds = {
        st.CreateStream: "stream",
        st.CreateTable: "table",
        st.CreateView: "view",
        st.CreateSink: "sink",
        st.RegisterQuery: "query",
    }
    return kinds[type(statement)]


def _words(text: str) -> list[tuple[TokenType, str]]:
    """What a text says, without its spaces, comments, IF NOT EXISTS, and OR REPLACE."""
    tokens = CQL().tokenize(text)
    words = [(token.token_type, token.text) for token in tokens]
    if [word.upper() for _, word in words[1:3]] == ["OR", "REPLACE"]:
        del words[1:3]
    said = [word.upper() for _, word in words]
    if said[2:5] == ["IF", "NOT", "EXISTS"]:
        del words[2:5]
    return words
