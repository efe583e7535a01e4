"""Applies the rewrite rules, in the order given here, and verifies the plan after each of them."""

from __future__ import annotations

from collections.abc import Collection

from millstream.plan import nodes as lo
from millstream.plan.cost import Statistics
from millstream.plan.rules.add_consumers import add_consumers
from millstream.plan.rules.blank_unread import blank_unread
from millstream.plan.rules.commute_windows import commute_windows
from millstream.plan.rules.context import ANY, Context, JoinChoice, Rule
from millstream.plan.rules.fold_constants import fold_constants
from millstream.plan.rules.foretell_negation import foretell_negation
from millstream.plan.rules.gather_joins import gather_joins
from millstream.plan.rules.limit_ranks import limit_ranks
from millstream.plan.rules.merge_projections import merge_projections
from millstream.plan.rules.order_by_runs import order_by_runs
from millstream.plan.rules.order_joins import order_joins
from millstream.plan.rules.place_failures import place_failures
from millstream.plan.rules.prune_columns import prune_columns
from millstream.plan.rules.pull_up_negation import pull_up_negation
from millstream.plan.rules.push_distinct import push_distinct
from millstream.plan.rules.push_selections import push_selections
from millstream.plan.rules.reduce_windows import reduce_windows
from millstream.plan.rules.share_windows import share_windows
from millstream.plan.verify import Verifier

RULES: tuple[Rule, ...] = (
    fold_constants,  # before what fails is placed: what has a value does not
    blank_unread,  # required: what nobody reads must not fail, and need not be placed
    place_failures,  # required, before all that moves anything: what fails is fixed here, whatever is moved later
    blank_unread,  # required: what was placed reads less than what was there before
    commute_windows,  # it takes derived streams away that the others would have to look through
    reduce_windows,  # ISTREAM over what only grows becomes the identity
    push_selections,  # joins get their conditions, and smaller inputs
    limit_ranks,  # conditions on numbers of rows stand right above what numbers them
    pull_up_negation,  # before joins are ordered: a negation in between would hide that they are neighbours
    push_distinct,  # conditions are where they belong, so that it shows what a join reads
    order_joins,  # required: NON RETROACTIVE tables come after all streams of their FROM list whatever the cost
    prune_columns,  # by now it is known who reads what
    merge_projections,  # the rules above leave projections behind
    order_by_runs,  # required: when rows come must not depend on the pieces in which it is said that they are there
    foretell_negation,  # it says how the negations that are left are run; none is made or moved from here on
    gather_joins,  # after all that knows joins of two inputs only
    share_windows,  # only joins by SteMs keep longer windows, so these must be there
    add_consumers,  # last: it copies parts of the plan as they will be run
)
REQUIRED = frozenset({blank_unread, place_failures, order_joins, order_by_runs})


def rewrite(
    plan: lo.Node,
    statistics: Statistics | None = None,
    disabled: Collection[str] = (),
    choice: JoinChoice = ANY,
    shards: int = 1,
    stem_window: int = 0,
    orders_joins: bool = False,
) -> lo.Node:
    """An equivalent plan, for so many shards; `stem_window` is the setting, and `orders_joins` has the inputs of joins
    be ordered by cost, and not as they were written."""
    context = Context(statistics or {}, choice, shards, stem_window, orders_joins)
    verifier = Verifier(plan)
    for rule in RULES:
        if rule.__name__ in disabled and rule not in REQUIRED:
            continue
        plan = rule(plan, context)
        verifier.check(rule.__name__, plan)
    return plan


def rule_names() -> list[str]:
    """Those that `SET disabled_rules` may name, in their order."""
    return [rule.__name__ for rule in RULES if rule not in REQUIRED]
