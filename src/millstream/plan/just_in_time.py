"""Where a tree of joins should work just in time: where its joins would make many rows that nobody needs.

Holding rows back costs every step some questions, however few rows it brings, and saves the rows that are made for
nothing. The cost model takes rows with keys of several columns to have partners, as most joins are along keys; here the
question is whether they have any, so columns are taken to be independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from millstream.kernel.scalar.expressions import Column
from millstream.plan import logical as lo
from millstream.plan.cost import UNKNOWN_SELECTIVITY, Statistics, estimate
from millstream.plan.keys import split_condition

# As `millstream bench just_in_time` has it: with fewer rows stored for nothing, a tree that makes them is as fast.
LEAST_USELESS = 60_000
MOST_PARTNERS = 0.5  # of a made row in the join above, on average: with more, most rows are needed


@dataclass(frozen=True)
class _Size:
    rows: float
    distinct: tuple[float, ...]  # values of each column


def is_just_in_time_cheaper(joins: Sequence[lo.Join], statistics: Statistics) -> bool:
    """Whether some of the joins, of which the outermost is the first, hold enough rows that those above do not need."""
    useless = 0.0
    for join in joins:
        rows = _size(join, statistics).rows
        for made in filter(None, map(_join_below, join.children)):
            size = _size(made, statistics).rows
            useless += size if rows < MOST_PARTNERS * size else 0.0
    return useless > LEAST_USELESS


def _size(node: lo.Node, statistics: Statistics) -> _Size:
    if _join_below(node) is None:
        found = estimate(node, statistics)
        return _Size(found.size, found.distinct)
    match node:
        case lo.Project():
            below = _size(node.input, statistics)
            kept = (below.distinct[e.index] if isinstance(e, Column) else below.rows for e in node.expressions)
            return _Size(below.rows, tuple(kept))
        case lo.Join():
            left, right = (_size(child, statistics) for child in node.children)
            distinct = left.distinct + right.distinct
            keys, rest = split_condition(node.condition, len(left.distinct))
            most = [max(_values(one, distinct), _values(other, distinct)) for one, other, _ in keys]
            rows = left.rows * right.rows / max(prod(most), 1.0) * UNKNOWN_SELECTIVITY ** len(rest)
            return _Size(rows, distinct)
        case _:
            return _size(node.children[0], statistics)


def _values(key: object, distinct: tuple[float, ...]) -> float:
    return distinct[key.index] if isinstance(key, Column) else 1.0


def _join_below(node: lo.Node) -> lo.Join | None:
    """The inner join that a node is, or picks columns or rows of."""
    while isinstance(node, lo.Filter | lo.Project):
        node = node.input
    return node if isinstance(node, lo.Join) and node.join == "inner" else None
