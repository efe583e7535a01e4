"""Binds queries: names, types and kinds; applies the defaults of CQL and reports them.

`bind` gives a `BoundQuery`: the logical plan, whether it is a stream or a relation, the defaults that were applied and
the text with them written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from sqlglot import exp

from millstream import types
from millstream.errors import BindError, NameError, NotSupportedError, Place, did_you_mean
from millstream.kernel.ordering.sort_keys import RowOrder, SortKey
from millstream.kernel.scalar.expressions import Column, Expression
from millstream.kernel.scalar.zones import session_in
from millstream.language.blocks import Block, BoundSubquery
from millstream.language.dialect import CQL, TABLE_FUNCTIONS
from millstream.language.durations import written_microseconds
from millstream.language.expressions import ExpressionBinder, UserCode
from millstream.language.from_clause import FromBinder, renamed
from millstream.language.lengths import MAX_INPUTS, too_many_inputs
from millstream.language.ordering import OrderClauses, has_order, keys_of, shown_order
from millstream.language.reading import all_read
from millstream.language.scope import Scope
from millstream.language.select import SelectBinder, operator_of, unique
from millstream.language.set_operations import KINDS, SetChain
from millstream.language.syntax import SAMPLE, WINDOW, StreamOperator, StreamWindow, place_of
from millstream.language.type_names import is_stored
from millstream.language.unnest import first_rows, plan_block
from millstream.language.values_clause import bind_values
from millstream.language.window_groups import with_windows
from millstream.language.windows import (
    asks_for_bounds,
    bind_every,
    bind_sample,
    bind_window,
    hides_windows,
    implied_every,
    with_bounds,
)
from millstream.plan import nodes as lo
from millstream.plan.analysis.depth import check_depth
from millstream.plan.analysis.lifetime import lives_one_tick
from millstream.plan.analysis.monotonic import is_monotonic
from millstream.plan.definitions import Definition, StreamDefinition, TableDefinition, TimeDomain
from millstream.settings import Settings
from millstream.types import Field, Schema, columns_at_first

DefinitionsByName = Mapping[str, Definition]
OWN_COLUMNS = ("_ts", "_weight")  # of answers: a column of a system table that is called so gets another name there


@dataclass(frozen=True)
class BoundQuery:
    plan: lo.Node
    schema: Schema
    domain: TimeDomain | None
    defaults: tuple[str, ...]
    tree: exp.Query  # with all defaults written out
    reads: frozenset[str]
    order: tuple[SortKey, ...] = ()  # of a relation's answer when it is read
    added_keys: int = 0  # how many of the last columns say only what comes first; of ad-hoc queries
    as_of: int = 0  # the last alteration that its names know
    # Where names may be others than when it was said.
    as_called_now: Callable[[int, exp.Query], exp.Query] | None = field(default=None, compare=False, repr=False)

    @property
    def cql(self) -> str:
        """The text with all defaults written out, and what it reads as that is called now."""
        tree = self.tree if self.as_called_now is None else self.as_called_now(self.as_of, self.tree)
        return tree.sql(dialect=CQL)

    @property
    def as_said(self) -> str:
        """The same with the names of then."""
        return self.tree.sql(dialect=CQL)

    @property
    def kind(self) -> lo.Kind:
        return self.plan.kind


class Binder:
    """Binds one text against a catalog."""

    def __init__(
        self,
        catalog: DefinitionsByName,
        settings: Settings,
        text: str,
        code: UserCode | None = None,
        parameters: Sequence[types.DataType] = (),
        *,
        ad_hoc: bool = False,
        kind_of_query: Callable[[str], str | None] = lambda name: None,
    ) -> None:
        self.catalog = catalog
        self._kind_of_query = kind_of_query
        self.settings = settings
        self.text = text
        self.code = code or UserCode()
        self.parameters = parameters
        self.ad_hoc = ad_hoc
        self.defaults: list[str] = []
        self.reads: set[str] = set()
        self.places: dict[str, Place] | None = None  # of what expressions became, where somebody asks for them
        self.domain: TimeDomain | None = None
        self._tables: dict[str, BoundSubquery] = {}  # WITH
        self._asks_for_bounds = False
        self._inputs = 0  # what the query reads so far, each as often as it does

    def bind(self, query: exp.Query, *, outermost: bool = True) -> BoundQuery:
        """A query by itself; a view is no outermost one, since others read it."""
        query = with_windows(query, self.text)
        self._asks_for_bounds = asks_for_bounds(query)
        with all_read(query, self.text), session_in(self.settings.timezone):
            bound = self.query(query, outermost=outermost)
        check_depth(bound.plan, place_of(query, self.text))
        # What is asked once is sorted as it is, and what it reads nothing for does not grow.
        is_as_it_is = self.ad_hoc and (bool(bound.order) or not lo.sources(bound.plan))
        if bound.plan.kind == "relation" and is_monotonic(bound.plan) and not is_as_it_is:
            if bound.order:
                OrderClauses(query, self.text).refuse_of_stream()
            self._default("the query only ever grows: ISTREAM is applied to its result")
            bound.plan = self._to_stream("istream", bound.plan, place_of(query, self.text))
            query = _with_operator(query, "ISTREAM")
        domain = self.domain
        if outermost and isinstance(bound.plan, lo.RelationToStream) and bound.plan.every > 1:
            domain = replace(domain or TimeDomain(None), every=bound.plan.every)  # without streams, ticks are numbers
        names = [field.name for field in bound.schema]
        if outermost:
            names = unique(names, OWN_COLUMNS)
        return BoundQuery(
            bound.plan,
            tuple(field._replace(name=name) for field, name in zip(bound.schema, names, strict=True)),
            domain,
            tuple(self.defaults),
            query,
            frozenset(self.reads),
            bound.order,
            bound.added_keys,
        )

    def bind_subquery(self, query: exp.Expr, scope: Scope) -> tuple[Block, list[Expression]]:
        """A subquery of an expression: its block, and what it takes from the outer row."""
        scope.join(self._place(query))
        if isinstance(query, exp.Select) and not operator_of(query):
            inner = Scope(scope)
            with self._with_tables(query):
                block = self._block(query, inner)
            self._check_order(OrderClauses(query, self.text), block, outermost=False)
            return block, inner.outer
        bound = self.relation(self.query(query), query, "the subquery", None)
        columns = _columns(bound.plan)
        return Block(bound.plan, select=list(columns), names=bound.names), []

    # Queries

    def query(self, query: exp.Expr, *, outermost: bool = False) -> BoundSubquery:
        """A query inside of another, or the outermost one."""
        with self._with_tables(query):
            if isinstance(query, exp.Subquery):
                if query.args.get("joins"):
                    raise NotSupportedError("a join needs a SELECT around it", place=self._place(query))
                inner = self.query(query.this, outermost=outermost and not has_order(query))
                window = query.args.get(WINDOW)
                inner = inner if window is None else self.relation(inner, query, "the query", window)
                return self._ordered(inner, query, outermost)
            if isinstance(query, exp.Select):
                return self._select(query, outermost)
            if isinstance(query, exp.SetOperation):
                return self._ordered(self._set_operation(query), query, outermost)
            if isinstance(query, exp.Values):
                return bind_values(query, self)
            raise NotSupportedError(
                f"{type(query).__name__.upper()} is not supported as a query", place=self._place(query)
            )

    @contextmanager
    def _with_tables(self, query: exp.Expr) -> Iterator[None]:
        """The names that a query's WITH gives, for as long as it is bound."""
        outer_tables = dict(self._tables)
        try:
            self._bind_with(query)
            yield
        finally:
            self._tables = outer_tables

    def _bind_with(self, query: exp.Expr) -> None:
        with_ = query.args.get("with_")
        if with_ is None:
            return
        if with_.args.get("recursive"):
            hint = "join the table with itself as often as there are levels: t AS a JOIN t AS b ON .."
            raise NotSupportedError("WITH RECURSIVE is not supported", hint=hint, place=self._place(with_))
        given: set[str] = set()
        for part in with_.expressions:
            alias = part.args["alias"]
            if alias.name.lower() in given:
                raise NameError(f'"{alias.name}" stands twice in WITH', place=self._place(alias))
            given.add(alias.name.lower())
            before = self._inputs
            bound = self.query(part.this)
            bound.inputs = self._inputs - before
            bound.names = renamed(bound.names, alias.args.get("columns") or [], alias.name, self.text)
            self._tables[alias.name.lower()] = bound

    def _select(self, query: exp.Select, outermost: bool) -> BoundSubquery:
        operator = operator_of(query)
        block = self._block(query, Scope())
        if operator is not None and operator.args.get("distinct"):
            block.distinct = True
        clauses = OrderClauses(query, self.text)
        if operator is not None and block.order and block.places is None:
            clauses.refuse_of_stream()
        added = self._check_order(clauses, block, outermost=outermost)
        plan = plan_block(block)
        if operator is not None:
            kind = cast(lo.StreamKind, operator.this.lower())
            plan = self._to_stream(kind, plan, place_of(operator, self.text), self._every(operator, plan))
        order = shown_order(block.order, block.select) if outermost and operator is None else None
        return BoundSubquery(plan, block.names, self.domain, order or (), added_keys=added)

    def _check_order(self, clauses: OrderClauses, block: Block, *, outermost: bool) -> int:
        """Refuse what has no meaning where it stands; gives how many columns only say what comes first, which are added
        to those of an ad-hoc query."""
        clauses.check(block.order, block.places, outermost=outermost, ad_hoc=self.ad_hoc)
        missing = [item.expression for item in block.order if item.expression not in block.select]
        if not missing:
            return 0
        if block.distinct:
            raise clauses.hidden("the rows of SELECT DISTINCT have the columns of the select list only")
        if not outermost:
            return 0
        if not self.ad_hoc:
            if block.places is None:
                raise clauses.hidden("the answer is sorted when it is read, by the columns that it has then")
            self._default("the answer is not sorted when it is read: it is ordered by what is not in the select list")
            return 0
        block.select += dict.fromkeys(missing)
        block.names = unique([*block.names, *(str(expression) for expression in dict.fromkeys(missing))])
        return len(dict.fromkeys(missing))

    def _ordered(self, bound: BoundSubquery, query: exp.Expr, outermost: bool) -> BoundSubquery:
        """What stands in parentheses, or a set operation, with ORDER BY and LIMIT of its own."""
        if not has_order(query):
            return bound
        clauses = OrderClauses(query, self.text)
        if bound.plan.kind == "stream":
            bound = self.relation(bound, query, "the query", None)
        scope = Scope()
        scope.add("", bound.schema, self._place(query))
        width, columns = len(bound.schema), list[Expression](_columns(bound.plan))

        def item(node: exp.Expr, names: Mapping[str, Expression]) -> Expression:
            return ExpressionBinder(self, scope, "ORDER BY", aliases=names).bind(node)

        order = clauses.items(columns, bound.names, item)
        places = clauses.places()
        clauses.check(order, places, outermost=outermost, ad_hoc=self.ad_hoc)
        shown = shown_order(order, columns)
        if places is None:
            if shown is None:
                raise clauses.hidden("the answer is sorted when it is read, by the columns that it has then")
            return replace(bound, order=shown)
        plan, computed = bound.plan, [*dict.fromkeys([*columns, *(item.expression for item in order)])]
        if len(computed) > width:
            names = (*bound.names, *(f"key{place}" for place in range(len(computed) - width)))
            plan = lo.Project(plan, tuple(computed), names)
        keys = keys_of(order, {expression: place for place, expression in enumerate(computed)})
        plan = first_rows(plan, RowOrder((), keys, tuple(range(width))), places, width)
        return BoundSubquery(plan, bound.names, bound.domain, (shown or ()) if outermost else ())

    def _block(self, query: exp.Select, scope: Scope) -> Block:
        select = SelectBinder(self, query, scope)
        return select.block(FromBinder(self).bind(query, scope))

    def _set_operation(self, query: exp.SetOperation) -> BoundSubquery:
        """A chain of one operation, however long, at once: the sides are nested to the left."""
        operations: list[exp.SetOperation] = []
        first: exp.Expr = query
        while isinstance(first, exp.SetOperation) and (
            not operations or not (first.args.get("with_") or has_order(first))
        ):
            operations.append(first)
            first = first.args["this"]
        leftmost = self._side(first)
        chain = SetChain(leftmost)
        for operation in reversed(operations):
            kind = KINDS[(type(operation), bool(operation.args.get("distinct")))]
            side = operation.args["expression"]
            if _is_by_name(operation, self.text):
                chain.add_by_name(kind, self._side(side), self._place(side))
            else:
                chain.add(kind, self._side(side).plan, self._place(side))
        return BoundSubquery(chain.plan, chain.names, self.domain)

    def _side(self, side: exp.Expr) -> BoundSubquery:
        return self.relation(self.query(side), side, "one side of the set operation", None)

    def _every(self, operator: StreamOperator, plan: lo.Node) -> int:
        """At multiples of how many ticks RSTREAM is said: as written, or at slides where else it could not be."""
        if operator.args.get("every") is not None:
            return bind_every(operator, self.domain, self.text)
        slide = implied_every(plan) if operator.this == "RSTREAM" and self._would_repeat(plan) else None
        if slide is None:
            return 1
        every = written_microseconds(slide)
        self._default(f"RSTREAM is said when the windows slide: EVERY {every.this.name} {every.args['unit'].name}")
        operator.set("every", every)
        return slide

    def _would_repeat(self, plan: lo.Node) -> bool:
        return self.domain is not None and self.domain.is_microseconds and not lives_one_tick(plan)

    def _to_stream(self, operator: lo.StreamKind, plan: lo.Node, place: Place, every: int = 1) -> lo.Node:
        if operator == "rstream" and every == 1 and self._would_repeat(plan):
            raise BindError(
                "RSTREAM would repeat its rows every microsecond",
                hint="say when, as in RSTREAM(..) EVERY 1 MINUTE; or declare TICK INTERVAL, or use [NOW] windows",
                place=place,
            )
        if operator != "rstream" and hides_windows(plan):
            self._default(
                "groups that are equal in one window and the next are new only once: "
                "select window_end, and group by it, to have them once for each window"
            )
        return lo.RelationToStream(plan, operator, every)

    # What stands in FROM

    def table(self, item: exp.Table) -> tuple[BoundSubquery, str]:
        name = ".".join(part.name for part in item.parts)
        key = name.lower()
        if key in self._tables:
            found = self._tables[key]
            self._read(found.inputs, item)
            return BoundSubquery(found.plan, list(found.names), found.domain), item.name
        definition = self.catalog.get(key)
        if definition is None:
            raise self._unknown_table(name, item)
        self.reads.add(definition.edge)
        domain = definition.domain
        if domain is not None:
            self._share_domain(domain, definition.name, self._place(item))
        if isinstance(definition, StreamDefinition):
            plan: lo.Node = scan_of(definition)
        elif isinstance(definition, TableDefinition):
            edge, columns, width = definition.edge, definition.columns, _width(definition.columns)
            plan = lo.TableScan(edge, columns, definition.name, definition.nature, definition.log, width)
        else:
            plan = _of_view(definition.plan)
        self._read(sum(isinstance(node, lo.StreamScan | lo.TableScan) for node in plan.walk()), item)
        return BoundSubquery(plan, [field.name for field in definition.columns], domain), item.name

    def _read(self, inputs: int, item: exp.Table) -> None:
        """So many inputs more are read by the query, however few words say that."""
        self._inputs += inputs
        if self._inputs > MAX_INPUTS and not is_stored():
            raise too_many_inputs(self._place(item))

    def _unknown_table(self, name: str, item: exp.Table) -> NameError:
        known = [d.name for d in self.catalog.values()] + list(self._tables)
        hint = did_you_mean(name, [n for n in known if not n.startswith("_")], [n for n in known if "." not in n])
        if hint is not None and not any("." not in each for each in known):
            hint = "nothing is declared yet: CREATE STREAM declares a stream"
        if isinstance(item.this, exp.Anonymous) and name.upper() in TABLE_FUNCTIONS:
            hint = "windows stand behind their stream, in brackets: FROM s [TUMBLE 10 SECONDS], [HOP ..], [SESSION ..]"
        elif (kind := self._kind_of_query(name)) is not None:
            method = "query" if kind == "standing query" else kind
            hint = f'it is a {kind}: db.{method}("{name}").result() is its answer (\\watch {name} in the shell)'
            if kind != "template":  # whose text has parameters
                hint += f"; for other queries to read it, CREATE VIEW {name} AS with its text"
        return NameError(f'there is no stream, table or view called "{name}"', hint=hint, place=self._place(item))

    def timestamp_of(self, item: exp.Table) -> str | None:
        """What the timestamp of a base stream is called."""
        key = ".".join(part.name for part in item.parts).lower()
        definition = None if key in self._tables else self.catalog.get(key)
        return definition.timestamp.name if isinstance(definition, StreamDefinition) else None

    def relation(self, bound: BoundSubquery, item: exp.Expr, shown: str, window: StreamWindow | None) -> BoundSubquery:
        """What stands in FROM as a relation: streams get a window, relations must not have one."""
        plan = bound.plan
        sample = item.args.get(SAMPLE)
        # The window that a SELECT ends with is one for its own FROM list.
        has_window = item.args.get(WINDOW) is not None and not isinstance(item, exp.Select)
        if plan.kind == "relation" and not has_window and sample is None:
            return bound
        if plan.kind == "relation":
            plan = self._stream_of_relation(plan, item, shown)
        if sample is not None:
            plan = bind_sample(plan, sample, self.settings, self.text)
        if window is not None:
            schema = tuple(Field(n, f.type) for n, f in zip(bound.names, plan.schema, strict=True))
            windows = self.code.windows
            specification = bind_window(window, schema, bound.domain, self.settings, self.text, windows)
        else:
            self._default(f"{shown} is a stream without a window: [RANGE UNBOUNDED] is applied")
            unbounded = StreamWindow(kind="RANGE", size=exp.Var(this="UNBOUNDED"))
            specification = bind_window(unbounded, bound.schema, bound.domain, self.settings, self.text)
            if isinstance(item, exp.Table | exp.Subquery):
                item.set(WINDOW, unbounded)
        return BoundSubquery(lo.Window(plan, specification), bound.names, bound.domain)

    def check_descriptor(self, item: exp.Expr, window: StreamWindow | None) -> None:
        """Windows go by the timestamp of their stream, whatever column a text says."""
        descriptor = None if window is None else window.args.get("descriptor")
        if descriptor is None:
            return
        definition = self.catalog.get(item.name.lower()) if isinstance(item, exp.Table) else None
        if not isinstance(definition, StreamDefinition):
            raise BindError(
                "this form of a window goes by a column of a stream",
                hint="write the window behind what it is on, as in [TUMBLE 10 MINUTES]",
                place=self._place(descriptor),
            )
        if descriptor.table:
            _ = descriptor.args["table"].name  # which has said what the window is on
        if descriptor.name.lower() != definition.timestamp.name.lower():
            raise BindError(
                f'"{descriptor.name}" is not the timestamp of "{definition.name}"',
                hint=f"windows go by its timestamp, {definition.timestamp.name}",
                place=self._place(descriptor),
            )

    def with_bounds(self, windowed: BoundSubquery) -> BoundSubquery:
        """What a window's bounds may be meant in: who does not read them has them not (`plan.rules.blank_unread`)."""
        if not self._asks_for_bounds or not isinstance(windowed.plan, lo.Window):
            return windowed
        found = with_bounds(windowed.plan, windowed.domain)
        if isinstance(found, str):
            return replace(windowed, without_bounds=found)
        return replace(windowed, plan=found, names=[*windowed.names, *lo.BOUND_NAMES], hidden=len(lo.BOUND_NAMES))

    def _stream_of_relation(self, plan: lo.Node, item: exp.Expr, shown: str) -> lo.Node:
        """A window on a relation: right only where ISTREAM can be supplied."""
        place = self._place(item.args.get(WINDOW) or item.args[SAMPLE])
        if isinstance(plan, lo.TableScan):
            raise BindError(
                f"a window on the table {shown}",
                detail="windows turn streams into relations, and a table is a relation already",
                hint="leave the window out",
                place=place,
            )
        if not is_monotonic(plan):
            raise BindError(
                f"a window on {shown}, which is a relation whose rows come and go",
                detail="it could mean its insertions, its deletions or all its rows",
                hint="put ISTREAM, DSTREAM or RSTREAM around its select list",
                place=place,
            )
        self._default(f"{shown} has a window and only ever grows: ISTREAM is applied to it")
        if isinstance(item, exp.Subquery):
            item.set("this", _with_operator(item.this, "ISTREAM"))
        return self._to_stream("istream", plan, place)

    def _share_domain(self, domain: TimeDomain, name: str, place: Place) -> None:
        shared = domain if self.domain is None else self.domain.shared_with(domain)
        if shared is None:
            raise BindError(
                f'"{name}" counts time in {domain}, the other inputs in {self.domain}',
                hint="declare all streams of a query with the same TICK INTERVAL",
                place=place,
            )
        self.domain = shared

    def _default(self, text: str) -> None:
        self.defaults.append(text)

    def _place(self, node: exp.Expr) -> Place:
        return place_of(node, self.text)


