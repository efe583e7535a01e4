"""What a late query has of the past: from when on its answers are exact, and what its author is told.

    K(S) = final - RETAIN(S) when the query comes, 0 if nothing of S was cut      its elements from K on are the past
    F    = the first instant from which no element before K can be in any window  answers from F on are exact

It does not matter what files still hold. Where there is no F (windows that never end, or count rows by partition)
the answer is made of what came from K on, and the author is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from millstream.declarations import Declarations, Entry
from millstream.engine.engine import Engine
from millstream.engine.past import Past
from millstream.errors import TimeError
from millstream.kernel.batch import INF
from millstream.language.binder import BoundQuery
from millstream.language.instants import shown_instant
from millstream.plan import logical as lo
from millstream.plan.lazy import is_fragile
from millstream.plan.lifetime import influence


def check_now(past: Past, now: int, bound: BoundQuery) -> None:
    """Refuse an answer now that would lack something, where answers later on would not."""
    if past.first > now >= 0:
        raise TimeError(
            f"the answer at {shown_instant(now, bound.domain)} needs history that is no longer kept",
            detail="; ".join(past.notices),
            hint="ask for a shorter window, or declare the streams with a longer RETAIN",
        )


def of_the_past(engine: Engine, bound: BoundQuery) -> Past:
    """What a query has that comes now."""
    past = _of_the_past(engine, bound)
    if not is_fragile(bound.plan):
        return past
    # What fails counts from the first answerable instant on.
    return replace(past, counted=max(past.first, engine.first_answerable({s.name for s in lo.sources(bound.plan)})))


def _of_the_past(engine: Engine, bound: BoundQuery) -> Past:
    sources = {source.name for source in lo.sources(bound.plan)}
    final, kept = engine.final(sources, engine.snapshot), {}
    for node in bound.plan.walk():
        if isinstance(node, lo.StreamScan) and (cut := engine.lost_before(node.name)) > 0:
            kept[node.name] = max(cut, final - (engine.retain_of(node.name) or 0))
    if not kept:
        return Past()
    lost = {source: first - 1 for source, first in kept.items()}
    last = influence(bound.plan, lost, lambda source, n: engine.instant_of(source, kept[source], n))
    if last >= INF - 1:
        told = _told(bound, kept, "its answers lack what came before")
        return Past(kept, max(kept.values()), True, told, covered=False)
    notices = _told(bound, kept, f"it can be asked from {shown_instant(last + 1, bound.domain)} on")
    return Past(kept, last + 1, last >= final, notices if last >= final else ())


def _told(bound: BoundQuery, kept: Mapping[str, int], so: str) -> tuple[str, ...]:
    return tuple(
        f"the history of {source} begins at {shown_instant(first, bound.domain)} (RETAIN), and a window of this query "
        f"reaches further back: {so}"
        for source, first in sorted(kept.items())
        if influence(bound.plan, {source: first - 1}) >= 0
    )


def with_past(declared: Declarations, template: str, first: int, count: int, past: Past) -> Declarations:
    """With what so many queries of a template have of the past, from the number of the first on."""
    told = [first, count, list(past.notices), *past.content()]
    entries = (
        {**entry, "notices": [*entry.get("notices", ()), told]}
        if (entry["kind"], entry["name"]) == ("template", template)
        else entry
        for entry in declared.entries
    )
    return Declarations(tuple(entries)) if past.is_told else declared


def past_in(entry: Entry, number: int | None = None) -> Past:
    """What a query has of the past, by its entry, or by that of its template."""
    if number is None:
        return _past(entry.get("past", ()), entry.get("notices", ()))
    for begin, count, notices, *content in entry.get("notices", ()):
        if begin <= number < begin + count:
            return _past(content, notices)
    return Past()


def _past(content: Sequence[Any], notices: Sequence[str]) -> Past:
    first, kept, *rest = content or (0, {})
    return Past(kept, first, False, tuple(notices), *rest)
