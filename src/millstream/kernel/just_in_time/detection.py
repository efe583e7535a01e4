"""How a join just in time detects what is not demanded.

The default looks for partners in indexes of keys, for the rows of inputs and for combinations of them. `variants` has
the paper's other ways; each is a detection as well, and nothing but lowering knows which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from millstream.kernel.joins.graph import InputSet, JoinGraph
from millstream.kernel.just_in_time.combinations import CombinationGate
from millstream.kernel.just_in_time.look_ahead import Usual
from millstream.kernel.just_in_time.partners import Link
from millstream.kernel.just_in_time.tally import Tally
from millstream.kernel.just_in_time.tree_shape import Demand, TreeJoin, demands_of
from millstream.kernel.operator import Segment

StoredSegments = dict[str, tuple[Segment, ...]]


@dataclass(frozen=True)
class Detection:
    """`link` says how rows of inputs are judged: exactly, or by what is cheaper and takes more of them for needed."""

    link: type[Link] = Link

    def combination_gates(
        self, graph: JoinGraph, root: TreeJoin, usual: Usual, retracting: InputSet, *, adaptive: bool
    ) -> dict[TreeJoin, CombinationGate]:
        """The inner joins whose combinations are held back. Those with rows that may be taken back are not."""
        demands = demands_of(root)
        inner = [join for join in root.walk() if join != root and not join.inputs & retracting]
        gates = {join: self.combination_gate(graph, join, demands[join], usual, adaptive=adaptive) for join in inner}
        return {join: gate for join, gate in gates.items() if gate.checks}

    def combination_gate(
        self, graph: JoinGraph, join: TreeJoin, demands: Sequence[Demand], usual: Usual, *, adaptive: bool
    ) -> CombinationGate:
        return CombinationGate(graph, join, demands, usual)

    def remember(
        self,
        gates: Mapping[TreeJoin, CombinationGate],
        given_up: Collection[TreeJoin],
        kept: StoredSegments,
        horizon: Callable[[TreeJoin], int],
        tally: Tally,
    ) -> None:
        """Adds what was learnt in a step to what is kept after it; by default nothing is."""


ALL = Detection()
