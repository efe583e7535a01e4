"""Aggregates of plans as the kernel takes them."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.kernel.aggregation.aggregate import AggregateCall
from millstream.kernel.lazy.tree_segments import TreeShape
from millstream.kernel.scalar.expressions import Column, Expression
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.types import Schema


def kernel_calls(calls: Sequence[lo.AggregateCall], columns: Sequence[Expression]) -> tuple[AggregateCall, ...]:
    """The calls as the kernel takes them: their arguments are among the columns."""
    places = {column: place for place, column in reversed([*enumerate(columns)])}
    return tuple(
        AggregateCall(
            call.function,
            None if call.argument is None else places[call.argument],
            call.distinct,
            call.type,
            call.definition,
            call.gives_error,
            tuple(places[other] for other in call.others),
            call.options,
        )
        for call in calls
    )


def tree_shape(node: ph.RankedTree | ph.TreeSelection, rows: Schema) -> TreeShape:
    """Over rows with instants in the last columns."""
    schema = rows[: -node.instants]
    columns = [Column(field.type, index, field.name) for index, field in enumerate(schema)]
    return TreeShape(schema, node.keys, kernel_calls(node.calls, columns), node.instants, node.shifts)
