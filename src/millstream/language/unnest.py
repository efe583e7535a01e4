"""Plans blocks, and turns the subqueries in their expressions into joins.

    WHERE [NOT] EXISTS (Q)   semi (anti) join on Q's correlated conditions
    WHERE x [NOT] IN (Q)     the same, and x = y; for NOT IN, also where x = y is unknown, as SQL's NULL rules ask;
                             x < ANY (Q) is IN with another comparison, x < ALL (Q) is NOT x >= ANY (Q)
    anywhere else            let D be the distinct values that Q takes from the outer row; Q is planned once over D,
                             grouped by D, and left-joined to the outer row on D (null-safe)

All of it holds at each instant, so it holds for time-varying relations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from millstream import types
from millstream.errors import NotSupportedError, Place
from millstream.kernel.aggregation.aggregate_calls import canonical, resolve_aggregate
from millstream.kernel.ordering.sort_keys import RowOrder
from millstream.kernel.ordering.top import Places
from millstream.kernel.scalar.expressions import (
    FALSE,
    TRUE,
    Call,
    Case,
    Column,
    Expression,
    Literal,
    columns_used,
    conjunction,
    conjuncts,
    map_columns,
    shift_columns,
)
from millstream.kernel.scalar.functions import call
from millstream.language.blocks import (
    Block,
    JoinedSource,
    LateralSource,
    OrderItem,
    Source,
    SubqueryExpression,
    UnnestedSource,
    width_of,
)
from millstream.language.generators import Generator, unnested
from millstream.language.ordering import keys_of
from millstream.language.row_values import by_columns
from millstream.language.scope import OuterColumn
from millstream.language.set_operations import combined
from millstream.language.window_plans import moved_items, with_windows
from millstream.plan import nodes as lo
from millstream.plan.algebra.outer_joins import columns
from millstream.types import DataType

_MANY = 16  # conditions


def joined(
    left: Source, right: Source | LateralSource, kind: lo.JoinKind, condition: Expression, place: Place
) -> Source:
    """A join of FROM: planned at once where nothing in it has to wait for its block."""
    plain = isinstance(left, lo.Node) and isinstance(right, lo.Node)
    if plain and not has_subquery(condition) and not is_correlated(condition):
        return lo.Join(left, right, kind, condition)  # type: ignore[arg-type]
    return JoinedSource(left, right, kind, condition, place)


def plan_source(source: Source, domain: lo.Node | None) -> lo.Node:
    """What FROM gives; with a domain, its columns stand in front: one copy of FROM per row of the domain."""
    if not isinstance(source, lo.Node) and (domain is None or is_correlated_source(source)):
        return _plan_join(source, domain) if isinstance(source, JoinedSource) else _plan_unnested(source, domain)
    plain = source if isinstance(source, lo.Node) else plan_source(source, None)
    return plain if domain is None else lo.Join(domain, plain, "inner")


def is_correlated_source(source: Source | LateralSource) -> bool:
    """Whether FROM itself takes values from the query around."""
    if isinstance(source, JoinedSource):
        inside = is_correlated_source(source.left) or is_correlated_source(source.right)
        return inside or is_correlated(source.condition)
    if isinstance(source, UnnestedSource):
        return is_correlated_source(source.left) or any(map(is_correlated, (*source.lists, source.condition)))
    return isinstance(source, LateralSource) and any(map(is_correlated, source.operands))


def _plan_join(source: JoinedSource, domain: lo.Node | None) -> lo.Node:
    """The domain goes with the left side; with both where the right one needs it, or may be there alone."""
    offset, width = 0 if domain is None else len(domain.schema), width_of(source.left)
    left = plan_source(source.left, domain)
    taken = columns(left.schema[:offset])
    shared: list[Expression] = []  # pairs of columns in front of both sides, which must be the same
    if isinstance(source.right, LateralSource):
        over_left = _mover(offset, taken)
        shared = [over_left(operand) for operand in source.right.operands]
        right = plan_block(source.right.block, _domain_of(left, shared))
    elif domain is not None and (source.join in ("right", "full") or is_correlated_source(source.right)):
        shared, right = list(taken), plan_source(source.right, domain)
    else:
        right = plan_source(source.right, None)

    def over_both(node: Expression) -> Expression:
        if isinstance(node, Column):
            return replace(node, index=node.index + offset + (len(shared) if node.index >= width else 0))
        return taken[node.index] if isinstance(node, OuterColumn) else node

    same = [
        call("<=>", [own, Column(field.type, len(left.schema) + index, field.name)])
        for index, (own, field) in enumerate(zip(shared, right.schema, strict=False))
    ]
    conditions = [*same, *(part.transform(over_both) for part in conjuncts(source.condition))]
    plan = join_on(left, right, source.join, conditions, source.place)
    return plan if not shared or source.join in ("semi", "anti") else _without_shared(plan, left, shared, source.join)


def _plan_unnested(source: UnnestedSource, domain: lo.Node | None) -> lo.Node:
    left, offset = plan_source(source.left, domain), 0 if domain is None else len(domain.schema)
    over_left = _mover(offset, columns(left.schema[:offset]))
    plan = _with_elements(left, [*map(over_left, source.lists)], source.generator)
    for condition in conjuncts(source.condition):
        plan = plan if condition == TRUE else _apply_condition(plan, over_left(condition))
    return plan


def _with_elements(plan: lo.Node, lists: Sequence[Expression], generator: Generator) -> lo.Node:
    """The rows of a plan with the elements of lists, which may ask subqueries."""
    extended, made = plan, list[Expression]()
    for value in lists:
        extended, bound = _attach_all(extended, value)
        made.append(bound)
    rows = unnested(extended, made, generator)
    if extended is plan:
        return rows
    own, width = columns(rows.schema), len(plan.schema)
    kept = (*own[:width], *own[len(extended.schema) :])
    return lo.Project(rows, kept, tuple(column.name for column in kept), role="within")


def _without_shared(plan: lo.Node, left: lo.Node, shared: list[Expression], kind: lo.JoinKind) -> lo.Node:
    """The join's columns but for those that the right side has in front; an outer join may have only these."""
    own, width = columns(plan.schema), len(left.schema)
    kept: list[Expression] = [*own[:width], *own[width + len(shared) :]]
    if kind in ("right", "full"):
        kept[: len(shared)] = [call("coalesce", [own[index], own[width + index]]) for index in range(len(shared))]
    names = [field.name for field in (*plan.schema[:width], *plan.schema[width + len(shared) :])]
    return lo.Project(plan, tuple(kept), tuple(names), role="within")


