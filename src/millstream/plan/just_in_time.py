"""Where a tree of joins should work just in time: where its joins would make many rows that nobody needs.

Holding rows back costs every step some questions, however few rows it brings, and saves the rows that are made for
nothing. The cost model takes rows with keys of several columns to have partners, as most joins are along keys; here the
question is whether they have any, so columns are taken to be independent.

A tree sleeps whose last join is with an input most of whose rows have no partner in one of the other inputs: then
hardly anything is admitted at all, and holding back pays however small the tree is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from millstream.kernel.scalar.expressions import Column
from millstream.plan import nodes as lo
from millstream.plan.analysis.keys import split_condition
from millstream.plan.cost import UNKNOWN_SELECTIVITY, Statistics, estimate

# As `millstream bench just_in_time` has it: with fewer rows stored for nothing, a tree that makes them is as fast.
LEAST_USELESS = 60_000
LEAST_ASLEEP = 1_000  # the same for trees that sleep
MOST_PARTNERS = 0.5  # of a row, on average: with more, most rows are needed


@dataclass(frozen=True)
class _Size:
    rows: float
    distinct: tuple[float, ...]  # values of each column


def is_just_in_time_cheaper(joins: Sequence[lo.Join], statistics: Statistics) -> bool:
    """Whether some of the joins, of which the outermost is the first, hold enough rows that those above do not need."""
    useless = sum(useless_rows(joins, statistics))
    return useless > (LEAST_ASLEEP if joins and _sleeps(joins[0], statistics) else LEAST_USELESS)


def useless_rows(joins: Sequence[lo.Join], statistics: Statistics) -> Iterator[float]:
    """Of inner joins how many rows they hold, where those above do not need most of them."""
    for join in joins:
        rows = _size(join, statistics).rows
        for made in filter(None, map(_join_below, join.children)):
            size = _size(made, statistics).rows
            if rows < MOST_PARTNERS * size:
                yield size


def _sleeps(join: lo.Join, statistics: Statistics) -> bool:
    """Whether one side of a join is an input most of whose rows have no partner in one of the other side's inputs."""
    distinct = _size(join, statistics).distinct
    width = len(join.children[0].schema)
    origins = [origin for child in join.children for origin in _origins(child, statistics)]
    keys, _ = split_condition(join.condition, width)
    for own, other in ((0, 1), (1, 0)):
        if _join_below(join.children[own]) is not None or _join_below(join.children[other]) is None:
            continue
        matched: dict[int, float] = {}  # by each input of the other side, the part of the rows
        for key in keys:
            if isinstance(theirs := key[other], Column):
                source, rows = origins[theirs.index]
                values, mine = _values(theirs, distinct), max(_values(key[own], distinct), 1.0)
                matched[source] = matched.get(source, 1.0) * min(values / mine, rows / mine, 1.0)
        if min(matched.values(), default=1.0) < MOST_PARTNERS:
            return True
    return False


def _origins(node: lo.Node, statistics: Statistics) -> list[tuple[int, float]]:
    """Of each column the input of the tree that it is of, and how many rows that has."""
    if _join_below(node) is None:
        return [(id(node), estimate(node, statistics).size)] * len(node.schema)
    below = [origin for child in node.children for origin in _origins(child, statistics)]
    if isinstance(node, lo.Project):
        return [below[e.index] if isinstance(e, Column) else (id(node), 0.0) for e in node.expressions]
    return below


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
