"""Rounds of slices: how a run is taken through a long past in the background.

    round: slices of time up to what is final when it begins, then of what lies beyond ──▶ what came meanwhile: a round

Slices are short while epochs run beside them, and longer where nobody waits. From time to time what a run holds is
named by a commit, so that another process goes on from there. What a slice replaces is removed, but for what that
commit names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from millstream.engine.commits import Commits
from millstream.engine.epochs.runner import BackgroundRunner
from millstream.engine.epochs.task import EpochTask
from millstream.engine.history.replay import HistoryRun, Replay
from millstream.engine.history.slices import SliceSize, arrivals
from millstream.engine.sources import Sources
from millstream.errors import Error
from millstream.kernel.batch import INF
from millstream.state.faults import reach
from millstream.state.snapshot import Snapshot

SHRINKING = 0.7  # what is left must have become so much less in a round, or else ingest is as fast as we are
_GIVING_WAY = 0.5  # seconds that a slice waits for an epoch to end


class Rounds:
    """Takes one run through the past, until so few rows are left that they can be done while epochs wait."""

    def __init__(
        self, commits: Commits, sources: Sources, replay: Replay, run: HistoryRun, first_slice: int, most_left: int
    ) -> None:
        self._commits, self._sources, self._replay, self.run = commits, sources, replay, run
        self._size, self._most_left = SliceSize(first_slice), most_left
        self.runner: BackgroundRunner | None = None
        self.is_over: Callable[[], bool] = lambda: False
        self.saved_every: float | None = None  # seconds; None for runs that nobody goes on with
        self._saved_at = time.monotonic()
        self._allowed = 0.0
        self._epoch = commits.snapshot.epoch

    def slices(self, publish: Callable[[], None]) -> Iterator[None]:
        """All of them; in the end what is left is worked through, and published, under the lock."""
        commits, replay, run, before = self._commits, self._replay, self.run, INF
        while not self.is_over():
            with commits.lock:
                snapshot = commits.snapshot
                left = replay.rows_left(run, snapshot)
                if left <= min(self._most_left, self._size.rows) or left > SHRINKING * before:
                    publish()
                    return
                before = left
                commits.pin(self, (file.name for source in run.sources for file in snapshot.history.get(source, ())))
                frontiers = self._sources.frontiers(snapshot)
            yield from self._final(snapshot, frontiers)
            yield from self._beyond(snapshot, frontiers)

    def end(self) -> None:
        """Nothing is read any more."""
        self._commits.unpin(self)

    def pause(self) -> None:
        """Wait for the epoch that runs, if one does, but not for ever: there may be one after the other."""
        if self._commits.lock.acquire(timeout=_GIVING_WAY):
            self._commits.lock.release()

    def _final(self, snapshot: Snapshot, frontiers: Mapping[str, int]) -> Iterator[None]:
        """Slices up to the frontiers of a snapshot."""
        run, replay = self.run, self._replay
        while not self.is_over() and any(run.after(source) < frontiers[source] for source in run.sources):
            after = replay.slice(run, snapshot, frontiers, int(self._size.rows))
            self.run_slice(replay.task(run, snapshot, after, after))
            yield

    def _beyond(self, snapshot: Snapshot, frontiers: Mapping[str, int]) -> Iterator[None]:
        """Slices of the rows that lie beyond the frontiers of a snapshot, where they are many."""
        run = self.run
        for source in sorted(run.sources):
            rows, arrived = self._replay.left_of(run, source, snapshot), snapshot.progress(source).arrived
            if not self._sources.counts_arrivals(source) or rows <= min(self._most_left, self._size.rows):
                continue
            for among in arrivals(run.seen.get(source, 0), arrived, rows, self._size.rows):
                if self.is_over():
                    return
                reached = {each: INF if each == source else run.after(each) for each in run.sources}
                here = {each: frontiers[each] for each in run.sources}
                self.run_slice(self._replay.task(run, snapshot, reached, here, {source: among}), {source: among})
                yield

    def run_slice(self, task: EpochTask, seen: Mapping[str, int] | None = None) -> None:
        """Elements of some sources count as seen when it has ended."""
        runner, run = self.runner, self.run
        if runner is None:
            raise AssertionError("nobody runs it")
        try:
            outcome = runner.run(task)
        except Error:
            if self.is_over():
                return  # because it was cancelled
            raise
        self._replay.take(run, task, outcome)
        run.seen.update(seen or {})
        reach("backfill-slice-run")
        self._size.took(task.arriving, runner.busy, self._allowance(runner))
        if self.saved_every is not None and time.monotonic() >= self._saved_at + self.saved_every:
            self.save()

    def _allowance(self, runner: BackgroundRunner) -> float:
        """How long the next slice may take: the longer, the longer no epoch has come."""
        epoch, before = self._commits.snapshot.epoch, self._epoch
        self._epoch = epoch
        self._allowed = runner.seconds if epoch != before else max(runner.seconds, 2 * self._allowed)
        self._allowed = min(self._allowed, runner.most_seconds)
        return self._allowed

    def save(self) -> None:
        """Have the committed snapshot say how far the run is. Of one in which something has failed only the past up to
        there would be known, which is soon found again."""
        run = self.run
        if not run.reached or run.failures:
            return
        progress = run.progress()
        self._commits.store.sync(name for name in progress.names() if "@" in name)
        with self._commits.lock:
            if not run.shown:
                return
            self._commits.commit(self._commits.snapshot.with_run(progress))
            run.saved = progress
        self._saved_at = time.monotonic()
        reach("backfill-saved")
