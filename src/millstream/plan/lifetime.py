"""How long rows live: whether all of them only for one tick, and the longest window that they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from millstream.kernel.batch import INF
from millstream.kernel.window import BeginEnd, Now, Range, Rows, TimeSpecification, Tumble
from millstream.plan import logical as lo
from millstream.plan.births import joins_runs


def longest_window(plan: lo.Node) -> int:
    """In ticks; windows that do not end, or count rows, do not count."""
    sizes = [1]
    for window in (node.window for node in plan.walk() if isinstance(node, lo.Window)):
        if isinstance(window, Range | Tumble):
            sizes.append(window.size)
        elif isinstance(window, BeginEnd) and window.begin is None:
            sizes.append(window.begin_age)
    return max(sizes)


def influence(plan: lo.Node, last: Mapping[str, int], nth: Callable[[str, int], int] = lambda source, n: INF) -> int:
    """The last instant at which a plan's answer may depend on any element up to `last`, per source; -1 for none, INF
    where nothing says when they are past. `nth` gives the instant of the n-th element after those, INF where there
    are not so many: windows that count rows have seen them leave by then."""
    match plan:
        case lo.StreamScan():
            return last.get(plan.name, -1)
        case lo.TableScan():
            return INF if plan.log is not None and last.get(plan.log.feed, -1) >= 0 else -1
        case lo.Window():
            seen = influence(plan.input, last, nth)
            if seen < 0:
                return -1
            if isinstance(plan.window, Rows):
                return _influence_of_rows(plan.input, plan.window, nth)
            return _last_shown(plan.window, seen)
        case lo.Join() if joins_runs(plan):
            # Which version a run has met is decided by where it began, and it may be prolonged for ever.
            return INF if max(influence(child, last, nth) for child in plan.children) >= 0 else -1
        case lo.RelationToStream():
            seen = influence(plan.input, last, nth)
            return seen if seen < 0 or plan.operator == "rstream" else min(seen + 1, INF)
        case _:
            return max((influence(child, last, nth) for child in plan.children), default=-1)


def _last_shown(window: TimeSpecification, seen: int) -> int:
    """The last instant at which one of the elements up to `seen` is in a window."""
    if isinstance(window, BeginEnd):
        if window.begin is not None:
            return INF if seen >= window.begin else -1
        seen = seen if window.end is None else min(seen, window.end)
    if seen >= INF - 1:
        return INF
    return int(pl.select(window.interval(pl.lit(seen, pl.Int64))[1]).item()) - 1


def _influence_of_rows(stream: lo.Node, window: Rows, nth: Callable[[str, int], int]) -> int:
    """Elements of a partition may stay for ever; those of a slide are counted from the first one that ever came, and
    those of derived streams by nobody."""
    if window.partition or window.slide > 1 or not isinstance(stream, lo.StreamScan):
        return INF
    found = nth(stream.name, window.rows + window.slide)
    return found - 1 if found < INF else INF


def lives_one_tick(plan: lo.Node) -> bool:
    """So that RSTREAM says each row once."""
    match plan:
        case lo.Window():
            return isinstance(plan.window, Now)
        case lo.Filter() | lo.Project() | lo.Distinct() | lo.Stamped() | lo.Shortened():
            return lives_one_tick(plan.input)
        case lo.Aggregate():
            return bool(plan.keys) and lives_one_tick(plan.input)
        case lo.Join(join="inner"):
            return lives_one_tick(plan.left) or lives_one_tick(plan.right)
        case lo.ManyJoin():
            return any(lives_one_tick(child) for child in plan.inputs)
        case lo.Join(join="left" | "semi" | "anti"):
            return lives_one_tick(plan.left)
        case lo.Join(join="right"):
            return lives_one_tick(plan.right)
        case lo.SetOperation(operation="intersect" | "intersect all"):
            return lives_one_tick(plan.left) or lives_one_tick(plan.right)
        case lo.SetOperation(operation="except" | "except all"):
            return lives_one_tick(plan.left)
        case lo.Join() | lo.SetOperation():
            return lives_one_tick(plan.left) and lives_one_tick(plan.right)
        case _:
            return False
