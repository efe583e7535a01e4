"""Only rows of single inputs are held back, and no combinations of them (the paper's sub-tuples of Type I)."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.kernel.joins.graph import InputSet, JoinGraph
from millstream.kernel.just_in_time.combinations import CombinationGate
from millstream.kernel.just_in_time.detection import Detection
from millstream.kernel.just_in_time.look_ahead import Usual
from millstream.kernel.just_in_time.tree_shape import TreeJoin


@dataclass(frozen=True)
class SingleRows(Detection):
    """No inner join holds combinations back."""

    def combination_gates(
        self, graph: JoinGraph, root: TreeJoin, usual: Usual, retracting: InputSet, *, adaptive: bool
    ) -> dict[TreeJoin, CombinationGate]:
        return {}
