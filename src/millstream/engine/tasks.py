"""The tasks that are run, made from what is committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from millstream.engine.commits import Commits
from millstream.engine.epochs.parts import Part, late_key
from millstream.engine.epochs.task import EpochTask
from millstream.engine.limits import Limits
from millstream.engine.query_tables import admitted_tables
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.kernel.pipeline import Pipeline
from millstream.plan.grouping import QUERY_ROWS
from millstream.state.snapshot import Snapshot


class Tasks:
    """Makes tasks from what is committed."""

    def __init__(self, commits: Commits, sources: Sources, limits: Limits) -> None:
        self._commits, self._sources, self._limits = commits, sources, limits

    def from_nothing(self, pipeline: Pipeline, arrived: Mapping[str, tuple[Part, ...]]) -> EpochTask:
        """A task of all steps from nothing; callers say how far, from where, and what to show."""
        return self._task(pipeline, frozenset(step.name for step in pipeline.steps), arrived, pipeline.sources)

    def _task(
        self,
        pipeline: Pipeline,
        concerned: frozenset[str],
        arrived: Mapping[str, tuple[Part, ...]],
        read: Collection[str] = (),
    ) -> EpochTask:
        """`read` are further sources of which rows may be taken in."""
        sources = self._sources
        late = {late_key(source) for source in arrived}
        laid_out = {*self._commits.snapshot.history, *arrived, *late, *read}
        return EpochTask(
            self._commits.snapshot.epoch + 1,
            pipeline,
            concerned,
            arrived,
            {source: sources.empty(source) for source in pipeline.sources},
            late={source: sources.schema(source) for source in late if source in sources},
            periods={source: sources.period(source) for source in laid_out if source in sources},
            limits=self._limits.steps,
            routing=self._limits.routing,
            run_by=self._limits.small_epochs,
        )

    def of_epoch(self, plan: SharedPlan, arrived: Mapping[str, tuple[Part, ...]], moved: Snapshot) -> EpochTask:
        """What an epoch runs: the steps that its rows and heartbeats concern."""
        before, after = self._sources.frontiers(), self._sources.frontiers(moved)
        # Query tables never hold time back: that it passes for them changes nothing.
        moving = {source for source in before if before[source] != after[source] and not source.startswith(QUERY_ROWS)}
        changed = moving | {source for source, parts in arrived.items() if parts}
        unjudged = {source for source, parts in arrived.items() if not all(part.is_judged for part in parts)}
        concerned = plan.pipeline.downstream(changed | {late_key(source) for source in unjudged})
        return replace(
            self._task(plan.pipeline, frozenset(concerned), arrived),
            epoch=moved.epoch,
            # A step that is not concerned keeps its state.
            states={step: moved.states[step] for step in concerned if step in moved.states},
            tables=admitted_tables(moved, concerned),
            before=before,
            after=after,
            shown=tuple(edge for edge in concerned if plan.shown[edge]),
        )
