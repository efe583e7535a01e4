"""How long rows live: whether all of them only for one tick, and the longest window that they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from millstream.kernel.batch import INF
from millstream.kernel.pending_errors import OPEN as OPEN
from millstream.kernel.windows.time import (
    BeginEnd,
    Hop,
    Now,
    Range,
    RangeOn,
    Rows,
    Sessions,
    TimeSpecification,
    Tumble,
    Unbounded,
    UserWindow,
)
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.births import joins_runs


def longest_window(plan: lo.Node) -> int:
    """In ticks; windows that do not end, or count rows, do not count."""
    sizes = [1]
    for window in (node.window for node in plan.walk() if isinstance(node, lo.Window)):
        if isinstance(window, Range | Tumble | Hop):
            sizes.append(window.size)
        elif isinstance(window, BeginEnd) and window.begin is None:
            sizes.append(window.begin_age)
    return max(sizes)


# Of a window that counts rows and whose elements up to an instant may be others: the instant from which on only later
# ones are in it; OPEN where that is not known yet, INF where it never is.
Covered = Callable[[lo.Window, int], int]


def influence(plan: lo.Node, last: Mapping[str, int], covered: Covered = lambda window, seen: INF) -> int:
    """The last instant at which a plan's answer may depend on any element up to `last`, per source; -1 for none, OPEN
    where it is not known yet, INF where nothing says when they are past."""
    match plan:
        case lo.StreamScan():
            return last.get(plan.name, -1)
        case lo.TableScan():
            return INF if plan.log is not None and last.get(plan.log.feed, -1) >= 0 else -1
        case lo.Window():
            seen = influence(plan.input, last, covered)
            if seen < 0:
                return -1
            if isinstance(plan.window, UserWindow):
                return INF  # nobody knows how long elements stay
            if isinstance(plan.window, RangeOn):
                return INF  # nobody knows when the column rises
            if isinstance(plan.window, Sessions):
                return INF  # elements that are not there any more may have begun what goes on
            if isinstance(plan.window, Rows):
                found = INF if plan.window.partition or seen >= OPEN else covered(plan, seen)
                return found if found >= OPEN else found - 1
            return _last_shown(plan.window, seen)
        case lo.Join() if joins_runs(plan):
            # Which version a run has met is decided by where it began, and it may be prolonged for ever.
            return INF if max(influence(child, last, covered) for child in plan.children) >= 0 else -1
        case lo.RelationToStream():
            seen = influence(plan.input, last, covered)
            return seen if seen < 0 or seen >= OPEN or plan.operator == "rstream" else seen + 1
        case _:
            return max((influence(child, last, covered) for child in plan.children), default=-1)


def _last_shown(window: TimeSpecification, seen: int) -> int:
    """The last instant at which one of the elements up to `seen` is in a window."""
    if isinstance(window, BeginEnd):
        if window.begin is not None:
            return INF if seen >= window.begin else -1
        seen = seen if window.end is None else min(seen, window.end)
    if seen >= OPEN:
        return INF if isinstance(window, Unbounded) else seen
    return int(window.interval(np.array([seen]))[1][0]) - 1


@dataclass(frozen=True)
class Counting:
    """A window that counts rows and has not seen all of its stream: from which instant on its elements are the right
    ones, and how many came before the first that it sees, where that matters."""

    window: lo.Window
    since: int
    before: int = 0


def countings(plan: lo.Node, last: Mapping[str, int], covered: Covered) -> dict[int, Counting]:
    """The windows that can be told when they have seen enough, by their places among those that count: those that count
    single rows, or rows of a base stream. Not those above others of which nobody knows from when on they are right."""
    return {
        place: Counting(node, seen + 1)
        for place, node in enumerate(counters(plan))
        if 0 <= (seen := influence(node.input, last, covered)) < OPEN
    }


def counters(plan: lo.Node) -> list[lo.Window]:
    """All windows of a plan that could count, each once."""
    return [*dict.fromkeys(node for node in plan.walk() if isinstance(node, lo.Window) and can_be_counted(node))]


def can_be_counted(node: lo.Window) -> bool:
    """Of slides it must be known how many elements there ever were."""
    window = node.window
    return isinstance(window, Rows) and (
        not window.partition and (window.slide == 1 or isinstance(node.input, lo.StreamScan))
    )


def lives_one_tick(plan: lo.Node) -> bool:
    """So that RSTREAM says each row once."""
    match plan:
        case lo.Window():
            return isinstance(plan.window, Now)
        case lo.Filter() | lo.Project() | lo.Unnest() | lo.Distinct() | lo.Top() | lo.Over():
            return lives_one_tick(plan.input)
        case ph.Stamped() | ph.Shortened():
            return lives_one_tick(plan.input)
        case lo.Aggregate():
            return bool(plan.keys) and lives_one_tick(plan.input)
        case lo.Join(join="inner"):
            return lives_one_tick(plan.left) or lives_one_tick(plan.right)
        case ph.ManyJoin():
            return any(lives_one_tick(child) for child in plan.inputs)
        case lo.Join(join="left" | "semi" | "anti") | lo.AsofJoin():
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
