"""Plans as the steps that they are lowered to."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.engine.sources import Sources
from millstream.kernel.pipeline import Pipeline
from millstream.plan import nodes as lo
from millstream.plan.fingerprint import fingerprint
from millstream.plan.lowering.lower import Lowering
from millstream.plan.lowering.options import Options


class Plans:
    """The last plan is remembered: to be registered, a query asks for its edge, its sources and its steps."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._last: tuple[lo.Node, Options, tuple[str, Pipeline]] | None = None

    def lowered(self, plan: lo.Node, options: Options) -> tuple[str, Pipeline]:
        """The edge that would carry a plan's rows, and the steps that would make them."""
        last = self._last
        if last is None or last[0] is not plan or last[1] != options:
            self._last = last = plan, options, lowered(plan, options)
        return last[2]

    def edge_of(self, plan: lo.Node, options: Options) -> str:
        """The edge that would carry a plan's rows."""
        return self.lowered(plan, options)[0]

    def pipeline_of(self, plan: lo.Node, options: Options) -> Pipeline:
        """The steps that a plan is made of."""
        return self.lowered(plan, options)[1]

    def steps_of(self, *plans: lo.Node, options: Options) -> str:
        """A name for the steps of plans: what is kept for them is kept by these, also where the edge is the same."""
        return steps_name(step.name for plan in plans for step in self.pipeline_of(plan, options).steps)

    def sources_of(self, plan: lo.Node, options: Options) -> frozenset[str]:
        """The sources that a plan is made from."""
        edge, pipeline = self.lowered(plan, options)
        return self._sources.among(pipeline.edges_below(edge))


def steps_name(names: Iterable[str]) -> str:
    return fingerprint(tuple(sorted(names)))


def lowered(plan: lo.Node, options: Options) -> tuple[str, Pipeline]:
    """The edge that carries a plan's rows, and the steps that make them; operators of their own."""
    lowering = Lowering(plan, options)
    return lowering.edge, Pipeline(tuple(lowering.steps.values()))
