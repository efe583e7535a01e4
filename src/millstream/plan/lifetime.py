"""How long rows live: whether all of them only for one tick, and the longest window that they come from."""

from __future__ import annotations

from millstream.kernel.window import BeginEnd, Now, Range, Tumble
from millstream.plan import logical as lo


def longest_window(plan: lo.Node) -> int:
    """In ticks; windows that do not end, or count rows, do not count."""
    sizes = [1]
    for window in (node.window for node in plan.walk() if isinstance(node, lo.Window)):
        if isinstance(window, Range | Tumble):
            sizes.append(window.size)
        elif isinstance(window, BeginEnd) and window.begin is None:
            sizes.append(window.begin_age)
    return max(sizes)


def lives_one_tick(plan: lo.Node) -> bool:
    """So that RSTREAM says each row once."""
    match plan:
        case lo.Window():
            return isinstance(plan.window, Now)
        case lo.Filter() | lo.Project() | lo.Distinct():
            return lives_one_tick(plan.input)
        case lo.Aggregate():
            return bool(plan.keys) and lives_one_tick(plan.input)
        case lo.Join(join="inner"):
            return lives_one_tick(plan.left) or lives_one_tick(plan.right)
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
