"""Where a tree of joins should work just in time: where its joins would make many rows that nobody needs.

Holding rows back costs every row a few questions, which is worth it where a join makes many rows of each and the one
above has no partners for most of those.
"""

from __future__ import annotations

from collections.abc import Sequence

from millstream.plan import logical as lo
from millstream.plan.cost import Statistics, estimate

# As `millstream bench just_in_time` has it: what a row costs that is made and stored, in rows that are asked about.
MADE_IN_QUESTIONS = 3.0
MOST_PARTNERS = 0.5  # of a made row in the join above, on average: with more, most rows are needed


def is_just_in_time_cheaper(joins: Sequence[lo.Join], inputs: float, statistics: Statistics) -> bool:
    """Whether so many rows are made for nothing by some of the joins, of which the outermost is the first, as make up
    for asking about those of the inputs."""
    sizes = {id(join): estimate(join, statistics).size for join in joins}
    useless = 0.0
    for join in joins:
        for made in (_join_below(side) for side in join.children):
            if made is not None and sizes[id(join)] < MOST_PARTNERS * sizes[id(made)]:
                useless += sizes[id(made)]
    return useless * MADE_IN_QUESTIONS > inputs * len(joins)


def _join_below(node: lo.Node) -> lo.Join | None:
    while isinstance(node, lo.Filter | lo.Project):
        node = node.input
    return node if isinstance(node, lo.Join) and node.join == "inner" else None
