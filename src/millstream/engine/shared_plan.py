"""The shared plan: the steps that run in every epoch, and how many queries show which of their edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from millstream.engine.sources import Sources
from millstream.errors import EvaluationError, told
from millstream.kernel.pipeline import Pipeline, Step


class SharedPlan:
    """One pipeline for all queries. It changes between epochs, under the lock."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.pipeline = Pipeline()
        self.shown: Counter[str] = Counter()  # per edge: by how many queries

    def add(self, steps: Sequence[Step]) -> None:
        """Steps take part; those that are there already stay."""
        self.pipeline = self.pipeline.with_steps(tuple(steps))

    def put(self, steps: Sequence[Step]) -> None:
        """Steps take part, in place of those of the same names."""
        self.pipeline = self.pipeline.replacing(tuple(steps))

    def remove(self, steps: Collection[str]) -> None:
        if steps:
            self.pipeline = self.pipeline.without(steps)

    def keep_only(self, steps: set[str]) -> None:
        self.pipeline = self.pipeline.only(steps)

    @property
    def names(self) -> set[str]:
        """Of its steps."""
        return {step.name for step in self.pipeline.steps}

    def steps_only_for(self, edge: str) -> set[str]:
        """The steps that no other edge needs that is shown."""
        others = {below for other in self.shown if other != edge for below in self.pipeline.edges_below(other)}
        return {step for step in self.pipeline.edges_below(edge) - others if step not in self._sources}

    def needed(self, shown: Iterable[str], others: Iterable[Step]) -> set[str]:
        """What edges are made of, where steps of groups of which no query takes part yet count as well."""
        known = self.pipeline.with_steps(Pipeline(tuple(others)).steps)
        return {below for edge in shown for below in known.edges_below(edge)}

    def failed_steps(self, failures: Mapping[str, EvaluationError]) -> dict[str, dict[str, str]]:
        """What the failed steps, and all that read them, say from now on."""
        found: dict[str, dict[str, str]] = {}
        for step in self.pipeline.steps if failures else ():
            broken = [found[edge] for edge in step.needed if edge in found]
            if step.name in failures:
                found[step.name] = told(failures[step.name])
            elif broken:
                found[step.name] = broken[0]
        return found