def _domain_of(plan: lo.Node, operands: Sequence[Expression]) -> lo.Node | None:
    """The distinct values that a subquery takes from the rows of a plan."""
    if not operands:
        return None
    names = tuple(f"outer{index}" for index in range(len(operands)))
    return lo.Distinct(lo.Project(plan, tuple(operands), names, role="domain"))


def join_on(
    left: lo.Node, right: lo.Node, kind: lo.JoinKind, conditions: Sequence[Expression], place: Place
) -> lo.Node:
    """A join whose conditions may hold subqueries. Those of an outer join become columns of the side that they take
    values from, as the join must know them for every pair."""
    with_subqueries = [condition for condition in conditions if has_subquery(condition)]
    plain = [condition for condition in conditions if not has_subquery(condition)]
    if not with_subqueries or kind == "inner":
        plan: lo.Node = lo.Join(left, right, kind, conjunction(plain))
        for condition in with_subqueries:
            plan = _apply_condition(plan, condition)
        return plan
    widths = len(left.schema), len(right.schema)
    for number, condition in enumerate(with_subqueries):
        while (subquery := _first_subquery(condition)) is not None:
            used = {index for child in subquery.children for index in columns_used(child)}
            before = len(left.schema)
            if all(index < before for index in used):
                left, value = _attach(left, subquery)
            elif all(index >= before for index in used):
                right, value = _attach(right, cast(SubqueryExpression, shift_columns(subquery, -before)))
                value = shift_columns(value, before)
            else:
                hint = "compute it in a subquery in FROM whose columns ON compares, or put it into WHERE"
                message = f"a subquery in ON of a {kind} join that takes values from both sides"
                raise NotSupportedError(message, hint=hint, place=place)
            more = len(left.schema) - before
            condition = _swapped(_widened(condition, before, more), _widened(subquery, before, more), value)
            with_subqueries[number + 1 :] = [_widened(other, before, more) for other in with_subqueries[number + 1 :]]
            plain = [_widened(other, before, more) for other in plain]
        plain.append(condition)
    plan = lo.Join(left, right, kind, conjunction(plain))
    own = columns(plan.schema)
    kept = own[: widths[0]] if kind in ("semi", "anti") else (*own[: widths[0]], *own[len(left.schema) :][: widths[1]])
    return plan if len(kept) == len(own) else lo.Project(plan, tuple(kept), tuple(c.name for c in kept), role="within")


