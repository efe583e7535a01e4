"""CQL as a sqlglot dialect on top of its Spark dialect.

What it adds to queries: windows and SAMPLE after any table, view or subquery in FROM, and the relation-to-stream
operators around a select list or a whole query. What it changes: functions keep the names that users wrote (the
binder, not sqlglot, knows them). Statements are in `statement_parser`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from millstream.errors import did_you_mean
from millstream.language.literal_lists import list_node
from millstream.language.syntax import (
    SAMPLE,
    SOURCE_START,
    SOURCE_TEXT,
    STREAM_OPERATORS,
    WINDOW,
    Instant,
    LiteralList,
    StreamOperator,
    StreamSample,
    StreamWindow,
    spanned,
)

_KEPT_FUNCTION_PARSERS = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "SUBSTR", "TRIM")

# The clauses of a CREATE statement that may follow a timestamp column, or a number without a unit.
CLAUSES = ("TICK", "HEARTBEAT", "IDLE", "RETAIN", "USING")
_WINDOWS = ("NOW", "RANGE", "ROWS", "PARTITION BY", "TUMBLE", "HOP", "SESSION", "BEGIN")
TABLE_FUNCTIONS = {"TUMBLE": 1, "HOP": 2, "SESSION": 1}  # of Flink, and how many sizes they take
_AFTER_SIZES = ("SLIDE", "END", "COMPLETE", "PARTITION", "PARTITION BY", *CLAUSES)


_NO_ALIASES = {TokenType.BEGIN, TokenType.ASOF, TokenType.MATCH_CONDITION}


class QueryParser(SparkParser):
    """Parses CQL queries."""

    # An empty table makes every call `exp.Anonymous` under the name that the user wrote.
    FUNCTIONS: ClassVar[Any] = {}
    FUNCTION_PARSERS: ClassVar[Any] = {
        name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in _KEPT_FUNCTION_PARSERS
    }
    NO_PAREN_FUNCTIONS: ClassVar[Any] = {}
    ARRAY_CONSTRUCTORS: ClassVar[Any] = {}  # else array(1, 2)[0] loses its elements
    STRICT_CAST: ClassVar[bool] = True
    # BEGIN closes a FROM list (PSoup's window for all its streams), so it cannot be an alias without AS.
    TABLE_ALIAS_TOKENS: ClassVar[Any] = SparkParser.TABLE_ALIAS_TOKENS - _NO_ALIASES

    # Where long lists of constants begin that one token stands for, and the spans of the text that they are.
    lists: Mapping[int, tuple[int, int]] = MappingProxyType({})

    def _refuse(self, message: str) -> NoReturn:
        """Stop at the current token."""
        self.raise_error(message)
        raise AssertionError("the parser raises at once")

    def _parse_types(self, check_func: bool = False, schema: bool = False, *args: Any, **kwargs: Any) -> Any:
        # As for a column: else sqlglot drops the length of VARCHAR(n), as Spark does in CAST, and nobody could tell.
        if check_func and self._match_text_seq("ARRAY", advance=False) and self._next.token_type == TokenType.L_PAREN:
            return None  # a list, whose first value may be NULL, which is a type too
        start = self._index
        found = super()._parse_types(check_func, True, *args, **kwargs)
        brackets = [token.token_type for token in self._tokens[start : self._index]] if found is not None else []
        if brackets.count(TokenType.L_BRACKET) != brackets.count(TokenType.R_BRACKET):
            self._refuse("expected ] at the end of a type")
        return found

    def _parse_pipe_syntax_query(self, query: Any) -> NoReturn:
        # sqlglot would put the conditions into the query itself, where names mean something else.
        self._refuse("queries are not written with |>: use a subquery")

    def _parse_csv(self, parse_method: Any, sep: Any = TokenType.COMMA) -> Any:
        """sqlglot passes over what is missing between commas."""
        first = self._match(sep, advance=False)

        def parse_item() -> Any:
            item = parse_method()
            if item is None and (first or self._prev.token_type == sep):
                self._refuse(f'unexpected "{self._curr.text}"' if self._curr else "the text ends too early")
            return item

        return super()._parse_csv(parse_item, sep)

    def _parse_group(self, skip_group_by_token: bool = False) -> Any:
        """GROUP BY ALL may be followed by BEGIN .. END, which is no column."""
        ahead = self._tokens[self._index : self._index + 3]
        if [token.token_type for token in ahead] == [TokenType.GROUP_BY, TokenType.ALL, TokenType.BEGIN]:
            self._advance(2)
            return exp.Group(all=True)
        return super()._parse_group(skip_group_by_token)

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        comma = self._match(TokenType.COMMA, advance=False)
        join = super()._parse_join(*args, **kwargs)
        if comma and join is None:
            self._refuse("expected a stream, table or subquery after the comma")
        return join

    def _parse_join_parts(self) -> Any:
        method, side, kind = super()._parse_join_parts()
        if method is None and kind is None and self._match(TokenType.ASOF):  # LEFT ASOF JOIN
            method = self._prev
        return method, side, kind

    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        if not self._at_table_function():
            return super()._parse_table(*args, **kwargs)
        table = self._parse_table_function()
        if alias := self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS):
            table.set("alias", alias)
        if kwargs.get("joins"):
            for join in self._parse_joins():
                table.append("joins", join)
        return table

    def _at_table_function(self) -> bool:
        return self._curr.text.upper() == "TABLE" and self._next.token_type == TokenType.L_PAREN

    def _parse_table_function(self) -> exp.Table:
        """Flink's `TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), size))`, with HOP and SESSION: a stream and its window."""
        start = self._curr.start
        self._advance(2)
        kind = self._curr.text.upper()
        if kind not in TABLE_FUNCTIONS:
            self._refuse("expected TUMBLE, HOP or SESSION, as in TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), ..))")
        self._advance()
        self._match_l_paren()
        if not self._match_text_seq("TABLE"):
            self._refuse(f"expected TABLE and a stream, as in {kind}(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE)")
        table = super()._parse_table_parts()
        if not isinstance(table, exp.Table):
            self._refuse("expected the name of a stream")
        window = StreamWindow(kind=kind, complete=kind == "SESSION")
        if self._match_partition_by():
            window.set("partition", self._parse_columns_of_partition())
        self._expect_comma()
        window.set("descriptor", self._parse_descriptor())
        sizes = []
        while self._match(TokenType.COMMA):
            sizes.append(self._parse_size(kind))
        if len(sizes) != TABLE_FUNCTIONS[kind]:
            self._refuse(f"{kind} takes {'its slide and its size' if kind == 'HOP' else 'one size'}")
        window.set("size", sizes[-1])
        if kind == "HOP":
            window.set("slide", sizes[0])
        self._match_r_paren()
        self._match_r_paren()
        spanned(window, start, self._prev.end + 1)
        table.set(WINDOW, window)
        return table

    def _parse_descriptor(self) -> exp.Expr:
        if not self._match_text_seq("DESCRIPTOR"):
            self._refuse("expected DESCRIPTOR(..) with the stream's timestamp")
        self._match_l_paren()
        column = self._parse_column()
        if column is None:
            self._refuse("expected the stream's timestamp")
        self._match_r_paren()
        return column

    def _parse_columns_of_partition(self) -> list[Any]:
        """Up to the comma before DESCRIPTOR."""
        columns = [self._parse_column()]
        while self._match(TokenType.COMMA, advance=False) and self._next.text.upper() != "DESCRIPTOR":
            self._advance()
            columns.append(self._parse_column())
        return columns

    def _expect_comma(self) -> None:
        if not self._match(TokenType.COMMA):
            self._refuse("expected a comma")

    def _match_set(self, types: Any, advance: bool = True) -> Any:
        if types is self.QUERY_MODIFIER_TOKENS and self._at_window_function():
            return None  # Spark's GROUP BY window(ts, '10 minutes') is no WINDOW clause
        return super()._match_set(types, advance)

    def _at_window_function(self) -> bool:
        return self._curr.token_type == TokenType.WINDOW and self._next.token_type == TokenType.L_PAREN

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
        if self._match(TokenType.DOT, advance=False):
            self._refuse('unexpected "."')
        table = super()._parse_table_parts(*args, **kwargs)
        return self._parse_reading(table) if isinstance(table, exp.Table) else table

    def _parse_value(self, values: bool = True) -> Any:
        # sqlglot takes the alias behind the last of `VALUES 1, 2 AS v` for one of the value.
        if self._match(TokenType.L_PAREN, advance=False):
            return super()._parse_value(values)
        value = self._parse_disjunction()
        return None if value is None else exp.Tuple(expressions=[value])

    def _parse_wrapped_select(self, table: bool = False) -> Any:
        """What parentheses hold. Where `(VALUES ..)` is the first of a join, it is a subquery, as `(SELECT ..)` is."""
        this = super()._parse_wrapped_select(table)
        if isinstance(this, exp.Table) and isinstance(this.this, exp.Values):  # which has an alias
            return exp.Subquery(**this.args)
        if isinstance(this, exp.Values) and (joins := this.args.pop("joins", None)):
            return exp.Subquery(this=this, joins=joins)
        return this

    def _parse_subquery(self, this: Any, parse_alias: bool = True) -> Any:
        if not this:
            return None
        # `(ISTREAM(..)) [w]` comes with parentheses of its own: one pair is enough.
        while isinstance(this, exp.Subquery) and isinstance(this.this, exp.Query) and _is_bare(this):
            this = this.this
        reading = self._parse_reading(exp.Subquery(this=exp.Null()))
        subquery = super()._parse_subquery(this, parse_alias=parse_alias)
        if subquery is None:
            return None
        for argument in (SAMPLE, WINDOW):
            subquery.set(argument, reading.args.get(argument))
        return subquery

    def _parse_reading(self, item: exp.Expr) -> exp.Expr:
        """How a FROM item is read: `[SAMPLE (p PERCENT)] [window]`, both optional."""
        if self._curr.text.upper() == "SAMPLE" and self._next.token_type == TokenType.L_PAREN:
            item.set(SAMPLE, self._parse_stream_sample())
        if self._match(TokenType.L_BRACKET, advance=False):
            item.set(WINDOW, self._parse_stream_window())
        if self._match_set((TokenType.STAR, TokenType.STRING), advance=False):
            self._refuse(f'unexpected "{self._curr.text}"')  # sqlglot takes them for a wildcard and a name
        if self._curr.text.upper() == "MATCH_RECOGNIZE" and self._next.token_type == TokenType.L_PAREN:
            self._refuse(
                "MATCH_RECOGNIZE is not supported: join the stream with itself, "
                "as in FROM s [RANGE 1 MINUTE] AS a, s [NOW] AS b WHERE a.k = b.k AND b.t > a.t"
            )
        if self._curr.text.upper() in ("PIVOT", "UNPIVOT") and self._next.token_type == TokenType.L_PAREN:
            self._refuse(f"{self._curr.text.upper()} is not supported: write sum(v) FILTER (WHERE k = 1) AS one, ..")
        if self._curr.text.upper() == "FINAL" and self._curr.token_type != TokenType.IDENTIFIER:
            self._refuse("FINAL is not supported; as a name it needs AS")
        return item

    def _parse_stream_sample(self) -> StreamSample:
        start = self._curr.start
        self._advance(2)
        percent = self._parse_number()
        if percent is None:
            self._refuse("SAMPLE takes a percentage, as in SAMPLE (10 PERCENT)")
        if not self._match_text_seq("PERCENT"):
            self._refuse("expected PERCENT, as in SAMPLE (10 PERCENT)")
        self._match_r_paren()
        sample = StreamSample(this=percent)
        spanned(sample, start, self._prev.end + 1)
        return sample

    def _parse_stream_window(self) -> StreamWindow:
        start = self._curr.start
        self._advance()
        window = self._parse_begin_end() if self._match_text_seq("BEGIN") else self._parse_sliding_window()
        if not self._match(TokenType.R_BRACKET):
            found = f', not "{self._curr.text}"' if self._curr.text else ""
            self._refuse(f"expected ] at the end of the window{found}")
        spanned(window, start, self._prev.end + 1)
        return window

    def _parse_sliding_window(self) -> StreamWindow:
        partition: list[Any] | None = None
        if self._match_partition_by():
            partition = self._parse_csv(self._parse_column)
            self._match(TokenType.COMMA)
        size: Any = None
        if self._match_text_seq("NOW"):
            kind = "NOW"
        elif self._match_texts(("RANGE", "ROWS", "TUMBLE", "HOP", "SESSION")):
            kind = self._prev.text.upper()
            size = exp.Var(this="UNBOUNDED") if self._match_text_seq("UNBOUNDED") else self._parse_size(kind)
        elif self._next.token_type == TokenType.R_BRACKET and self._match_set(self.ID_VAR_TOKENS):
            return StreamWindow(kind="USER", name=exp.to_identifier(self._prev.text))
        else:
            near = did_you_mean(self._curr.text, _WINDOWS) if self._curr else None
            self._refuse(
                "a window is [NOW], [RANGE ..], [ROWS ..], [PARTITION BY .. ROWS ..], [TUMBLE ..], "
                "[HOP .. SLIDE ..], [SESSION ..], [RANGE .. ON c] or [BEGIN .. END ..]"
                + (f": {near}" if near is not None and near.startswith("did") else "")
            )
        if kind == "RANGE" and self._match(TokenType.ON):
            return StreamWindow(kind="RANGE ON", size=size, column=self._parse_column(), partition=partition)
        slide = self._parse_size("SLIDE") if self._match_text_seq("SLIDE") else None
        complete = kind == "SESSION" and bool(self._match_text_seq("COMPLETE"))
        if kind == "SESSION" and partition is None and self._match_partition_by():
            partition = self._parse_csv(self._parse_column)
        return StreamWindow(kind=kind, size=size, slide=slide, partition=partition, complete=complete)

    def _match_partition_by(self) -> bool:
        return bool(self._match_text_seq("PARTITION", "BY") or self._match(TokenType.PARTITION_BY))

    def _parse_size(self, keyword: str) -> exp.Expr:
        """A number of ticks or rows, `30 SECONDS`, or an INTERVAL."""
        if self._match(TokenType.INTERVAL, advance=False):
            interval = self._parse_interval()
            if not isinstance(interval, exp.Interval):
                self._refuse(f"{keyword} takes one interval, as in INTERVAL '1' HOUR")
            return interval
        token = self._curr
        number = self._parse_count(keyword)
        spanned(number, token.start, self._prev.end + 1)
        if self._match_set(self.ID_VAR_TOKENS, advance=False) and self._curr.text.upper() not in _AFTER_SIZES:
            interval = exp.Interval(this=number, unit=exp.Var(this=self._curr.text.upper()))
            self._advance()
            spanned(interval, token.start, self._prev.end + 1)
            return interval
        return number

    def _parse_count(self, keyword: str) -> exp.Expr:
        """A number, or the parameter of a template in its place."""
        if self._match(TokenType.PLACEHOLDER):
            return exp.Placeholder()
        negative = self._match(TokenType.DASH)
        digits = self._curr.text
        if not self._match(TokenType.NUMBER):
            self._refuse(f"{keyword} takes a number or an interval, as in 30 SECONDS")
        # The CQL paper writes `Rows 50,000`.
        while self._curr.token_type == TokenType.COMMA and _is_group_of_three(self._next):
            digits += self._next.text
            self._advance(2)
        return exp.Literal(this=("-" if negative else "") + digits, is_string=False)

    def _parse_begin_end(self) -> StreamWindow:
        begin = self._parse_instant()
        if not self._match(TokenType.END):
            self._refuse("expected END, as in BEGIN NOW - 10 END NOW")
        return StreamWindow(kind="BEGIN", begin=begin, end=self._parse_instant())

    def _parse_instant(self) -> Instant:
        if self._match_text_seq("NOW"):
            offset = self._parse_size("NOW -") if self._match(TokenType.DASH) else None
            return Instant(now=True, offset=offset)
        at = self._parse_unary()
        if at is None:
            self._refuse("expected NOW, NOW - interval, or an instant")
        return Instant(now=False, at=at)

    def _parse_query_modifiers(self, this: Any) -> Any:
        query = super()._parse_query_modifiers(this)
        if isinstance(query, exp.Select) and self._match(TokenType.BEGIN, advance=False):
            start = self._curr.start
            self._advance()
            window = self._parse_begin_end()
            spanned(window, start, self._prev.end + 1)
            query.set(WINDOW, window)
        return query

    def _parse_unary(self) -> Any:
        """An operand, with its span noted: sqlglot itself notes only those of names."""
        first = self._curr
        operand = super()._parse_unary()
        if operand is not None and first:
            spanned(operand, first.start, self._prev.end + 1)
        return operand

    def _parse_function(self, *args: Any, **kwargs: Any) -> Any:
        if self._at_window_function():
            self._advance(2)
            call = exp.Anonymous(this="window", expressions=self._parse_csv(self._parse_disjunction))
            self._match_r_paren()
            return call
        # sqlglot takes EXISTS for a function where a parenthesis or an operator begins its query.
        if self._match_pair(TokenType.EXISTS, TokenType.L_PAREN):
            query = self._parse_statement()
            self._match_r_paren()
            return exp.Exists(this=query)
        return super()._parse_function(*args, **kwargs)

    def _parse_in(self, this: Any, alias: bool = False) -> Any:
        place = self.lists.get(self._next.start) if self._match(TokenType.L_PAREN, advance=False) else None
        if place is None:
            return super()._parse_in(this, alias=alias)
        self._advance(2)
        self._match_r_paren()
        return exp.In(this=this, expressions=[list_node(self.sql, *place)])

    def _parse_select_or_expression(self, alias: bool = False) -> Any:
        return self._parse_select() if self._at_stream_operator() else super()._parse_select_or_expression(alias=alias)

    def _at_stream_operator(self) -> bool:
        return self._curr.text.upper() in STREAM_OPERATORS and self._next.token_type == TokenType.L_PAREN

    def _parse_projections(self) -> Any:
        if self._curr.text.upper() == "TOP" and self._next.token_type == TokenType.NUMBER:
            self._refuse(f"TOP is not supported: write ORDER BY .. LIMIT {self._next.text} at the end")
        if not self._at_stream_operator():
            return super()._parse_projections()
        operator = self._curr
        self._advance(2)
        distinct = self._match(TokenType.DISTINCT)
        expressions = self._parse_expressions()
        self._match_r_paren()
        node = StreamOperator(this=operator.text.upper(), expressions=expressions, distinct=distinct)
        spanned(node, operator.start, operator.end + 1)
        node.set("every", self._parse_every())
        if self._match(TokenType.COMMA, advance=False):
            self._refuse(f"{node.this} stands around the whole select list, as in SELECT {node.this}(a, b)")
        return [node], None

    def _parse_every(self) -> exp.Expr | None:
        return self._parse_size("EVERY") if self._match_text_seq("EVERY") else None

    def _parse_expressions(self) -> Any:
        return self._parse_csv(self._parse_select_item)

    def _parse_select_item(self) -> Any:
        first = self._curr
        item = self._parse_expression()
        if item is not None and not isinstance(item, exp.Alias):
            item.meta[SOURCE_TEXT], item.meta[SOURCE_START] = self.sql[first.start : self._prev.end + 1], first.start
        return item

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> Any:
        if not self._at_stream_operator():
            return super()._parse_select_query(*args, **kwargs)
        operator = self._curr
        self._advance(2)
        query = self._parse_select(nested=True, parse_set_operation=False)
        query = self._parse_query_modifiers(self._parse_set_operations(query))
        if query is None:
            self._refuse(f"{operator.text.upper()} around a query takes a SELECT")
        self._match_r_paren()
        stream = StreamOperator(
            this=operator.text.upper(), expressions=[exp.Star()], whole=True, every=self._parse_every()
        )
        spanned(stream, operator.start, operator.end + 1)
        if not isinstance(query, exp.Subquery):
            query = exp.Subquery(this=query)
        select = exp.Select(expressions=[stream], from_=exp.From(this=query))
        return self._parse_subquery(select) if kwargs.get("table") else self._parse_set_operations(select)

    def _parse_statement(self) -> Any:
        """A query (sqlglot also calls this for what follows WITH)."""
        if self._match(TokenType.VALUES, advance=False):
            return self._parse_derived_table_values()
        if self._at_stream_operator() or self._curr.token_type in (
            TokenType.SELECT,
            TokenType.WITH,
            TokenType.L_PAREN,
        ):
            query = self._parse_set_operations(self._parse_select(nested=True))
            query = self._parse_query_modifiers(query)
            while isinstance(query, exp.Subquery) and query.is_wrapper and not query.args.get(WINDOW):
                query = query.this
            return query
        self._refuse("expected a query")


