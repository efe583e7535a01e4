"""Direct or negative execution of a negation, by how many rows are expected to end prematurely.

Said ahead, an anti join tells when its rows come back because their partners leave, and need not count those: δ* knows
how long they stay. But a partner that comes again prolongs the stay, and takes back what was said. By counts, rows come
back when it is time. Where inputs have few keys in common hardly anything is taken back; where they share their keys,
nearly everything.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.plan import nodes as lo
from millstream.plan.algebra.existence import existence_of
from millstream.plan.analysis.patterns import Pattern, pattern_of
from millstream.plan.cost import is_foretelling_cheaper
from millstream.plan.rules.context import Context


def foretell_negation(plan: lo.Node, context: Context) -> lo.Node:
    def change(node: lo.Node) -> lo.Node:
        if not (isinstance(node, lo.Join) and node.join == "anti") or _takes_back(existence_of(node).keys):
            return node
        return replace(node, foretold=is_foretelling_cheaper(node, context.statistics))

    return plan.transform(change)


def _takes_back(keys: lo.Node) -> bool:
    """Whether partners may leave at instants that nothing foretells; a group-by replaces its rows."""
    return pattern_of(keys) == Pattern.STR or any(isinstance(node, lo.Aggregate) for node in keys.walk())