def _widened(expression: Expression, width: int, more: int) -> Expression:
    """Over a left side that has got so many columns more."""
    return map_columns(expression, lambda c: replace(c, index=c.index + more) if c.index >= width else c)


def plan_block(block: Block, domain: lo.Node | None = None) -> lo.Node:
    """The block's relation; with a domain, its columns stand in front: one copy of the block per row of the domain."""
    plan, offset = plan_source(block.source, domain), 0 if domain is None else len(domain.schema)
    taken = [Column(field.type, index, field.name) for index, field in enumerate(plan.schema[:offset])]
    over_source = _mover(offset, taken)
    for condition in _together(block.where):
        plan = _apply_condition(plan, over_source(condition))
    if block.generated is not None:
        plan = _with_elements(plan, [*map(over_source, block.generated[0])], block.generated[1])
    if block.grouped:
        calls = [aggregate.over(over_source) for aggregate in block.calls]
        keys = [over_source(key) for key in block.keys]
        if block.sets is None:
            plan = _grouped(plan, taken, keys, calls, domain)
        else:
            plan = _grouped_by_sets(plan, taken, keys, calls, domain, block.sets)
        if block.having is not None:
            plan = _apply_condition(plan, over_source(block.having))
    expressions: list[Expression] = list(taken)
    for item in block.select:
        plan, bound = _attach_all(plan, over_source(item))
        expressions.append(bound)
    order: list[OrderItem] = []
    for key in block.order if block.places is not None else ():
        plan, bound = _attach_all(plan, over_source(key.expression))
        order.append(replace(key, expression=bound))
    if block.has_windows:
        plan, expressions, order = _with_windows(plan, block, taken, expressions, order, over_source)
    width = len(expressions)
    for key in order:
        if key.expression not in expressions[offset:]:
            expressions.append(key.expression)
    names = [column.name for column in taken] + block.names
    names += [f"key{place}" for place in range(len(expressions) - width)]
    plan = lo.Project(plan, tuple(expressions), tuple(names))
    plan = lo.Distinct(plan) if block.distinct else plan
    if block.places is None:
        return plan
    sort_keys = keys_of(order, {e: place for place, e in reversed([*enumerate(expressions)]) if place >= offset})
    return first_rows(plan, RowOrder(tuple(range(offset)), sort_keys, tuple(range(offset, width))), block.places, width)


def _with_windows(
    plan: lo.Node,
    block: Block,
    taken: list[Column],
    expressions: list[Expression],
    order: list[OrderItem],
    over_source: Callable[[Expression], Expression],
) -> tuple[lo.Node, list[Expression], list[OrderItem]]:
    """The plan with what goes with OVER, of which QUALIFY leaves some rows, and the expressions over it."""
    others = [item.expression for item in order]
    if block.qualify is not None:
        plan, qualify = _attach_all(plan, over_source(block.qualify))
        others.append(qualify)
    plan, moved = with_windows(plan, taken, expressions[len(taken) :], others)
    if block.qualify is not None:
        plan = lo.Filter(plan, moved(qualify))
    return plan, [*taken, *map(moved, expressions[len(taken) :])], moved_items(order, moved)


