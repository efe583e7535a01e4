"""The tasks that are run: of epochs, and of plans over the kept history."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from millstream.engine.commits import Commits
from millstream.engine.epochs.parts import Part, late_key
from millstream.engine.epochs.task import EpochTask
from millstream.engine.limits import Limits
from millstream.engine.needs import Asked, needs_of
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
            largest_value=self._limits.value_bytes,
        )

    def over_history(
        self,
        pipeline: Pipeline,
        edge: str,
        until: Mapping[str, int],
        snapshot: Snapshot,
        asked: Asked = MappingProxyType({}),
        firsts: Mapping[str, int] = MappingProxyType({}),
    ) -> EpochTask:
        """A task that runs a pipeline over all that a snapshot keeps of its sources, from some instants on; for some
        queries of a group."""
        task, sources = self.from_nothing(pipeline, {}), self._sources
        read = {
            source: tuple(
                sources.history_part(source, file, after=firsts.get(source, 0) - 1, needs=needs)
                for file in sources.needed_files(source, snapshot, needs)
                if file.last >= firsts.get(source, 0)
            )
            for source in task.empty
            for needs in [needs_of(pipeline, source, (edge,), asked)]
        }
        return replace(task, arrived=read, before=dict.fromkeys(until, -1), after=until, shown=(edge,))

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
            before=before,
            after=after,
            shown=tuple(edge for edge in concerned if plan.shown[edge]),
        )
