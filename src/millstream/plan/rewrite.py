"""Applies the rewrite rules, in the order given here."""

from __future__ import annotations

from collections.abc import Callable, Collection

from millstream.plan import logical as lo
from millstream.plan.cost import Statistics
from millstream.plan.rules.add_consumers import add_consumers
from millstream.plan.rules.commute_windows import commute_windows
from millstream.plan.rules.foretell_negation import foretell_negation
from millstream.plan.rules.gather_joins import ANY, JoinChoice, gather_joins
from millstream.plan.rules.merge_projections import merge_projections
from millstream.plan.rules.order_joins import order_joins
from millstream.plan.rules.place_failures import place_failures
from millstream.plan.rules.prune_columns import prune_columns
from millstream.plan.rules.pull_up_negation import pull_up_negation
from millstream.plan.rules.push_distinct import push_distinct
from millstream.plan.rules.push_selections import push_selections
from millstream.plan.rules.reduce_windows import reduce_windows
from millstream.plan.rules.share_windows import share_windows

Rule = Callable[[lo.Node, Statistics], lo.Node]

RULES: tuple[Rule, ...] = (
    commute_windows,  # first: it takes derived streams away that the others would have to look through
    reduce_windows,  # ISTREAM over what only grows becomes the identity
    push_selections,  # joins get their conditions, and smaller inputs
    pull_up_negation,  # before joins are ordered: a negation in between would hide that they are neighbours
    push_distinct,  # conditions are where they belong, so that it shows what a join reads
    order_joins,  # conditions are where they belong, so that connections show
    prune_columns,  # by now it is known who reads what
    merge_projections,  # the rules above leave projections behind
    foretell_negation,  # last: it says how the joins that are left are run
)
# NON RETROACTIVE tables must come after all streams of their FROM list whatever the cost.
REQUIRED = (order_joins,)


def rewrite(
    plan: lo.Node,
    statistics: Statistics | None = None,
    disabled: Collection[str] = (),
    choice: JoinChoice = ANY,
    shards: int = 1,
    stem_window: int = 0,
) -> lo.Node:
    """An equivalent plan with the same kind and column types, for so many shards; `stem_window` is the setting."""

    def gather(plan: lo.Node, statistics: Statistics) -> lo.Node:
        return gather_joins(plan, statistics, choice, shards)

    def share(plan: lo.Node, statistics: Statistics) -> lo.Node:
        return share_windows(plan, statistics, stem_window)

    def tell(plan: lo.Node, statistics: Statistics) -> lo.Node:
        return add_consumers(plan, statistics, shards)

    plan = place_failures(plan)
    # These have settings of their own, and come last, since no other rule knows what they make.
    for rule in (*RULES, gather, share, tell):
        if rule.__name__ in disabled and rule not in REQUIRED:
            continue
        rewritten = rule(plan, statistics or {})
        before, after = ([field.type for field in each.schema] for each in (plan, rewritten))
        if before != after or plan.kind != rewritten.kind:
            raise AssertionError(f"rule {rule.__name__} changed what the plan is")
        plan = rewritten
    return plan


def rule_names() -> list[str]:
    return [rule.__name__ for rule in RULES if rule not in REQUIRED]
