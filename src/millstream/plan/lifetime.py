"""How long rows live: whether all of them only for one tick, and the longest window that they come from."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from millstream.kernel.batch import INF
from millstream.kernel.window import BeginEnd, Now, Range, Rows, Tumble
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


def influence(plan: lo.Node, last: Mapping[str, int]) -> int:
    """The last instant at which a plan's answer may depend on elements up to `last`, per source; -1 for none, INF where
    nothing says when they are past."""
    match plan:
        case lo.StreamScan():
            return last.get(plan.name, -1)
        case lo.TableScan():
            return INF if plan.log is not None and last.get(plan.log.feed, -1) >= 0 else -1
        case lo.Window():
            seen = influence(plan.input, last)
            if seen < 0:
                return -1
            if isinstance(plan.window, Rows) or seen >= INF - 1:
                return INF
            return int(pl.select(plan.window.interval(pl.lit(seen, pl.Int64))[1]).item()) - 1
        case lo.Join() if joins_runs(plan):
            # Which version a run has met is decided by where it began, and it may be prolonged for ever.
            return INF if max(influence(child, last) for child in plan.children) >= 0 else -1
        case lo.RelationToStream():
            seen = influence(plan.input, last)
            return seen if seen < 0 else min(seen + 1, INF)
        case _:
            return max((influence(child, last) for child in plan.children), default=-1)


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
