"""Applies the rewrite rules, in the order given here."""

from __future__ import annotations

from collections.abc import Callable

from millstream.plan import logical as lo
from millstream.plan.rules.push_selections import push_selections

Rule = Callable[[lo.Node], lo.Node]

RULES: tuple[Rule, ...] = (
    push_selections,  # joins get their keys, and smaller inputs
)


def rewrite(plan: lo.Node) -> lo.Node:
    """An equivalent plan with the same kind and column types."""
    for rule in RULES:
        rewritten = plan.transform(rule)
        before, after = ([field.type for field in p.schema] for p in (plan, rewritten))
        if before != after or plan.kind != rewritten.kind:
            raise AssertionError(f"rule {rule.__name__} changed what the plan is")
        plan = rewritten
    return plan
