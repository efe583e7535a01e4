"""Plans blocks, and turns the subqueries in their expressions into joins.

    WHERE [NOT] EXISTS (Q)   semi (anti) join on Q's correlated conditions
    WHERE x [NOT] IN (Q)     the same, and x = y; for NOT IN, also where x = y is unknown, as SQL's NULL rules ask
    anywhere else            let D be the distinct values that Q takes from the outer row; Q is planned once over D,
                             grouped by D, and left-joined to the outer row on D (null-safe)

All of it holds at each instant, so it holds for time-varying relations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millstream import types
from millstream.kernel.aggregation.aggregate_calls import resolve_aggregate
from millstream.kernel.scalar.expressions import (
    FALSE,
    TRUE,
    Call,
    Case,
    Column,
    Expression,
    Literal,
    conjunction,
    map_columns,
)
from millstream.kernel.scalar.functions import call
from millstream.language.blocks import Block, SubqueryExpression
from millstream.language.scope import OuterColumn
from millstream.plan import nodes as lo
from millstream.types import DataType

_MANY = 16  # conditions


def plan_block(block: Block, domain: lo.Node | None = None) -> lo.Node:
    """The block's relation; with a domain, its columns stand in front: one copy of the block per row of the domain."""
    plan, offset = block.source, 0
    if domain is not None:
        plan, offset = lo.Join(domain, block.source, "inner"), len(domain.schema)
    taken = [Column(field.type, index, field.name) for index, field in enumerate(plan.schema[:offset])]
    over_source = _mover(offset, taken)
    for condition in _together(block.where):
        plan = _apply_condition(plan, over_source(condition))
    if block.grouped:
        calls = [replace(c, argument=None if c.argument is None else over_source(c.argument)) for c in block.calls]
        keys = (*taken, *(over_source(key) for key in block.keys))
        plan = lo.Aggregate(plan, keys, tuple(calls))
        if domain is not None and not block.keys:
            plan = _with_empty_groups(plan, domain)
        if block.having is not None:
            plan = _apply_condition(plan, over_source(block.having))
    expressions: list[Expression] = list(taken)
    for item in block.select:
        plan, bound = _attach_all(plan, over_source(item))
        expressions.append(bound)
    names = [column.name for column in taken] + block.names
    plan = lo.Project(plan, tuple(expressions), tuple(names))
    return lo.Distinct(plan) if block.distinct else plan


def _together(conditions: list[Expression]) -> list[Expression]:
    """The conditions that WHERE requires. Those with subqueries whose value is attached come last, however they are
    written: such a subquery is not computed for rows that another condition leaves out. Of very many conditions, those
    without subqueries are one: the plan is not deep then."""
    plain = [condition for condition in conditions if not _has_subquery(condition)]
    others = [condition for condition in conditions if _has_subquery(condition)]
    others.sort(key=lambda condition: _as_subquery_condition(condition)[0] is None)
    return [*([conjunction(plain)] if len(conditions) > _MANY and plain else plain), *others]


def _with_empty_groups(aggregate: lo.Aggregate, domain: lo.Node) -> lo.Node:
    """An aggregate without GROUP BY has a row also over nothing: COUNT is 0 there, the others are NULL."""
    width = len(domain.schema)
    own = [Column(field.type, index, field.name) for index, field in enumerate(domain.schema)]
    same = [call("<=>", [column, replace(column, index=column.index + width)]) for column in own]
    joined = lo.Join(domain, aggregate, "left", conjunction(same))
    results: list[Expression] = []
    for index, aggregated in enumerate(aggregate.calls):
        value = Column(aggregated.type, 2 * width + index, str(aggregated))
        counts = aggregated.function in ("count", "count_if")
        results.append(call("coalesce", [value, Literal(aggregated.type, 0)]) if counts else value)
    names = [field.name for field in aggregate.schema]
    return lo.Project(joined, (*own, *results), tuple(names), role="within")