def first_rows(plan: lo.Node, order: RowOrder, places: Places, width: int) -> lo.Node:
    """The rows at some places, of which so many columns are shown; the others only say what comes first."""
    plan = lo.Top(plan, order, places)
    if len(plan.schema) == width:
        return plan
    shown = [Column(field.type, index, field.name) for index, field in enumerate(plan.schema[:width])]
    return lo.Project(plan, tuple(shown), tuple(column.name for column in shown))


def _grouped(
    plan: lo.Node,
    taken: Sequence[Column],
    keys: Sequence[Expression],
    calls: Sequence[lo.AggregateCall],
    domain: lo.Node | None,
) -> lo.Node:
    """(taken, keys, calls)"""
    grouped = lo.Aggregate(plan, (*taken, *keys), tuple(calls))
    return grouped if domain is None or keys else _with_empty_groups(grouped, domain)


def _grouped_by_sets(
    plan: lo.Node,
    taken: Sequence[Column],
    keys: Sequence[Expression],
    calls: Sequence[lo.AggregateCall],
    domain: lo.Node | None,
    sets: Sequence[tuple[int, ...]],
) -> lo.Node:
    """(taken, keys, calls, bits): the rows of each set together, with NULL for the keys that it leaves out. The bits
    are 1 for these, the first key's is the highest."""
    width, parts = len(taken), list[lo.Node]()
    names = (*(c.name for c in taken), *map(str, keys), *map(str, calls), "grouping_id")
    for chosen in sets:
        part = _grouped(plan, taken, [keys[place] for place in chosen], calls, domain)
        columns: list[Expression] = [Column(f.type, index, f.name) for index, f in enumerate(part.schema)]
        of_keys = [
            columns[width + chosen.index(place)] if place in chosen else Literal(key.type, None)
            for place, key in enumerate(keys)
        ]
        bits = sum(1 << (len(keys) - 1 - place) for place in range(len(keys)) if place not in chosen)
        row = (*columns[:width], *of_keys, *columns[width + len(chosen) :], Literal(types.BIGINT, bits))
        parts.append(lo.Project(part, row, names))
    return combined("union all", parts)


def _together(conditions: list[Expression]) -> list[Expression]:
    """The conditions that WHERE requires. Those with subqueries whose value is attached come last, however they are
    written: such a subquery is not computed for rows that another condition leaves out. Of very many conditions, those
    without subqueries are one: the plan is not deep then."""
    plain = [condition for condition in conditions if not has_subquery(condition)]
    others = [condition for condition in conditions if has_subquery(condition)]
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
        counts = canonical(aggregated.function) in ("count", "count_if")
        results.append(call("coalesce", [value, Literal(aggregated.type, 0)]) if counts else value)
    names = [field.name for field in aggregate.schema]
    return lo.Project(joined, (*own, *results), tuple(names), role="within")


def _mover(offset: int, taken: Sequence[Column]) -> Callable[[Expression], Expression]:
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


def has_subquery(expression: Expression) -> bool:
    return any(isinstance(node, SubqueryExpression) for node in expression.walk())


def is_correlated(expression: Expression) -> bool:
    return any(isinstance(node, OuterColumn) for node in expression.walk())


def _can_join(subquery: SubqueryExpression) -> bool:
    """Whether a semi or anti join does it: then correlation may stand only in plain conjuncts of the WHERE."""
    block = subquery.block
    if not subquery.operands:
        return True
    plain = all(not (is_correlated(c) and has_subquery(c)) for c in block.where)
    plain = plain and not is_correlated_source(block.source)
    return block.is_simple and plain and not any(is_correlated(item) or has_subquery(item) for item in block.select)