def _is_by_name(operation: exp.SetOperation, text: str) -> bool:
    if not operation.args.get("by_name"):
        return False
    word = type(operation).__name__.upper()
    if word != "UNION" or operation.args.get("kind") or operation.args.get("side"):
        hint = f"list the columns on both sides: SELECT a, b .. {word} SELECT a, b .."
        raise NotSupportedError("BY NAME is for UNION only", hint=hint, place=place_of(operation, text))
    return True


def _with_operator(query: exp.Expr, operator: str) -> exp.Query:
    """The query's text with a relation-to-stream operator around its select list, or around all of it."""
    if isinstance(query, exp.Select):
        distinct = query.args.get("distinct") is not None
        query.set("distinct", None)
        query.set("expressions", [StreamOperator(this=operator, expressions=query.expressions, distinct=distinct)])
        return query
    inner = query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
    stream = StreamOperator(this=operator, expressions=[exp.Star()], whole=True)
    return exp.Select(expressions=[stream], from_=exp.From(this=inner))


def _columns(plan: lo.Node) -> tuple[Column, ...]:
    return tuple(Column(field.type, index, field.name) for index, field in enumerate(plan.schema))


def scan_of(stream: StreamDefinition) -> lo.StreamScan:
    """The elements of a stream, with the columns that it has."""
    return lo.StreamScan(stream.edge, stream.columns, stream.name, _width(stream.columns))


def _width(columns: Schema) -> int:
    """How many columns there are, if some were added to those that others may read."""
    return len(columns) if columns_at_first(columns) < len(columns) else 0


def _of_view(plan: lo.Node) -> lo.Node:
    """A view's plan, whose joins say that they are one."""
    if isinstance(plan, lo.Project | lo.Filter):
        return replace(plan, input=_of_view(plan.input))
    return replace(plan, of_view=True) if isinstance(plan, lo.Join) and plan.join == "inner" else plan
