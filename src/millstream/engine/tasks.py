"""The tasks that are run, made from what is committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millstream.engine.commits import Commits
from millstream.engine.epochs.parts import Part, late_key
from millstream.engine.epochs.task import EpochTask
from millstream.engine.limits import Limits
from millstream.engine.query_tables import operator_states
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.kernel.pipeline import Pipeline
from millstream.state.snapshot import Snapshot


class Tasks:
    """Makes tasks from what is committed."""

    def __init__(self, commits: Commits, sources: Sources, limits: Limits) -> None:
        self._commits, self._sources, self._limits = commits, sources, limits

    def from_nothing(self, pipeline: Pipeline, arrived: Mapping[str, tuple[Part, ...]]) -> EpochTask:
        """A task of all steps from nothing; callers say how far, from where, and what to show."""
        sources = self._sources
        late = {late_key(source) for source in arrived}
        return EpochTask(
            self._commits.snapshot.epoch + 1,
            pipeline,
            frozenset(step.name for step in pipeline.steps),
            arrived,
            {source: sources.empty(source) for source in pipeline.sources},
            late={source: sources.schema(source) for source in late if source in sources},
            periods={source: sources.period(source) for source in sources},
            largest_value=self._limits.value_bytes,
        )

    def of_epoch(self, plan: SharedPlan, arrived: Mapping[str, tuple[Part, ...]], moved: Snapshot) -> EpochTask:
        """What an epoch runs: the steps that its rows and heartbeats concern."""
        before, after = self._sources.frontiers(), self._sources.frontiers(moved)
        changed = {source for source in self._sources if arrived.get(source) or after[source] != before[source]}
        unjudged = {source for source, parts in arrived.items() if not all(part.is_judged for part in parts)}
        concerned = plan.pipeline.downstream(changed | {late_key(source) for source in unjudged})
        return replace(
            self.from_nothing(plan.pipeline, arrived),
            epoch=moved.epoch,
            concerned=frozenset(concerned),
            # A step that is not concerned keeps its state.
            states=operator_states(moved, concerned),
            before=before,
            after=after,
            shown=tuple(edge for edge in plan.shown if edge in concerned),
        )
