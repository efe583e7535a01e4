"""The engine: one shared pipeline over all sources, stepped epoch by epoch, each epoch committed as a snapshot.

Between epochs the pipeline may change: that is how queries come and go. A query that comes late is first run over the
kept history, up to exactly the committed snapshot, and goes on from there.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import polars as pl

from millstream.engine.epochs.exchange import Skew
from millstream.engine.epochs.merging import (
    HistoryMerge,
    MatchEdges,
    Merge,
    history_merges,
    most_to_merge,
    result_merges,
    with_merged,
)
from millstream.engine.epochs.parts import Cut, Part, late_key, read_history, write_history
from millstream.engine.epochs.periods import period_length
from millstream.engine.epochs.runner import Runner
from millstream.engine.epochs.stages import Planner
from millstream.engine.epochs.task import EpochOutcome, EpochTask, StateNames
from millstream.engine.extents import Extent, Extents, Wanted
from millstream.engine.groups.admission import Group, Groups, failure_key, query_tables
from millstream.engine.groups.failures import parted
from millstream.engine.history.backfill import Backfills
from millstream.engine.history.merge_producers import Newcomers, unite
from millstream.engine.history.past import WHOLE, Past
from millstream.engine.history.pins import Pins
from millstream.engine.life import Life
from millstream.engine.limits import Limits, Notice, notices
from millstream.engine.lock import CommitLock
from millstream.engine.needs import EVERYTHING, Asked, Needs, may_have, needs_of
from millstream.engine.reports import MemoryReport, OperatorReport, bytes_by_step, report
from millstream.engine.results import Tails, rows_between
from millstream.engine.retention import Retention
from millstream.errors import EvaluationError, StateError, told
from millstream.kernel.batch import INF, START, Batch, concat, empty_batch
from millstream.kernel.distribution import HASH
from millstream.kernel.lazy.matched_selection import MatchedSelection
from millstream.kernel.lazy.matches import Matches
from millstream.kernel.lazy.ranked_tree import RankedTree
from millstream.kernel.lazy.tree_selection import TreeSelection
from millstream.kernel.operator import Progress, Segment, State
from millstream.kernel.pipeline import Pipeline
from millstream.kernel.relational.failures import found_from
from millstream.kernel.sharing.parameters import QUERY
from millstream.kernel.stepping import stepped
from millstream.kernel.storage.segments import numbers
from millstream.plan import nodes as lo
from millstream.plan.cost import SourceStatistics
from millstream.plan.fingerprint import fingerprint
from millstream.plan.grouping import QUERY_ROWS, Shape
from millstream.plan.lowering.lower import CLOCK, Lowering, Options
from millstream.state.faults import reach
from millstream.state.manifest import Journal, Layout, NoJournal
from millstream.state.notes import Record
from millstream.state.snapshot import HistoryFile, Snapshot, SourceProgress, state_names
from millstream.state.store import Store
from millstream.types import Schema

Catalog = tuple[Mapping[str, Any], ...]
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class SourceRow:
    """A source as the engine sees it: its columns, whether it has a heartbeat of its own (or follows the clock), and
    for how many ticks its history is kept (None for ever)."""

    schema: Schema
    has_heartbeat: bool
    counts_arrivals: bool
    retain: int | None = None


STATISTICS_ROWS = 50_000


class Engine:
    """Owns the committed snapshot and the pipeline. Every public method is safe from any thread."""

    def __init__(self, runner: Runner, journal: Journal | None = None, snapshot: Snapshot | None = None) -> None:
        self.runner = runner
        self.journal = journal or NoJournal(Layout(runner.planner.shards, HASH))
        self.snapshot = snapshot or Snapshot()
        self.pipeline = Pipeline()
        self.life = Life()
        self.lock = CommitLock()
        self._changed = threading.Condition()  # told of every commit, and of the end
        self._changes = 0
        self._listeners: list[Callable[[], None]] = []  # told as well, without a thread of theirs that waits
        self.pins = Pins()
        self._sources: dict[str, SourceRow] = {CLOCK: SourceRow((), False, False)}
        self._shown: Counter[str] = Counter()
        self._prepared: tuple[lo.Node, Options, tuple[str, Pipeline]] | None = None
        self._distinct: dict[str, tuple[float, ...]] = {}  # by history file
        self._extents = Extents()
        self._matching = MatchEdges()
        self._rows: Counter[str] = Counter()  # per step since the database was opened
        self._seconds: dict[str, float] = {}
        self.retention = Retention(self)
        # Per edge whose past is not worked through yet: of each stream, the first instant that it sees of it.
        self.firsts: dict[str, Mapping[str, int]] = {}
        self.pasts: dict[str, dict[int, Past]] = {}  # the same of queries that wait to be let into groups
        self._inputs: tuple[Pipeline, dict[str, frozenset[str]]] = self.pipeline, {}
        self.groups = Groups(self)
        self.backfills = Backfills(self)
        self._tails = Tails()
        self.limits = Limits()
        self.notices: dict[tuple[str, int | None], Notice] = {}  # per edge and query: of those near a limit
        self.memory = MemoryReport()
        self.skew: dict[str, Skew] = {}  # per edge: the last epoch that was skewed

    @property
    def store(self) -> Store:
        return self.runner.store

    def commit(self, snapshot: Snapshot) -> None:
        """Make a snapshot the one that counts, and remove what only the one before it needed."""
        self.life.check_commits()
        with self.lock:
            self.life.check_commits()
            before = set(self.snapshot.names())
            snapshot = self.groups.with_held(snapshot)
            after = set(snapshot.names())
            self.lock.hold_interrupts()
            self.journal.commit(snapshot, self.store.settling(after - before))
            self.groups.release()
            self.snapshot = snapshot
            self.tell()
            reach("before-sweep")
            self._tails.keep({name for names in snapshot.results.values() for name in names})
            self.store.sweep(before | self.pins.taken_over(), after | self.pins.names)

    def sweep(self, names: Iterable[str]) -> None:
        """Remove what nobody needs among files that were written: neither the snapshot, nor who reads beside it."""
        if not self.journal.is_in_doubt:
            self.store.sweep(names, self.pins.names.union(self.snapshot.names()))

    def pin(self, reader: object, names: Iterable[str]) -> None:
        """Keep files that a reader beside the epochs needs, instead of those that it needed before."""
        with self.lock:
            if before := self.pins.hold(reader, names):
                self.sweep(before)

    def unpin(self, reader: object) -> None:
        with self.lock:
            self.pin(reader, ())
            self.pins.let_go(reader)

    def note(self, snapshot: Snapshot) -> None:
        """Let a snapshot count that names what the committed one names; the next commit carries it."""
        with self.lock:
            self.snapshot = snapshot
            self.tell()

    def listen(self, told: Callable[[], None]) -> Callable[[], None]:
        """Call something after each commit and at the end, which must not wait for anything; gives what ends that."""
        with self._changed:
            self._listeners = [*self._listeners, told]

        def end() -> None:
            with self._changed:
                self._listeners = [other for other in self._listeners if other is not told]

        return end

    def tell(self) -> None:
        """Something has changed that others may wait for."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()
            for told in self._listeners:
                told()

    def wait_until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        """Wait for a commit that makes something hold, for the end, or for so many seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            known = self._changes
            if self.life.is_closing or holds():
                return
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            with self._changed:
                # Not asking what is waited for here: that may need the engine's lock, whose owner may be telling.
                self._changed.wait_for(lambda known=known: self.life.is_closing or self._changes != known, left)  # type: ignore[misc]

    def stop(self) -> None:
        """Whoever waits need not any more, and work beside the epochs ends."""
        self.tell()
        self.backfills.close()

    def close(self) -> None:
        """Nothing is committed any more."""
        self.backfills.close()
        with self.lock:
            self.life.is_closing = self.life.is_over = True
        self.tell()
        self.runner.close()

    def declare(self, catalog: Catalog) -> None:
        """Commit what the database has declared."""
        self.commit(replace(self.snapshot, catalog=catalog))

    def place_on(self, shards: int) -> None:
        """Place rows on so many shards from now on; there is no state yet."""
        self.runner.planner = Planner(shards)
        self.journal.layout = Layout(shards, HASH)

    # Sources

    def add_source(self, name: str, row: SourceRow) -> None:
        with self.lock:
            self._sources[name] = row

    def add_query_rows(self, name: str, schema: Schema) -> None:
        """The query table of a group as a source: it says something when queries come, and never holds time back."""
        self.add_source(name, SourceRow(schema, False, False))

    def drop_sources(self, names: Sequence[str], catalog: Catalog) -> None:
        """Forget sources and their history; no query reads them any more."""
        with self.lock:
            snapshot = replace(
                self.snapshot,
                sources={key: value for key, value in self.snapshot.sources.items() if key not in names},
                history={key: value for key, value in self.snapshot.history.items() if key not in names},
                catalog=catalog,
            )
            self.commit(snapshot)
            for name in names:
                self._sources.pop(name, None)

    def history(self, name: str) -> Batch:
        """All accepted rows of a source."""
        with self.lock:
            return self._history(name, self.snapshot)

    def _history(self, name: str, snapshot: Snapshot, wanted: Wanted | None = None) -> Batch:
        if wanted is None or not self._sources[name].counts_arrivals:
            return self.kept_rows(name, snapshot)
        # Elements, which hold for an instant each.
        return self.kept_rows(name, snapshot, lambda f: wanted(Extent(f.first, f.last, f.last + 1, f.last + 1)))

    def frontier(self, source: str) -> int:
        return self._frontier(source, self.snapshot)

    def _frontier(self, source: str, snapshot: Snapshot) -> int:
        if source == CLOCK:
            return max(snapshot.clock, 0)  # what reads nothing holds from instant 0 on, whatever comes
        return snapshot.progress(source).heartbeat if self._sources[source].has_heartbeat else snapshot.clock

    def statistics(self, names: Collection[str] | None = None) -> dict[str, SourceStatistics]:
        """What the planner should know of some sources or all: rates so far, and distinct values in the newest rows."""

        def found(snapshot: Snapshot) -> dict[str, SourceStatistics]:
            known = {name for name, files in snapshot.history.items() if files}
            wanted = known.intersection(known if names is None else names)
            return {name: self._statistics_of(name, snapshot) for name in wanted}

        return self.read(found)

    def _statistics_of(self, name: str, snapshot: Snapshot) -> SourceStatistics:
        newest = snapshot.history[name][-1]
        distinct = self._distinct.get(newest.name)
        if distinct is None:
            rows = read_history(self.store, newest, self._sources[name].schema).head(STATISTICS_ROWS)
            distinct = tuple(float(rows[column].n_unique()) for column in rows.columns if not column.startswith("_"))
            used = {files[-1].name for files in snapshot.history.values() if files}
            known = {file: counts for file, counts in [*self._distinct.items()] if file in used}
            self._distinct = {**known, newest.name: distinct}
        rows_so_far = max(snapshot.progress(name).arrived, 1)
        rate = rows_so_far / max(snapshot.clock + 1, 1)
        return SourceStatistics(rate, rows_so_far, distinct)

    # Epochs

    def part(self, source: str, batch: Batch) -> tuple[Part, ...]:
        """Rows that were judged at the door, kept as history of their source; committed by the epoch they are for."""
        if not batch.height:
            return ()
        schema = self._sources[source].schema
        file = write_history(self.store, source, self._period(source), self.snapshot.epoch + 1, batch, schema)
        return (self.history_part(source, file),)

    def epoch(
        self,
        arrived: Mapping[str, Sequence[Part]],
        progress: Mapping[str, SourceProgress],
        clock: int,
        catalog: Catalog | None = None,
    ) -> None:
        """Take new rows and heartbeats in, run what they concern, commit; with a catalog where it came with them."""
        with self.lock:
            self.journal.check_current()  # rather than to find what another owner has removed
            self.groups.let_in()
            reach("epoch-started")
            committed = self.snapshot
            files = {source: tuple(part.file for part in parts if part.file) for source, parts in arrived.items()}
            moved = replace(
                committed,
                epoch=committed.epoch + 1,
                clock=max(clock, committed.clock),
                sources={**committed.sources, **progress},
                history=_appended(committed.history, files),
                catalog=committed.catalog if catalog is None else catalog,
            )
            outcome = EpochOutcome()
            try:
                task = self._epoch_task({key: tuple(parts) for key, parts in arrived.items()}, moved)
                concerned = task.concerned
                if concerned or task.merges or not all(p.is_judged for parts in arrived.values() for p in parts):
                    outcome = self.runner.run(task)
                if outcome.failures:
                    outcome, moved = parted(self, task, outcome, moved)
                reach("epoch-run")
                self.commit(self.after(moved, outcome, concerned))
            except BaseException:
                written = [
                    file.name for parts in (files, outcome.history) for found in parts.values() for file in found
                ]
                self.sweep([*written, *state_names(outcome.states)])
                raise
            if outcome.failures or outcome.orphans:
                self.sweep(outcome.names())
            self._count(outcome)
            self.pipeline = self.pipeline.without(self._failed_steps(outcome.failures))
            if self.limits.rows or self.limits.state:
                self._enforce({edge for edge in self._shown if edge in concerned})

    def _enforce(self, edges: set[str]) -> None:
        """Note the queries that are near a limit, and stop those that are past it."""
        found = list(notices(self, {edge for edge in edges if edge not in self.snapshot.failures}))
        kept = {key: notice for key, notice in self.notices.items() if key[0] not in edges}
        self.notices = kept | {(notice.edge, notice.query): notice for notice in found}
        for edge in {notice.edge for notice in found if notice.is_past}:
            errors = {notice.query: notice.error() for notice in found if notice.edge == edge and notice.is_past}
            if None in errors:
                self._stop(edge, errors[None])
            else:
                self.groups.stop(self.groups[edge], {query: e for query, e in errors.items() if query is not None})

    def _stop(self, edge: str, error: EvaluationError) -> None:
        """End an edge that one query shows, with what only it needs."""
        own, snapshot = self.steps_only_for(edge), self.snapshot
        self.commit(
            replace(
                snapshot,
                states={step: names for step, names in snapshot.states.items() if step not in own},
                results={key: names for key, names in snapshot.results.items() if key != edge},
                failures={**snapshot.failures, edge: told(error)},
            )
        )
        self.pipeline = self.pipeline.without(own)

    def count_from(self, edge: str, first: int) -> None:
        """What fails for an edge counts from an instant that was not known until now: what was kept of it is looked at,
        and the edge ends where it should have."""
        with self.lock:
            below = self.pipeline.edges_below(edge)
            steps = found_from((step for step in self.pipeline.steps if step.name in below), first)
            if not steps or edge in self.snapshot.failures:
                return
            self.pipeline = self.pipeline.replacing(steps)
            low = min(self.frontier(source) for source in below if source in self._sources)
            try:
                for step in steps:
                    for state in self._states_of(step.name):
                        nothing = [empty_batch(step.operator.schema)]
                        stepped(step.operator, nothing, state, Progress((low,), (low,)), step.name)
            except EvaluationError as error:
                self._stop(edge, error)

    def _states_of(self, step: str) -> list[State]:
        """What a step holds, by shard."""
        found: dict[str, dict[str, tuple[Segment, ...]]] = {}
        for synopsis, names in self.snapshot.states.get(step, {}).items():
            shard, _, own = synopsis.partition("/")
            found.setdefault(shard, {})[own] = tuple(map(self.store.read, names))
        return [*found.values()]

    def steps_only_for(self, edge: str) -> set[str]:
        """The steps that no other edge needs that is shown."""
        others = {below for other in self._shown if other != edge for below in self.pipeline.edges_below(other)}
        return self.pipeline.edges_below(edge) - others - self._sources.keys()

    def _epoch_task(self, arrived: Mapping[str, tuple[Part, ...]], moved: Snapshot) -> EpochTask:
        before, after = self.frontiers(self.snapshot), self.frontiers(moved)
        changed = {source for source in self._sources if arrived.get(source) or after[source] != before[source]}
        unjudged = {source for source, parts in arrived.items() if not all(part.is_judged for part in parts)}
        concerned = self.pipeline.downstream(changed | {late_key(source) for source in unjudged})
        task = self.task_of(self.pipeline, arrived)
        merges: tuple[Merge, ...] = (
            *history_merges(
                self.snapshot.history,
                {name: row.schema for name, row in self._sources.items()},
                task.periods,
                most_to_merge(self.store.pool),
            ),
            *result_merges(self.snapshot.results, self._firsts(), self.store, self._match_edges()),
        )
        return replace(
            task,
            epoch=moved.epoch,
            concerned=frozenset(concerned),
            # A step that is not concerned keeps its state.
            states={step: synopses for step, synopses in moved.states.items() if step in concerned},
            before=before,
            after=after,
            shown=tuple(edge for edge in self._shown if edge in concerned),
            merges=merges,
        )

    def after(self, moved: Snapshot, outcome: EpochOutcome, concerned: Collection[str]) -> Snapshot:
        """The snapshot that an epoch's outcome makes."""
        failed = self._failed_steps(outcome.failures)
        # A step that is not concerned keeps its state, and queries stay in their tables.
        states = {
            step: query_tables(synopses) if step in concerned else synopses for step, synopses in moved.states.items()
        }
        for step, names in outcome.states.items():
            if step not in failed:
                states[step] = {**states.get(step, {}), **names}
        results = {edge: names for edge, names in outcome.results.items() if edge not in failed}
        sources = dict(moved.sources)
        for source, count in outcome.late.items():
            sources[source] = replace(sources[source], late=sources[source].late + count)
            at = max(file.first for file in outcome.history[late_key(source)])
            sources[late_key(source)] = replace(moved.progress(late_key(source)), last_change=at)
        for source, count in outcome.shed.items():
            sources[source] = replace(sources[source], shed=sources[source].shed + count)
        all_results, history = _appended(moved.results, results), _appended(moved.history, outcome.history)
        for merge in outcome.merged:
            if isinstance(merge, HistoryMerge):
                history[merge.source] = with_merged(history[merge.source], merge.files, merge.made)
            elif merge.edge in all_results:
                all_results[merge.edge] = with_merged(all_results[merge.edge], merge.names, merge.made)
        return replace(
            moved,
            states={step: synopses for step, synopses in states.items() if synopses},
            results=all_results,
            history=history,
            sources=sources,
            failures={**moved.failures, **failed},
        )

    def _period(self, source: str) -> int:
        return period_length(self.snapshot.history.get(source, ()), self._sources[source].retain)

    def first_answerable(self, sources: Collection[str], snapshot: Snapshot | None = None) -> int:
        """The first instant that RETAIN lets one ask for of what is made from sources."""
        return self.retention.first_answerable(sources, snapshot or self.snapshot)

    def lost_before(self, source: str) -> int:
        """The instant before which rows of a source are no longer all kept; 0 where they are."""
        return self.retention.noted(self.snapshot).progress(source).cut

    def number_kept(self, source: str) -> int:
        """How many rows are kept of a source."""
        return sum(file.rows for file in self.snapshot.history.get(source, ()))

    def holds_state_of(self, steps: Iterable[str]) -> bool:
        """Whether one of some steps is there already and holds something."""
        return any(self.snapshot.states.get(step) for step in steps)

    def final(self, sources: Collection[str], snapshot: Snapshot) -> int:
        """The last instant up to which what is made from sources is final; -1 where nothing is, or there are none."""
        return min((self._frontier(source, snapshot) for source in sources), default=-1)

    def _firsts(self) -> dict[str, int]:
        """Of each edge, the first instant that its rows are still needed for; of matches, that of their oldest
        element."""
        kept = {step.name: step.operator.kept for step in self.pipeline.steps if isinstance(step.operator, _MATCHES)}
        firsts = self.retention.firsts(self.snapshot.results, self.snapshot)
        return {edge: _before(first, kept[edge]) if edge in kept else first for edge, first in firsts.items()}

    def _match_edges(self) -> MatchEdges:
        found = {step.name: step.operator for step in self.pipeline.steps if isinstance(step.operator, _MATCHES)}
        self._matching.trees = {
            edge: operator.shape if isinstance(operator, _TREES) else None for edge, operator in found.items()
        }
        return self._matching

    def _count(self, outcome: EpochOutcome) -> None:
        self._rows.update(outcome.rows)
        self.memory.count(outcome.memory, outcome.pools)
        self.skew.update({skew.edge: skew for skew in outcome.skew})
        for step, spent in outcome.seconds.items():
            self._seconds[step] = self._seconds.get(step, 0.0) + spent

    def operators(self, edge: str) -> list[OperatorReport]:
        """What the operators of an edge did and hold."""
        with self.lock:
            states = self.snapshot.states
            used = self.memory.operators
            return report(self.pipeline, edge, self._rows, self._seconds, used, states, self._shown, self.store)

    def state_bytes(self) -> dict[str, int]:
        """What each step holds."""
        while True:
            snapshot = self.snapshot
            try:
                return bytes_by_step(snapshot.states, self.store)
            except StateError:
                if self.snapshot is snapshot:
                    raise  # not because a commit has removed what the one before it named

    def memory_report(self) -> dict[str, Any]:
        """What operators took from the pools, and the pools: this process', and those of the tasks."""
        with self.lock:
            return self.memory.shown(self.store.pool.use, [step.name for step in self.pipeline.steps])

    def measure(self, plan: lo.Node, options: Options, until: int) -> list[OperatorReport]:
        """What the operators of a plan do over the kept history; nothing is kept."""
        edge, pipeline = _lowered(plan, options)
        with self.reading(pipeline) as snapshot, self._run_over_history(edge, pipeline, until, snapshot) as outcome:
            done = outcome.rows, outcome.seconds, outcome.memory, outcome.states
            return report(pipeline, edge, *done, {edge: 1}, self.store)

    def reading(self, pipeline: Pipeline) -> AbstractContextManager[Snapshot]:
        """The committed snapshot, whose history of what a pipeline reads is there until the block ends."""
        read = pipeline.sources

        def names(snapshot: Snapshot) -> Iterator[str]:
            return (file.name for source in read for file in snapshot.history.get(source, ()))

        return self.pins.reading(lambda: self.snapshot, names)

    @contextmanager
    def _run_over_history(
        self,
        edge: str,
        pipeline: Pipeline,
        until: int,
        snapshot: Snapshot,
        firsts: Mapping[str, int] = MappingProxyType({}),
    ) -> Iterator[EpochOutcome]:
        """What a pipeline makes of the history of a snapshot, final up to `until`; it is removed when the block ends.
        Epochs go on meanwhile."""
        final = {source: max(until, frontier) for source, frontier in self.frontiers(snapshot).items()}
        outcome = self.runner.another().run(self.history_task(pipeline, edge, final, snapshot, firsts=firsts))
        try:
            if edge in outcome.failures:
                raise outcome.failures[edge]
            yield outcome
        finally:
            self.store.sweep([*outcome.results.get(edge, ()), *state_names(outcome.states), *outcome.orphans], ())

    def _failed_steps(self, failures: Mapping[str, EvaluationError]) -> dict[str, dict[str, str]]:
        """What the failed steps, and all that read them, say from now on."""
        found: dict[str, dict[str, str]] = {}
        for step in self.pipeline.steps if failures else ():
            broken = [found[edge] for edge in step.needed if edge in found]
            if step.name in failures:
                found[step.name] = told(failures[step.name])
            elif broken:
                found[step.name] = broken[0]
        return found

    # Queries of groups

    def enlist(
        self,
        group: Group,
        shape: Shape,
        rows: pl.DataFrame,
        catalog: Catalog,
        record: Record | None = None,
        past: Past = WHOLE,
    ) -> None:
        """Take queries into a group; they take part from the next epoch, or when they are asked for their answer.

        They are kept by a commit, or (where nothing new is declared) by a record of how they came; the caller commits
        where the record is empty.
        """
        with self.lock:
            self.groups.open(group, shape)
            self.see_from(group.edge, dict.fromkeys(rows[QUERY], past))
            self.groups.hold(group, shape, rows)
            try:
                if record is None or catalog is not self.snapshot.catalog:
                    self.commit(replace(self.snapshot, catalog=catalog))
                elif record:
                    self.journal.note(record)
            except BaseException:
                self.groups.let_go(group, shape)
                self.has_seen(group.edge, rows[QUERY])
                raise
            self._shown[group.edge] += rows.height
            self.groups.hand_over(group)

    def keep_held(self) -> None:
        """Commit queries that wait and are not in the snapshot yet."""
        if self.groups.is_holding:
            self.commit(self.snapshot)

    def settle(self, edge: str) -> None:
        """Let the queries of a group that wait take part."""
        if edge in self.groups and self.groups.is_waited_for(self.groups[edge]):
            with self.lock:
                self.groups.let_in(self.groups[edge])

    def dismiss(self, edge: str, queries: Sequence[int], catalog: Catalog) -> None:
        """Queries of a group are gone."""
        with self.lock:
            group, remaining = self.groups[edge], self._shown - Counter({edge: len(queries)})
            snapshot = self.groups.without(group, queries)
            group.filling.difference_update(queries)
            self.has_seen(edge, queries)
            if edge not in remaining:
                self.backfills.cancel(edge)
                self.groups.close(group)
                snapshot = self._only(remaining, snapshot)
                self.pipeline = self.pipeline.only(self._needed(remaining))
            self.commit(replace(snapshot, catalog=catalog))
            self._shown = remaining

    def recover_group(
        self, group: Group, shape: Shape, queries: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> pl.DataFrame:
        """A group as the snapshot has it; gives those rows of its query table of a shape that are asked for."""
        with self.lock:
            self.groups.open(group, shape)
            self.groups.attach(group)
            rows = queries(self.groups.table(group, shape))
            self._shown[group.edge] += rows.height
            return rows

    # Queries of their own

    def edge_of(self, plan: lo.Node, options: Options) -> str:
        """The edge that would carry a plan's rows."""
        return self._prepare(plan, options)[0]

    def steps_of(self, *plans: lo.Node, options: Options) -> str:
        """A name for the steps of plans: what is kept for them is kept by these, also where the edge is the same."""
        return steps_name(step.name for plan in plans for step in self._prepare(plan, options)[1].steps)

    def pipeline_of(self, plan: lo.Node, options: Options) -> Pipeline:
        """The steps that a plan is made of."""
        return self._prepare(plan, options)[1]

    @property
    def shown_edges(self) -> Collection[str]:
        return self._shown.keys()

    def shown(self, edge: str) -> int:
        """How many queries show an edge."""
        return self._shown[edge]

    def attach(self, plan: lo.Node, options: Options, firsts: Mapping[str, int] = MappingProxyType({})) -> None:
        """Go on with a plan that the snapshot holds the state and results of."""
        with self.lock:
            edge, pipeline = self._prepare(plan, options)
            self._shown[edge] += 1
            if edge in self.snapshot.backfills:
                self.firsts[edge] = firsts
                self.backfills.add(edge, pipeline)
                return
            self.pipeline = self.pipeline.with_steps(
                tuple(step for step in pipeline.steps if step.name not in self.snapshot.failures)
            )

    def show(
        self, plan: lo.Node, options: Options, catalog: Catalog, firsts: Mapping[str, int] = MappingProxyType({})
    ) -> str:
        """Keep a plan's rows as results from now on, its past included, as far as that counts; gives the edge that
        carries them.

        A long past is worked through in the background.
        """
        with self.lock:
            edge, pipeline = self._prepare(plan, options)
            if not self._shown[edge]:
                self.firsts[edge] = firsts
            # A query for all of a source has the source's history as its result.
            if edge in self._sources or self._shown[edge]:
                self.declare(catalog)
            elif self.backfills.is_due(pipeline):
                self.commit(replace(self.snapshot, catalog=catalog, backfills=(*self.snapshot.backfills, edge)))
                self.backfills.add(edge, pipeline)
            else:
                self._backfill(edge, pipeline, catalog)
            self._shown[edge] += 1
            return edge

    def evaluate(
        self,
        plan: lo.Node,
        options: Options,
        until: int,
        firsts: Mapping[str, int] = MappingProxyType({}),
        read: Callable[[StateNames], None] = lambda states: None,
    ) -> Batch:
        """A plan's rows from the kept history, final up to `until`; nothing is kept, and no epoch waits. What the steps
        hold in the end can be read."""
        edge, pipeline = _lowered(plan, options)  # operators of its own: many may read at a time
        if edge in self._sources:
            return self.read(lambda snapshot: self._history(edge, snapshot))
        with self.reading(pipeline) as snapshot:
            return self.evaluated(edge, pipeline, plan.schema, until, snapshot, firsts, read)

    def evaluated(
        self,
        edge: str,
        pipeline: Pipeline,
        schema: Schema,
        until: int,
        snapshot: Snapshot,
        firsts: Mapping[str, int] = MappingProxyType({}),
        read: Callable[[StateNames], None] = lambda states: None,
    ) -> Batch:
        """The same by the history of a snapshot, which must be there as long as it takes."""
        like = empty_batch(schema)
        with self._run_over_history(edge, pipeline, until, snapshot, firsts) as outcome:
            names = outcome.results.get(edge, ())
            read(outcome.states)
            return pl.concat([like, *(self.store.read(name).select(like.columns) for name in names)])

    def hide(self, edge: str, catalog: Catalog) -> None:
        """A query over the edge is gone; forget what no other one needs."""
        with self.lock:
            remaining = self._shown - Counter([edge])
            if edge not in remaining:
                self.backfills.cancel(edge)
            self.commit(replace(self._only(remaining), catalog=catalog))
            self._shown = remaining
            self.pipeline = self.pipeline.only(self._needed(remaining))

    def forget_unshown(self) -> None:
        """Forget what no query shows: what a version that planned differently has left."""
        with self.lock:
            snapshot = self._only(self._shown)
            if snapshot != self.snapshot:
                self.commit(snapshot)

    def _needed(self, shown: Counter[str]) -> set[str]:
        groups = Pipeline(tuple(step for group in self.groups for step in group.pipeline.steps))
        known = self.pipeline.with_steps(groups.steps)
        return {below for edge in shown for below in known.edges_below(edge)}

    def _only(self, shown: Counter[str], snapshot: Snapshot | None = None) -> Snapshot:
        """The snapshot with the state and results that some edges need."""
        needed, snapshot = self._needed(shown), snapshot or self.snapshot
        return replace(
            snapshot,
            states={step: names for step, names in snapshot.states.items() if step in needed},
            results={key: names for key, names in snapshot.results.items() if key in shown},
            failures={s: error for s, error in snapshot.failures.items() if s.partition("#")[0] in needed},
            queries={edge: count for edge, count in snapshot.queries.items() if edge in shown},
            backfills=tuple(edge for edge in snapshot.backfills if edge in shown),
        )

    def check(self, edge: str, query: int | None = None) -> None:
        """Raise what stopped the edge, or one query of a group, if something did."""
        self.backfills.check(edge, query)
        for step in (edge, *([] if query is None else [failure_key(edge, query)])):
            if step in self.snapshot.failures:
                said = self.snapshot.failures[step]
                raise EvaluationError(said["primary"], detail=said.get("detail"), hint=said.get("hint"))

    def read(self, reader: Callable[[Snapshot], _Item]) -> _Item:
        """What a reader makes of the committed snapshot.

        Readers do not wait for epochs: what a snapshot names stays the same, and is there until some commit later.
        """
        while True:
            snapshot = self.snapshot
            try:
                return reader(snapshot)
            except StateError:
                if self.snapshot is snapshot:
                    self.journal.check_current()
                    raise  # not because a commit has removed what the one before it named, ours or another owner's

    def segments(
        self, edge: str, snapshot: Snapshot, wanted: Wanted | None = None, after: int = -1
    ) -> list[pl.DataFrame]:
        """What an edge has shown; without segments that have no rows that may be wanted, and perhaps without rows that
        have ended by an instant."""
        names = snapshot.results.get(edge, ())
        found = ((name, self._extents.read(name, self.store.read, wanted)) for name in names)
        kept = ((name, frame) for name, frame in found if frame is not None)
        return [frame for _, frame in kept] if after < 0 else [*self._tails.after(kept, after)]

    def rows(
        self, edge: str, schema: Schema, query: int | None = None, wanted: Callable[[Snapshot], Wanted] | None = None
    ) -> tuple[Batch, Snapshot]:
        """All rows that an edge has shown, or shown to one query of a group, and the snapshot they belong to.

        Segments without rows that may be `wanted`, which depends on the snapshot, are left out.
        """
        if query is not None:
            self.settle(edge)

        def found(snapshot: Snapshot) -> tuple[Batch, Snapshot]:
            asked = None if wanted is None else wanted(snapshot)
            return self.rows_in(snapshot, edge, schema, query, asked), snapshot

        return self.read(found)

    def rows_in(
        self,
        snapshot: Snapshot,
        edge: str,
        schema: Schema,
        query: int | None = None,
        wanted: Wanted | None = None,
        after: int = -1,
    ) -> Batch:
        """The rows of an edge in a snapshot; perhaps without those that have ended by an instant."""
        self.check(edge, query)
        like = empty_batch(schema)
        if edge in self._sources:
            return self._history(edge, snapshot, wanted).select(like.columns)
        frames = self.segments(edge, snapshot, wanted, after)
        if query is None:
            return concat([f if f.columns == like.columns else f.select(like.columns) for f in frames], like)
        return concat(self.groups.rows_of(self.groups[edge], schema, query, frames), like)

    def height(self, edge: str) -> int:
        """How many rows an edge has shown, without reading them."""

        def rows(snapshot: Snapshot) -> int:
            if edge in self._sources:
                return sum(file.rows for file in snapshot.history.get(edge, ()))
            return sum(map(self.store.height, snapshot.results.get(edge, ())))

        return self.read(rows)

    def inputs(self, edge: str, pipeline: Pipeline | None = None) -> frozenset[str]:
        """The sources that an edge is made from, but for query tables."""
        pipeline = pipeline or self.backfills.pipeline_of(edge)
        if pipeline is not None:
            return self._sources_below(edge, pipeline)
        of, known = self._inputs
        if of is not self.pipeline:
            of, known = self._inputs = self.pipeline, {}
        if edge not in known:
            known[edge] = self._sources_below(edge, self.groups[edge].pipeline if edge in self.groups else of)
        return known[edge]

    def _sources_below(self, edge: str, pipeline: Pipeline) -> frozenset[str]:
        below = pipeline.edges_below(edge)
        return frozenset(name for name in below if name in self._sources and not name.startswith(QUERY_ROWS))

    def held_in(self, edge: str, snapshot: Snapshot, since: int, until: int) -> tuple[int, int]:
        """How many rows of what an edge shows come or go after an instant and begin by another, and their bytes."""
        if edge in self._sources:
            files = [f for f in snapshot.history.get(edge, ()) if f.last > since and f.first <= until]
            return sum(file.rows for file in files), sum(file.bytes for file in files)
        rows = size = 0
        for name in snapshot.results.get(edge, ()):
            count, share = rows_between(self.store.read(name), since, until)
            rows, size = rows + count, size + int(self.store.size(name) * share)
        return rows, size

    def filled_from(self, source: str) -> int:
        """The first instant of a source's history that a query still needs whose past is not worked through."""
        waiting = [self.firsts[edge].get(source, 0) for edge in [*self.firsts] if edge in self.backfills]
        for group in self.groups:
            if group.filling or self.groups.is_waited_for(group):
                pasts = [*self.pasts.get(group.edge, {}).values()]
                waiting += [past.kept.get(source, 0) for past in pasts] or [0]
        return min(waiting, default=INF)

    def see_from(self, edge: str, pasts: Mapping[int, Past]) -> None:
        """What queries that wait to be let into a group have of the past."""
        self.pasts.setdefault(edge, {}).update(pasts)

    def has_seen(self, edge: str, queries: Iterable[int]) -> None:
        """Queries of a group need nothing of the past any more."""
        known = self.pasts.get(edge, {})
        for query in queries:
            known.pop(query, None)
        if not known:
            self.pasts.pop(edge, None)

    def pasts_of(self, edge: str, queries: Iterable[int]) -> dict[int, Past]:
        known = self.pasts.get(edge, {})
        return {query: known.get(query, WHOLE) for query in queries}

    def instant_of(self, source: str, first: int, number: int) -> int:
        """The instant of the n-th element of a source from an instant on, in the order of time; INF where it is not
        known yet."""
        heartbeat, files = self.snapshot.progress(source).heartbeat, self.snapshot.history.get(source, ())
        found = np.empty(0, np.int64)
        for file in sorted((file for file in files if file.last >= first), key=lambda file: file.first):
            if found.size >= number and found[number - 1] < file.first:
                break
            instants = numbers(read_history(self.store, file, self._sources[source].schema), START)
            found = np.sort(np.concatenate([found, instants[(instants >= first) & (instants <= heartbeat)]]))[:number]
        return int(found[number - 1]) if found.size >= number else INF

    def number_before(self, source: str, first: int) -> int:
        """How many elements of a source were accepted that lie before an instant, whether they are kept or not."""
        progress, later = self.snapshot.progress(source), 0
        for file in self.snapshot.history.get(source, ()):
            if file.first >= first:
                later += file.rows
            elif file.last >= first:
                instants = numbers(read_history(self.store, file, self._sources[source].schema), START)
                later += int((instants >= first).sum())
        return progress.arrived - progress.late - progress.shed - later

    @property
    def sources(self) -> Collection[str]:
        return [*self._sources]

    def has_heartbeat(self, source: str) -> bool:
        """Whether a source has a heartbeat of its own; others follow the clock."""
        return self._sources[source].has_heartbeat

    def is_source(self, edge: str) -> bool:
        return edge in self._sources

    def retain_of(self, source: str) -> int | None:
        """For how many ticks a source's history is kept; None for ever."""
        return self._sources[source].retain

    def kept_rows(
        self, source: str, snapshot: Snapshot, wanted: Callable[[HistoryFile], bool] = lambda file: True
    ) -> Batch:
        """The rows of some of the files that are kept of a source, as the kernel takes them."""
        files, schema = snapshot.history.get(source, ()), self._sources[source].schema
        frames = [read_history(self.store, file, schema) for file in files if wanted(file)]
        return pl.concat([self._empty(source), *frames])

    def lowered(self, plan: lo.Node, options: Options) -> tuple[str, Pipeline]:
        """The edge that would carry a plan's rows, and the steps that would make them."""
        return self._prepare(plan, options)

    def sources_of(self, plan: lo.Node, options: Options) -> frozenset[str]:
        """The sources that a plan is made from."""
        return self.inputs(*self._prepare(plan, options))

    def _prepare(self, plan: lo.Node, options: Options) -> tuple[str, Pipeline]:
        """The last one is remembered: to be registered, a query asks for its edge, its sources and its steps."""
        last = self._prepared
        if last is None or last[0] is not plan or last[1] != options:
            self._prepared = last = plan, options, _lowered(plan, options)
        return last[2]

    def _backfill(self, edge: str, pipeline: Pipeline, catalog: Catalog) -> None:
        firsts = self.firsts.pop(edge, {})
        task = self.history_task(pipeline, edge, self.frontiers(self.snapshot), self.snapshot, firsts=firsts)
        outcome = self.runner.run(task)
        if edge in outcome.failures:
            raise outcome.failures[edge]
        self.admit(Newcomers(pipeline, frozenset([edge]), dict(outcome.states), dict(outcome.results)), catalog=catalog)

    def admit(self, new: Newcomers, **also: Any) -> None:
        """Let plans take part that are as far as the committed snapshot, with what `also` changes in it. Of steps that
        are there already the state stays."""
        known = {step.name for step in self.pipeline.steps}
        new.written += [*state_names(new.states), *(name for names in new.results.values() for name in names)]
        try:
            snapshot = unite(self, new)
            added = {step: names for step, names in new.states.items() if step not in known}
            snapshot = replace(
                snapshot,
                epoch=snapshot.epoch + 1,
                states={**snapshot.states, **added},
                results={**snapshot.results, **new.results},
                **also,
            )
            self.commit(snapshot)
        finally:
            self.sweep(new.written)
        self.pipeline = self.pipeline.with_steps(new.pipeline.steps)

    def history_task(
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
        task = self.task_of(pipeline, {})
        read = {
            source: tuple(
                self.history_part(source, file, after=firsts.get(source, 0) - 1, needs=needs)
                for file in self.needed_files(source, snapshot, needs)
                if file.last >= firsts.get(source, 0)
            )
            for source in task.empty
            for needs in [needs_of(pipeline, source, (edge,), asked)]
        }
        return replace(task, arrived=read, before=dict.fromkeys(until, -1), after=until, shown=(edge,))

    def needed_files(self, source: str, snapshot: Snapshot, needs: Needs) -> list[HistoryFile]:
        """The files of a source that may have rows that are needed."""
        files = snapshot.history.get(source, ())
        if needs is None:
            return [*files]
        names = [field.name for field in self._sources[source].schema]
        read = {names[within.column] for need in needs for within in need}
        # Of users' own files we do not know what their footers leave out.
        return [
            file
            for file in files
            if file.as_it_came is not None or may_have(needs, self.store.bounds(file.name, read), names)
        ]

    def task_of(self, pipeline: Pipeline, arrived: Mapping[str, tuple[Part, ...]]) -> EpochTask:
        """A task of all steps from nothing; callers say how far, from where, and what to show."""
        steps = frozenset(step.name for step in pipeline.steps)
        late = {late_key(source) for source in arrived} & self._sources.keys()
        return EpochTask(
            self.snapshot.epoch + 1,
            pipeline,
            steps,
            arrived,
            {source: self._empty(source) for source in pipeline.sources},
            late={source: self._sources[source].schema for source in late},
            periods={source: self._period(source) for source in [*self._sources]},
            largest_value=self.limits.value_bytes,
        )

    def history_part(
        self,
        source: str,
        file: HistoryFile,
        after: int = -1,
        until: int = INF,
        needs: Needs = EVERYTHING,
        seen: int = 0,
        among: int = INF,
    ) -> Part:
        """A history file, or what is cut of it; how many rows these are is a guess."""
        row = self._sources[source]
        first, last = max(file.first, after + 1), min(file.last, until)
        rows = max(1, file.rows * (last - first + 1) // (file.last - file.first + 1))
        if seen or among < INF:
            rows = max(1, min(rows, min(among, self.snapshot.progress(source).arrived) - seen))
        cut = Cut(after, until, row.counts_arrivals, needs, seen, among)
        return Part("history", file.name, rows, row.schema, file, cut=cut)

    def counts_arrivals(self, source: str) -> bool:
        """Whether the elements of a source are numbered."""
        return self._sources[source].counts_arrivals

    def frontiers(self, snapshot: Snapshot | None = None) -> dict[str, int]:
        """How far each source is final."""
        return {source: self._frontier(source, snapshot or self.snapshot) for source in [*self._sources]}

    def _empty(self, source: str) -> Batch:
        row = self._sources[source]
        return empty_batch(row.schema, arrival=row.counts_arrivals)


def steps_name(names: Iterable[str]) -> str:
    return fingerprint(tuple(sorted(names)))


_TREES = (RankedTree, TreeSelection)
_MATCHES = (Matches, MatchedSelection, *_TREES)


def _before(first: int, ticks: int | None) -> int:
    return 0 if ticks is None else max(0, first - ticks)


def _appended(
    found: Mapping[str, tuple[_Item, ...]], more: Mapping[str, tuple[_Item, ...]]
) -> dict[str, tuple[_Item, ...]]:
    return {**found, **{key: found.get(key, ()) + added for key, added in more.items() if added}}


def _lowered(plan: lo.Node, options: Options) -> tuple[str, Pipeline]:
    """The edge that carries a plan's rows, and the steps that make them."""
    lowering = Lowering(plan, options)
    return lowering.edge, Pipeline(tuple(lowering.steps.values()))
