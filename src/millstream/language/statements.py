"""The statements of the language, as the parser hands them on: frozen, unbound, each with its place in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

from sqlglot import exp

from millstream.errors import Place
from millstream.types import DataType


@dataclass(frozen=True)
class Name:
    """An identifier as the user wrote it; names are compared without case."""

    text: str
    place: Place

    @property
    def key(self) -> str:
        return self.text.lower()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ColumnDefinition:
    """A column as it is declared: `name type [NOT NULL] [DEFAULT constant] [PRIMARY KEY]`."""

    name: Name
    type: DataType
    not_null: bool = False
    default: exp.Expr | None = None
    is_key: bool = False


@dataclass(frozen=True)
class ColumnList:
    """What stands in the parentheses behind the name of a stream or table."""

    columns: tuple[ColumnDefinition, ...]
    key: tuple[Name, ...] = ()  # of PRIMARY KEY, beside a column or for itself
    is_declared_only: bool = False  # whether that is NOT ENFORCED


@dataclass(frozen=True)
class Duration:
    """A span of time: microseconds where a unit was given, else ticks."""

    amount: int
    in_ticks: bool
    place: Place

    def __str__(self) -> str:
        if self.in_ticks:
            return f"{self.amount} ticks"
        for unit, size in (
            ("day", 86_400_000_000),
            ("hour", 3_600_000_000),
            ("minute", 60_000_000),
            ("second", 1_000_000),
            ("millisecond", 1_000),
        ):
            if self.amount and self.amount % size == 0:
                count = self.amount // size
                return f"{count} {unit}{'s' if count != 1 else ''}"
        return f"{self.amount} microseconds"


@dataclass(frozen=True)
class Heartbeat:
    kind: OneOf["ASCENDING", "DELAY", "CLOCK", "CLOCK DELAY", "EXPLICIT"] = "ASCENDING"
    delay: Duration | None = None
    idle_after: Duration | None = None


@dataclass(frozen=True)
class TimestampColumn:
    """TIMESTAMP BY name [type]; the type is given only where the column is not among the declared ones."""

    name: Name
    type: DataType | None = None


@dataclass(frozen=True)
class UsingClause:
    """USING format OPTIONS (...)."""

    format: str
    options: tuple[tuple[str, str], ...]
    place: Place


@dataclass(frozen=True)
class Statement:
    place: Place


@dataclass(frozen=True)
class CreateStream(Statement):
    name: Name
    columns: tuple[ColumnDefinition, ...]
    timestamp: TimestampColumn
    tick: Duration | None
    heartbeat: Heartbeat
    retain: Duration | None
    retain_forever: bool
    source: UsingClause | None
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateTable(Statement):
    name: Name
    columns: tuple[ColumnDefinition, ...]
    key: tuple[Name, ...]
    nature: OneOf["", "NON RETROACTIVE", "APPEND ONLY", "STATIC"]
    changes_by: Name | None
    timestamp: TimestampColumn | None
    tick: Duration | None
    heartbeat: Heartbeat
    source: UsingClause | None
    if_not_exists: bool = False
    not_enforced: bool = False  # the key is declared, and nobody looks whether it is one
    is_primary: bool = False  # its columns are never NULL


@dataclass(frozen=True)
class CreateView(Statement):
    name: Name
    columns: tuple[Name, ...]
    query: exp.Query
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class CreateSink(Statement):
    name: Name
    query: Name
    target: UsingClause
    of_template: bool  # whether it is a template that is named, and all its queries are meant
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class RegisterQuery(Statement):
    name: Name
    mode: OneOf["EAGER", "LAZY", "NONE"] | None
    query: exp.Query
    begin: int  # where the query begins in the text
    if_not_exists: bool = False
    or_replace: bool = False


Creation = CreateStream | CreateTable | CreateView | CreateSink | RegisterQuery
Replacement = CreateView | CreateSink | RegisterQuery


@dataclass(frozen=True)
class AddColumn(Statement):
    """ALTER STREAM | TABLE .. ADD COLUMN."""

    kind: OneOf["STREAM", "TABLE"]
    name: Name
    column: ColumnDefinition
    if_not_exists: bool = False


@dataclass(frozen=True)
class Rename(Statement):
    """ALTER .. RENAME COLUMN a TO b, or RENAME TO b of the object itself."""

    kind: OneOf["STREAM", "TABLE"]
    name: Name
    column: Name | None
    to: Name


@dataclass(frozen=True)
class SetRetain(Statement):
    """ALTER STREAM .. SET RETAIN; None for ever."""

    name: Name
    retain: Duration | None


Alteration = AddColumn | Rename | SetRetain


@dataclass(frozen=True)
class Drop(Statement):
    kind: OneOf["QUERY", "TEMPLATE", "VIEW", "STREAM", "TABLE", "SINK"]
    name: Name
    if_exists: bool = False
    cascade: bool = False  # with all that reads it


@dataclass(frozen=True)
class Conflict:
    """ON CONFLICT [(columns)] DO NOTHING, or DO UPDATE [SET ..] [WHERE ..]; without SET the new row is taken whole."""

    place: Place
    columns: tuple[Name, ...]
    updates: bool
    assignments: tuple[tuple[Name, exp.Expr], ...] = ()
    where: exp.Expr | None = None


@dataclass(frozen=True)
class Insert(Statement):
    """Rows are tuples of unbound constant expressions."""

    target: Name
    columns: tuple[Name, ...]
    rows: tuple[tuple[exp.Expr, ...], ...]
    at: exp.Expr | None
    # All rows, where they were read as plain constants (`literal_rows`); then `rows` has the first at most.
    literals: tuple[tuple[Any, ...], ...] | None = None
    conflict: Conflict | None = None


@dataclass(frozen=True)
class InsertQuery(Statement):
    """INSERT INTO .. SELECT: the rows that a query has now."""

    target: Name
    columns: tuple[Name, ...]
    query: exp.Query
    at: exp.Expr | None
    conflict: Conflict | None = None


@dataclass(frozen=True)
class Delete(Statement):
    target: Name
    where: exp.Expr | None
    at: exp.Expr | None


@dataclass(frozen=True)
class Update(Statement):
    target: Name
    assignments: tuple[tuple[Name, exp.Expr], ...]
    where: exp.Expr | None
    at: exp.Expr | None


TableChange = Insert | InsertQuery | Delete | Update


@dataclass(frozen=True)
class Advance(Statement):
    """ADVANCE s TO ts, or ADVANCE TO ts for all streams."""

    stream: Name | None
    to: exp.Expr


@dataclass(frozen=True)
class SetOption(Statement):
    """SET name = value, for all or (FOR s) for one stream."""

    name: Name
    value: str | int | float | bool
    stream: Name | None


@dataclass(frozen=True)
class AdHocQuery(Statement):
    """An ad-hoc query."""

    query: exp.Query


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN of a query text, or of a registered query by name; as text, json, dot or svg."""

    analyze: bool
    form: str
    query: exp.Query | None
    name: Name | None


@dataclass(frozen=True)
class Show(Statement):
    """SHOW what there is; functions and settings may be chosen by a LIKE pattern."""

    what: OneOf["STREAMS", "TABLES", "VIEWS", "QUERIES", "TEMPLATES", "SINKS", "PLAN", "FUNCTIONS", "SETTINGS"]
    like: str | None = None


@dataclass(frozen=True)
class ShowCreate(Statement):
    """The statement that declares an object, as it is now."""

    kind: OneOf["QUERY", "TEMPLATE", "VIEW", "STREAM", "TABLE", "SINK"] | None
    name: Name


@dataclass(frozen=True)
class Describe(Statement):
    """The columns of an object, of a query's answer, or of a text; or what a function is."""

    kind: OneOf["QUERY", "TEMPLATE", "VIEW", "STREAM", "TABLE", "SINK", "FUNCTION"] | None
    name: Name | None
    query: exp.Query | None = None


@dataclass(frozen=True)
class Comment(Statement):
    """COMMENT ON kind name IS 'text'; NULL takes it away. Of a column, the name is its owner's."""

    kind: OneOf["QUERY", "TEMPLATE", "VIEW", "STREAM", "TABLE", "SINK", "COLUMN"]
    name: Name
    column: Name | None
    text: str | None
