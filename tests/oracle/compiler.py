"""From a parsed query to nodes: names looked up, defaults applied, every FROM item a leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from sqlglot import exp
from tests.oracle import relational
from tests.oracle.constants import instant
from tests.oracle.errors import OracleError
from tests.oracle.monotonic import CHANGING, MONOTONIC, NON_RETROACTIVE, is_monotonic
from tests.oracle.nodes import BaseTable, Bounded, Derived, Node, Relation, Relational, Sampled, StreamNode, Windowed
from tests.oracle.times import Ticks
from tests.oracle.windows import UNBOUNDED, Bound, Window

from millstream.language.durations import duration
from millstream.language.syntax import SAMPLE, SOURCE_TEXT, WINDOW, Instant, StreamOperator, StreamWindow

BOUNDS = ("window_start", "window_end")

Lookup = Callable[[str], Node]


def compile_query(query: exp.Query, lookup: Lookup) -> tuple[Node, list[str]]:
    """The meaning of an outermost query, and the defaults that were applied to it."""
    compiler = _Compiler(lookup)
    node = compiler.query(_without_ctes(query.copy(), {}))
    if isinstance(node, Relation) and node.monotonic:
        compiler.defaults.append("the query is monotonic: ISTREAM")
        node = Derived("ISTREAM", node)
    # Unknown columns, wrong types and streams of different ticks show now, not at the first answer.
    _ = node.columns, node.ticks
    return node, compiler.defaults


class _Compiler:
    def __init__(self, lookup: Lookup) -> None:
        self.lookup = lookup
        self.defaults: list[str] = []
        self.bounded = False  # whether the SELECT that is compiled asks for bounds of windows

    def query(self, query: exp.Expr) -> Node:
        """A query as written, without the defaults of the outermost one."""
        query = _without_parentheses(query)
        if isinstance(query, exp.Subquery):
            query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=query))
        operator = _stream_operator(query)
        if operator is None:
            return self._relation(query)
        query.set("expressions", operator.expressions)
        if operator.args.get("distinct"):
            query.set("distinct", exp.Distinct())
        relation, every = self._relation(query), operator.args.get("every")
        if every is not None and operator.this != "RSTREAM":
            raise OracleError(f"EVERY goes with RSTREAM, not with {operator.this}")
        count = 1 if every is None else _amount(every, relation.ticks or Ticks(), rows=False)
        if count < 1:
            raise OracleError("EVERY is too small")
        return Derived(operator.this, relation, count)

    def _relation(self, query: exp.Expr) -> Relation:
        leaves: list[Relation] = []
        tree = relational.spark_tree(self._rewrite(query, leaves))
        natures = {f"leaf_{number}": _nature(leaf) for number, leaf in enumerate(leaves)}
        return Relational(relational.duckdb_text(tree), tuple(leaves), is_monotonic(tree, natures))

    def _rewrite(self, query: exp.Expr, leaves: list[Relation]) -> exp.Expr:
        """The query as plain SQL over leaf_0, leaf_1, ..."""
        if _stream_operator(query) is not None:
            # A stream where a relation is expected, such as one side of a UNION.
            self.defaults.append("a stream without window: [RANGE UNBOUNDED]")
            node = self.query(query)
            return exp.Select(expressions=[exp.Star()], from_=exp.From(this=_leaf(self._windowed(node), leaves)))
        if isinstance(query, exp.Select):
            return _in_order(self._rewrite_select(query, leaves))
        for side in ("this", "expression"):
            part = query.args.get(side)
            if isinstance(part, exp.Expr):
                query.set(side, self._rewrite(part, leaves))
        return _in_order(query)

    def _rewrite_select(self, select: exp.Select, leaves: list[Relation]) -> exp.Expr:
        if select.args.get("laterals"):
            raise NotImplementedError("laterals in a query")
        trailing: StreamWindow | None = select.args.pop(WINDOW, None)
        outside, self.bounded = self.bounded, any(c.name.lower() in BOUNDS for c in select.find_all(exp.Column))
        if self.bounded and any(isinstance(item, exp.Star) for item in select.expressions):
            raise NotImplementedError("* beside the bounds of a window")
        select.set("expressions", [_named(item) for item in select.expressions])
        origin = select.args.get("from_")
        for place in ([origin] if origin else []) + (select.args.get("joins") or []):
            place.set("this", self._from_item(place.this, trailing, leaves))
        for part in ("expressions", "where", "having", "group", "joins", "order", "qualify"):
            found = select.args.get(part)
            for expression in found if isinstance(found, list) else [found] if found else []:
                for nested in list(_outermost_queries(expression)):
                    if not isinstance(nested.parent, exp.Join) or nested.arg_key != "this":
                        nested.replace(self._rewrite(nested, leaves))
        self.bounded = outside
        return select

    def _from_item(self, item: exp.Expr, trailing: StreamWindow | None, leaves: list[Relation]) -> exp.Expr:
        if isinstance(item, exp.Table):
            return self._table(item, trailing, leaves)
        if not isinstance(item, exp.Subquery):
            raise NotImplementedError(f"{type(item).__name__} in FROM")
        if isinstance(item.this, exp.Table):
            item.set("this", self._from_item(item.this, trailing, leaves))
            return item
        inner = _without_parentheses(item.this)
        if not _is_read_as_stream(item) and _stream_operator(inner) is None:
            item.set("this", self._rewrite(inner, leaves))
            return item
        node = self.query(inner)
        if isinstance(node, Relation):
            if not node.monotonic:
                raise OracleError(
                    "a window on a subquery that is not monotonic",
                    hint="say which stream is meant: put ISTREAM, DSTREAM or RSTREAM around the subquery",
                )
            self.defaults.append("a windowed subquery is monotonic: ISTREAM")
            node = Derived("ISTREAM", node)
        return _leaf(self._read(node, item, trailing), leaves, item.args.get("alias"))

    def _table(self, item: exp.Table, trailing: StreamWindow | None, leaves: list[Relation]) -> exp.Expr:
        for join in item.args.get("joins") or []:
            join.set("this", self._from_item(join.this, trailing, leaves))
        if item.args.get("sample"):
            raise NotImplementedError("TABLESAMPLE; the stream's own is SAMPLE")
        name = ".".join(part.name for part in item.parts)
        alias = item.args.get("alias") or exp.TableAlias(this=exp.to_identifier(item.name, quoted=True))
        leaf = _leaf(self._read(self.lookup(name), item, trailing, name), leaves, alias)
        leaf.set("joins", item.args.get("joins"))
        return leaf

    def _read(self, node: Node, item: exp.Expr, trailing: StreamWindow | None, name: str = "a subquery") -> Relation:
        """A FROM item as a relation: its own window, or the one at the end of the FROM list, or the default."""
        window, sample = item.args.get(WINDOW), item.args.get(SAMPLE)
        if isinstance(node, Relation):
            if window is not None or sample is not None:
                raise OracleError(f"{name} is a relation: it takes no window and no SAMPLE")
            return node
        assert isinstance(node, StreamNode)
        if sample is not None:
            node = Sampled(node, Fraction(sample.this.name))
        if window is None and trailing is None:
            self.defaults.append(f"{name} has no window: [RANGE UNBOUNDED]")
        return self._windowed(node, window if window is not None else trailing)

    def _windowed(self, node: Node, syntax: StreamWindow | None = None) -> Relation:
        assert isinstance(node, StreamNode)
        if syntax is None:
            return Windowed(node, UNBOUNDED)
        window = _window(syntax, node.ticks or Ticks(), [column.name.lower() for column in node.columns])
        windowed = Windowed(node, window)
        has_bounds = window.kind == "SESSION" or window.step not in (None, 1)
        return Bounded(windowed) if self.bounded and has_bounds else windowed


def _in_order(query: exp.Expr) -> exp.Expr:
    """ORDER BY .. LIMIT with ties decided by the columns, NULLS FIRST; without LIMIT it says nothing of a bag."""
    order, limit, offset = (query.args.get(part) for part in ("order", "limit", "offset"))
    if limit is None and offset is None:
        query.set("order", None)
        return query
    assert isinstance(query, exp.Query)
    width = len(query.selects)
    if any(isinstance(item, exp.Star) or item.is_star for item in query.selects):
        raise NotImplementedError("LIMIT of *")
    keys = list(order.expressions) if order else []
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and options.args.get("with_ties"):
            if offset is not None or not isinstance(query, exp.Select):
                raise NotImplementedError("WITH TIES here")
            rank = exp.Window(this=exp.Anonymous(this="RANK"), order=exp.Order(expressions=keys), over="OVER")
            query.set("qualify", exp.Qualify(this=exp.LTE(this=rank, expression=limit.args["count"])))
            query.set("order", None)
            query.set("limit", None)
            return query
        query.set("limit", exp.Limit(expression=limit.args.get("count") or exp.Literal.number(1)))
    ties = [exp.Ordered(this=exp.Literal.number(place), nulls_first=True) for place in range(1, width + 1)]
    query.set("order", exp.Order(expressions=[*keys, *ties]))
    return query


def _nature(leaf: Relation) -> str:
    if isinstance(leaf, BaseTable) and leaf.table.nature == NON_RETROACTIVE.upper():
        return NON_RETROACTIVE
    return MONOTONIC if leaf.monotonic else CHANGING


def _leaf(relation: Relation, leaves: list[Relation], alias: exp.Expr | None = None) -> exp.Table:
    leaves.append(relation)
    return exp.Table(this=exp.to_identifier(f"leaf_{len(leaves) - 1}"), alias=alias)


def _stream_operator(query: exp.Expr) -> StreamOperator | None:
    first = query.expressions[0] if isinstance(query, exp.Select) and query.expressions else None
    return first if isinstance(first, StreamOperator) else None


def _is_read_as_stream(item: exp.Expr) -> bool:
    return item.args.get(WINDOW) is not None or item.args.get(SAMPLE) is not None


def _without_parentheses(query: exp.Expr) -> exp.Expr:
    while isinstance(query, exp.Subquery) and query.is_wrapper and not _is_read_as_stream(query):
        query = query.this
    return query


def _named(item: exp.Expr) -> exp.Expr:
    """An unnamed expression is named by its text."""
    text = item.meta.get(SOURCE_TEXT)
    if text is None or isinstance(item, (exp.Column, exp.Star, exp.Alias)):
        return item
    return exp.alias_(item, text, quoted=True)


def _outermost_queries(expression: exp.Expr) -> Iterator[exp.Expr]:
    for node in expression.walk(prune=lambda part: isinstance(part, exp.Query)):
        if isinstance(node, exp.Query):
            yield node


def _without_ctes(query: exp.Expr, outer: dict[str, exp.CTE]) -> exp.Expr:
    """The query with every reference to a WITH name replaced by what it stands for."""
    known = dict(outer)
    clause = query.args.get("with_")
    if clause is not None:
        if clause.recursive:
            raise OracleError("WITH RECURSIVE is not supported")
        query.set("with_", None)
        for cte in clause.expressions:
            cte.set("this", _without_ctes(cte.this, known))
            known[cte.alias.lower()] = cte
    for part in list(query.walk(prune=lambda node: node is not query and bool(node.args.get("with_")))):
        if part is not query and part.args.get("with_"):
            _without_ctes(part, known)
        elif isinstance(part, exp.Table) and len(part.parts) == 1 and part.name.lower() in known:
            part.replace(_expanded(part, known[part.name.lower()]))
    return query


def _expanded(table: exp.Table, cte: exp.CTE) -> exp.Subquery:
    alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
    columns = cte.args["alias"].args.get("columns")
    if columns and not alias.args.get("columns"):
        alias = exp.TableAlias(this=alias.this, columns=[column.copy() for column in columns])
    reading = {key: table.args.get(key) for key in (WINDOW, SAMPLE, "joins")}
    return exp.Subquery(this=cte.this.copy(), alias=alias, **reading)


def _window(syntax: StreamWindow, ticks: Ticks, columns: list[str]) -> Window:
    kind, size, slide = syntax.args["kind"], syntax.args.get("size"), syntax.args.get("slide")
    if kind == "USER":
        raise OracleError("the oracle knows no windows of users")
    if kind == "BEGIN":
        begin, end = (_bound(syntax.args[part], ticks) for part in ("begin", "end"))
        if begin.now == end.now and begin.at(0) > end.at(0):
            raise OracleError("the window begins after it ends")
        return Window("BEGIN", begin=begin, end=end)
    if slide is not None and kind in ("NOW", "TUMBLE", "SESSION"):
        raise OracleError(f"{kind} takes no SLIDE")
    if syntax.args.get("partition") and kind not in ("ROWS", "SESSION"):
        raise OracleError("PARTITION BY goes with ROWS")
    unbounded = isinstance(size, exp.Var)
    count = None if unbounded or size is None else _amount(size, ticks, rows=kind == "ROWS")
    step = None if slide is None else _amount(slide, ticks, rows=kind == "ROWS")
    if (count is not None and count < (0 if kind == "RANGE" else 1)) or (step is not None and step < 1):
        raise OracleError(f"a size of {kind} is too small")
    if unbounded and kind in ("TUMBLE", "HOP", "SESSION"):
        raise OracleError(f"{kind} takes a size")
    if kind == "HOP" and slide is None:
        raise OracleError("HOP takes a SLIDE")
    return Window(kind, count, step, _partition(syntax, columns), complete=bool(syntax.args.get("complete")))


def _partition(syntax: StreamWindow, columns: list[str]) -> tuple[int, ...]:
    names = [column.name.lower() for column in syntax.args.get("partition") or []]
    for name in names:
        if name not in columns:
            raise OracleError(f'PARTITION BY names "{name}", which is not a column')
    return tuple(columns.index(name) for name in names)


def _amount(size: exp.Expr, ticks: Ticks, *, rows: bool) -> int:
    length = duration(size, "")
    if rows and not length.in_ticks:
        raise OracleError("ROWS counts rows, not time")
    return ticks.span(length)


def _bound(syntax: Instant, ticks: Ticks) -> Bound:
    if syntax.args["now"]:
        offset = syntax.args.get("offset")
        return Bound(True, 0 if offset is None else _amount(offset, ticks, rows=False))
    return Bound(False, ticks.instant(instant(syntax.args["at"])))
