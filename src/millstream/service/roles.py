"""What a text of statements does: which role it needs, and what it changes."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.language import statements as st
from millstream.language.statement_parser import parse
from millstream.service.tokens import Role

_READING = (st.AdHocQuery, st.Explain, st.Show, st.ShowCreate, st.Describe)
_WRITING = (st.Insert, st.InsertQuery, st.Delete, st.Update, st.Advance, st.RegisterQuery)


@dataclass(frozen=True)
class Change:
    """What a statement does, and to what: None stands for all that there is."""

    did: str
    name: str | None
    is_template: bool = False


@dataclass(frozen=True)
class Needs:
    """Of a text: the role, whether it changes what is read from outside, and all that it changes."""

    role: Role
    concerns_sources: bool
    changes: tuple[Change, ...]


def needed_for(text: str) -> Needs:
    statements = parse(text)
    role = max((_role(statement) for statement in statements), default=Role.READ)
    changes = (_change(statement) for statement in statements if not isinstance(statement, _READING))
    return Needs(role, any(map(_concerns_sources, statements)), tuple(dict.fromkeys(changes)))


def _role(statement: st.Statement) -> Role:
    if isinstance(statement, _READING):
        return Role.READ
    if isinstance(statement, _WRITING):
        return Role.WRITE
    if isinstance(statement, st.Drop) and statement.kind in ("QUERY", "TEMPLATE") and not statement.cascade:
        return Role.WRITE  # with their sinks they are for those who may drop sinks
    return Role.ADMIN  # what others rely on, and what reads and writes files where the service runs


def _change(statement: st.Statement) -> Change:
    match statement:
        case st.Insert() | st.InsertQuery():
            return Change("insert", statement.target.text)
        case st.Delete() | st.Update():
            return Change(type(statement).__name__.lower(), statement.target.text)
        case st.Advance():
            return Change("advance", None if statement.stream is None else statement.stream.text)
        case st.Drop():
            return Change(f"drop {statement.kind.lower()}", statement.name.text, statement.kind == "TEMPLATE")
        case st.SetOption():
            return Change("set", statement.name.text)
        case st.RegisterQuery():
            return Change("register", statement.name.text)
    name = getattr(statement, "name", None)
    return Change(_words(type(statement).__name__), name.text if isinstance(name, st.Name) else None)


def _words(name: str) -> str:
    """CreateStream: create stream."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _concerns_sources(statement: st.Statement) -> bool:
    if isinstance(statement, st.CreateStream | st.CreateTable):
        return statement.source is not None
    if isinstance(statement, st.AddColumn | st.Rename):
        return True
    return isinstance(statement, st.Drop) and statement.kind in ("STREAM", "TABLE")
