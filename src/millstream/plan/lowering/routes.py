"""Joins of a group whose inputs no one column connects, as in a chain: each input's new rows go a route of their own.

    S.a = T.a AND T.b = U.b:    change(S) ──▶ T by a ──▶ U by b
                                change(T) ──▶ S by a ──▶ U by b
                                change(U) ──▶ T by b ──▶ S by a

Every stop is a half join, spread over shards by the columns that are equal there. Stops that keep the same rows in the
same order keep them once, where they are run in one stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.kernel.joins.graph import JoinGraph
from millstream.kernel.multiway.half_join import HalfJoin
from millstream.kernel.multiway.stem_join import StemJoin

_MOST = 5  # inputs: each has a route to all others


def routes(graph: JoinGraph) -> list[tuple[int, ...]]:
    """For each input, in which order its rows meet those of the others; nothing where some could not be spread over
    shards, since no column of the next input is equal to one that is known, or where there would be too many."""
    inputs = range(len(graph.widths))
    if len(inputs) > _MOST:
        return []
    found = []
    for origin in inputs:
        route = [origin]
        while len(route) < len(inputs):
            joined = frozenset(route)
            nearest = next((n for n in inputs if n not in joined and graph.access(n, joined).probing), None)
            if nearest is None:
                return []
            route.append(nearest)
        found.append(tuple(route))
    return found


def by_routes(join: StemJoin, edges: Sequence[str], suffix: str, add: Callable[..., str]) -> list[str]:
    """The edges that routes end in, whose stops are all added; none where the rows of all inputs are spread alike."""
    ends: list[str] = []
    for origin, *others in () if join.graph.common_keys()[0] else routes(join.graph):
        edge, joined = edges[origin], [origin]
        for target in others:
            half = HalfJoin(
                join.schemas,
                join.condition,
                tuple(joined),
                target,
                meets_new=target < origin,
                synopsis=join.synopses[target],
                selections=join.selections,
                windows=join.windows,
            )
            joined.append(target)
            edge = add(f"halfjoin-{'-'.join(map(str, joined))}-{suffix}", half, edge, edges[target])
        ends.append(edge)
    return ends
