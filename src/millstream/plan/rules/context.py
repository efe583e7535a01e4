"""What rules may know besides the plan: each is a function of the plan and of this, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from millstream.plan import nodes as lo
from millstream.plan.cost import Statistics


@dataclass(frozen=True)
class JoinChoice:
    """What was chosen about joins, by the settings of these names."""

    join_plan: str = "auto"
    jit: str = "auto"
    jit_detection: str = "all"


ANY = JoinChoice()


@dataclass(frozen=True)
class Context:
    """What is known of the sources, and of the joins that running queries keep of them (`statistics`); what was chosen
    about joins; over how many shards rows are spread; the setting `stem_window`; and whether the inputs of joins are
    ordered by cost."""

    statistics: Statistics = field(default_factory=dict)
    choice: JoinChoice = ANY
    shards: int = 1
    stem_window: int = 0
    orders_joins: bool = False


Rule = Callable[[lo.Node, Context], lo.Node]
