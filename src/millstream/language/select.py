"""Binds the clauses of a SELECT over its FROM list: WHERE, the select list, GROUP BY and HAVING, DISTINCT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from millstream.errors import BindError, NameError, NotSupportedError, Place, TypeError
from millstream.kernel.scalar.expressions import Column, Expression, conjuncts
from millstream.language.blocks import AggregateReference, Block, Source, width_of
from millstream.language.expressions import ExpressionBinder, ExpressionContext
from millstream.language.generators import check_list, generator_of
from millstream.language.group_by import GroupClause, GroupingReference, grouping_value
from millstream.language.lengths import check_columns
from millstream.language.ordering import OrderClauses
from millstream.language.over import OverBinder, named_windows
from millstream.language.scope import Scope
from millstream.language.stars import edited, star_of
from millstream.language.syntax import SOURCE_TEXT, StreamOperator, place_of
from millstream.names import shown_name, why_unusable
from millstream.plan.nodes import AggregateCall
from millstream.types import MONTHS


class SelectBinder:
    """Binds one SELECT, whose clauses are checked before anything of it is bound; FROM fills the scope meanwhile."""

    def __init__(self, binder: ExpressionContext, query: exp.Select, scope: Scope) -> None:
        self._binder, self._query, self._scope = binder, query, scope
        _check_clauses(query, binder.text)
        operator = operator_of(query)
        self._items = operator.expressions if operator is not None else query.expressions
        if not self._items:
            raise BindError("SELECT without columns", hint="SELECT * has all of them", place=self._place(query))

    def block(self, source: Source) -> Block:
        """The clauses over what FROM gives."""
        query, scope, block = self._query, self._scope, Block(source)
        if query.args.get("where") is not None:
            condition = ExpressionBinder(self._binder, scope, "WHERE").condition(query.args["where"].this)
            block.where = conjuncts(condition)
        self._windows = named_windows(query, self._binder.text)
        binder = ExpressionBinder(self._binder, scope, "the select list", aggregates=True, windows=self._windows)
        for item in self._items:
            self._select_item(item, binder, block)
            check_columns(len(block.select), self._place(item))
        if block.generated is not None and query.args.get("group") is not None:
            raise NotSupportedError(
                "rows of an array in the select list of GROUP BY",
                hint="write FROM t, LATERAL explode(t.x) AS e(n)",
                place=self._place(query),
            )
        names, block.names = block.names, unique(block.names)
        having = query.args.get("having")
        if having is not None:
            clause = ExpressionBinder(
                self._binder, scope, "HAVING", aggregates=True, fallbacks=_once(names, block.select)
            )
            block.having = clause.condition(having.this)
        ordering = OrderClauses(query, self._binder.text)
        block.order = ordering.items(block.select, names, self._order_item)
        block.places = ordering.places()
        self._qualify(block, names)
        for window in self._windows.values():
            OverBinder(binder, self._windows, window).check()
        self._group(block)
        block.distinct = query.args.get("distinct") is not None
        return block

    def _order_item(self, node: exp.Expr, aliases: Mapping[str, Expression]) -> Expression:
        binder = ExpressionBinder(
            self._binder, self._scope, "ORDER BY", aggregates=True, aliases=aliases, windows=self._windows
        )
        return binder.bind(node)

    def _qualify(self, block: Block, names: Sequence[str]) -> None:
        """QUALIFY: columns of FROM go before names of the select list."""
        qualify = self._query.args.get("qualify")
        if qualify is None:
            return
        place = self._place(qualify)
        known = {name.lower() for name, _ in self._scope.columns(None, place)}
        aliases = {n.lower(): item for n, item in zip(names, block.select, strict=True) if n.lower() not in known}
        binder = ExpressionBinder(
            self._binder, self._scope, "QUALIFY", aggregates=True, aliases=aliases, windows=self._windows
        )
        block.qualify = binder.condition(qualify.this)
        if not block.has_windows:
            raise BindError("QUALIFY without OVER", hint="use WHERE or HAVING", place=place)

    def _select_item(self, item: exp.Expr, binder: ExpressionBinder, block: Block) -> None:
        if (star := star_of(item)) is not None:
            if not self._scope.sources:
                raise BindError("* without FROM", place=self._place(item))
            table = item.table if isinstance(item, exp.Column) else None
            columns = self._scope.columns(table, self._place(item))
            for name, column in edited(columns, star, lambda node: self._value(node, binder), self._place):
                if name not in dict(columns):
                    self._check_name(name, item)
                block.select.append(column)
                block.names.append(name)
            return
        if self._generated(item, binder, block):
            return
        name = item.output_name
        if isinstance(item, exp.Alias):
            self._check_name(name, item)
            value = item.this
        else:
            value = item
            if not isinstance(item, exp.Column):
                name = " ".join((item.meta.get(SOURCE_TEXT) or str(type(item).__name__)).split())
        block.select.append(self._value(value, binder))
        block.names.append(name)

    def _generated(self, item: exp.Expr, binder: ExpressionBinder, block: Block) -> bool:
        """explode(x) AS n, or posexplode(x) AS (pos, n): the rows that WHERE keeps, once for each element."""
        named = isinstance(item, exp.Alias | exp.Aliases)
        generator = generator_of(item.this if named else item, self._binder.text)
        if generator is None:
            return False
        if block.generated is not None:
            raise BindError(
                "two functions that make rows in one select list",
                hint="write FROM t, LATERAL explode(t.x) AS e(n), LATERAL explode(t.y) AS f(m)",
                place=self._place(item),
            )
        lists = [ExpressionBinder(self._binder, self._scope, "explode").bind(value) for value in generator.values]
        for value in lists:
            check_list(value, self._place(item))
        names = [part.name for part in item.expressions] if isinstance(item, exp.Aliases) else []
        names = [item.alias] if isinstance(item, exp.Alias) else names
        if names and len(names) != generator.width:
            raise BindError(f"{len(names)} names for other columns than these", place=self._place(item))
        for place, column in enumerate(generator.schema(lists, names)):
            self._check_name(column.name, item)
            block.select.append(Column(column.type, width_of(block.source) + place, column.name))
            block.names.append(column.name)
        block.generated = tuple(lists), generator
        return True

    def _value(self, node: exp.Expr, binder: ExpressionBinder) -> Expression:
        bound = binder.bind(node)
        if bound.type == MONTHS:
            place = self._place(node)
            raise TypeError("an interval of months cannot be a column", hint="add it to a date", place=place)
        return bound

    def _check_name(self, name: str, item: exp.Expr) -> None:
        if name.startswith("_"):
            raise NameError(f'"{name}" starts with _', hint="choose another name", place=self._place(item))
        if reason := why_unusable(name, is_object=False):
            raise NameError(f'"{shown_name(name)}" cannot be a name', detail=reason, place=self._place(item))

    def _group(self, block: Block) -> None:
        """GROUP BY: gather the aggregates, and move select list and HAVING behind them."""
        group = self._query.args.get("group")
        after = [*block.select, *([] if block.having is None else [block.having])]
        after += [*([] if block.qualify is None else [block.qualify]), *(item.expression for item in block.order)]
        calls = [node.call for item in after for node in item.walk() if isinstance(node, AggregateReference)]
        if group is None and not calls and block.having is None:
            return
        block.grouped = True
        block.calls = list(dict.fromkeys(calls))
        if group is not None:
            GroupClause(group, lambda key: self._group_key(key, block), self._place(group)).into(block)
        row: list[Expression | AggregateCall] = [*block.keys, *block.calls]
        places = {part: at for at, part in reversed([*enumerate(row)])}  # of equal ones that of the first
        items = self._items if len(self._items) == len(block.select) else None
        for index, expression in enumerate(block.select):
            place = self._place(items[index] if items else self._query)
            block.select[index] = _behind_group(expression, block, places, place)
        if block.having is not None:
            block.having = _behind_group(block.having, block, places, self._place(self._query.args["having"]))
        if block.qualify is not None:
            block.qualify = _behind_group(block.qualify, block, places, self._place(self._query.args["qualify"]))
        if block.order:
            place = self._place(self._query.args["order"])
            block.order = [
                replace(item, expression=_behind_group(item.expression, block, places, place)) for item in block.order
            ]

    def _group_key(self, key: exp.Expr, block: Block) -> Expression:
        bound: Expression | None = None
        if isinstance(key, exp.Literal) and not key.is_string:
            if not key.name.isdigit() or not 1 <= int(key.name) <= len(block.select):
                raise BindError(f"GROUP BY {key.name}: the select list has no such column", place=self._place(key))
            bound = block.select[int(key.name) - 1]
        elif isinstance(key, exp.Column) and not key.table:
            names = [name.lower() for name in block.names]
            if names.count(key.name.lower()) == 1 and not self._scope.has(key.name, self._place(key)):
                bound = block.select[names.index(key.name.lower())]
        if bound is None:
            bound = ExpressionBinder(self._binder, self._scope, "GROUP BY").bind(key)
        if any(isinstance(node, AggregateReference) for node in bound.walk()):
            raise BindError("GROUP BY an aggregate", place=self._place(key))
        return bound

    def _place(self, node: exp.Expr) -> Place:
        return place_of(node, self._binder.text)


def operator_of(query: exp.Select) -> StreamOperator | None:
    first = query.expressions[0] if query.expressions else None
    return first if isinstance(first, StreamOperator) else None


def _check_clauses(query: exp.Select, text: str) -> None:
    distinct = query.args.get("distinct")
    operator = operator_of(query)
    if distinct is not None and distinct.args.get("on") is not None:
        hint = "write ROW_NUMBER() OVER (PARTITION BY a ORDER BY ..) in a subquery, and keep what is 1"
        raise NotSupportedError("DISTINCT ON is not supported", hint=hint, place=place_of(distinct, text))
    if distinct is not None and operator is not None:
        raise BindError(
            f"DISTINCT outside {operator.this}",
            hint=f"write SELECT {operator.this}(DISTINCT ...)",
            place=place_of(operator, text),
        )


def _behind_group(
    expression: Expression, block: Block, places: Mapping[Expression | AggregateCall, int], place: Place
) -> Expression:
    """The expression over the row (keys, calls) of a GROUP BY, which are at these places."""
    if (index := places.get(expression)) is not None:
        return Column(expression.type, index, str(expression))
    if isinstance(expression, AggregateReference):
        return Column(expression.type, places[expression.call], str(expression))
    if isinstance(expression, GroupingReference):
        return grouping_value(expression, block, place)
    if isinstance(expression, Column):
        raise BindError(
            f'column "{expression.name}" is neither grouped nor aggregated',
            hint=f"add it to GROUP BY, or put it into an aggregate such as MAX({expression.name})",
            place=place,
        )
    children = tuple(_behind_group(child, block, places, place) for child in expression.children)
    return expression.with_children(children) if children else expression


def _once(names: Sequence[str], values: Sequence[Expression]) -> dict[str, Expression]:
    """What names of the select list stand for that are there once."""
    lower = [name.lower() for name in names]
    times = Counter(lower)
    return {name: value for name, value in zip(lower, values, strict=True) if times[name] == 1}


def unique(names: Sequence[str], reserved: Iterable[str] = ()) -> list[str]:
    """Output names made unique, and other than those that are reserved: a, a_1, a_2, ..."""
    taken, last = set(reserved), dict[str, int]()
    result = []
    for name in names:
        candidate, suffix = name, last.get(name, 0)
        while candidate.lower() in taken:
            suffix += 1
            candidate = f"{name}_{suffix}"
        taken.add(candidate.lower())
        last[name] = suffix  # all before it are taken
        result.append(candidate)
    return result
