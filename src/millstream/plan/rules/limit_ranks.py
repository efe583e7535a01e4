"""Conditions on row numbers become first rows, which keep less.

    σ_{n <= m and p}(Over_{n = ROW_NUMBER}(R))  =  σ_p(Over_{n = ROW_NUMBER}(First m rows of R))

and the same for RANK, with ties. That holds where no other function of the window sees rows behind its own; where
nobody reads the number any more, `prune_columns` takes it away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from millstream.kernel.ordering.top import Places
from millstream.kernel.ordering.window_functions import WindowCall
from millstream.kernel.scalar.evaluate import can_fail
from millstream.kernel.scalar.expressions import Call, Column, Expression, Literal, conjunction, conjuncts
from millstream.plan import nodes as lo
from millstream.plan.rules.context import Context

_FLIPPED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "=": "="}


def limit_ranks(plan: lo.Node, context: Context) -> lo.Node:
    return plan.transform(_limit)


def _limit(node: lo.Node) -> lo.Node:
    if not isinstance(node, lo.Filter) or can_fail(node.condition):
        return node
    parts = conjuncts(node.condition)
    for part, column, most in _bounds(parts):
        limited = _limited(node.input, column, most)
        if limited is not None:
            # Rows up to the bound are all that is left; that they are at it must still be asked.
            said = part if isinstance(part, Call) and part.function == "=" and most > 1 else None
            left = [other for other in parts if other is not part or other is said]
            return _above(limited, left)
    return node


def _above(plan: lo.Node, conditions: list[Expression]) -> lo.Node:
    return lo.Filter(plan, conjunction(conditions)) if conditions else plan


def _bounds(parts: list[Expression]) -> Iterator[tuple[Expression, int, int]]:
    """Conditions by which a column is at most so much."""
    for part in parts:
        if not (isinstance(part, Call) and part.function in _FLIPPED):
            continue
        one, other, function = *part.arguments, part.function
        if isinstance(one, Literal):
            one, other, function = other, one, _FLIPPED[function]
        if isinstance(one, Column) and isinstance(other, Literal) and isinstance(other.value, int):
            most = other.value - 1 if function == "<" else other.value
            if function in ("<=", "<", "=") and most >= 0:
                yield part, one.index, most


def _limited(node: lo.Node, column: int, most: int) -> lo.Node | None:
    """The node over only as many rows of each partition as a column that numbers them may say."""
    if isinstance(node, lo.Project) and not any(map(can_fail, node.expressions)):
        source = node.expressions[column]
        below = _limited(node.input, source.index, most) if isinstance(source, Column) else None
        return None if below is None else replace(node, input=below)
    if not isinstance(node, lo.Over) or column < len(node.input.schema) or isinstance(node.input, lo.Top):
        return None
    call = node.calls[column - len(node.input.schema)]
    if call.function not in ("row_number", "rank") or not all(map(_looks_back, node.calls)):
        return None
    places = Places(most, with_ties=call.function == "rank")
    return replace(node, input=lo.Top(node.input, node.order, places))


def _looks_back(call: WindowCall) -> bool:
    """Whether what it gives depends on no row behind its own, nor on how many there are."""
    if call.function in ("row_number", "rank", "dense_rank"):
        return True
    reach = call.reach
    return not reach.ahead and not reach.peers and not reach.seen_before
