"""The shared plan as it is at a moment, and what has changed since another one: for those who watch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millstream.engine.engine import Engine
from millstream.engine.live_plan import KnownPlan
from millstream.queries.live_plans import LivePlans


@dataclass(frozen=True, eq=False)
class Look:
    """The numbers of all nodes at a moment."""

    epoch: int
    plan: KnownPlan
    numbers: Mapping[str, Mapping[str, Any]]

    @property
    def version(self) -> int:
        """Another one where the plan is another one."""
        return self.plan.version

    def since(self, before: Look) -> dict[str, Any]:
        """What is to be told of it to who knows the plan as it was; nothing where all is the same."""
        if before.plan is not self.plan:
            return {"structure": True, "version": self.version}
        nodes: dict[str, dict[str, Any]] = {}
        for name, numbers in self.numbers.items():
            known = before.numbers[name]
            changed = {key: value for key, value in numbers.items() if known[key] != value}
            if changed:
                nodes[name] = changed
        if not nodes:
            return {}
        rates = {name: numbers["rate"] for name, numbers in nodes.items() if "rate" in numbers}
        edges = {edge.id: {"rate": rates[edge.start]} for edge in self.plan.graph.edges if edge.start in rates}
        return {"nodes": nodes, "edges": edges}


def look(engine: Engine, plans: LivePlans) -> Look:
    """The shared plan now."""
    plan = plans.known()
    return Look(engine.snapshot.epoch, plan, plans.numbers(plan))
