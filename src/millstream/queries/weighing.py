"""Whether queries should move to another plan: what both cost, what a move costs, what keeps them where they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from millstream.catalog.entries import Entry, statistics_of
from millstream.engine.engine import Engine
from millstream.engine.past import Past
from millstream.kernel.batch import INF
from millstream.language.binder import BoundQuery
from millstream.language.instants import shown_instant
from millstream.plan import nodes as lo
from millstream.plan.cost import SourceStatistics, Statistics
from millstream.plan.lowering.matches import is_fragile
from millstream.query import PlanChange

ARRIVED = "arrived"  # of each source at the last move, in what an entry says of that
REPLANNED = "replanned"  # in an entry: the last move
_CHANGED = 2.0  # a statistic is another one that is so many times what it was, or less by as much


class KnownStatistics:
    """By which statistics plans were made last."""

    def __init__(self) -> None:
        self._planned_by: dict[str, Statistics] = {}

    def have_changed(self, name: str, known: Statistics, entry: Mapping[str, Any] | None) -> bool:
        """Whether those of now are others than when something was last planned, which an entry may tell; from now on it
        counts as planned by these."""
        before = self._planned_by.get(name)
        if before is None and entry is not None:
            before = statistics_of(entry)
        if before is not None and not any(_is_other(now, before.get(source)) for source, now in known.items()):
            return False
        self._planned_by[name] = known
        return True

    def forget(self, name: str) -> None:
        """It is gone, or to be looked at when there is more."""
        self._planned_by.pop(name, None)


def known_of_all(engine: Engine, plan: lo.Node) -> Statistics | None:
    """What is known of the sources of a plan; None as long as one of its streams has no rows and may still have had
    some by now. One that is as far as those with rows has none: that is known of it."""
    inputs = {source.feed for source in lo.sources(plan)}
    known = dict(engine.sources.statistics(inputs))
    empty = {node.name for node in plan.walk() if isinstance(node, lo.StreamScan)} - known.keys()
    reached = max(map(engine.sources.frontier, known), default=INF)
    if any(engine.sources.frontier(stream) < reached for stream in empty):
        return None
    nothing = {stream: SourceStatistics(0.0, 1.0, (1.0,) * len(engine.sources.schema(stream))) for stream in empty}
    return {**known, **nothing}


def _is_other(now: SourceStatistics, before: SourceStatistics | None) -> bool:
    if before is None or len(now.distinct) != len(before.distinct):
        return True
    pairs = zip((now.rate, now.size, *now.distinct), (before.rate, before.size, *before.distinct), strict=True)
    return any(max(one, other) > _CHANGED * min(one, other) for one, other in pairs)


def why_not_yet(engine: Engine, inputs: Collection[str], entry: Entry, past: Past) -> str | None:
    """Why a move would cost more than the last one can have saved: the windows must not have more rows than have come
    since. None where they have not."""
    before, arrived = entry.get(REPLANNED, {}).get(ARRIVED, {}), arrived_of(engine, inputs)
    came = sum(rows - before.get(source, 0) for source, rows in arrived.items())
    read = sum(
        rows - (engine.sources.number_before(source, past.kept[source]) if source in past.kept else 0)
        for source, rows in arrived.items()
    )
    return f"a move would read {read} rows, and {came} have come since the last" if read > came else None


def arrived_of(engine: Engine, inputs: Collection[str]) -> dict[str, int]:
    return {source: engine.snapshot.progress(source).arrived for source in inputs}


def why_it_stays(own: Iterable[Past], bound: BoundQuery, past: Past) -> str | None:
    """Why what is kept of history is not enough for another plan of queries that have so much of the past; None where
    it is."""
    is_seen = all(each.unseen is None and each.covered for each in own)
    if past.unseen is None and is_seen and past.covered and not past.apart:
        if past.kept and is_fragile(bound.plan):
            return f"{_cut(bound, past)}, and what fails counts from there on"
        return None
    return f"{_cut(bound, past)}, and its windows reach further back"


def _cut(bound: BoundQuery, past: Past) -> str:
    begins = (f"{source} begins at {shown_instant(at, bound.domain)}" for source, at in past.kept.items())
    return f"the history of {', '.join(sorted(begins))} (RETAIN)"


def last_move(entry: Entry) -> PlanChange | None:
    """What an entry says of it."""
    return PlanChange.of(entry[REPLANNED]) if REPLANNED in entry else None
