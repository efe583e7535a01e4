"""`db.run`: reads the sources, lets clocks and idle streams go on, and serves the sinks meanwhile."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from millstream.connectors.feeds import Feeds
from millstream.connectors.sinks import Sinks
from millstream.errors import BindError, CatalogError, Error, NotSupportedError
from millstream.ingest.external import External, Feed, Reading
from millstream.ingest.insert import Inputs

_POLL = 0.02  # seconds
_CLOCKS_EVERY = 1.0  # seconds between the epochs that only tell the time


class SourceLoop:
    """Runs the streaming queries of all sources, one at a time per source, for as long as `run` lasts."""

    def __init__(
        self,
        feeds: Feeds,
        inputs: Inputs,
        sinks: Sinks,
        external: External | None,
        checkpoints: Path | None,
        now: Callable[[], float],
    ) -> None:
        self._feeds, self._inputs, self._sinks, self._external = feeds, inputs, sinks, external
        self._checkpoints = checkpoints
        self._silences = Silences(inputs, now)
        self._running = threading.Lock()
        self._ending = threading.Event()

    def run(self, until: str | float | None) -> None:
        seconds = _seconds(until)
        feeds = self._feeds.all()
        if feeds and (self._external is None or self._checkpoints is None):
            raise needs_spark(f"{feeds[0]} is read")
        if not self._running.acquire(blocking=False):
            raise CatalogError("run is under way already", hint="one run reads all sources")
        try:
            self._ending.clear()
            self._feeds.begin_run(may_shed=until != "idle")
            with Interrupt() as interrupt:
                self._run(feeds, until, None if seconds is None else time.monotonic() + seconds, interrupt)
        finally:
            self._running.release()
        if interrupt.came and until is not None:
            raise KeyboardInterrupt

    def end(self, *, wait: bool = True) -> None:
        """End a run that another thread is in; returns when it has ended, or without waiting for that."""
        self._ending.set()
        if wait:
            with self._running:
                pass

    def check_not_read(self, name: str) -> None:
        """Refuse to drop what a run is reading."""
        if self._running.locked() and any(feed.stream.name.lower() == name.lower() for feed in self._feeds.all()):
            raise CatalogError(f'"{name}" is being read', hint="end the run first")

    def forget(self, key: str) -> None:
        """A source is gone, or new: what Spark knows of an earlier one by its name does not count."""
        if self._checkpoints is not None:
            self._check_owner()
            shutil.rmtree(self._checkpoint(key), ignore_errors=True)

    def _check_owner(self) -> None:
        """Checkpoints are those of whoever owns the directory."""
        self._inputs.engine.journal.check_current()

    def _checkpoint(self, key: str) -> Path:
        if self._checkpoints is None:
            raise AssertionError("no place for checkpoints")
        return self._checkpoints / quote(key, safe="")

    def _run(
        self, feeds: Sequence[Feed], until: str | float | None, deadline: float | None, interrupt: Interrupt
    ) -> None:
        readings: list[Reading] = []
        if feeds:
            self._check_owner()
        try:
            for feed in feeds:
                if self._external is not None:
                    idle = until == "idle"
                    reading = self._external.start(feed, self._feeds, self._checkpoint(feed.key), until_idle=idle)
                    readings.append(reading)
            self._wait(feeds, readings, until, deadline, interrupt)
        finally:
            failures = _stop(readings)
            self._inputs.engine.reports.behind = {}
            self._sinks.flush()
        # An interrupt from a terminal reaches Spark's workers too: what fails of it is not committed and comes again.
        if failures and not interrupt.came:
            raise failures[0]

    def _wait(
        self,
        feeds: Sequence[Feed],
        readings: Sequence[Reading],
        until: str | float | None,
        deadline: float | None,
        interrupt: Interrupt,
    ) -> None:
        self._silences.begin()
        served, clocks_at = -1, 0.0
        while True:
            if time.monotonic() >= clocks_at:
                self._inputs.tick_clocks()
                self._silences.end_those_that_last()
                behind = ((feed.key, reading.rows_behind) for feed, reading in zip(feeds, readings, strict=True))
                self._inputs.engine.reports.behind = {key: rows for key, rows in behind if rows is not None}
                clocks_at = time.monotonic() + _CLOCKS_EVERY
            epoch = self._inputs.engine.snapshot.epoch
            if epoch != served:
                self._sinks.flush()
                served = epoch
            active = [reading for reading in readings if reading.is_active]
            ended = [reading for reading in readings if reading not in active]
            if any(reading.error is not None for reading in ended):
                return
            if (until == "idle" and not active) or (deadline is not None and time.monotonic() >= deadline):
                return
            # A run that has only just begun may not have heard that it is to end.
            if self._ending.wait(_POLL) or interrupt.came or self._inputs.engine.life.is_closing:
                return


class Interrupt:
    """Ctrl-C while a run lasts: the first one ends it, with the batches under way; a second one acts as ever.

    Spark's own handler would cancel those batches' jobs, and talk to the JVM in the middle of whatever the interrupted
    code was saying to it. Only the main thread is told of interrupts.
    """

    def __init__(self) -> None:
        self.came = False  # no event: setting one from a handler could wait for whom it interrupts
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
        if callable(self._before):  # and not ignored, or handled by something that Python does not know
            signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _interrupted(self, *_: object) -> None:
        self.came = True
        self._restore()

    def _restore(self) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)


class Silences:
    """IDLE AFTER: a stream that was silent for so long goes on with the others.

    Its heartbeat then rises to the greatest one among the streams that count time in the same ticks. Silence is counted
    during `run` only, from its start or from the last element; when the wall clock goes back, it is counted anew.
    """

    def __init__(self, inputs: Inputs, now: Callable[[], float]) -> None:
        self._inputs, self._now = inputs, now
        self._heard: dict[str, tuple[int, float]] = {}  # per stream: elements so far, and since when no more

    def begin(self) -> None:
        self._heard = {}

    def end_those_that_last(self) -> None:
        snapshot, now = self._inputs.engine.snapshot, self._now()
        feeds = self._inputs.catalog.feeds()
        for stream in feeds:
            key, after = stream.edge, stream.heartbeat.idle_after
            if after is None:
                continue
            arrived = snapshot.progress(key).arrived
            before, since = self._heard.get(key, (-1, now))
            if arrived != before or now < since:
                self._heard[key] = arrived, now
                since = now
            same_ticks = [other for other in feeds if other.domain.tick == stream.domain.tick]
            reached = max(snapshot.progress(other.edge).heartbeat for other in same_ticks)
            if (now - since) * 1_000_000 >= after and reached > snapshot.progress(key).heartbeat:
                self._inputs.advance([stream], reached)


def needs_spark(what: str) -> NotSupportedError:
    return NotSupportedError(
        f"{what} by Spark, and this database runs without it", hint='connect without engine="inprocess"'
    )


def _seconds(until: str | float | None) -> float | None:
    if until is None or until == "idle":
        return None
    if isinstance(until, bool) or not isinstance(until, int | float) or until < 0:
        raise BindError(f'run is until "idle", for a number of seconds, or until interrupted (None), not {until!r}')
    return float(until)


def _stop(readings: Sequence[Reading]) -> list[Exception]:
    """Stop all; gives what failed, our own errors first."""
    failures = [reading.error for reading in readings if not reading.is_active]
    for reading in readings:
        reading.stop()
    failures += [reading.error for reading in readings]
    return sorted((e for e in failures if e is not None), key=lambda error: not isinstance(error, Error))
