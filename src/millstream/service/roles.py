"""Which role a statement needs."""

from __future__ import annotations

from millstream.language import statements as st
from millstream.language.statement_parser import parse
from millstream.service.tokens import Role

_READING = (st.AdHocQuery, st.Explain, st.Show, st.ShowCreate, st.Describe)
_WRITING = (st.Insert, st.InsertQuery, st.Delete, st.Update, st.Advance, st.RegisterQuery)


def needed_for(text: str) -> tuple[Role, bool]:
    """The role that a text of statements needs, and whether it changes what is read from outside."""
    statements = parse(text)
    role = max((_role(statement) for statement in statements), default=Role.READ)
    return role, any(map(_concerns_sources, statements))


def _role(statement: st.Statement) -> Role:
    if isinstance(statement, _READING):
        return Role.READ
    if isinstance(statement, _WRITING):
        return Role.WRITE
    if isinstance(statement, st.Drop) and statement.kind in ("QUERY", "TEMPLATE") and not statement.cascade:
        return Role.WRITE  # with their sinks they are for those who may drop sinks
    return Role.ADMIN  # what others rely on, and what reads and writes files where the service runs


def _concerns_sources(statement: st.Statement) -> bool:
    if isinstance(statement, st.CreateStream | st.CreateTable):
        return statement.source is not None
    if isinstance(statement, st.AddColumn | st.Rename):
        return True
    return isinstance(statement, st.Drop) and statement.kind in ("STREAM", "TABLE")
