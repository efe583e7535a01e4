"""What a late query has of the past: from when on its answers are exact, and what its author is told.

    K(S) = final - RETAIN(S) when the query comes, 0 if nothing of S was cut      its elements from K on are the past
    F    = the first instant from which no element before K can be in any window  answers from F on are exact

It does not matter what files still hold. F of windows that count rows may not be known yet: they tell when they have
counted enough. Where there is no F (windows that never end, or count rows by partition)
the answer is made of what came from K on, and the author is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from millstream.catalog.entries import Declarations, Entry
from millstream.engine.engine import Engine
from millstream.engine.epochs.task import StateNames
from millstream.engine.past import Past
from millstream.errors import TimeError
from millstream.kernel.batch import INF, Batch
from millstream.kernel.windows.rows import AT, COVERED
from millstream.kernel.windows.time import Rows
from millstream.language.binder import BoundQuery
from millstream.language.instants import shown_instant
from millstream.plan import nodes as lo
from millstream.plan.analysis.lifetime import OPEN, Counting, can_be_counted, counters, countings, influence
from millstream.plan.lowering.lower import Lowering
from millstream.plan.lowering.matches import is_fragile
from millstream.plan.lowering.options import Options

ReadSegment = Callable[[str], pl.DataFrame]


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
    # What fails counts from the first answerable instant on; where that is not known yet, from what is kept on at the
    # earliest.
    first = past.first if past.unseen is None else max(past.kept.values())
    return replace(past, counted=max(first, engine.sources.first_answerable({s.feed for s in lo.sources(bound.plan)})))


def _of_the_past(engine: Engine, bound: BoundQuery) -> Past:
    sources = {source.feed for source in lo.sources(bound.plan)}
    final, kept = engine.sources.final(sources, engine.snapshot), {}
    for node in bound.plan.walk():
        if isinstance(node, lo.StreamScan) and (cut := engine.retention.lost_before(node.name)) > 0:
            retain = engine.sources.retain_of(node.name)
            kept[node.name] = cut if retain is None else max(cut, final - retain)
    if not kept:
        return Past()
    past = Past(kept)
    last = influence(bound.plan, past.lost, partial(_covered_now, engine))
    if last > OPEN:
        notice = _notices(engine, bound, kept, "its answers lack what came before")
        return Past(kept, max(kept.values()), True, notice, covered=False)
    if last == OPEN:
        windows = countings(bound.plan, past.lost, partial(_covered_now, engine))
        rows = max(each.window.window.rows + each.window.window.slide for each in windows.values())  # type: ignore[union-attr]
        so = f"it is answerable once its windows have counted {rows} rows since, at most"
        notice = _notices(engine, bound, kept, so)
        unseen = tuple((place, each.since, _before(engine, each)) for place, each in windows.items())
        return Past(kept, OPEN, True, notice, unseen=unseen)
    notices = _notices(engine, bound, kept, f"it is answerable from {shown_instant(last + 1, bound.domain)} on")
    return Past(kept, last + 1, last >= final, notices if last >= final else ())


def shortest_past(engine: Engine, bound: BoundQuery, past: Past) -> Past:
    """As much of the past as answers from now on need, of what a query has that comes now: all of it where windows
    count rows or nothing covers them, and where it may be what failed."""
    counts = any(isinstance(node, lo.Window) and isinstance(node.window, Rows) for node in bound.plan.walk())
    if counts or is_fragile(bound.plan):
        return past
    streams = {node.name for node in bound.plan.walk() if isinstance(node, lo.StreamScan)}
    final = engine.sources.final({source.feed for source in lo.sources(bound.plan)}, engine.snapshot)

    def since(first: int) -> Past:
        kept = {stream: max(first, past.kept.get(stream, 0)) for stream in streams}
        shortened = Past(kept)
        return replace(shortened, first=influence(bound.plan, shortened.lost) + 1)

    enough, too_short = 0, final + 1
    while too_short - enough > 1:
        middle = (enough + too_short) // 2
        if since(middle).first <= final:
            enough = middle
        else:
            too_short = middle
    return since(enough) if enough else past


def _covered_now(engine: Engine, node: lo.Window, seen: int) -> int:
    """Of single rows of a base stream it is known where they are; others are counted as the query runs."""
    window = node.window
    if isinstance(window, Rows) and window.slide == 1 and isinstance(node.input, lo.StreamScan):
        return min(engine.sources.instant_of(node.input.name, seen + 1, window.rows + 1), OPEN)
    return OPEN if can_be_counted(node) else INF


def _before(engine: Engine, counting: Counting) -> int:
    """Whatever slides counts all elements that there ever were."""
    stream = counting.window.input
    return engine.sources.number_before(stream.name, counting.since) if isinstance(stream, lo.StreamScan) else 0


def counted_by(plan: lo.Node, past: Past) -> tuple[Counting, ...]:
    """The windows of a plan that are to tell when they have counted enough."""
    if past.unseen is None:
        return ()
    windows = counters(plan)
    return tuple(Counting(windows[place], since, before) for place, since, before in past.unseen)


def found_by_counting(plan: lo.Node, past: Past, options: Options, read: ReadSegment, states: StateNames) -> int:
    """The first answerable instant of a query by what its windows have counted; OPEN as long as that is not enough."""
    lowering = Lowering(plan, options)

    def covered(window: lo.Window, seen: int) -> int:
        if not can_be_counted(window):
            return INF
        kept = states.get(lowering.edge_of_window(window), {}).items()
        found = [read(name) for key, names in kept if key.endswith(f"/{COVERED}") for name in names]
        return next((at for frame in found if (at := frame[AT].item()) is not None), OPEN)

    last = influence(plan, past.lost, covered)
    return last + 1 if last < OPEN else OPEN


def counted_now(engine: Engine, bound: BoundQuery, past: Past, options: Options, now: int) -> tuple[Batch, Past]:
    """The rows of an ad-hoc query whose windows count, and what it has of the past, if they have counted enough."""
    options = replace(options, counting=counted_by(bound.plan, past))
    found: list[int] = []

    def read(states: StateNames, read_segment: ReadSegment) -> None:
        found.append(found_by_counting(bound.plan, past, options, read_segment, states))

    is_stream = bound.kind == "stream" and is_fragile(bound.plan)
    rows = engine.evaluation.evaluate(bound.plan, replace(options, is_open=is_stream), now, past.kept, read)
    past = replace(past, first=found[0] if found else OPEN)
    check_now(past, now, bound)
    if is_stream:  # whose elements count from an instant on that is known now
        options = replace(options, first_counted=max(past.first, options.first_counted))
        rows = engine.evaluation.evaluate(bound.plan, options, now, past.kept)
    return rows, replace(past, notices=())


def _notices(engine: Engine, bound: BoundQuery, kept: Mapping[str, int], so: str) -> tuple[str, ...]:
    return tuple(
        f"the history of {engine.sources.name_of(source)} begins at {shown_instant(first, bound.domain)} (RETAIN), "
        f"and a window of this query reaches further back: {so}"
        for source, first in sorted(kept.items())
        if influence(bound.plan, {source: first - 1}) >= 0
    )


def with_past(declared: Declarations, template: str, first: int, count: int, past: Past) -> Declarations:
    """With what so many queries of a template have of the past, from the number of the first on."""
    if not past.is_recorded:
        return declared
    entry = declared.find("template", template)
    if entry is None:
        raise AssertionError(f"{template} is not declared")
    notice, content = list(entry.get("notices", ())), [list(past.notices), *past.content()]
    if notice and notice[-1][0] + notice[-1][1] == first and notice[-1][2:] == content:
        notice[-1] = [notice[-1][0], notice[-1][1] + count, *content]
    else:
        notice.append([first, count, *content])
    return declared.replacing(entry, {**entry, "notices": notice})


def past_in(entry: Entry, number: int | None = None) -> Past:
    """What a query has of the past, by its entry, or by that of its template."""
    if number is None:
        return _past(entry.get("past", ()), entry.get("notices", ()))
    for begin, count, notices, *content in entry.get("notices", ()):
        if begin <= number < begin + count:
            return _past(content, notices)
    return Past()


def _past(content: Sequence[Any], notices: Sequence[str]) -> Past:
    found = [*content, *[0, {}, True, 0, None][len(content) :]]
    first, kept, covered, counted, unseen = found
    windows = None if unseen is None else tuple((place, since, before) for place, since, before in unseen)
    return Past(kept, first, False, tuple(notices), covered, counted, windows)