def _is_bare(subquery: exp.Subquery) -> bool:
    """Only parentheses: no alias, window, sample or join."""
    return not any(value for name, value in subquery.args.items() if name != "this")


def _is_group_of_three(token: Any) -> bool:
    return token.token_type == TokenType.NUMBER and len(token.text) == 3 and token.text.isdigit()


class CQLGenerator(SparkGenerator):
    """Prints a query back as CQL: the expanded text that shows which defaults were applied."""

    LIMIT_FETCH = "ALL"  # FETCH .. WITH TIES is no LIMIT
    TRANSFORMS: ClassVar[Any] = {
        # Of SELECT nothing is written in another way: QUALIFY would become a subquery.
        **{kind: write for kind, write in SparkGenerator.TRANSFORMS.items() if kind is not exp.Select},
        StreamOperator: lambda self, node: self.streamoperator_sql(node),
        StreamSample: lambda self, node: f"SAMPLE ({self.sql(node, 'this')} PERCENT)",
        StreamWindow: lambda self, node: self.streamwindow_sql(node),
        Instant: lambda self, node: self.instant_sql(node),
        LiteralList: lambda self, node: node.this,
        exp.Unnest: lambda self, node: self._unnest_sql(node),
    }

    def _unnest_sql(self, expression: exp.Unnest) -> str:
        """With the name of the places among those of the columns, as it is written."""
        alias, place = expression.args.get("alias"), expression.args.get("offset")
        columns = [*(alias.columns if alias else []), *([place] if isinstance(place, exp.Identifier) else [])]
        listed = f"({', '.join(map(self.sql, columns))})" if columns and alias and alias.columns else ""
        named = f" AS {self.sql(alias, 'this')}{listed}" if alias else ""
        counted = " WITH ORDINALITY" if place else ""
        return f"UNNEST({self.expressions(expression, flat=True)}){counted}{named}"

    def datatype_sql(self, expression: exp.DataType) -> str:
        if expression.args.get("values") is None:
            return super().datatype_sql(expression)
        return f"ARRAY[{self.expressions(expression, key='values', flat=True)}]"

    def table_parts(self, expression: exp.Table) -> str:
        window = expression.args.get(WINDOW)
        if window is not None and window.args.get("descriptor"):
            return self._table_function_sql(super().table_parts(expression), window)
        return super().table_parts(expression) + self._reading_sql(expression)

    def _table_function_sql(self, stream: str, window: StreamWindow) -> str:
        columns = self.expressions(window, key="partition", flat=True)
        by = f" PARTITION BY {columns}" if columns else ""
        sizes = [self.sql(size) for part in ("slide", "size") if (size := window.args.get(part))]
        listed = ", ".join([f"TABLE {stream}{by}", f"DESCRIPTOR({self.sql(window, 'descriptor')})", *sizes])
        return f"TABLE({window.args['kind']}({listed}))"

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        reading = self._reading_sql(expression)
        if not reading:
            return super().subquery_sql(expression, sep)
        alias = self.sql(expression, "alias")
        return self.wrap(expression) + reading + (f"{sep}{alias}" if alias else "")

    def _reading_sql(self, expression: exp.Expr) -> str:
        parts = [self.sql(expression, argument) for argument in (SAMPLE, WINDOW)]
        return "".join(f" {part}" for part in parts if part)

    def select_sql(self, expression: exp.Select) -> str:
        operator = expression.expressions[0] if expression.expressions else None
        if isinstance(operator, StreamOperator) and operator.args.get("whole"):
            whole = f"{operator.this}({self.sql(expression.args['from_'].this.this)}){self._every_sql(operator)}"
            return self.prepend_ctes(expression, whole)
        window = self.sql(expression, WINDOW)
        return super().select_sql(expression) + (f" {window[1:-1]}" if window else "")

    def streamoperator_sql(self, expression: StreamOperator) -> str:
        distinct = "DISTINCT " if expression.args.get("distinct") else ""
        items = self.expressions(expression, flat=True)
        return f"{expression.this}({distinct}{items}){self._every_sql(expression)}"

    def _every_sql(self, operator: StreamOperator) -> str:
        every = operator.args.get("every")
        return "" if every is None else f" {self._size_sql(every, 'EVERY ')}"

    def streamwindow_sql(self, expression: StreamWindow) -> str:
        kind = expression.args["kind"]
        if kind == "USER":
            return f"[{self.sql(expression, 'name')}]"
        if kind == "BEGIN":
            return f"[BEGIN {self.sql(expression, 'begin')} END {self.sql(expression, 'end')}]"
        if kind == "RANGE ON":
            by = self.expressions(expression, key="partition", flat=True)
            words = [*([f"PARTITION BY {by}"] if by else []), "RANGE", self._size_sql(expression.args["size"], "")]
            return f"[{' '.join(words)} ON {self.sql(expression, 'column')}]"
        words = []
        if expression.args.get("partition") and kind != "SESSION":
            words.append(f"PARTITION BY {self.expressions(expression, key='partition', flat=True)}")
        words.append(kind)
        words.extend(
            self._size_sql(expression.args[part], prefix)
            for part, prefix in (("size", ""), ("slide", "SLIDE "))
            if expression.args.get(part)
        )
        if expression.args.get("complete"):
            words.append("COMPLETE")
        if expression.args.get("partition") and kind == "SESSION":
            words.append(f"PARTITION BY {self.expressions(expression, key='partition', flat=True)}")
        return f"[{' '.join(words)}]"

    def _size_sql(self, size: exp.Expr, prefix: str) -> str:
        if isinstance(size, exp.Interval) and isinstance(size.args.get("unit"), exp.Var):
            return f"{prefix}{size.this.name} {size.args['unit'].name}"
        return prefix + self.sql(size)

    def instant_sql(self, expression: Instant) -> str:
        if not expression.args["now"]:
            return self.sql(expression, "at")
        offset = expression.args.get("offset")
        return f"NOW - {self._size_sql(offset, '')}" if offset else "NOW"

    def fetch_sql(self, expression: exp.Fetch) -> str:
        count, options = self.sql(expression, "count"), expression.args.get("limit_options")
        ties = options is not None and options.args.get("with_ties")
        return f" FETCH FIRST {count or 1} ROWS {'WITH TIES' if ties else 'ONLY'}"

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        # sqlglot would upper-case the name.
        return self.func(self.sql(expression, "this"), *expression.expressions, normalize=False)


class CQL(Spark):
    class Tokenizer(Spark.Tokenizer):
        KEYWORDS: ClassVar[Any] = {**Spark.Tokenizer.KEYWORDS, "MATCH_CONDITION": TokenType.MATCH_CONDITION}
        # No statement is passed through as raw text.
        COMMANDS: ClassVar[Any] = set()
        # A doubled quote stands for one, as in Spark 4.
        STRING_ESCAPES: ClassVar[Any] = ["\\", "'", '"']

    Parser = QueryParser
    Generator = CQLGenerator
