"""Parses texts of statements; queries inside them are left to the dialect's query parser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from millstream.errors import Place, SyntaxError, TypeError, did_you_mean
from millstream.language import statements as st
from millstream.language.definition_parser import DefinitionParser
from millstream.language.dialect import CQL
from millstream.language.lengths import check_length, check_tokens
from millstream.language.literal_lists import moved, put_back, without, without_lists
from millstream.language.literal_rows import PlainInsert, plain_inserts
from millstream.language.nesting import room_to_nest, without_collecting
from millstream.language.refusals import STATEMENTS
from millstream.language.syntax import DefaultValue, spanned
from millstream.language.unexpected import hint_at
from millstream.names import is_text
from millstream.types import DataType

_STATEMENT_WORDS = (
    "ADVANCE", "ALTER", "COMMENT", "CREATE", "DELETE", "DESCRIBE", "DROP", "EXPLAIN", "INSERT", "REGISTER", "SELECT",
    "SET", "SHOW", "UPDATE", "WITH",
)  # fmt: skip
_DROPPABLE = ("QUERY", "TEMPLATE", "VIEW", "STREAM", "TABLE", "SINK")
_PLAN_FORMATS = ("text", "json", "dot", "svg")
_SHOWABLE = ("STREAMS", "TABLES", "VIEWS", "QUERIES", "TEMPLATES", "SINKS", "PLAN", "FUNCTIONS", "SETTINGS")


def parse(text: str) -> list[st.Statement]:
    """The statements of a text, in order."""
    check_text(text)
    plain = plain_inserts(text)
    taken = [(run[0].first_end, run[-1].end) for run in plain if run[-1].end > run[0].first_end]
    return _parsed(text, without(text, taken, " "), taken, {run[0].first_end: run for run in plain})


def parsed_insert(insert: st.Insert) -> st.Insert:
    """An INSERT whose constants were read as plain ones, with a tree for each: to say where something is wrong."""
    text, start, end = insert.place.text, insert.place.start, insert.place.end
    (found,) = _parsed(text, " " * start + text[start:end], [], {})
    if not isinstance(found, st.Insert):
        raise AssertionError("no INSERT")
    return found


def _parsed(
    text: str, kept: str, taken: list[tuple[int, int]], plain: Mapping[int, list[PlainInsert]]
) -> list[st.Statement]:
    """The statements of what was kept of a text, from which rows of plain constants were taken."""
    shortened, lists = without_lists(kept)
    check_length(text, shortened)
    try:
        with without_collecting():
            tokens = CQL().tokenize(shortened)
    except TokenError as error:
        raise SyntaxError(
            "cannot read the text",
            detail=str(error).split("\n")[0],
            hint="is a quote or a comment left open?",
        ) from None
    parser = StatementParser(dialect=CQL())
    parser.plain, parser.runs = plain, {}
    if lists or taken:
        lists = moved(lists, taken)
        put_back(tokens, sorted([*lists, *taken]))
        parser.lists = {start: (start, end) for start, end in lists}
    check_tokens(tokens, text)
    try:
        with room_to_nest(), without_collecting():
            found: list[Any] = parser._parse(_one_statement, tokens, text)
    except ParseError as error:
        raise _syntax_error(error, text, parser) from None
    except RecursionError:
        raise SyntaxError("the text is nested too deeply") from None
    return [each for one in found if one is not None for each in (one, *_alike(one, parser))]


def _alike(first: st.Statement, parser: StatementParser) -> list[st.Insert]:
    """The INSERTs behind a plain one that begin as it does, and were taken out of the text with its rows."""
    return [
        replace(first, rows=(), literals=insert.rows, place=Place(parser.sql, insert.start, insert.end))
        for insert in parser.runs.get(first.place.start, ())[1:]
        if isinstance(first, st.Insert)
    ]


def check_text(text: object) -> None:
    """Refuse what is no text, or one that cannot be written down."""
    if not isinstance(text, str):
        raise SyntaxError(f"statements are a text, not a {type(text).__name__}")
    if not is_text(text):
        raise SyntaxError("the text has a character that cannot be written", detail="one half of a surrogate pair")


def parse_query(text: str) -> exp.Query:
    """The one query that a text holds."""
    found = parse(text)
    if len(found) == 1 and isinstance(found[0], st.AdHocQuery):
        return found[0].query
    raise SyntaxError(
        "expected one query",
        detail=f"the text holds {len(found)} statements" if len(found) != 1 else "the text is another statement",
        hint="use execute() for statements",
        place=found[-1].place if found else None,
    )


def parse_type(text: str) -> DataType:
    """The type that a text such as `DECIMAL(10,2)` names."""
    parser = StatementParser(dialect=CQL())
    try:
        found = parser._parse(_one_type, CQL().tokenize(text), text)
    except (ParseError, TokenError):
        raise TypeError(f"{text!r} is not a type") from None
    if len(found) != 1 or not isinstance(found[0], DataType):
        raise TypeError(f"{text!r} is not a type")
    return found[0]


def _one_type(parser: Any) -> Any:
    return parser._type()


def _syntax_error(error: ParseError, text: str, parser: StatementParser) -> SyntaxError:
    """sqlglot's message at the token where its parser stopped, in our words."""
    message = str(error.errors[0].get("description") if error.errors else error) or "cannot read the text"
    if message.startswith("Expected table name but got"):
        message = "expected the name of a stream, table or view"
    token = parser._curr
    if not token:
        end = parser._prev.end + 1 if parser._prev else len(text)
        unfinished = message.startswith(("Invalid expression", "Required keyword"))
        return SyntaxError("the text ends too early" if unfinished else _lower(message), place=Place(text, end, end))
    place = Place(text, token.start, token.end + 1)
    if message.startswith(("Invalid expression", "Required keyword")):
        message = f'unexpected "{text[place.start : place.end]}"'
    if token.text.upper() == "IF" and "EXISTS" in (each.text.upper() for each in parser._tokens[parser._index :][:3]):
        return SyntaxError(_lower(message), place=place, hint="IF EXISTS and IF NOT EXISTS stand before the name")
    is_ours = not message.startswith(("Expecting", "unexpected"))  # which says by itself what to write
    return SyntaxError(_lower(message), place=place, hint=None if is_ours else hint_at(parser._tokens, parser._index))


