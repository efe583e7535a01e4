"""What a query has of the past under RETAIN, by DESIGN's section 2a and docs/semantics.md:

    K(S)  = final - RETAIN(S) when the query comes; 0 where nothing of S was cut
    F     = the first instant from which no element before K can be in any window, nested windows composed
    first answerable = max(F, final - the least RETAIN)

Queries for which there is no F answer from the elements from K on, and their authors are told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.text_oracle.evaluator import Leaf, Query
from tests.text_oracle.windows import INF, Window
from tests.text_oracle.world import World


@dataclass(frozen=True)
class Past:
    """`first` is F, and `kept` is K of each stream where answers are made of what is kept."""

    first: int = 0
    kept: Mapping[str, int] = field(default_factory=dict)
    is_told: bool = False

    def believed(self, operator: str | None, notices: Sequence[str]) -> Past:
        """ISTREAM over what only grows may need nothing of before: without a notice it must be exact from K on."""
        return Past(self.first) if self.kept and operator == "ISTREAM" and not notices else self

    def answerable(self, world: World, query: Query, final: int) -> int:
        retains = [world.streams[name].retain for name in query.reads & set(world.streams)]
        known = [retain for retain in retains if retain is not None]
        return max(self.first, final - min(known), 0) if known else self.first


def past_of(world: World, query: Query, operator: str | None) -> Past:
    """Of a query that comes now."""
    final, kept = world.final(query.reads), {}
    for name in query.reads & set(world.streams):
        stream = world.streams[name]
        if stream.cut and stream.retain is not None:
            kept[name] = max(stream.cut, final - stream.retain)
    if not kept:
        return Past()
    last = _reach(world, query, operator, kept)
    if last >= INF - 1:
        return Past(max(kept.values()), kept, True)
    return Past(last + 1, {}, last >= final)


def _reach(world: World, query: Query, operator: str | None, kept: Mapping[str, int]) -> int:
    """The last instant at which an answer may depend on elements before K; -1 for none."""
    read = [leaf for leaf in query.leaves if re.search(rf"\b{leaf.name}(_ordered)?\b", query.text.duck)]
    seen = max((_reach_of_leaf(world, leaf, kept) for leaf in read), default=-1)
    return seen if seen < 0 or operator in (None, "RSTREAM") else min(seen + 1, INF)


def _reach_of_leaf(world: World, leaf: Leaf, kept: Mapping[str, int]) -> int:
    if leaf.window is None:
        return -1
    if isinstance(leaf.source, Query):
        seen = _reach(world, leaf.source, leaf.source.operator, kept)
    else:
        seen = kept[leaf.source] - 1 if leaf.source in kept else -1
    if seen < 0:
        return -1
    if leaf.window.form == "rows":
        return _reach_of_rows(world, leaf, leaf.window, kept)
    return leaf.window.last_shown(seen, world.half_open)


def _reach_of_rows(world: World, leaf: Leaf, window: Window, kept: Mapping[str, int]) -> int:
    """The elements that are kept, of which the (N+1)-th finds none of the others."""
    if window.partition or window.slide > 1 or isinstance(leaf.source, Query):
        return INF
    stream = world.streams[leaf.source]
    later = [e.instant for e in stream.ordered(stream.heartbeat) if e.instant >= kept[leaf.source]]
    return later[window.size] - 1 if len(later) > window.size else INF
