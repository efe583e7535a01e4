"""DESCRIBE, SHOW CREATE and COMMENT ON: what objects are, in columns and in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.catalog.alterations import AS_OF
from millstream.catalog.comments import comment_key, comment_of, with_comment
from millstream.catalog.entries import Entry
from millstream.catalog.objects import kind_of, properties
from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.engine.engine import Engine
from millstream.errors import CatalogError, NameError, did_you_mean
from millstream.language import statements as st
from millstream.language.dialect import CQL
from millstream.language.function_list import functions
from millstream.language.statement_parser import parse
from millstream.language.type_names import stored_text
from millstream.plan.definitions import Definition, StreamDefinition, TableDefinition
from millstream.queries.planner import Planner
from millstream.queries.standing import StandingQueries
from millstream.query import Query, Template
from millstream.statements.result import Result
from millstream.types import from_arrow

_SECRET = re.compile("password|secret|token|credential|private", re.IGNORECASE)
_KINDS = ("stream", "table", "view", "query", "template", "sink")


@dataclass(frozen=True)
class _Found:
    """What a name means, and of which kind it is."""

    kind: str
    name: str
    what: Definition | Query | Template | None = None


class DescribeStatements:
    """Tells what objects are, and keeps what people say of them."""

    def __init__(
        self, engine: Engine, session: Session, planner: Planner, queries: StandingQueries, sinks: Sinks
    ) -> None:
        self._engine, self._session, self._planner = engine, session, planner
        self._queries, self._sinks = queries, sinks

    # DESCRIBE

    def describe(self, statement: st.Describe) -> Result:
        if statement.query is not None:
            bound = self._planner.answering_once().bind(statement.place.text, statement.query)
            columns = [(field.name, str(field.type)) for field in bound.schema]
            return Result(f"a {bound.kind}: {bound.cql}", table=_columns(columns))
        if statement.name is None:
            raise AssertionError("nothing to describe")
        if statement.kind == "FUNCTION":
            return self._function(statement.name)
        found = self._find(statement.kind, statement.name)
        said = [f"{found.kind} {found.name}", *self._said_of(found)]
        said += [text] if (text := comment_of(self._session.declared, found.kind, found.name)) else []
        if found.kind == "sink":
            row = next(row for row in self._sinks.shown() if row["name"] == found.name)
            pairs = {name: str(value) for name, value in row.items() if value not in (None, "")}
            return Result("; ".join(said), table=pa.table({"property": [*pairs], "value": [*pairs.values()]}))
        return Result("; ".join(said), table=self._columns_of(found))

    def _said_of(self, found: _Found) -> list[str]:
        what = found.what
        if isinstance(what, Query):
            return [f"a {what.kind}, mode {what.mode.upper()}", what.cql, *what.notices]
        if isinstance(what, Template):
            return [f"{len(what)} queries, each a {what.kind}, mode {what.mode.upper()}", what.text]
        return [] if what is None else [text for text in (properties(what),) if text]

    def _columns_of(self, found: _Found) -> pa.Table:
        what = found.what
        if isinstance(what, Query | Template):
            return _columns([(field.name, str(from_arrow(field.type))) for field in what.schema])
        if what is None:
            raise AssertionError(f"{found.kind} has no columns")
        rules = None if not isinstance(what, StreamDefinition | TableDefinition) else what.rules
        keys = {what.columns[index].name for index in what.key} if isinstance(what, TableDefinition) else set()
        columns = []
        for field in what.columns:
            required = rules is not None and rules.is_required(field.name)
            default = rules.default(field.name) if rules is not None and rules.has_default(field.name) else None
            comment = comment_of(self._session.declared, "column", f"{found.name}.{field.name}")
            shown = None if default is None else str(default)
            columns.append((field.name, str(field.type), not required, shown, field.name in keys, comment))
        names = ("column", "type", "nullable", "default", "key", "comment")
        kinds = (pa.string(), pa.string(), pa.bool_(), pa.string(), pa.bool_(), pa.string())
        rows = zip(*columns, strict=True) if columns else ((),) * len(names)
        arrays = [pa.array(values, kind) for values, kind in zip(rows, kinds, strict=True)]
        return pa.table(dict(zip(names, arrays, strict=True)))

    def _function(self, name: st.Name) -> Result:
        known = functions(self._session.code)
        found = [each for each in known if each.name == name.key]
        if not found:
            hint = (
                did_you_mean(name.text, [each.name for each in known])
                or "SHOW FUNCTIONS LIKE '%..%' lists those there are"
            )
            raise NameError(f'there is no function called "{name}"', hint=hint, place=name.place)
        shown = found[0]
        table = pa.table({"function": [shown.name], "kind": [shown.kind], "takes": [shown.takes]})
        takes = shown.takes if shown.kind == "refused" else f"takes {shown.takes}"
        return Result(f"{shown.name}: {shown.kind}, {takes}", table=table)

    # SHOW CREATE

    def show_create(self, statement: st.ShowCreate) -> Result:
        found = self._find(statement.kind, statement.name)
        text = self._text_of(found)
        return Result(text, table=pa.table({"statement": [text]}))

    def _text_of(self, found: _Found) -> str:
        what, declared = found.what, self._session.declared
        if isinstance(what, Query):
            return f"REGISTER QUERY {_quoted(what.name)} MODE {what.mode.upper()} AS {what.cql}"
        if isinstance(what, Template):
            raise CatalogError(
                f"template {found.name} was made by register_many",
                detail=what.text,
                hint="SHOW CREATE QUERY q has the text of one of its queries",
            )
        entry = declared.find(found.kind, found.name)
        if entry is None:
            raise CatalogError(f'{found.kind} "{found.name}" was declared by nobody', hint="it is Millstream's own")
        if found.kind == "sink":
            return _sink_text(entry)
        if found.kind == "view" and (text := self._text_of_view(entry)) is not None:
            return text
        return ";\n".join(_without_secrets(text) for text in (entry["text"], *entry.get("altered", ())))

    def _text_of_view(self, entry: Entry) -> str | None:
        """Where names in it have changed since it was said, with those of now."""
        with stored_text():
            (said,) = parse(entry["text"])
        if not isinstance(said, st.CreateView):
            raise AssertionError(f"no view: {entry['text']}")
        now = self._session.as_called_now(entry.get(AS_OF, 0), said.query)
        if now is said.query:
            return None
        columns = f" ({', '.join(_quoted(name.text) for name in said.columns)})" if said.columns else ""
        return f"CREATE VIEW {_quoted(said.name.text)}{columns} AS {now.sql(dialect=CQL)}"

    # COMMENT ON

    def comment(self, statement: st.Comment) -> Result:
        session = self._session
        with self._engine.lock:
            if statement.column is None:
                found = self._find(statement.kind, statement.name)
                kind, name = found.kind, found.name
            else:
                kind, name = "column", self._column(statement.name, statement.column)
            session.declare(with_comment(session.declared, kind, name, statement.text))
        return Result(f"comment on {comment_key(kind, name)} {'is gone' if statement.text is None else 'kept'}")

    def _column(self, owner: st.Name, column: st.Name) -> str:
        found = self._find(None, owner)
        if not isinstance(found.what, StreamDefinition | TableDefinition) and found.kind != "view":
            raise CatalogError(
                f'"{owner}" is a {found.kind}', hint="streams, tables and views have columns to comment on"
            )
        columns = [] if found.what is None or isinstance(found.what, Query | Template) else found.what.columns
        name = next((field.name for field in columns if field.name.lower() == column.key), None)
        if name is None:
            hint = did_you_mean(column.text, [field.name for field in columns])
            raise NameError(f'{found.kind} {found.name} has no column "{column}"', hint=hint, place=column.place)
        return f"{found.name}.{name}"

    # Names

    def _find(self, kind: str | None, name: st.Name) -> _Found:
        """What has a name; where no kind is said, the first that has it."""
        kinds = _KINDS if kind is None else (kind.lower(),)
        for each in kinds:
            if (found := self._named(each, name)) is not None:
                return found
        known = [other for each in kinds for other in self._names(each)]
        shown = "object" if kind is None else kind.lower()
        raise NameError(f'there is no {shown} called "{name}"', hint=did_you_mean(name.text, known), place=name.place)

    def _named(self, kind: str, name: st.Name) -> _Found | None:
        match kind:
            case "query":
                query = self._queries.registry.get(name.text)
                return None if query is None else _Found(kind, query.name, query)
            case "template":
                found = next((each for each in self._queries.named if each.name.lower() == name.key), None)
                return None if found is None else _Found(kind, found.name, found)
            case "sink":
                sink = self._sinks.by_name.get(name.key)
                return None if sink is None else _Found(kind, sink.name)
            case _:
                definition = self._session.catalog.get(name.key)
                is_one = definition is not None and kind_of(definition) == kind
                return _Found(kind, definition.name, definition) if definition is not None and is_one else None

    def _names(self, kind: str) -> list[str]:
        match kind:
            case "query":
                return [query.name for query in self._queries.registry]
            case "template":
                return [template.name for template in self._queries.named]
            case "sink":
                return [sink.name for sink in [*self._sinks.by_name.values()]]
            case _:
                return [each.name for each in self._session.catalog.values() if kind_of(each) == kind]


def _columns(columns: Sequence[tuple[str, str]]) -> pa.Table:
    names, kinds = ([*part] for part in zip(*columns, strict=True)) if columns else ([], [])
    return pa.table({"column": pa.array(names, pa.string()), "type": pa.array(kinds, pa.string())})


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def _sink_text(entry: Entry) -> str:
    of_template = "template" in entry
    followed = f"TEMPLATE {_quoted(entry['template'])}" if of_template else _quoted(entry["query"])
    if "format" not in entry:
        return f'db.create_sink("{entry["shown"]}", .., deliver)  -- a Python callable for {followed}'
    options = ", ".join(f"{_quoted(key)} '{_hidden(key, value)}'" for key, value in entry["options"])
    using = f" USING {entry['format']}" + (f" OPTIONS ({options})" if options else "")
    return f"CREATE SINK {_quoted(entry['shown'])} FOR {followed}{using}"


def _hidden(key: str, value: object) -> str:
    return "***" if _SECRET.search(str(key)) else str(value).replace("'", "''")


def _without_secrets(text: str) -> str:
    """The text with *** in the place of options that are nobody's business."""
    pattern = r"([\w.`]*(?:password|secret|token|credential|private)[\w.`]*\s*=?\s*)'(?:[^']|'')*'"
    return re.sub(pattern, r"\1'***'", text, flags=re.IGNORECASE)
