"""Binds queries: names, types and kinds; applies the defaults of CQL and reports them.

`bind` gives a `BoundQuery`: the logical plan, whether it is a stream or a relation, the defaults that were applied and
the text with them written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

from sqlglot import exp

from millstream import types
from millstream.errors import BindError, NameError, NotSupportedError, Place, did_you_mean
from millstream.kernel.scalar.expressions import Column, Expression
from millstream.language.blocks import Block, BoundSubquery
from millstream.language.dialect import CQL
from millstream.language.expressions import UserCode
from millstream.language.from_clause import FromBinder, renamed
from millstream.language.reading import all_read
from millstream.language.scope import Scope
from millstream.language.select import SelectBinder, operator_of, refuse_clauses
from millstream.language.set_operations import KINDS, SetChain
from millstream.language.syntax import SAMPLE, WINDOW, StreamOperator, StreamWindow, place_of
from millstream.language.unnest import plan_block
from millstream.language.windows import bind_sample, bind_window
from millstream.plan import nodes as lo
from millstream.plan.analysis.depth import check_depth
from millstream.plan.analysis.lifetime import lives_one_tick
from millstream.plan.analysis.monotonic import is_monotonic
from millstream.plan.definitions import Definition, StreamDefinition, TableDefinition, TimeDomain
from millstream.settings import Settings
from millstream.types import Field, Schema

DefinitionsByName = Mapping[str, Definition]


@dataclass(frozen=True)
class BoundQuery:
    plan: lo.Node
    schema: Schema
    domain: TimeDomain | None
    defaults: tuple[str, ...]
    tree: exp.Query  # with all defaults written out
    reads: frozenset[str]

    @property
    def cql(self) -> str:
        """The text with all defaults written out."""
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
    ) -> None:
        self.catalog = catalog
        self.settings = settings
        self.text = text
        self.code = code or UserCode()
        self.parameters = parameters
        self.defaults: list[str] = []
        self.reads: set[str] = set()
        self.domain: TimeDomain | None = None
        self._tables: dict[str, BoundSubquery] = {}  # WITH

    def bind(self, query: exp.Query) -> BoundQuery:
        with all_read(query, self.text):
            bound = self.query(query)
        check_depth(bound.plan, place_of(query, self.text))
        if bound.plan.kind == "relation" and is_monotonic(bound.plan):
            self._default("the query only ever grows: ISTREAM is applied to its result")
            bound.plan = self._to_stream("istream", bound.plan, place_of(query, self.text))
            query = _with_operator(query, "ISTREAM")
        return BoundQuery(
            bound.plan,
            bound.schema,
            self.domain,
            tuple(self.defaults),
            query,
            frozenset(self.reads),
        )

    def bind_subquery(self, query: exp.Query, scope: Scope) -> tuple[Block, list[Expression]]:
        """A subquery of an expression: its block, and what it takes from the outer row."""
        if isinstance(query, exp.Select) and not operator_of(query):
            inner = Scope(scope)
            with self._with_tables(query):
                block = self._block(query, inner)
            return block, inner.outer
        bound = self.relation(self.query(query), query, "the subquery", None)
        columns = _columns(bound.plan)
        return Block(bound.plan, select=list(columns), names=bound.names), []

    # Queries

    def query(self, query: exp.Expr) -> BoundSubquery:
        """A query inside of another, or the outermost one."""
        with self._with_tables(query):
            if isinstance(query, exp.Subquery):
                refuse_clauses(query, self.text)
                if query.args.get("joins"):
                    raise NotSupportedError("a join needs a SELECT around it", place=self._place(query))
                inner = self.query(query.this)
                window = query.args.get(WINDOW)
                return inner if window is None else self.relation(inner, query, "the query", window)
            if isinstance(query, exp.Select):
                return self._select(query)
            if isinstance(query, exp.SetOperation):
                return self._set_operation(query)
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
            raise NotSupportedError("WITH RECURSIVE is not supported", place=self._place(with_))
        given: set[str] = set()
        for part in with_.expressions:
            alias = part.args["alias"]
            if alias.name.lower() in given:
                raise NameError(f'"{alias.name}" stands twice in WITH', place=self._place(alias))
            given.add(alias.name.lower())
            bound = self.query(part.this)
            bound.names = renamed(bound.names, alias.args.get("columns") or [], alias.name, self.text)
            self._tables[alias.name.lower()] = bound

    def _select(self, query: exp.Select) -> BoundSubquery:
        operator = operator_of(query)
        block = self._block(query, Scope())
        if operator is not None and operator.args.get("distinct"):
            block.distinct = True
        plan = plan_block(block)
        if operator is not None:
            kind = cast(lo.StreamKind, operator.this.lower())
            plan = self._to_stream(kind, plan, place_of(operator, self.text))
        return BoundSubquery(plan, block.names, self.domain)

    def _block(self, query: exp.Select, scope: Scope) -> Block:
        select = SelectBinder(self, query, scope)
        return select.block(FromBinder(self).bind(query, scope))

    def _set_operation(self, query: exp.SetOperation) -> BoundSubquery:
        """A chain of one operation, however long, at once: the sides are nested to the left."""
        operations: list[exp.SetOperation] = []
        first: exp.Expr = query
        while isinstance(first, exp.SetOperation) and (not operations or not first.args.get("with_")):
            refuse_clauses(first, self.text)
            operations.append(first)
            first = first.args["this"]
        leftmost = self._side(first)
        chain = SetChain(leftmost.plan)
        for operation in reversed(operations):
            kind = KINDS[(type(operation), bool(operation.args.get("distinct")))]
            side = operation.args["expression"]
            chain.add(kind, self._side(side).plan, self._place(side))
        return BoundSubquery(chain.plan, leftmost.names, self.domain)

    def _side(self, side: exp.Expr) -> BoundSubquery:
        return self.relation(self.query(side), side, "one side of the set operation", None)

    def _to_stream(self, operator: lo.StreamKind, plan: lo.Node, place: Place) -> lo.Node:
        microseconds = self.domain is not None and self.domain.is_microseconds
        if operator == "rstream" and microseconds and not lives_one_tick(plan):
            raise BindError(
                "RSTREAM would repeat its rows every microsecond",
                hint="declare TICK INTERVAL on the streams, or use [NOW] windows",
                place=place,
            )
        return lo.RelationToStream(plan, operator)

    # What stands in FROM

    def table(self, item: exp.Table) -> tuple[BoundSubquery, str]:
        name = ".".join(part.name for part in item.parts)
        key = name.lower()
        if key in self._tables:
            found = self._tables[key]
            return BoundSubquery(found.plan, list(found.names), found.domain), item.name
        definition = self.catalog.get(key)
        if definition is None:
            known = [d.name for d in self.catalog.values()] + list(self._tables)
            raise NameError(
                f'there is no stream, table or view called "{name}"',
                hint=did_you_mean(name, [n for n in known if not n.startswith("_")]),
                place=self._place(item),
            )
        self.reads.add(key)
        domain = definition.domain
        if domain is not None:
            self._share_domain(domain, definition.name, self._place(item))
        if isinstance(definition, StreamDefinition):
            plan: lo.Node = lo.StreamScan(key, definition.columns, definition.name)
        elif isinstance(definition, TableDefinition):
            plan = lo.TableScan(key, definition.columns, definition.name, definition.nature, definition.log)
        else:
            plan = _of_view(definition.plan)
        return BoundSubquery(plan, [field.name for field in definition.columns], domain), item.name

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
            specification = bind_window(window, schema, bound.domain, self.settings, self.text)
        else:
            self._default(f"{shown} is a stream without a window: [RANGE UNBOUNDED] is applied")
            unbounded = StreamWindow(kind="RANGE", size=exp.Var(this="UNBOUNDED"))
            specification = bind_window(unbounded, bound.schema, bound.domain, self.settings, self.text)
            if isinstance(item, exp.Table | exp.Subquery):
                item.set(WINDOW, unbounded)
        return BoundSubquery(lo.Window(plan, specification), bound.names, bound.domain)

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


def _of_view(plan: lo.Node) -> lo.Node:
    """A view's plan, whose joins say that they are one."""
    if isinstance(plan, lo.Project | lo.Filter):
        return replace(plan, input=_of_view(plan.input))
    return replace(plan, of_view=True) if isinstance(plan, lo.Join) and plan.join == "inner" else plan
