"""Parses what declares and changes objects: CREATE, ALTER, COMMENT ON and their clauses."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from millstream.errors import Place, TypeError, did_you_mean
from millstream.language import statements as st
from millstream.language.dialect import CLAUSES, QueryParser
from millstream.language.durations import duration
from millstream.language.reading import all_read
from millstream.language.type_names import column_type

_TYPES = ("INT", "BIGINT", "DOUBLE", "FLOAT", "DECIMAL", "STRING", "BOOLEAN", "DATE", "TIMESTAMP", "BINARY", "ARRAY")
_SERIAL = "write BIGINT: there are no sequences, and each row brings its own number"


def _heartbeat(clauses: dict[str, Any]) -> st.Heartbeat:
    kind, delay = clauses.get("HEARTBEAT", ("ASCENDING", None))
    return st.Heartbeat(kind, delay, clauses.get("IDLE"))


def _as_name(token: Any) -> str:
    """How what stands in the place of a name would be one."""
    word = token.text if token else ""
    if not word.isidentifier():
        return ""
    if token.token_type == TokenType.STRING:
        return f": quotes make a text; as a name it is {word}, or `{word}`"
    return f": {word} is a word of the language, as a name it is `{word}`"


class DefinitionParser(QueryParser):
    """The parts of statements, and the statements that declare something."""

    _statement_start: int

    def _placed(self) -> dict[str, Place]:
        return {"place": Place(self.sql, self._statement_start, self._prev.end + 1)}

    def _parse_cql(self) -> exp.Query:
        query = self._parse_statement()
        if isinstance(query, exp.Query):
            return query
        self._refuse("expected a query")

    def _expect(self, *words: str, as_in: str = "") -> None:
        for word in words:
            if not self._match_text_seq(word):
                self._refuse(f"expected {word}, as in {as_in}" if as_in else f"expected {word}")

    def _name(self, what: str, *, dotted: bool = False) -> st.Name:
        first = self._curr
        identifier = self._parse_id_var(any_token=False)
        if identifier is None:
            self._refuse(f"expected the name of {what}{_as_name(first)}")
        text = identifier.name
        while dotted and self._match(TokenType.DOT):
            text += f".{self._name(what).text}"
        return st.Name(text, Place(self.sql, first.start, self._prev.end + 1))

    def _names(self, what: str) -> tuple[st.Name, ...]:
        self._match_l_paren()
        names = self._parse_csv(lambda: self._name(what))
        self._match_r_paren()
        return tuple(names)

    def _type(self) -> Any:
        first = self._curr
        kind = self._parse_types(check_func=False, schema=True)
        place = Place(self.sql, first.start, self._prev.end + 1)
        if not isinstance(kind, exp.DataType):
            place = Place(self.sql, first.start, first.end + 1) if first else place
            hint = _SERIAL if first.text.upper().endswith("SERIAL") else did_you_mean(first.text, _TYPES)
            raise TypeError(f'unknown type "{first.text}"', hint=hint, place=place)
        with all_read(kind, self.sql):
            return column_type(kind, place)

    def _column_list(self) -> st.ColumnList:
        """Columns with what is asked of them, and PRIMARY KEY (..) among them."""
        if self._match_text_seq("AS", advance=False):
            self._refuse("what is made of others is a view: CREATE VIEW v AS SELECT ..")
        if not self._match(TokenType.L_PAREN):
            self._refuse("expected columns in parentheses, as in (a INT, b STRING)")
        columns: list[st.ColumnDefinition] = []
        keys: list[tuple[st.Name, ...]] = []
        declared_only = False
        while True:
            if self._curr and self._curr.text.upper() in ("UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"):
                self._refuse_constraint()
            if self._match_text_seq("WATERMARK", "FOR", advance=False):
                self._refuse("WATERMARK is not supported: write TIMESTAMP BY ts HEARTBEAT DELAY INTERVAL '5' SECOND")
            if self._next and self._next.token_type == TokenType.L_PAREN and self._match_text_seq("KEY", advance=False):
                self._refuse("KEY stands behind the columns: CREATE TABLE t (a INT, b INT) KEY (a)")
            if self._match(TokenType.PRIMARY_KEY) or self._match_text_seq("PRIMARY", "KEY"):
                keys.append(self._names("a key column"))
                declared_only = self._is_not_enforced() or declared_only
            else:
                columns.append(self._column_definition())
                keys += [(columns[-1].name,)] if columns[-1].is_key else []
                declared_only = (columns[-1].is_key and self._is_not_enforced()) or declared_only
            if not self._match(TokenType.COMMA):
                break
        if len(keys) > 1:
            self._refuse("there is one PRIMARY KEY: write PRIMARY KEY (a, b) for several columns")
        self._match_r_paren()
        if not columns:
            self._refuse("expected the name of a column")
        return st.ColumnList(tuple(columns), keys[0] if keys else (), declared_only)

    def _refuse_constraint(self) -> None:
        word = self._curr.text.upper()
        names = {"UNIQUE": "write KEY (a, b) behind the columns", "FOREIGN": "leave it out: a join finds the partner"}
        instead = names.get(word, "leave it out, and choose in queries: WHERE ..")
        self._refuse(f"{word} is not supported in a list of columns: {instead}")

    def _column_definition(self) -> st.ColumnDefinition:
        name = self._name("a column")
        if not self._curr or self._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            self._refuse(f"expected the type of column {name}, as in {name} INT")
        kind = self._type()
        not_null, is_key, default = False, False, None
        while True:
            if self._match_text_seq("NOT", "NULL"):
                not_null = True
            elif self._match(TokenType.PRIMARY_KEY) or self._match_text_seq("PRIMARY", "KEY"):
                is_key = True
            elif self._match_text_seq("DEFAULT"):
                if default is not None:
                    self._refuse("DEFAULT stands twice")
                # By itself: NOT NULL behind it is not part of it.
                default = self._parse_bitwise()
                if default is None:
                    self._refuse("expected the value of DEFAULT")
            elif self._curr and self._curr.text.upper() in ("UNIQUE", "CHECK", "REFERENCES", "GENERATED", "CONSTRAINT"):
                self._refuse_constraint()
            elif not self._match_text_seq("NULL"):
                break
        return st.ColumnDefinition(name, kind, not_null, default, is_key)

    def _is_not_enforced(self) -> bool:
        if self._match_text_seq("NOT", "ENFORCED"):
            return True
        self._match_text_seq("ENFORCED")
        return False

    def _duration(self, keyword: str) -> st.Duration:
        return duration(self._parse_size(keyword), self.sql)

    def _constant(self, what: str) -> exp.Expr:
        value = self._parse_disjunction()
        if value is None:
            self._refuse(f"expected {what}")
        return value

    def _parse_creation(self) -> st.Statement:
        replaces = self._or_replace()
        if self._curr and self._curr.text.upper() in ("STREAM", "TABLE"):
            word = self._curr.text.upper()
            if replaces:
                self._refuse(f"OR REPLACE would lose what the {word.lower()} has: use IF NOT EXISTS, ALTER or DROP")
            self._advance()
            return self._parse_create_stream() if word == "STREAM" else self._parse_create_table()
        if self._match_text_seq("MATERIALIZED", advance=False):
            self._refuse("leave MATERIALIZED out: CREATE VIEW, or REGISTER QUERY, which keeps its answer ready")
        if self._match_text_seq("VIEW"):
            return self._parse_create_view(replaces)
        if self._match_text_seq("SINK"):
            return self._parse_create_sink(replaces)
        if self._match_text_seq("QUERY", advance=False):
            self._refuse("a query is registered: REGISTER QUERY q AS SELECT ..")
        if self._match_texts(("FUNCTION", "AGGREGATE", "WINDOW"), advance=False):
            word = self._curr.text.lower()
            self._refuse(f"a {word} is made in Python: db.create_{word}(name, ..)")
        if self._match_texts(("DATABASE", "SCHEMA", "INDEX"), advance=False):
            self._refuse(f"there is no {self._curr.text.upper()} to make: CREATE makes a STREAM, TABLE, VIEW or SINK")
        known = did_you_mean(self._curr.text, ("STREAM", "TABLE", "VIEW", "SINK")) if self._curr else None
        near = f": {known}" if known and known.startswith("did") else ""
        self._refuse(f"CREATE makes a STREAM, TABLE, VIEW or SINK{near}")

    def _or_replace(self) -> bool:
        return bool(self._match_text_seq("OR", "REPLACE"))

    def _if_not_exists(self) -> bool:
        return bool(self._match_text_seq("IF", "NOT", "EXISTS"))

    def _if_new(self, replaces: bool) -> bool:
        absent = self._if_not_exists()
        if absent and replaces:
            self._refuse("OR REPLACE and IF NOT EXISTS do not go together: leave one of them out")
        return absent

    def _parse_create_view(self, replaces: bool) -> st.Statement:
        absent = self._if_new(replaces)
        name = self._name("a view")
        columns = self._names("a column") if self._match(TokenType.L_PAREN, advance=False) else ()
        self._expect("AS", as_in="CREATE VIEW v AS SELECT ..")
        query = self._parse_cql()
        return st.CreateView(self._placed()["place"], name, columns, query, absent, replaces)

    def _parse_create_sink(self, replaces: bool) -> st.Statement:
        absent, name = self._if_new(replaces), self._name("a sink")
        self._expect("FOR", as_in="CREATE SINK s FOR q USING parquet OPTIONS (path 'out')")
        # A query may be called so.
        is_template = self._next is not None and self._next.text.upper() != "USING"
        is_template = is_template and bool(self._match_text_seq("TEMPLATE"))
        query = self._name("a template" if is_template else "a query")
        target = self._parse_external()
        if target is None:
            self._refuse("expected USING <format>")
        placed = self._placed()
        return st.CreateSink(placed["place"], name, query, target, is_template, absent, replaces)

    def _parse_create_stream(self) -> st.Statement:
        absent, name, listed = self._if_not_exists(), self._name("a stream"), self._column_list()
        if listed.key:
            self._refuse("elements of a stream have no key: leave PRIMARY KEY out, or CREATE TABLE .. CHANGES BY")
        if not (self._curr and self._curr.text.upper() == "TIMESTAMP"):
            self._refuse_options()
            self._refuse("expected TIMESTAMP BY and the column that says when, as in TIMESTAMP BY ts")
        self._expect("TIMESTAMP", "BY")
        timestamp = self._parse_timestamp_column()
        clauses = self._parse_clauses(("TICK", "HEARTBEAT", "IDLE", "RETAIN", "USING"))
        return st.CreateStream(
            name=name,
            columns=listed.columns,
            timestamp=timestamp,
            tick=clauses.get("TICK"),
            heartbeat=_heartbeat(clauses),
            retain=clauses.get("RETAIN"),
            retain_forever="RETAIN" in clauses and clauses["RETAIN"] is None,
            source=clauses.get("USING"),
            if_not_exists=absent,
            **self._placed(),
        )

    def _refuse_options(self) -> None:
        if self._match_text_seq("WITH", advance=False):
            self._refuse("WITH (..) is not supported: write TIMESTAMP BY ts USING json OPTIONS (path 'in')")

    def _parse_create_table(self) -> st.Statement:
        absent, name, listed = self._if_not_exists(), self._name("a table"), self._column_list()
        key, not_enforced = listed.key, listed.is_declared_only
        is_primary = bool(key) or self._match(TokenType.PRIMARY_KEY, advance=False)
        if self._match(TokenType.PRIMARY_KEY) or self._match_text_seq("KEY"):
            if key:
                self._refuse("the key stands among the columns already")
            key, not_enforced = self._names("a key column"), self._is_not_enforced()
        nature: Any = ""
        if self._match_text_seq("NON", "RETROACTIVE"):
            nature = "NON RETROACTIVE"
        elif self._match_text_seq("APPEND", "ONLY"):
            nature = "APPEND ONLY"
        elif self._match_text_seq("STATIC"):
            nature = "STATIC"
        changes_by, timestamp = None, None
        clauses: tuple[str, ...] = ("USING",)
        if self._match_text_seq("CHANGES", "BY"):
            if nature == "STATIC":
                self._refuse("a STATIC table never changes: leave STATIC or CHANGES BY out")
            changes_by = self._name("the column that says what a row changes")
            self._expect("TIMESTAMP", "BY")
            timestamp = self._parse_timestamp_column()
            clauses = ("TICK", "HEARTBEAT", "IDLE", "USING")
        found = self._parse_clauses(clauses)
        return st.CreateTable(
            name=name,
            columns=listed.columns,
            key=key,
            nature=nature,
            changes_by=changes_by,
            timestamp=timestamp,
            tick=found.get("TICK"),
            heartbeat=_heartbeat(found),
            source=found.get("USING"),
            if_not_exists=absent,
            not_enforced=not_enforced,
            is_primary=bool(is_primary),
            **self._placed(),
        )

    def _parse_altering(self) -> st.Statement:
        if not self._match_texts(("STREAM", "TABLE")):
            self._refuse(
                "ALTER changes a STREAM or TABLE; a view, query or sink is replaced: CREATE OR REPLACE VIEW .."
            )
        kind: Any = self._prev.text.upper()
        name = self._name(f"a {kind.lower()}")
        if self._match_text_seq("ADD"):
            self._match_text_seq("COLUMN")
            absent, column = self._if_not_exists(), self._column_definition()
            if column.is_key:
                self._refuse("a column that is added later cannot be the key")
            return st.AddColumn(self._placed()["place"], kind, name, column, absent)
        if self._match_text_seq("RENAME"):
            column_name = None
            if not self._match_text_seq("TO", advance=False):
                self._match_text_seq("COLUMN")
                column_name = self._name("a column")
            self._expect("TO")
            to = self._name("a new name")
            return st.Rename(self._placed()["place"], kind, name, column_name, to)
        if self._match_text_seq("SET", "RETAIN"):
            if kind == "TABLE":
                self._refuse("RETAIN belongs to streams: tables keep all their changes")
            retain = None if self._match_text_seq("FOREVER") else self._duration("RETAIN")
            return st.SetRetain(self._placed()["place"], name, retain)
        self._refuse(
            f"ALTER {kind} takes ADD COLUMN c type, RENAME [COLUMN a] TO b"
            + (" or SET RETAIN" if kind == "STREAM" else "")
        )

    def _parse_comment_on(self) -> st.Statement:
        self._expect("ON")
        if not self._match_texts(("QUERY", "TEMPLATE", "VIEW", "STREAM", "TABLE", "SINK", "COLUMN")):
            self._refuse("COMMENT ON takes a QUERY, TEMPLATE, VIEW, STREAM, TABLE, SINK or COLUMN")
        kind: Any = self._prev.text.upper()
        name, column = self._name(f"a {kind.lower()}"), None
        if kind == "COLUMN":
            if not self._match(TokenType.DOT):
                self._refuse("expected a column with its owner, as in COMMENT ON COLUMN s.a IS 'text'")
            column = self._name("a column")
        self._expect("IS")
        if self._match(TokenType.STRING):
            text: str | None = self._prev.text
        elif self._match(TokenType.NULL):
            text = None
        else:
            self._refuse("expected a text in quotes, or NULL to take the comment away")
        return st.Comment(self._placed()["place"], kind, name, column, text)

    def _parse_timestamp_column(self) -> st.TimestampColumn:
        name = self._name("the timestamp column")
        ends = not self._curr or self._curr.text.upper() in CLAUSES
        return st.TimestampColumn(name, None if ends else self._type())

    def _parse_clauses(self, allowed: Collection[str]) -> dict[str, Any]:
        """What stands behind the columns, in any order, each clause at most once."""
        parsers: dict[str, Callable[[], object]] = {
            "TICK": lambda: self._duration("TICK"),
            "HEARTBEAT": self._parse_heartbeat,
            "IDLE": self._parse_idle,
            "RETAIN": lambda: None if self._match_text_seq("FOREVER") else self._duration("RETAIN"),
            "USING": self._parse_external,
        }
        found: dict[str, Any] = {}
        while (word := self._curr.text.upper() if self._curr else "") in allowed:
            if word in found:
                self._refuse(f"{word} stands twice")
            if word != "USING":
                self._advance()
            found[word] = parsers[word]()
        return found

    def _parse_heartbeat(self) -> tuple[Any, st.Duration | None]:
        if not self._match_texts(("ASCENDING", "DELAY", "CLOCK", "EXPLICIT")):
            self._refuse("HEARTBEAT is ASCENDING, DELAY d, CLOCK, CLOCK DELAY d or EXPLICIT")
        kind = self._prev.text.upper()
        if kind == "CLOCK" and self._match_text_seq("DELAY"):
            kind = "CLOCK DELAY"
        return kind, self._duration("DELAY") if kind.endswith("DELAY") else None

    def _parse_idle(self) -> st.Duration:
        self._expect("AFTER")
        return self._duration("IDLE AFTER")

    def _parse_external(self) -> st.UsingClause | None:
        if not self._match_text_seq("USING"):
            return None
        start = self._prev.start
        source_format = self._name("a format", dotted=True).text
        options: list[tuple[str, str]] = []
        if self._match_text_seq("OPTIONS"):
            self._match_l_paren()
            given: set[str] = set()
            options = self._parse_csv(lambda: self._parse_option(given))
            self._match_r_paren()
        return st.UsingClause(source_format, tuple(options), Place(self.sql, start, self._prev.end + 1))

    def _parse_option(self, given: set[str]) -> tuple[str, str]:
        name = self._prev.text if self._match(TokenType.STRING) else self._name("an option", dotted=True).text
        if name.lower() in given:
            self._refuse(f"the option {name} stands twice")
        given.add(name.lower())
        self._match(TokenType.EQ)
        if not (self._match_set((TokenType.STRING, TokenType.NUMBER)) or self._match_texts(("TRUE", "FALSE"))):
            self._refuse(f"expected a value for the option {name}")
        return name, self._prev.text
