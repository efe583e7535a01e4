"""Whether a relation's rows all live for one tick, so that RSTREAM says each of them once."""

from __future__ import annotations

from millstream.kernel.window import Now
from millstream.plan import logical as lo


def lives_one_tick(plan: lo.Node) -> bool:
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
