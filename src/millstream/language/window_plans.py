"""Plans what goes with OVER: rows with all that functions read, then the functions, window by window.

    SELECT e, f(x) OVER (PARTITION BY p ORDER BY k) FROM ..   is   π(Over_{p, k}(π_{e, p, k, x, ..}(..)))

Rows of equal keys are ordered by the items of the select list without OVER, from left to right, then by the other
columns that these, QUALIFY and ORDER BY read, in the order of FROM: rows that are equal in all of these are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from millstream.kernel.aggregation.accumulators import OVERFLOW_HINT
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.ordering.sort_keys import RowOrder
from millstream.kernel.ordering.window_functions import WindowCall
from millstream.kernel.scalar.expressions import TRUE, Column, Expression, Reported
from millstream.language.blocks import OrderItem, WindowReference
from millstream.language.ordering import keys_of
from millstream.plan import nodes as lo
from millstream.types import STRING

Moved = Callable[[Expression], Expression]


def has_windows(expression: Expression) -> bool:
    return any(isinstance(node, WindowReference) for node in expression.walk())


def with_windows(
    plan: lo.Node, taken: Sequence[Column], shown: Sequence[Expression], others: Sequence[Expression]
) -> tuple[lo.Node, Moved]:
    """The plan with a column for each function, behind those `taken` from the query around, by which everything is
    partitioned; and what moves the items of the select list, and other expressions of the block, there."""
    references = [*dict.fromkeys(node for item in (*shown, *others) for node in _outermost(item))]
    plain = [item for item in shown if not has_windows(item)]
    read = sorted({node for item in (*shown, *others) for node in _columns(item)}, key=lambda column: column.index)
    inside = [child for reference in references for child in reference.children]
    computed = [*dict.fromkeys([*taken, *plain, *inside, *read])] or [TRUE]  # rows must stay rows
    places = {expression: place for place, expression in enumerate(computed)}
    names = tuple(column.name if isinstance(column, Column) else str(column) for column in computed)
    plan = lo.Project(plan, tuple(computed), names)
    ties = tuple(dict.fromkeys(places[item] for item in (*plain, *read)))
    results: dict[Expression, Expression] = {}
    for partition, order in dict.fromkeys((reference.partition, reference.order) for reference in references):
        own = [each for each in references if (each.partition, each.order) == (partition, order)]
        partitions = tuple(dict.fromkeys([*range(len(taken)), *(places[each] for each in partition)]))
        row_order = RowOrder(partitions, keys_of(order, places), ties)
        plan = _over(plan, row_order, own, places, results)

    def moved(expression: Expression) -> Expression:
        if expression in results:
            return results[expression]
        if expression in places:
            return Column(expression.type, places[expression], str(expression))
        children = tuple(map(moved, expression.children))
        return expression.with_children(children) if children else expression

    return plan, moved


def _over(
    plan: lo.Node,
    order: RowOrder,
    references: Sequence[WindowReference],
    places: dict[Expression, int],
    results: dict[Expression, Expression],
) -> lo.Node:
    """One window with all its functions; of those that may have no value, also what is wrong then."""
    first = len(plan.schema)
    calls: dict[WindowCall, str] = {}

    def column(call: WindowCall, name: str) -> Column:
        calls.setdefault(call, name)
        return Column(call.type, first + list(calls).index(call), name)

    for reference in references:
        call = _call(reference, places)
        value: Expression = column(call, str(reference))
        aggregate = reference.aggregate
        if aggregate is not None and call.aggregate is not None and aggregate.error is not None:
            failing = replace(call.aggregate, type=STRING, gives_error=True)
            error = column(replace(call, type=STRING, aggregate=failing), f"error of {reference}")
            hint = OVERFLOW_HINT if aggregate.definition is None else None
            value = Reported(value.type, value, error, hint)
        results[reference] = value
    return lo.Over(plan, order, tuple(calls), tuple(calls.values()))


def _call(reference: WindowReference, places: dict[Expression, int]) -> WindowCall:
    arguments = [places[argument] for argument in reference.arguments]
    aggregate = reference.aggregate
    if aggregate is not None:
        own = AggregateCall(
            aggregate.function,
            arguments[0] if arguments else None,
            aggregate.distinct,
            aggregate.type,
            aggregate.definition,
            others=tuple(arguments[1:]),
            options=aggregate.options,
        )
        return WindowCall("aggregate", reference.type, frame=reference.frame, aggregate=own)
    return WindowCall(
        reference.function,
        reference.type,
        arguments[0] if arguments else None,
        reference.number,
        arguments[1] if len(arguments) > 1 else None,
        reference.ignores_nulls,
        reference.frame,
    )


def _outermost(expression: Expression) -> Iterable[WindowReference]:
    if isinstance(expression, WindowReference):
        yield expression
        return
    for child in expression.children:
        yield from _outermost(child)


def _columns(expression: Expression) -> Iterable[Column]:
    return (node for node in expression.walk() if isinstance(node, Column))


def moved_items(order: Sequence[OrderItem], moved: Moved) -> list[OrderItem]:
    return [replace(item, expression=moved(item.expression)) for item in order]