def _mover(offset: int, taken: list[Column]) -> Callable[[Expression], Expression]:
    """Moves an expression of a block to a row with `offset` domain columns in front."""

    def change(node: Expression) -> Expression:
        if isinstance(node, Column):
            return replace(node, index=node.index + offset) if offset else node
        if isinstance(node, OuterColumn):
            return taken[node.index]
        return node

    return lambda expression: expression.transform(change)


def _apply_condition(plan: lo.Node, condition: Expression) -> lo.Node:
    """Keep the rows for which a WHERE conjunct (or HAVING) is true."""
    width = len(plan.schema)
    subquery, negated = _as_subquery_condition(condition)
    if subquery is not None and _can_join(subquery):
        extended, subquery = _with_plain_operands(plan, subquery)
        kept = _semi_join(extended, subquery, negated)
    else:
        extended, bound = _attach_all(plan, condition)
        kept = lo.Filter(extended, bound)
    if len(extended.schema) == width:
        return kept
    columns = tuple(Column(field.type, index, field.name) for index, field in enumerate(plan.schema))
    return lo.Project(kept, columns, tuple(field.name for field in plan.schema), role="within")


def _as_subquery_condition(condition: Expression) -> tuple[SubqueryExpression | None, bool]:
    negated = False
    while isinstance(condition, Call) and condition.function == "not":
        condition, negated = condition.arguments[0], not negated
    if isinstance(condition, SubqueryExpression) and condition.form in ("exists", "in"):
        return condition, negated
    return None, False


def _has_subquery(expression: Expression) -> bool:
    return any(isinstance(node, SubqueryExpression) for node in expression.walk())


def _is_correlated(expression: Expression) -> bool:
    return any(isinstance(node, OuterColumn) for node in expression.walk())


def _can_join(subquery: SubqueryExpression) -> bool:
    """Whether a semi or anti join does it: then correlation may stand only in plain conjuncts of the WHERE."""
    block = subquery.block
    if not subquery.operands:
        return True
    plain = all(not (_is_correlated(c) and _has_subquery(c)) for c in block.where)
    return block.is_simple and plain and not any(_is_correlated(item) or _has_subquery(item) for item in block.select)


def _semi_join(plan: lo.Node, subquery: SubqueryExpression, negated: bool) -> lo.Node:
    block, width = replace(subquery.block, distinct=False), len(plan.schema)
    correlated = [condition for condition in block.where if _is_correlated(condition)]
    if subquery.operands:
        right: lo.Node = block.source
        for condition in block.where:
            if not _is_correlated(condition):
                right = _apply_condition(right, condition)
        found = block.select[0] if block.select else None
    else:
        right = plan_block(block)
        right = replace(right, role="existence") if isinstance(right, lo.Project) else right
        found = Column(right.schema[0].type, 0, right.schema[0].name)

    def over_both(node: Expression) -> Expression:
        if isinstance(node, Column):
            return replace(node, index=node.index + width)
        return subquery.operands[node.index] if isinstance(node, OuterColumn) else node

    conditions = [condition.transform(over_both) for condition in correlated]
    if subquery.form == "in" and subquery.argument is not None and found is not None:
        equal = call("=", [subquery.argument, found.transform(over_both)])
        conditions.append(call("coalesce", [equal, TRUE]) if negated else equal)
    return lo.Join(plan, right, "anti" if negated else "semi", conjunction(conditions))


def _with_plain_operands(plan: lo.Node, subquery: SubqueryExpression) -> tuple[lo.Node, SubqueryExpression]:
    """What a subquery takes from the outer row may hold subqueries itself: they become columns first."""
    children = []
    for child in subquery.children:
        plan, plain = _attach_all(plan, child)
        children.append(plain)
    changed = subquery.with_children(tuple(children))
    return plan, changed if isinstance(changed, SubqueryExpression) else subquery


