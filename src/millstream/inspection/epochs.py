"""Epochs as their operators see them: logged, and told to whoever measures or traces them.

One line an epoch is logged at debug. What asks for somebody's attention is a warning: an epoch that took longer than
`SET slow_epoch`, a stream further behind the clock than `SET max_lag`, a shard with much more than its share, a query
that has failed. Each is told when it begins, and (but for slow epochs) not again until it has ended.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.engine.reports import EpochReport
from millstream.queries.standing import StandingQueries
from millstream.queries.states import states
from millstream.system.lags import lag_seconds
from millstream.system.streams import is_system

_log = logging.getLogger(__name__)
PHASES = ("wait", "admit", "prepare", "run", "commit", "finish")


@dataclass(frozen=True)
class EpochSeen:
    """An epoch that was committed: what came, what ran, and the seconds of its phases, one after the other."""

    epoch: int
    ended: float  # seconds since 1970
    seconds: float
    phases: Mapping[str, float]
    rows: int
    late: int
    operators: int
    failures: int
    ran: str  # by whom


@dataclass(frozen=True)
class Lag:
    """By how much a stream is behind, where that is more than it may be."""

    seconds: float | None
    rows: float | None

    @property
    def said(self) -> dict[str, float]:
        seconds = {} if self.seconds is None else {"lag_seconds": round(self.seconds, 3)}
        return seconds if self.rows is None else {**seconds, "rows_behind": self.rows}

    def __str__(self) -> str:
        clock = [] if self.seconds is None else [f"{self.seconds:.1f} seconds behind the clock"]
        return " and ".join(clock if self.rows is None else [*clock, f"{self.rows:,} rows behind its source"])


def _beyond(lag: float | None, most: int) -> float | None:
    return lag if lag is not None and 0 < most < lag else None


class Epochs:
    """Sees each epoch, under the lock of commits: what is done here must be little."""

    def __init__(self, engine: Engine, session: Session, queries: StandingQueries) -> None:
        self._engine, self._session, self._queries = engine, session, queries
        self._observers: list[Callable[[EpochSeen], None]] = []
        self._lagging: set[str] = set()
        self._skewed: set[tuple[str, int]] = set()
        self._failed: set[str] = set()
        engine.on_epoch.append(self._see)

    def observe(self, observer: Callable[[EpochSeen], None]) -> Callable[[], None]:
        """Have each epoch told to somebody; gives what ends that."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def lagging(self) -> dict[str, Lag]:
        """The streams that are further behind than they may be: the clock, or what their source has."""
        now, settings, snapshot = time.time(), self._session.settings, self._engine.snapshot
        if not settings.max_lag and not settings.max_lag_rows and not settings.by_stream:
            return {}
        found = {}
        for definition in self._session.catalog.feeds():
            key = definition.edge
            if is_system(key):
                continue
            allowed = settings.of_stream(definition.name.lower())
            lag = Lag(
                _beyond(lag_seconds(definition, snapshot.progress(key).heartbeat, now), allowed.max_lag),
                _beyond(self._engine.reports.behind.get(key), allowed.max_lag_rows),
            )
            if lag.seconds is not None or lag.rows is not None:
                found[definition.name] = lag
        return found

    def _see(self, report: EpochReport) -> None:
        if all(map(is_system, report.progress)):
            return  # what is logged of it would be more than what is in it
        seen = _seen(report)
        for observer in [*self._observers]:
            try:
                observer(seen)
            except (
                Exception
            ):  # of a tracer, say: the epoch is committed, and whoever brought it must not be told otherwise
                _log.exception("epoch %d: who watches it has failed", seen.epoch)
        self._log_epoch(seen)
        self._log_lags()
        self._log_skew(report)
        if report.after.failures is not report.before.failures:
            self._log_failures()

    def _log_epoch(self, seen: EpochSeen) -> None:
        slow = self._session.settings.slow_epoch
        is_slow = bool(slow) and 1e3 * seen.seconds > slow
        if not is_slow and not _log.isEnabledFor(logging.DEBUG):
            return
        said = {name: round(1e3 * seconds, 3) for name, seconds in seen.phases.items()}
        phases = ", ".join(f"{name} {took:.1f}" for name, took in said.items())
        counted = {"rows": seen.rows, "late": seen.late, "operators": seen.operators, "failures": seen.failures}
        data = {"epoch": seen.epoch, **counted, "ran": seen.ran, "total_ms": round(1e3 * seen.seconds, 3)}
        _log.log(
            logging.WARNING if is_slow else logging.DEBUG,
            "%sepoch %d: %d rows, %d late, %d operators, %.1f ms (%s)",
            "slow " if is_slow else "",
            *(seen.epoch, seen.rows, seen.late, seen.operators, 1e3 * seen.seconds, phases),
            extra={"data": {**data, **{f"{name}_ms": took for name, took in said.items()}}},
        )

    def _log_lags(self) -> None:
        lagging = self.lagging()
        for name in lagging.keys() - self._lagging:
            _log.warning("stream %s is %s", name, lagging[name], extra={"data": {"stream": name, **lagging[name].said}})
        for name in self._lagging - lagging.keys():
            _log.info("stream %s is no longer behind", name, extra={"data": {"stream": name}})
        self._lagging = {*lagging}

    def _log_skew(self, report: EpochReport) -> None:
        for skew in report.outcome.skew:
            if (place := (skew.edge, skew.shard)) not in self._skewed:
                self._skewed.add(place)
                said = {"operator": skew.edge, "shard": skew.shard, "share": round(skew.share, 3), "rows": skew.rows}
                keys = ", ".join(f"{key} ({rows} rows)" for key, rows in skew.heaviest)
                text = "%s: shard %d got %.0f %% of %d rows; most by the keys %s"
                _log.warning(
                    text, skew.edge, skew.shard, 100 * skew.share, skew.rows, keys or "of many", extra={"data": said}
                )

    def _log_failures(self) -> None:
        failed = states(self._engine, [*self._queries.registry]).failed
        for name in failed.keys() - self._failed:
            said = {"query": name, "error": failed[name]}
            _log.warning("query %s has failed: %s", name, failed[name], extra={"data": said})
        self._failed = {*failed}


def _seen(report: EpochReport) -> EpochSeen:
    before, after = report.before, report.after
    moved = [source for source in report.progress if not is_system(source)]
    return EpochSeen(
        after.epoch,
        time.time(),
        report.phases.total,
        {name: report.phases.seconds.get(name, 0.0) for name in PHASES},
        sum(after.progress(source).arrived - before.progress(source).arrived for source in moved),
        sum(after.progress(source).late - before.progress(source).late for source in moved),
        len(report.task.concerned),
        len(report.outcome.failures),
        report.outcome.ran_as,
    )
