"""What an experiment is: trials, each a few alternatives measured side by side; bars; a picture."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """How thorough a run is, and what it reads."""

    quick: bool = False
    trace: Path | None = None  # a directory of Zeek logs, instead of generated connection records
    out: Path = Path("bench/out")
    keep: Path | None = None  # where trials that were measured are kept, and found again
    minutes: float = float("inf")  # after which no other trial is begun

    @property
    def repetitions(self) -> int:
        return 1 if self.quick else 5


@dataclass(frozen=True)
class Sample:
    """One run. CPU time is that of all threads of this process: others use the machine too, and it has one thread."""

    elements: int
    cpu: float
    wall: float
    rows_out: int = 0
    rows_held: float = 0.0
    more: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Measurement:
    """The best of several runs of one alternative."""

    case: str
    variant: str
    size: int
    sample: Sample

    @property
    def rate(self) -> float:
        """Elements per second of CPU time."""
        return self.sample.elements / self.sample.cpu

    @property
    def milliseconds(self) -> float:
        """Per 1,000 elements, as the paper has it."""
        return 1e6 / self.rate

    @property
    def nanoseconds(self) -> float:
        """Per element."""
        return 1e9 / self.rate


@dataclass(frozen=True)
class Bar:
    """What was hoped for: a value of at least so much, or at most."""

    name: str
    value: float
    target: float
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        return self.value <= self.target if self.at_most else self.value >= self.target


@dataclass(frozen=True)
class Trial:
    """Alternatives that are to be compared: measured in one go, in turns."""

    label: str
    measure: Callable[[], list[Measurement]]


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    trials: Callable[[Settings], list[Trial]]
    bars: Callable[[Sequence[Measurement]], list[Bar]]
    draw: Callable[[Figure, Sequence[Measurement]], None]
    shown: tuple[str, ...] = ()  # of what the samples hold more, in the table
    notes: Callable[[Sequence[Measurement]], Sequence[str]] = lambda measurements: ()  # lines below the bars


def in_turns(
    runs: Mapping[str, Callable[[], Sample]],
    repetitions: int,
    *,
    median: bool = False,
    far_behind: float = float("inf"),
    seconds: float = 0.0,
) -> dict[str, Sample]:
    """The best run of each alternative, or that in the middle. They take turns, each time another one first, so that a
    busy spell of the machine meets all of them. Who is that many times behind the first one in the first turn runs no
    more. There are up to three times as many turns as repetitions, until so many seconds have passed."""
    until = time.monotonic() + seconds
    samples: dict[str, list[Sample]] = {name: [run()] for name, run in runs.items()}
    most = far_behind * samples[next(iter(runs))][0].cpu
    left = [name for name, found in samples.items() if found[0].cpu <= most]
    for turn in range(1, 3 * repetitions if seconds else repetitions):
        if turn >= repetitions and time.monotonic() > until:
            break
        for name in (*left[turn % len(left) :], *left[: turn % len(left)]):
            samples[name].append(runs[name]())
    return {
        name: sorted(found, key=lambda sample: sample.cpu)[len(found) // 2 if median else 0]
        for name, found in samples.items()
    }


def find(measurements: Sequence[Measurement], case: str, variant: str, size: int | None = None) -> Measurement | None:
    """The measurement of an alternative, at the largest size if none is given."""
    found = [m for m in measurements if (m.case, m.variant) == (case, variant) and size in (None, m.size)]
    return max(found, key=lambda m: m.size, default=None)


def best_at_each(measurements: Sequence[Measurement]) -> Iterator[tuple[Measurement, Measurement]]:
    """Every measurement with the fastest one of its case and size."""
    for measurement in measurements:
        rivals = [m for m in measurements if (m.case, m.size) == (measurement.case, measurement.size)]
        yield measurement, min(rivals, key=lambda m: m.nanoseconds)


def with_more(sample: Sample, **more: float) -> Sample:
    return replace(sample, more={**sample.more, **more})


def sampled(run: Callable[[], int], elements: int) -> Sample:
    """One run, which says how many rows it gave."""
    cpu, wall = time.process_time(), time.perf_counter()
    rows_out = run()
    return Sample(elements, time.process_time() - cpu, time.perf_counter() - wall, rows_out)
