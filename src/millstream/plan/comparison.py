"""Which of two plans of a query is the better one: the one of which time and space are less, multiplied.

    burden  =  nanoseconds per tick  *  rows held

A plan that holds half the rows at the same speed is as much better as one that is twice as fast and holds the same.
By time alone it would not show that a tree of joins stores what SteMs join anew: where the answer is large, both spend
most of their time on it.

    SteMs     hold their inputs; a row that comes is joined with one after the other, the most selective one first
    a tree    holds the inputs of all its joins
    the same, just in time: without the rows that are made for nothing, but every row is looked up once more
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import log2

from millstream.kernel.scalar.expressions import map_columns
from millstream.kernel.windows.time import Rows
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.cost import PROBE, ROW, Known, Statistics, cost, estimate, in_pairs, own_cost
from millstream.plan.just_in_time import useless_rows


def burden(plan: lo.Node, statistics: Statistics) -> float:
    """Of running a plan."""
    time, held = _spent(plan.walk(), statistics)
    return time * max(held, 1.0)


def gain_apart(core: lo.Node, plans: Sequence[lo.Node], statistics: Statistics) -> float:
    """How many times less plans of their own are for some queries than a core that makes all of its rows for all of
    them; nothing where they take longer. What stands above is the same in both."""
    time, held = _spent(_up_to_selections(core), statistics)
    time += ROW * estimate(core, statistics).rate
    own = dict.fromkeys(node for plan in plans for node in _up_to_selections(plan))  # equal ones are one step
    own_time, own_held = _spent(own, statistics)
    return time * max(held, 1.0) / max(own_time * max(own_held, 1.0), 1e-9) if own_time <= time else 0.0


def _up_to_selections(plan: lo.Node) -> Iterator[lo.Node]:
    return (node for node in plan.walk() if isinstance(node, lo.Join | ph.ManyJoin | lo.Filter | lo.Window))


def _spent(nodes: Iterable[lo.Node], statistics: Statistics) -> tuple[float, float]:
    """Time and rows."""
    known: Known = {}
    time = held = 0.0
    for node in nodes:
        match node:
            case ph.StemJoin():
                time += _routing(node, statistics)
                held += _inputs(node, statistics)
            case ph.ManyJoin():
                own_time, own_held = _just_in_time(node, statistics)
                time, held = time + own_time, held + own_held
            case _:
                time += own_cost(node, statistics, known)
                held += _held(node, statistics, known)
    return time, held


def _held(node: lo.Node, statistics: Statistics, known: Known) -> float:
    """By one operator."""
    match node:
        case lo.Join():
            return sum(estimate(child, statistics, known).size for child in node.children)
        case lo.Distinct() | lo.Aggregate() | lo.SetOperation():
            return estimate(node, statistics, known).size
        case lo.Window(window=Rows()):
            return estimate(node, statistics, known).size
        case _:
            return 0.0


def _inputs(node: ph.ManyJoin, statistics: Statistics) -> float:
    return sum(estimate(child, statistics).size for child in node.inputs)


def _routing(node: ph.StemJoin, statistics: Statistics) -> float:
    """What SteMs cost: the rows of each input go their own way."""
    return sum(_route(node, first, statistics) for first in range(len(node.inputs)))


def _route(node: ph.StemJoin, first: int, statistics: Statistics) -> float:
    """Of the rows of one input: next comes always the SteM after which the fewest are left."""
    order, left = [first], [number for number in range(len(node.inputs)) if number != first]
    own = estimate(node.inputs[first], statistics)
    arriving, spent = own.rate / max(own.size, 1e-9), 0.0  # of what all rows there are would make
    made = own.size
    while left:
        sizes = {number: estimate(_joined(node, [*order, number]), statistics).size for number in left}
        chosen = min(left, key=sizes.__getitem__)
        stem = estimate(node.inputs[chosen], statistics).size
        spent += arriving * (PROBE * made * log2(stem + 2) + ROW * sizes[chosen])
        made = sizes[chosen]
        order.append(chosen)
        left.remove(chosen)
    return spent


def _joined(node: ph.ManyJoin, order: Sequence[int]) -> lo.Node:
    """Some inputs in an order, joined by what the condition says of them: what reads others is left out."""
    width, starts = 0, list[int]()
    for child in node.inputs:
        starts.append(width)
        width += len(child.schema)
    rest = [number for number in range(len(node.inputs)) if number not in order]
    places: dict[int, int] = {}
    for number in (*order, *rest):
        for column in range(len(node.inputs[number].schema)):
            places[starts[number] + column] = len(places)
    condition = map_columns(node.condition, lambda column: replace(column, index=places[column.index]))
    joined = in_pairs(ph.ManyJoin(tuple(node.inputs[number] for number in (*order, *rest)), condition))
    for _ in rest:
        joined = joined.children[0]
    return joined


def _just_in_time(node: ph.ManyJoin, statistics: Statistics) -> tuple[float, float]:
    """Time and rows of a tree that makes only what is needed."""
    joins = [join for join in in_pairs(node).walk() if isinstance(join, lo.Join)][: len(node.inputs) - 1]
    inner = sum(estimate(join, statistics).size for join in joins[1:])
    useless = min(sum(useless_rows(joins, statistics)), inner)
    inputs = [estimate(child, statistics) for child in node.inputs]
    lookups = PROBE * sum(child.rate * log2(child.size + 2) for child in inputs)
    below = sum(cost(child, statistics) for child in node.inputs)
    making = cost(joins[0], statistics) - below
    needed = 1.0 if not inner else 1 - useless / inner
    return lookups + making * needed, sum(child.size for child in inputs) + inner - useless
