"""Binds queries: names, types and kinds; applies the defaults of CQL and reports them.

`bind` gives a `BoundQuery`: the logical plan, whether it is a stream or a relation, the defaults that were applied and
the text with them written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from sqlglot import exp

from millstream import types
from millstream.errors import BindError, NameError, NotSupportedError, Place, did_you_mean
from millstream.kernel.scalar.expressions import Column, Expression, Literal, conjuncts
from millstream.kernel.scalar.functions import call
from millstream.language.blocks import AggregateReference, Block, SubqueryExpression
from millstream.language.dialect import CQL
from millstream.language.expressions import ExpressionBinder, UserCode
from millstream.language.reading import all_read
from millstream.language.scope import OuterColumn, Scope
from millstream.language.set_operations import KINDS, SetChain
from millstream.language.syntax import SAMPLE, SOURCE_TEXT, WINDOW, StreamOperator, StreamWindow, place_of
from millstream.language.unnest import plan_block
from millstream.language.windows import bind_sample, bind_window
from millstream.names import shown_name, why_unusable
from millstream.plan import nodes as lo
from millstream.plan.analysis.depth import check_depth
from millstream.plan.analysis.lifetime import lives_one_tick
from millstream.plan.analysis.monotonic import is_monotonic
from millstream.plan.definitions import Definition, StreamDefinition, TableDefinition, TimeDomain
from millstream.settings import Settings
from millstream.types import Field, Schema

Catalog = Mapping[str, Definition]

# Said before anything is bound, for the sake of the words; other clauses are refused as not read.
_REFUSED_CLAUSES = {
    "order": "ORDER BY: relations are bags, and streams are in time order anyway",
    "limit": "LIMIT: use a [ROWS n] window",
    "offset": "OFFSET",
    "qualify": "QUALIFY",
    "laterals": "LATERAL VIEW",
    "windows": "WINDOW: windows stand in FROM, in brackets",
}


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


@dataclass
class Bound:
    """A bound query inside another: its plan, output names and time domain."""

    plan: lo.Node
    names: list[str]
    domain: TimeDomain | None

    @property
    def schema(self) -> Schema:
        return tuple(Field(n, f.type) for n, f in zip(self.names, self.plan.schema, strict=True))


class Binder:
    """Binds one text against a catalog."""

    def __init__(
        self,
        catalog: Catalog,
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
        self._tables: dict[str, Bound] = {}  # WITH

    def bind(self, query: exp.Query) -> BoundQuery:
        with all_read(query, self.text):
            bound = self._query(query, None)
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
        if isinstance(query, exp.Select) and not _operator_of(query):
            inner = Scope(scope)
            with self._with_tables(query):
                block = self._block(query, inner)
            return block, inner.outer
        bound = self._relation(self._query(query, None), query, "the subquery", None)
        columns = _columns(bound.plan)
        return Block(bound.plan, select=list(columns), names=bound.names), []

    # Queries

    def _query(self, query: exp.Expr, parent: Scope | None) -> Bound:
        with self._with_tables(query):
            if isinstance(query, exp.Subquery):
                self._refuse_clauses(query)
                if query.args.get("joins"):
                    raise NotSupportedError("a join needs a SELECT around it", place=self._place(query))
                inner = self._query(query.this, parent)
                window = query.args.get(WINDOW)
                return inner if window is None else self._relation(inner, query, "the query", window)
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
            bound = self._query(part.this, None)
            bound.names = self._renamed(bound.names, alias.args.get("columns") or [], alias.name)
            self._tables[alias.name.lower()] = bound

    def _select(self, query: exp.Select) -> Bound:
        operator = _operator_of(query)
        block = self._block(query, Scope())
        if operator is not None and operator.args.get("distinct"):
            block.distinct = True
        plan = plan_block(block)
        if operator is not None:
            kind = cast(lo.StreamKind, operator.this.lower())
            plan = self._to_stream(kind, plan, place_of(operator, self.text))
        return Bound(plan, block.names, self.domain)

    def _set_operation(self, query: exp.SetOperation) -> Bound:
        """A chain of one operation, however long, at once: the sides are nested to the left."""
        operations: list[exp.SetOperation] = []
        first: exp.Expr = query
        while isinstance(first, exp.SetOperation) and (not operations or not first.args.get("with_")):
            self._refuse_clauses(first)
            operations.append(first)
            first = first.args["this"]
        leftmost = self._side(first)
        chain = SetChain(leftmost.plan)
        for operation in reversed(operations):
            kind = KINDS[(type(operation), bool(operation.args.get("distinct")))]
            side = operation.args["expression"]
            chain.add(kind, self._side(side).plan, self._place(side))
        return Bound(chain.plan, leftmost.names, self.domain)

    def _side(self, side: exp.Expr) -> Bound:
        return self._relation(self._query(side, None), side, "one side of the set operation", None)

    def _to_stream(self, operator: lo.StreamKind, plan: lo.Node, place: Place) -> lo.Node:
        microseconds = self.domain is not None and self.domain.is_microseconds
        if operator == "rstream" and microseconds and not lives_one_tick(plan):
            raise BindError(
                "RSTREAM would repeat its rows every microsecond",
                hint="declare TICK INTERVAL on the streams, or use [NOW] windows",
                place=place,
            )
        return lo.RelationToStream(plan, operator)

    # SELECT

    def _block(self, query: exp.Select, scope: Scope) -> Block:
        self._check_clauses(query)
        operator = _operator_of(query)
        items = operator.expressions if operator is not None else query.expressions
        if not items:
            raise BindError("SELECT without columns", place=self._place(query))
        block = Block(self._from(query, scope))
        if query.args.get("where") is not None:
            condition = ExpressionBinder(self, scope, "WHERE").condition(query.args["where"].this)
            block.where = conjuncts(condition)
        binder = ExpressionBinder(self, scope, "the select list", aggregates=True)
        for item in items:
            self._select_item(item, binder, scope, block)
        block.names = _unique(block.names)
        having = query.args.get("having")
        if having is not None:
            clause = ExpressionBinder(self, scope, "HAVING", aggregates=True)
            block.having = clause.condition(having.this)
        self._group(query, scope, block, items)
        block.distinct = query.args.get("distinct") is not None
        return block

    def _check_clauses(self, query: exp.Select) -> None:
        self._refuse_clauses(query)
        distinct = query.args.get("distinct")
        operator = _operator_of(query)
        if distinct is not None and distinct.args.get("on") is not None:
            raise NotSupportedError("DISTINCT ON is not supported", place=self._place(distinct))
        if distinct is not None and operator is not None:
            raise BindError(
                f"DISTINCT outside {operator.this}",
                hint=f"write SELECT {operator.this}(DISTINCT ...)",
                place=self._place(operator),
            )

    def _refuse_clauses(self, query: exp.Expr) -> None:
        for clause, words in _REFUSED_CLAUSES.items():
            if value := query.args.get(clause):
                place = self._place(value[0] if isinstance(value, list) else value)
                raise NotSupportedError(f"{words} is not supported", place=place)

    def _select_item(self, item: exp.Expr, binder: ExpressionBinder, scope: Scope, block: Block) -> None:
        star_of = item.table if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else None
        if isinstance(item, exp.Star) or star_of is not None:
            if not scope.sources:
                raise BindError("* without FROM", place=self._place(item))
            columns = scope.columns(star_of, self._place(item))
            excepted = (item if isinstance(item, exp.Star) else item.this).args.get("except_") or []
            for name, column in self._without(columns, excepted):
                block.select.append(column)
                block.names.append(name)
            return
        name = item.output_name
        if isinstance(item, exp.Alias):
            if name.startswith("_"):
                raise NameError(f'"{name}" starts with _', hint="choose another name", place=self._place(item))
            if reason := why_unusable(name, is_object=False):
                raise NameError(f'"{shown_name(name)}" cannot be a name', detail=reason, place=self._place(item))
            value = item.this
        else:
            value = item
            if not isinstance(item, exp.Column):
                name = " ".join((item.meta.get(SOURCE_TEXT) or str(type(item).__name__)).split())
        block.select.append(binder.bind(value))
        block.names.append(name)

    def _without(self, columns: list[tuple[str, Expression]], excepted: list[exp.Expr]) -> list[tuple[str, Expression]]:
        """What `* EXCEPT (a, b)` leaves."""
        known = [name for name, _ in columns]
        for column in excepted:
            plain = isinstance(column, exp.Identifier) or (isinstance(column, exp.Column) and not column.table)
            if not plain or column.name.lower() not in (name.lower() for name in known):
                raise NameError(
                    f'EXCEPT of an unknown column "{column.name}"',
                    hint=did_you_mean(column.name, known),
                    place=self._place(column),
                )
        names = {column.name.lower() for column in excepted}
        left = [(name, column) for name, column in columns if name.lower() not in names]
        if not left:
            raise BindError("* EXCEPT leaves no column", place=self._place(excepted[0]))
        return left

    def _group(self, query: exp.Select, scope: Scope, block: Block, items: list[exp.Expr]) -> None:
        """GROUP BY: gather the aggregates, and move select list and HAVING behind them."""
        group = query.args.get("group")
        after = [*block.select, *([] if block.having is None else [block.having])]
        calls = [node.call for item in after for node in item.walk() if isinstance(node, AggregateReference)]
        if group is None and not calls and block.having is None:
            return
        block.grouped = True
        block.calls = list(dict.fromkeys(calls))
        if group is not None:
            unsupported = [name for name, value in group.args.items() if value and name != "expressions"]
            if unsupported:
                raise NotSupportedError(f"GROUP BY {unsupported[0].upper()} is not supported", place=self._place(group))
            block.keys = [self._group_key(key, scope, block) for key in group.expressions]
        place_items = items if len(items) == len(block.select) else None
        for index, expression in enumerate(block.select):
            place = self._place(place_items[index]) if place_items else self._place(query)
            block.select[index] = _behind_group(expression, block, place)
        if block.having is not None:
            block.having = _behind_group(block.having, block, self._place(query.args["having"]))

    def _group_key(self, key: exp.Expr, scope: Scope, block: Block) -> Expression:
        bound: Expression | None = None
        if isinstance(key, exp.Literal) and not key.is_string:
            if not key.name.isdigit() or not 1 <= int(key.name) <= len(block.select):
                raise BindError(f"GROUP BY {key.name}: the select list has no such column", place=self._place(key))
            bound = block.select[int(key.name) - 1]
        elif isinstance(key, exp.Column) and not key.table:
            try:
                bound = ExpressionBinder(self, scope, "GROUP BY").bind(key)
            except NameError:
                names = [name.lower() for name in block.names]
                if names.count(key.name.lower()) != 1:
                    raise
                bound = block.select[names.index(key.name.lower())]
        if bound is None:
            bound = ExpressionBinder(self, scope, "GROUP BY").bind(key)
        if any(isinstance(node, AggregateReference) for node in bound.walk()):
            raise BindError("GROUP BY an aggregate", place=self._place(key))
        return bound

    # FROM

    def _from(self, query: exp.Select, scope: Scope) -> lo.Node:
        from_ = query.args.get("from_")
        if from_ is None:
            if query.args.get("joins"):
                raise BindError("a join without FROM", place=self._place(query))
            return lo.OneRow()
        trailing = query.args.get(WINDOW)
        plan = self._from_item(from_.this, scope, trailing)
        for join in query.args.get("joins") or []:
            plan = self._join(plan, join, scope, trailing)
        return plan

    def _from_item(self, item: exp.Expr, scope: Scope, trailing: StreamWindow | None) -> lo.Node:
        place = self._place(item)
        window = item.args.get(WINDOW) or trailing
        if isinstance(item, exp.Table):
            bound, name = self._table(item)
        elif isinstance(item, exp.Subquery):
            if isinstance(item.this, exp.Table | exp.Subquery) and _is_parenthesised_join(item):
                return self._parenthesised(item, scope, trailing)
            bound, name = self._query(item.this, None), item.alias
        else:
            raise NotSupportedError(f"{item.sql(dialect='spark')[:40]} is not supported in FROM", place=place)
        shown = f'"{name}"' if name else "the subquery"
        bound = self._relation(bound, item, shown, window)
        alias = item.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            bound.names = self._renamed(bound.names, alias.args["columns"], alias.name)
        scope.add(item.alias or name, bound.schema, place)
        plan = bound.plan
        for join in item.args.get("joins") or []:
            plan = self._join(plan, join, scope, trailing)
        return plan

    def _parenthesised(self, item: exp.Subquery, scope: Scope, trailing: StreamWindow | None) -> lo.Node:
        """(a JOIN b ON ..): the items keep their own names; an alias for all of them hides those."""
        if item.args.get(WINDOW) or item.alias:
            raise NotSupportedError(
                "a window or an alias on a join in parentheses",
                hint="write a subquery: (SELECT ... FROM a JOIN b ON ...)",
                place=self._place(item),
            )
        if scope.sources:
            # Positions inside the parentheses start at 0 and are moved behind what FROM already holds.
            inner = Scope(scope.parent)
            plan = self._from_item(item.this, inner, trailing)
            scope.merged += [merged.moved(scope.width) for merged in inner.merged]
            for source in inner.sources:
                scope.add(source.name, source.schema, self._place(item))
        else:
            plan = self._from_item(item.this, scope, trailing)
        for join in item.args.get("joins") or []:
            plan = self._join(plan, join, scope, trailing)
        return plan

    def _table(self, item: exp.Table) -> tuple[Bound, str]:
        name = ".".join(part.name for part in item.parts)
        key = name.lower()
        if key in self._tables:
            found = self._tables[key]
            return Bound(found.plan, list(found.names), found.domain), item.name
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
        return Bound(plan, [field.name for field in definition.columns], domain), item.name

    def _relation(self, bound: Bound, item: exp.Expr, shown: str, window: StreamWindow | None) -> Bound:
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
        return Bound(lo.Window(plan, specification), bound.names, bound.domain)

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

    def _join(self, left: lo.Node, join: exp.Join, scope: Scope, trailing: StreamWindow | None) -> lo.Node:
        place = self._place(join)
        kind = _join_kind(join)
        if kind is None:
            raise NotSupportedError(f"{join.side} {join.kind} {join.method} JOIN is not supported".upper(), place=place)
        before, merged = list(scope.sources), list(scope.merged)
        right = self._from_item(join.this, scope, trailing)
        added = scope.sources[len(before) :]
        sides = scope.part(before, merged), scope.part(added, [m for m in scope.merged if m not in merged])
        using = [identifier.name for identifier in join.args.get("using") or []]
        if join.method == "NATURAL":
            names = {name.lower() for name, _ in sides[1].columns(None, place)}
            using = [name for name, _ in sides[0].columns(None, place) if name.lower() in names]
        condition: Expression = Literal(types.BOOLEAN, True)
        if using:
            condition = self._using(using, scope, sides, kind, place)
        elif join.args.get("on") is not None:
            condition = ExpressionBinder(self, scope, "ON").condition(join.args["on"])
        if any(isinstance(node, SubqueryExpression | OuterColumn) for node in condition.walk()):
            raise NotSupportedError("a subquery in ON", hint="put it into WHERE", place=place)
        if kind in ("semi", "anti"):
            del scope.sources[len(before) :]
        return lo.Join(left, right, kind, condition)

    def _using(
        self, names: list[str], scope: Scope, sides: tuple[Scope, Scope], kind: lo.JoinKind, place: Place
    ) -> Expression:
        """The condition of USING (names), each of which means one column from then on."""
        equalities = []
        for name in dict.fromkeys(name.lower() for name in names):
            left, right = (side.resolve(None, name, place) for side in sides)
            equalities.append(call("=", [left, right]))
            shown = next(known for known, _ in sides[0].columns(None, place) if known.lower() == name)
            if kind in ("semi", "anti"):
                scope.merge(shown, left, [left])
            else:
                value = call("coalesce", [left, right]) if kind == "full" else right if kind == "right" else left
                scope.merge(shown, value, [left, right])
        condition = equalities[0]
        for equality in equalities[1:]:
            condition = call("and", [condition, equality])
        return condition

    # Small things

    def _share_domain(self, domain: TimeDomain, name: str, place: Place) -> None:
        shared = domain if self.domain is None else self.domain.shared_with(domain)
        if shared is None:
            raise BindError(
                f'"{name}" counts time in {domain}, the other inputs in {self.domain}',
                hint="declare all streams of a query with the same TICK INTERVAL",
                place=place,
            )
        self.domain = shared

    def _renamed(self, names: list[str], columns: list[Any], owner: str) -> list[str]:
        if not columns:
            return names
        if len(columns) != len(names):
            raise BindError(
                f'"{owner}" names {len(columns)} columns, but there are {len(names)}',
                place=self._place(columns[0]),
            )
        return [column.name for column in columns]

    def _default(self, text: str) -> None:
        self.defaults.append(text)

    def _place(self, node: exp.Expr) -> Place:
        return place_of(node, self.text)


def _operator_of(query: exp.Select) -> StreamOperator | None:
    first = query.expressions[0] if query.expressions else None
    return first if isinstance(first, StreamOperator) else None


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


def _is_parenthesised_join(item: exp.Subquery) -> bool:
    inner = item.this
    while isinstance(inner, exp.Subquery) and not inner.args.get("joins"):
        inner = inner.this
    return isinstance(inner, exp.Table | exp.Subquery)


def _join_kind(join: exp.Join) -> lo.JoinKind | None:
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    if join.method and join.method.upper() != "NATURAL":
        return None
    if kind in ("SEMI", "ANTI") and side in ("", "LEFT"):
        return cast(lo.JoinKind, kind.lower())
    if kind in ("", "INNER", "CROSS", "OUTER") and side in ("", "LEFT", "RIGHT", "FULL"):
        return cast(lo.JoinKind, side.lower()) if side else "inner"
    return None


def _columns(plan: lo.Node) -> tuple[Column, ...]:
    return tuple(Column(field.type, index, field.name) for index, field in enumerate(plan.schema))


def _behind_group(expression: Expression, block: Block, place: Place) -> Expression:
    """The expression over the row (keys, calls) of a GROUP BY."""
    if expression in block.keys:
        index = block.keys.index(expression)
        return Column(expression.type, index, str(expression))
    if isinstance(expression, AggregateReference):
        index = block.calls.index(expression.call)
        return Column(expression.type, len(block.keys) + index, str(expression))
    if isinstance(expression, Column):
        raise BindError(
            f'column "{expression.name}" is neither grouped nor aggregated',
            hint=f"add it to GROUP BY, or put it into an aggregate such as MAX({expression.name})",
            place=place,
        )
    children = tuple(_behind_group(child, block, place) for child in expression.children)
    return expression.with_children(children) if children else expression


def _unique(names: list[str]) -> list[str]:
    """Output names made unique: a, a_1, a_2, ..."""
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, suffix = name, 0
        while candidate.lower() in taken:
            suffix += 1
            candidate = f"{name}_{suffix}"
        taken.add(candidate.lower())
        result.append(candidate)
    return result


def _of_view(plan: lo.Node) -> lo.Node:
    """A view's plan, whose joins say that they are one."""
    if isinstance(plan, lo.Project | lo.Filter):
        return replace(plan, input=_of_view(plan.input))
    return replace(plan, of_view=True) if isinstance(plan, lo.Join) and plan.join == "inner" else plan
