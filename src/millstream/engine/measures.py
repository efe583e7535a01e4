"""What steps and sources have done: in all, and lately.

Lately means that what is t seconds old counts exp(-t / 10). So a number is kept for each step, and no list of epochs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import exp, expm1

from millstream.engine.epochs.exchange import Exchanged
from millstream.engine.epochs.task import EpochOutcome

LATELY = 10.0  # seconds
_LEAST = 1.0  # seconds that rates are taken over where less has passed


@dataclass(slots=True)
class Measure:
    """Of a step, or of a source, which has neither rows in nor seconds; `expired` are rows that left its state,
    `exchanged` those that other shards sent it."""

    since: float = 0.0
    at: float = 0.0  # when it was last counted
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    expired: int = 0
    exchanged: Exchanged = field(default_factory=Exchanged)
    late_rows: float = 0.0  # as of `at`, like those below
    late_seconds: float = 0.0
    late_epochs: float = 0.0

    def count(self, now: float, rows_in: int, rows_out: int, seconds: float, expired: int) -> None:
        left = exp((self.at - now) / LATELY)
        self.at = now
        self.rows_in += rows_in
        self.rows_out += rows_out
        self.seconds += seconds
        self.expired += expired
        self.late_rows = self.late_rows * left + rows_out
        self.late_seconds = self.late_seconds * left + seconds
        self.late_epochs = self.late_epochs * left + 1

    def rate(self, now: float) -> float:
        """Rows given in a second."""
        passed = max(now - self.since, _LEAST)
        return self.late_rows * exp((self.at - now) / LATELY) / (LATELY * -expm1(-passed / LATELY))

    def lately(self, now: float) -> float:
        """Seconds spent, as far as they still count."""
        return self.late_seconds * exp((self.at - now) / LATELY)

    @property
    def milliseconds(self) -> float:
        """Of an epoch that it took part in."""
        return 1e3 * self.late_seconds / self.late_epochs if self.late_epochs else 0.0


class Measures:
    """By step and source. Written under the lock of commits; whoever reads sees each measure as it is just then."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[str, Measure] = {}

    @property
    def now(self) -> float:
        return self._now()

    def lately(self, names: Iterable[str]) -> float:
        """The seconds that some steps have spent, as far as they still count."""
        now, known = self._now(), self._known
        return sum(known[name].lately(now) for name in names if name in known)

    def get(self, name: str) -> Measure | None:
        return self._known.get(name)

    def __len__(self) -> int:
        return len(self._known)

    def count(
        self, inputs: Callable[[str], tuple[str, ...]], arrived: Mapping[str, int], outcome: EpochOutcome
    ) -> None:
        """An epoch: rows that arrived by source, and what steps did; `inputs` are the edges that a step reads."""
        now, rows, expired = self._now(), outcome.rows, outcome.expired
        for source, rows_given in arrived.items():
            self._of(source, now).count(now, 0, rows_given, 0.0, 0)
        for step, spent in outcome.seconds.items():
            came = sum([rows[edge] if edge in rows else arrived.get(edge, 0) for edge in inputs(step)])
            self._of(step, now).count(now, came, rows.get(step, 0), spent, expired.get(step, 0))
        for step, exchanged in outcome.exchanged.items():
            self._of(step, now).exchanged.add(exchanged)

    def _of(self, name: str, now: float) -> Measure:
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = Measure(now, now)
        return found

    def forget(self, others: Collection[str]) -> None:
        """All but some: steps come and go."""
        self._known = {name: measure for name, measure in self._known.items() if name in others}
