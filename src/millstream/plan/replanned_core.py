"""The core of a group, planned again by later statistics: the same rows and columns, joined in another way.

    S ⋈ T ⋈ U   by a tree, in another order, by SteMs, just in time or not; negations foretold or counted

What stands above the core, and what queries ask of its columns, stays as it is: so do the rows of the query table.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.kernel.scalar.expressions import Column
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.comparison import burden
from millstream.plan.cost import Statistics, in_pairs
from millstream.plan.lowering.selections import by_stems, has_lineage
from millstream.plan.rules.context import Context
from millstream.plan.rules.foretell_negation import foretell_negation
from millstream.plan.rules.gather_joins import gather_joins
from millstream.plan.rules.order_joins import order_joins
from millstream.plan.verify import Verifier


def has_choice(core: lo.Node) -> bool:
    """Whether there are other plans for a core: not for one join of two inputs, nor where a negation says nothing of
    how it is run. What other queries ask of its joins stays as it is."""
    nodes = [*core.walk()]
    if any(isinstance(node, ph.ManyJoin) and (node.consumers or node.shared) for node in nodes):
        return False
    joins = [node for node in nodes if isinstance(node, lo.Join | ph.ManyJoin)]
    inner = [join for join in joins if not isinstance(join, lo.Join) or join.join == "inner"]
    negations = [join for join in joins if isinstance(join, lo.Join) and join.join == "anti"]
    many = any(isinstance(join, ph.ManyJoin) and len(join.inputs) > 2 for join in joins)
    return many or len(inner) > 1 or bool(negations)


def replanned_core(core: lo.Node, context: Context) -> lo.Node:
    """A core by other statistics, whatever plan it has now."""
    verifier = Verifier(core)
    plan = core.transform(lambda node: in_pairs(node) if isinstance(node, ph.ManyJoin) else node)
    for rule in (order_joins, foretell_negation, gather_joins):
        plan = rule(plan, replace(context, orders_joins=True))
        verifier.check(rule.__name__, plan)
    return _without_names(plan)


def _without_names(plan: lo.Node) -> lo.Node:
    """Without a projection that changes nothing."""
    if not isinstance(plan, lo.Project):
        return plan
    places = [e.index if isinstance(e, Column) else -1 for e in plan.expressions]
    return plan.input if places == [*range(len(plan.input.schema))] else plan


def burden_of_core(core: lo.Node, statistics: Statistics, wanted: float) -> float:
    """Of running a core for queries that together want a part of its rows: no more is made where rows have lineage."""
    own = burden(by_stems(core), statistics)
    return own * min(wanted, 1.0) if has_lineage(core) else own