def _lower(message: str) -> str:
    return message[0].lower() + message[1:] if message[1:2].islower() else message


def _one_statement(parser: Any) -> Any:
    return parser.parse_one_statement()


class StatementParser(DefinitionParser):
    """All statements of the language; anything else must be a query."""

    # The INSERTs of plain constants by where their first row ends, with those that were taken out behind them; and
    # those that were met, by where they begin.
    plain: Mapping[int, list[PlainInsert]] = MappingProxyType({})
    runs: dict[int, list[PlainInsert]]

    def parse_one_statement(self) -> st.Statement | None:
        # A semicolon with a comment behind it comes as a statement of its own.
        if not self._curr or self._match(TokenType.SEMICOLON):
            return None
        first = self._curr
        parsers: dict[str, Callable[[], st.Statement]] = {
            "CREATE": self._parse_creation,
            "ALTER": self._parse_altering,
            "COMMENT": self._parse_comment_on,
            "REGISTER": self._parse_register,
            "DROP": self._parse_dropping,
            "INSERT": self._parse_insertion,
            "DELETE": self._parse_deletion,
            "UPDATE": self._parse_updating,
            "ADVANCE": self._parse_advance,
            "SET": self._parse_setting,
            "EXPLAIN": self._parse_explain,
            "SHOW": self._parse_showing,
            "DESCRIBE": self._parse_describing,
            "DESC": self._parse_describing,
        }
        keyword = first.text.upper()
        if keyword in parsers and first.token_type != TokenType.IDENTIFIER:
            self._advance()
            self._statement_start = first.start
            return parsers[keyword]()
        if not (
            self._at_stream_operator() or first.token_type in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN)
        ):
            hint = STATEMENTS.get(keyword) or did_you_mean(first.text, _STATEMENT_WORDS)
            raise SyntaxError(
                f'no statement starts with "{first.text}"',
                place=Place(self.sql, first.start, first.end + 1),
                hint=hint,
            )
        self._statement_start = first.start
        return st.AdHocQuery(query=self._parse_cql(), **self._placed())

    def _parse_register(self) -> st.Statement:
        replaces = self._or_replace()
        self._expect("QUERY", as_in="REGISTER QUERY q AS SELECT ..")
        absent, name = self._if_new(replaces), self._name("a query")
        mode: Any = None
        if self._match_text_seq("MODE"):
            if not self._match_texts(("EAGER", "LAZY", "NONE")):
                self._refuse("MODE is EAGER, LAZY or NONE")
            mode = self._prev.text.upper()
        self._expect("AS", as_in="REGISTER QUERY q AS SELECT ..")
        begin = self._curr.start if self._curr else self._prev.end
        query = self._parse_cql()
        return st.RegisterQuery(self._placed()["place"], name, mode, query, begin, absent, replaces)

    def _parse_dropping(self) -> st.Statement:
        if not self._match_texts(_DROPPABLE):
            self._refuse("DROP takes a QUERY, TEMPLATE, VIEW, STREAM, TABLE or SINK")
        kind: Any = self._prev.text.upper()
        present = bool(self._match_text_seq("IF", "EXISTS"))
        name, cascade = self._name(f"a {kind.lower()}"), bool(self._match_text_seq("CASCADE"))
        return st.Drop(self._placed()["place"], kind, name, present, cascade)

    def _parse_at(self) -> exp.Expr | None:
        return self._constant("an instant") if self._match_text_seq("AT") else None

    def _parse_insertion(self) -> st.Statement:
        if self._match_text_seq("OR", advance=False):
            self._refuse("expected INTO: a row that is there is replaced by INSERT INTO t .. ON CONFLICT DO UPDATE")
        if not self._match_text_seq("INTO"):
            self._refuse("expected INTO, as in INSERT INTO s VALUES (1, 'a')")
        target = self._name("a stream or table")
        has_names = self._match(TokenType.L_PAREN, advance=False) and not self._at_wrapped_query()
        columns = self._names("a column") if has_names else ()
        if not self._match_text_seq("VALUES"):
            if not self._curr:
                self._refuse("expected VALUES or a query")
            # In parentheses AT cannot be taken for an alias.
            in_parentheses = self._at_wrapped_query() and self._match(TokenType.L_PAREN)
            query = self._parse_cql()
            if in_parentheses:
                self._match_r_paren()
            conflict, at = self._parse_conflict(), self._parse_at()
            return st.InsertQuery(self._placed()["place"], target, columns, query, at, conflict)
        rows = self._parse_csv(self._value_row)
        run = self.plain.get(self._prev.end + 1)
        conflict, at = self._parse_conflict(), self._parse_at()
        place = self._placed()["place"]
        if run is None:
            return st.Insert(place, target, columns, tuple(rows), at, conflict=conflict)
        self.runs[place.start] = run
        place = Place(self.sql, place.start, run[0].end if at is None and conflict is None else place.end)
        return st.Insert(place, target, columns, tuple(rows), at, run[0].rows, conflict)

    def _parse_conflict(self) -> st.Conflict | None:
        first = self._curr
        if self._match_text_seq("ON", "DUPLICATE", advance=False):
            self._refuse("write ON CONFLICT DO UPDATE SET a = EXCLUDED.a")
        if not self._match_text_seq("ON", "CONFLICT"):
            return None
        columns = self._names("a key column") if self._match(TokenType.L_PAREN, advance=False) else ()
        self._expect("DO")
        if self._match_text_seq("NOTHING"):
            return st.Conflict(Place(self.sql, first.start, self._prev.end + 1), columns, False)
        if not self._match_text_seq("UPDATE"):
            self._refuse("expected DO NOTHING or DO UPDATE [SET a = EXCLUDED.a, ..]")
        assignments = self._parse_csv(self._parse_assignment_pair) if self._match_text_seq("SET") else []
        where = self._parse_condition_clause() if assignments else None
        place = Place(self.sql, first.start, self._prev.end + 1)
        return st.Conflict(place, columns, True, tuple(assignments), where)

    def _at_wrapped_query(self) -> bool:
        if not self._match(TokenType.L_PAREN, advance=False) or self._next is None:
            return False
        return self._next.token_type in (TokenType.SELECT, TokenType.WITH)

    def _value_row(self) -> tuple[exp.Expr, ...]:
        self._match_l_paren()
        values = self._parse_csv(self._value)
        self._match_r_paren()
        return tuple(values)

    def _value(self) -> exp.Expr:
        """A constant, or DEFAULT."""
        first = self._curr
        if self._match_text_seq("DEFAULT"):
            spanned(given := DefaultValue(), first.start, first.end + 1)
            return given
        return self._constant("a value")

    def _parse_condition_clause(self) -> exp.Expr | None:
        where = self._parse_where()
        return where.this if where is not None else None

    def _parse_deletion(self) -> st.Statement:
        self._expect("FROM")
        target = self._name("a table")
        return st.Delete(target=target, where=self._parse_condition_clause(), at=self._parse_at(), **self._placed())

    def _parse_updating(self) -> st.Statement:
        target = self._name("a table")
        self._expect("SET")
        assignments = self._parse_csv(self._parse_assignment_pair)
        where = self._parse_condition_clause()
        return st.Update(
            target=target, assignments=tuple(assignments), where=where, at=self._parse_at(), **self._placed()
        )

    def _parse_assignment_pair(self) -> tuple[st.Name, exp.Expr]:
        column = self._name("a column")
        if not self._match(TokenType.EQ):
            self._refuse("expected =")
        return column, self._value()

    def _parse_advance(self) -> st.Statement:
        stream = None if self._match_text_seq("TO", advance=False) else self._name("a stream")
        self._expect("TO")
        return st.Advance(stream=stream, to=self._constant("an instant"), **self._placed())

    def _parse_setting(self) -> st.Statement:
        name = self._name("a setting", dotted=True)
        if not self._match(TokenType.EQ):
            self._refuse("expected =, as in SET range_bounds = 'half_open'")
        negative = self._match(TokenType.DASH)
        first = self._curr
        if not first or (negative and first.token_type != TokenType.NUMBER):
            self._refuse("expected a value")
        self._advance()
        value: str | int | float | bool = first.text
        if first.token_type == TokenType.NUMBER:
            digits = f"{'-' if negative else ''}{first.text}"
            value = int(digits) if first.text.isdigit() else float(digits)
        elif first.text.upper() in ("TRUE", "FALSE") and first.token_type != TokenType.STRING:
            value = first.text.upper() == "TRUE"
        stream = self._name("a stream") if self._match(TokenType.FOR) else None
        return st.SetOption(name=name, value=value, stream=stream, **self._placed())

    def _parse_explain(self) -> st.Statement:
        analyze, form = bool(self._match_text_seq("ANALYZE")), "text"
        following = self._next.text.upper() if self._next else ""
        if self._curr and self._curr.token_type == TokenType.L_PAREN and following in ("FORMAT", "ANALYZE"):
            self._advance()
            while True:
                if self._match_text_seq("ANALYZE"):
                    analyze = True
                elif self._match_text_seq("FORMAT"):
                    form = self._plan_format()
                else:
                    self._refuse("EXPLAIN takes FORMAT and ANALYZE")
                if not self._match(TokenType.COMMA):
                    break
            self._match_r_paren()
        if self._match_text_seq("QUERY"):
            name = self._name("a query")
            return st.Explain(analyze=analyze, form=form, query=None, name=name, **self._placed())
        if self._curr and self._curr.token_type == TokenType.VAR and not self._at_stream_operator():
            self._refuse("expected a query; one that is registered is EXPLAIN QUERY q")
        return st.Explain(analyze=analyze, form=form, query=self._parse_cql(), name=None, **self._placed())

    def _plan_format(self) -> str:
        if not self._curr or self._curr.text.lower() not in _PLAN_FORMATS:
            self._refuse(f"a plan's format is one of {', '.join(_PLAN_FORMATS)}")
        self._advance()
        return str(self._prev.text.lower())

    def _parse_showing(self) -> st.Statement:
        if self._match_text_seq("CREATE"):
            kind: Any = self._prev.text.upper() if self._match_texts(_DROPPABLE) else None
            name = self._name("an object" if kind is None else f"a {kind.lower()}")
            return st.ShowCreate(self._placed()["place"], kind, name)
        if not self._match_texts(_SHOWABLE):
            if self._match_texts(("COLUMNS", "TABLE", "STREAM", "VIEW"), advance=False):
                self._refuse(f"SHOW takes {', '.join(_SHOWABLE)} or CREATE; DESCRIBE s has the columns of s")
            near = did_you_mean(self._curr.text, _SHOWABLE) if self._curr else None
            listed = f"SHOW takes {', '.join(_SHOWABLE)} or CREATE"
            self._refuse(f"{listed}: {near}" if near is not None and near.startswith("did") else listed)
        what: Any = self._prev.text.upper()
        like = None
        if what in ("FUNCTIONS", "SETTINGS") and self._match_text_seq("LIKE"):
            if not self._match(TokenType.STRING):
                self._refuse("expected a pattern in quotes, as in LIKE '%date%'")
            like = self._prev.text
        return st.Show(what=what, like=like, **self._placed())

    def _parse_describing(self) -> st.Statement:
        if self._at_stream_operator() or self._match_set((TokenType.SELECT, TokenType.WITH), advance=False):
            return st.Describe(query=self._parse_cql(), kind=None, name=None, **self._placed())
        kind: Any = None
        if self._next and self._match_texts((*_DROPPABLE, "FUNCTION")):
            kind = self._prev.text.upper()
        if kind == "FUNCTION" and self._curr:
            first = self._curr
            self._advance()  # operators are functions too
            function = st.Name(first.text, Place(self.sql, first.start, first.end + 1))
            return st.Describe(self._placed()["place"], kind, function)
        name = self._name("an object" if kind is None else f"a {kind.lower()}", dotted=True)
        return st.Describe(self._placed()["place"], kind, name)
