"""Binds the clauses of a SELECT over its FROM list: WHERE, the select list, GROUP BY and HAVING, DISTINCT."""

from __future__ import annotations

from sqlglot import exp

from millstream.errors import BindError, NameError, NotSupportedError, Place, did_you_mean
from millstream.kernel.scalar.expressions import Column, Expression, conjuncts
from millstream.language.blocks import AggregateReference, Block
from millstream.language.expressions import ExpressionBinder, ExpressionContext
from millstream.language.scope import Scope
from millstream.language.syntax import SOURCE_TEXT, StreamOperator, place_of
from millstream.names import shown_name, why_unusable
from millstream.plan import nodes as lo

# Said before anything is bound, for the sake of the words; other clauses are refused as not read.
_REFUSED_CLAUSES = {
    "order": "ORDER BY: relations are bags, and streams are in time order anyway",
    "limit": "LIMIT: use a [ROWS n] window",
    "offset": "OFFSET",
    "qualify": "QUALIFY",
    "laterals": "LATERAL VIEW",
    "windows": "WINDOW: windows stand in FROM, in brackets",
}


class SelectBinder:
    """Binds one SELECT, whose clauses are checked before anything of it is bound; FROM fills the scope meanwhile."""

    def __init__(self, binder: ExpressionContext, query: exp.Select, scope: Scope) -> None:
        self._binder, self._query, self._scope = binder, query, scope
        _check_clauses(query, binder.text)
        operator = operator_of(query)
        self._items = operator.expressions if operator is not None else query.expressions
        if not self._items:
            raise BindError("SELECT without columns", place=self._place(query))

    def block(self, source: lo.Node) -> Block:
        """The clauses over what FROM gives."""
        query, scope, block = self._query, self._scope, Block(source)
        if query.args.get("where") is not None:
            condition = ExpressionBinder(self._binder, scope, "WHERE").condition(query.args["where"].this)
            block.where = conjuncts(condition)
        binder = ExpressionBinder(self._binder, scope, "the select list", aggregates=True)
        for item in self._items:
            self._select_item(item, binder, block)
        block.names = _unique(block.names)
        having = query.args.get("having")
        if having is not None:
            clause = ExpressionBinder(self._binder, scope, "HAVING", aggregates=True)
            block.having = clause.condition(having.this)
        self._group(block)
        block.distinct = query.args.get("distinct") is not None
        return block

    def _select_item(self, item: exp.Expr, binder: ExpressionBinder, block: Block) -> None:
        star_of = item.table if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else None
        if isinstance(item, exp.Star) or star_of is not None:
            if not self._scope.sources:
                raise BindError("* without FROM", place=self._place(item))
            columns = self._scope.columns(star_of, self._place(item))
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

    def _group(self, block: Block) -> None:
        """GROUP BY: gather the aggregates, and move select list and HAVING behind them."""
        group = self._query.args.get("group")
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
            block.keys = [self._group_key(key, block) for key in group.expressions]
        items = self._items if len(self._items) == len(block.select) else None
        for index, expression in enumerate(block.select):
            place = self._place(items[index] if items else self._query)
            block.select[index] = _behind_group(expression, block, place)
        if block.having is not None:
            block.having = _behind_group(block.having, block, self._place(self._query.args["having"]))

    def _group_key(self, key: exp.Expr, block: Block) -> Expression:
        bound: Expression | None = None
        if isinstance(key, exp.Literal) and not key.is_string:
            if not key.name.isdigit() or not 1 <= int(key.name) <= len(block.select):
                raise BindError(f"GROUP BY {key.name}: the select list has no such column", place=self._place(key))
            bound = block.select[int(key.name) - 1]
        elif isinstance(key, exp.Column) and not key.table:
            try:
                bound = ExpressionBinder(self._binder, self._scope, "GROUP BY").bind(key)
            except NameError:
                names = [name.lower() for name in block.names]
                if names.count(key.name.lower()) != 1:
                    raise
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


def refuse_clauses(query: exp.Expr, text: str) -> None:
    for clause, words in _REFUSED_CLAUSES.items():
        if value := query.args.get(clause):
            place = place_of(value[0] if isinstance(value, list) else value, text)
            raise NotSupportedError(f"{words} is not supported", place=place)


def _check_clauses(query: exp.Select, text: str) -> None:
    refuse_clauses(query, text)
    distinct = query.args.get("distinct")
    operator = operator_of(query)
    if distinct is not None and distinct.args.get("on") is not None:
        raise NotSupportedError("DISTINCT ON is not supported", place=place_of(distinct, text))
    if distinct is not None and operator is not None:
        raise BindError(
            f"DISTINCT outside {operator.this}",
            hint=f"write SELECT {operator.this}(DISTINCT ...)",
            place=place_of(operator, text),
        )


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