def _attach_all(plan: lo.Node, expression: Expression) -> tuple[lo.Node, Expression]:
    """The plan with a column for each subquery of the expression, and the expression over it."""
    for node in expression.walk():
        if isinstance(node, SubqueryExpression):
            plan, value = _attach(plan, node)
            found = node

            def swap(part: Expression, found: SubqueryExpression = found, value: Expression = value) -> Expression:
                return value if part == found else part

            return _attach_all(plan, expression.transform(swap))
    return plan, expression


def _attach(plan: lo.Node, subquery: SubqueryExpression) -> tuple[lo.Node, Expression]:
    """Left-join the plan with the subquery's value per distinct operands; gives the value's expression."""
    plan, subquery = _with_plain_operands(plan, subquery)
    operands = list(subquery.operands)
    if subquery.form == "in" and subquery.argument is not None:
        operands.append(subquery.argument)
    domain: lo.Node | None = None
    if operands:
        names = tuple(f"outer{index}" for index in range(len(operands)))
        domain = lo.Distinct(lo.Project(plan, tuple(operands), names, role="domain"))
    per_domain, value = _value_per_domain(subquery, domain)
    width = len(plan.schema)
    matched = [
        call("<=>", [operand, Column(field.type, width + index, field.name)])
        for index, (operand, field) in enumerate(zip(operands, per_domain.schema, strict=False))
    ]
    joined = lo.Join(plan, per_domain, "left", conjunction(matched), attached=True)
    value = map_columns(value, lambda column: replace(column, index=column.index + width))
    if domain is None or subquery.form == "scalar":
        return joined, value
    # The last column of `per_domain` is TRUE, so NULL there says that the subquery has no row: it is FALSE then.
    marker = Column(types.BOOLEAN, len(joined.schema) - 1, "found")
    return joined, Case(value.type, ((call("isnull", [marker]), FALSE),), value)


def _value_per_domain(subquery: SubqueryExpression, domain: lo.Node | None) -> tuple[lo.Node, Expression]:
    """The subquery grouped by its domain: the relation (domain.., results.., TRUE), and the value over it."""
    block = subquery.block
    if subquery.form != "scalar":
        block = replace(block, distinct=False)  # how often a row is there does not matter
    inner = plan_block(block, domain)
    width = 0 if domain is None else len(domain.schema)
    keys = tuple(Column(field.type, index, field.name) for index, field in enumerate(inner.schema[:width]))
    found = Column(inner.schema[width].type, width, inner.schema[width].name)
    if subquery.form == "exists":
        grouped: lo.Node = lo.Aggregate(inner, keys, (_aggregate("count", None),))
        value: Expression = call(">", [Column(types.BIGINT, width, "count"), Literal(types.INT, 0)])
    elif subquery.form == "in":
        equal = call("=", [keys[-1], found])
        calls = (_aggregate("count_if", equal), _aggregate("count_if", call("isnull", [equal])))
        grouped = lo.Aggregate(inner, keys, calls)
        hits, unknowns = (Column(types.BIGINT, width + index, "count") for index in range(2))
        zero, unknown = Literal(types.INT, 0), Literal(types.BOOLEAN, None)
        branches = ((call(">", [hits, zero]), TRUE), (call(">", [unknowns, zero]), unknown))
        value = Case(types.BOOLEAN, branches, FALSE)
    elif block.grouped and not block.keys:
        grouped, value = inner, found  # one row at most
    else:
        grouped, value = lo.Aggregate(inner, keys, (_aggregate("single_value", found),)), found
    columns = tuple(Column(field.type, index, field.name) for index, field in enumerate(grouped.schema))
    names = tuple(field.name for field in grouped.schema)
    return lo.Project(grouped, (*columns, TRUE), (*names, "found")), value


def _aggregate(function: str, argument: Expression | None) -> lo.AggregateCall:
    kind: DataType = resolve_aggregate(function, None if argument is None else argument.type, False)
    return lo.AggregateCall(function, argument, False, kind)