def _semi_join(plan: lo.Node, subquery: SubqueryExpression, negated: bool) -> lo.Node:
    block, width = _without_distinct(subquery.block), len(plan.schema)
    correlated = [condition for condition in block.where if is_correlated(condition)]
    if subquery.operands:
        right = plan_source(block.source, None)
        for condition in block.where:
            if not is_correlated(condition):
                right = _apply_condition(right, condition)
        found = block.select
    else:
        right = plan_block(block)
        right = replace(right, role="existence") if isinstance(right, lo.Project) else right
        found = [Column(field.type, index, field.name) for index, field in enumerate(right.schema)]

    def over_both(node: Expression) -> Expression:
        if isinstance(node, Column):
            return replace(node, index=node.index + width)
        return subquery.operands[node.index] if isinstance(node, OuterColumn) else node

    conditions = [condition.transform(over_both) for condition in correlated]
    if subquery.form == "in":
        equal = by_columns(subquery.operator, subquery.arguments, [item.transform(over_both) for item in found])
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
    while (subquery := _first_subquery(expression)) is not None:
        plan, value = _attach(plan, subquery)
        expression = _swapped(expression, subquery, value)
    return plan, expression


def _first_subquery(expression: Expression) -> SubqueryExpression | None:
    return next((node for node in expression.walk() if isinstance(node, SubqueryExpression)), None)


def _swapped(expression: Expression, found: Expression, value: Expression) -> Expression:
    return expression.transform(lambda part: value if part == found else part)


def _attach(plan: lo.Node, subquery: SubqueryExpression) -> tuple[lo.Node, Expression]:
    """Left-join the plan with the subquery's value per distinct operands; gives the value's expression."""
    plan, subquery = _with_plain_operands(plan, subquery)
    operands = list(subquery.operands)
    operands += subquery.arguments
    domain = _domain_of(plan, operands)
    per_domain, value = _value_per_domain(subquery, domain)
    width = len(plan.schema)
    matched = [
        call("<=>", [operand, Column(field.type, width + index, field.name)])
        for index, (operand, field) in enumerate(zip(operands, per_domain.schema, strict=False))
    ]
    joined = lo.Join(plan, per_domain, "left", conjunction(matched), attached=True)
    value = shift_columns(value, width)
    if domain is None or subquery.form == "scalar":
        return joined, value
    # The last column of `per_domain` is TRUE, so NULL there says that the subquery has no row: it is FALSE then.
    marker = Column(types.BOOLEAN, len(joined.schema) - 1, "found")
    return joined, Case(value.type, ((call("isnull", [marker]), FALSE),), value)


def _without_distinct(block: Block) -> Block:
    """How often a row is there does not matter for its existence, unless only some of the rows are looked at."""
    return replace(block, distinct=False) if block.places is None else block


def _value_per_domain(subquery: SubqueryExpression, domain: lo.Node | None) -> tuple[lo.Node, Expression]:
    """The subquery grouped by its domain: the relation (domain.., results.., TRUE), and the value over it."""
    block = subquery.block
    if subquery.form != "scalar":
        block = _without_distinct(block)
    inner = plan_block(block, domain)
    width = 0 if domain is None else len(domain.schema)
    keys = tuple(Column(field.type, index, field.name) for index, field in enumerate(inner.schema[:width]))
    found = Column(inner.schema[width].type, width, inner.schema[width].name)
    if subquery.form == "exists":
        grouped: lo.Node = lo.Aggregate(inner, keys, (_aggregate("count", None),))
        value: Expression = call(">", [Column(types.BIGINT, width, "count"), Literal(types.INT, 0)])
    elif subquery.form == "in":
        asked = len(subquery.arguments)
        listed = [Column(field.type, width + index, field.name) for index, field in enumerate(inner.schema[width:])]
        equal = by_columns(subquery.operator, keys[width - asked :], listed)
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
