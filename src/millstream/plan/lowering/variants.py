"""The papers' variants that do not pay by default: the one place where settings for experiments choose them."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.errors import BindError
from millstream.kernel.just_in_time.detection import ALL, Detection
from millstream.kernel.just_in_time.variants.bloom import BloomLink
from millstream.kernel.just_in_time.variants.lattice_gate import Lattice
from millstream.kernel.just_in_time.variants.single import SingleRows
from millstream.kernel.storage.expiry_groups import ExpiryGrouped, Fifo
from millstream.kernel.storage.synopsis import Consolidated, Synopsis
from millstream.plan import nodes as lo
from millstream.plan.analysis.lifetime import longest_window
from millstream.plan.analysis.monotonic import is_non_retroactive
from millstream.plan.analysis.patterns import Pattern, pattern_of
from millstream.plan.explain import describe

# What `SET jit_detection` chooses: how joins just in time detect what is not demanded.
DETECTIONS: Mapping[str, Detection] = {
    "all": ALL,
    "lattice": Lattice(),
    "lattice bloom": Lattice(BloomLink),
    "single": SingleRows(),
    "bloom": SingleRows(BloomLink),
}


def synopsis_by_pattern(plan: lo.Node, groups: int, lazy_interval: int) -> Synopsis:
    """How an input whose rows are never taken back is kept under `SET expiry_groups`: by how its rows leave. Without
    groups, and where rows leave at instants that are not known, as any other input."""
    pattern = pattern_of(plan)
    if not groups or pattern == Pattern.STR:
        return Consolidated()
    span = longest_window(plan)
    lazy = max(1, span * lazy_interval // 100)
    return ExpiryGrouped(span, groups, lazy) if pattern == Pattern.WK else Fifo(span, groups, lazy)


def refuse_strict(plan: lo.Node) -> None:
    """Where rows leave at instants that nothing foretells, strategy 'direct' cannot be."""
    for node in plan.walk():
        if node.kind == "relation" and pattern_of(node) == Pattern.STR and not is_non_retroactive(node):
            raise BindError(
                "strategy 'direct' cannot run this query",
                detail=f"the rows of {describe(node)} leave at instants that nothing foretells (STR)",
                hint="SET strategy = 'upa' or 'negative'",
            )
