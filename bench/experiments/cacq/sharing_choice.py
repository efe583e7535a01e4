"""Whether queries of a join are better off together: never worse than `sharing = 'off'`, nor than `'on'`.

Queries each want a range of the values of one input, or of both. How many they are, the part of the rows that each
wants, and how many partners a row has, decide whether a join each, one join of everything, or one join with lineage
costs least. Beside the time, the pairs of rows are counted that joins look at.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, in_turns, with_more

import millstream as ms
from millstream.kernel.joins import pairwise, stem
from millstream.kernel.sharing.signature_classes import SignatureClasses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT, OFF, ON = "auto", "off", "on"
QUERIES = (1, 2, 10, 100, 1_000)
SELECTIVITIES = (0.0001, 0.001, 0.01, 0.1, 1.0)
EXTREME_SELECTIVITIES = (0.0001, 0.01, 1.0)
PARTNERS = (1, 10, 100, 1_000)
BEFORE, AFTER = "before the data", "after it"
ONE, BOTH = "one input", "both inputs"
USUAL, WORST, MOST_PAIRS = 0.9, 0.75, 1.1  # of the better in 95 % of the cells, and in all of them
FAR_BEHIND = 2.0  # what takes that many times as long as the default is not the better one, and runs once
SECONDS = 10.0  # in which a cell may have more turns than are asked for
VALUES = 1_000_000
ROWS, PAIRS = 100_000, 2_000_000  # of each stream; of all queries together, at most about so many
EPOCHS = 4
STREAMS = """
    CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts;
    CREATE STREAM t (k INT, w INT) TIMESTAMP BY ts
"""
JOIN = "SELECT s.v, t.w FROM s [RANGE 1000000], t [RANGE 1000000] WHERE s.k = t.k AND "


@dataclass(frozen=True)
class Cell:
    """A case of the grid."""

    queries: int
    selectivity: float
    partners: int
    sides: str
    when: str

    @property
    def name(self) -> str:
        return f"{self.selectivity:.2%} of {self.sides}, {self.partners} partners, {self.when}"

    @property
    def is_extreme(self) -> bool:
        """Such cells come first, since whoever has no hours for all of them learns most from these."""
        return self.selectivity in EXTREME_SELECTIVITIES and self.partners in (PARTNERS[0], PARTNERS[-1])

    def rows(self, most_rows: int, most_pairs: int) -> int:
        """Of each stream: fewer, where the queries would get too many pairs."""
        part = self.selectivity ** (1 if self.sides == ONE else 2)
        pairs = self.queries * part * self.partners
        return int(max(min(most_rows, most_pairs / pairs), min(2 * self.partners, 400), 40))


def conditions(cell: Cell) -> Iterator[str]:
    dice = np.random.default_rng(7)
    width = int(VALUES * cell.selectivity)
    for number in range(cell.queries):
        # All rows are wanted by conditions that differ nevertheless.
        lows = dice.integers(0, VALUES - width + 1, 2) - (number if width == VALUES else 0)
        yield " AND ".join(
            f"{column} >= {low} AND {column} < {low + width + 2 * number * (width == VALUES)}"
            for column, low in zip(("s.v", "t.w")[: 1 if cell.sides == ONE else 2], lows.tolist(), strict=False)
        )


def run(sharing: str, cell: Cell, rows: int) -> Sample:
    dice = np.random.default_rng(8)
    keys = max(rows // cell.partners, 1)
    parts = [
        {
            stream: pl.DataFrame(
                {
                    "k": dice.integers(0, keys, rows // EPOCHS).astype(np.int32),
                    value: dice.integers(0, VALUES, rows // EPOCHS).astype(np.int32),
                    "ts": epoch + 1,
                }
            )
            for stream, value in (("s", "v"), ("t", "w"))
        }
        for epoch in range(EPOCHS)
    ]
    asked = [JOIN + condition for condition in conditions(cell)]
    with ms.connect(engine="inprocess") as db, counted_pairs() as pairs:
        db.execute(f"{STREAMS}; SET sharing = '{sharing}'")
        queries: list[ms.Query] = []
        if cell.when == BEFORE:
            queries = [db.register(text) for text in asked]
        else:
            _feed(db, parts[:-1])
        gc.collect()  # what an earlier run has left is not of this one
        begun, clock = time.process_time(), time.perf_counter()
        if cell.when == BEFORE:
            _feed(db, parts)
        else:
            queries = [db.register(text) for text in asked]
            _feed(db, parts[-1:])
        db.advance(to=EPOCHS + 1)
        taken = time.process_time() - begun, time.perf_counter() - clock
        found = sum(query.result().num_rows for query in queries[:: max(1, len(queries) // 10)])
        return with_more(Sample(2 * rows, *taken, found), pairs=pairs[0])


def _feed(db: ms.Database, parts: Sequence[dict[str, pl.DataFrame]]) -> None:
    for part in parts:
        for stream, rows in part.items():
            db.insert(stream, rows)


@contextmanager
def counted_pairs() -> Iterator[list[int]]:
    """The pairs that joins look at within the block."""
    count = [0]
    places = (pairwise.KeyedJoin, "_candidates"), (stem.Probe, "candidates"), (SignatureClasses, "_found")
    before = [getattr(kind, name) for kind, name in places]

    def counting(candidates: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def found(*given: Any) -> Iterator[Any]:
            for pairs in candidates(*given):
                count[0] += pairs[0].size
                yield pairs

        return found

    for (kind, name), candidates in zip(places, before, strict=True):
        setattr(kind, name, counting(candidates))
    try:
        yield count
    finally:
        for (kind, name), candidates in zip(places, before, strict=True):
            setattr(kind, name, candidates)


def cells(settings: Settings) -> list[Cell]:
    if settings.quick:
        return [Cell(n, part, 10, sides, BEFORE) for n in (1, 10) for part in (0.01, 1.0) for sides in (ONE, BOTH)]
    grid = [
        Cell(n, part, partners, sides, when)
        for n in QUERIES
        for when in (BEFORE, AFTER)
        for sides in (ONE, BOTH)
        for partners in PARTNERS
        for part in SELECTIVITIES
    ]
    return sorted(grid, key=lambda cell: not cell.is_extreme)


def trials(settings: Settings) -> list[Trial]:
    return [
        Trial(f"{cell.queries} queries, {cell.name}", partial(_measure, cell, settings)) for cell in cells(settings)
    ]


def _measure(cell: Cell, settings: Settings) -> list[Measurement]:
    rows = cell.rows(ROWS // 50, PAIRS // 50) if settings.quick else cell.rows(ROWS, PAIRS)
    best = in_turns(
        {sharing: partial(run, sharing, cell, rows) for sharing in (DEFAULT, OFF, ON)},
        settings.repetitions,
        median=True,
        far_behind=FAR_BEHIND,
        seconds=0.0 if settings.quick else SECONDS,
    )
    if len({sample.rows_out for sample in best.values()}) != 1:
        raise AssertionError(f"{cell}: answers differ")
    return [Measurement(cell.name, sharing, cell.queries, sample) for sharing, sample in best.items()]


@dataclass(frozen=True)
class Comparison:
    """The default in a cell, by the better of the two others. Pairs that are fewer than the elements count as so many:
    each of these is looked at in any case."""

    case: str
    queries: int
    samples: Mapping[str, Sample]

    @property
    def speed(self) -> float:
        return min(self.samples[OFF].cpu, self.samples[ON].cpu) / self.samples[DEFAULT].cpu

    @property
    def pairs(self) -> float:
        looked_at = {sharing: max(sample.more["pairs"], sample.elements) for sharing, sample in self.samples.items()}
        return looked_at[DEFAULT] / min(looked_at[OFF], looked_at[ON])

    def __str__(self) -> str:
        each = (f"{sharing} {s.cpu * 1e3:,.0f} ms, {s.more['pairs']:,.0f} pairs" for sharing, s in self.samples.items())
        ratios = f"{self.speed:.2f} of the better, {self.pairs:.2f} times the pairs"
        return f"{self.queries:,} queries, {self.case}: {ratios} ({'; '.join(each)})"


def comparisons(measurements: Sequence[Measurement]) -> list[Comparison]:
    samples: dict[tuple[str, int], dict[str, Sample]] = {}
    for measurement in measurements:
        samples.setdefault((measurement.case, measurement.size), {})[measurement.variant] = measurement.sample
    return [Comparison(*cell, found) for cell, found in samples.items()]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = comparisons(measurements)
    if not found:
        return []
    speeds = sorted(cell.speed for cell in found)
    most = max(cell.pairs for cell in found)
    return [
        Bar("of the better of 'off' and 'on', in the middle", speeds[len(speeds) // 2], USUAL),
        Bar("of the better of 'off' and 'on', in 95 % of the cells", speeds[len(speeds) // 20], USUAL),
        Bar("of the better of 'off' and 'on', at worst", speeds[0], WORST),
        Bar("pairs looked at, to the fewer of 'off' and 'on', at worst", most, MOST_PAIRS, True),
    ]


def missed(measurements: Sequence[Measurement]) -> list[str]:
    """The cells that are below what is wanted, the worst first."""
    found = [cell for cell in comparisons(measurements) if cell.speed < USUAL or cell.pairs > MOST_PAIRS]
    return [str(cell) for cell in sorted(found, key=lambda cell: cell.speed)]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    figure.set_size_inches(6, 4)
    axes = figure.subplots()
    speeds = sorted(cell.speed for cell in comparisons(measurements))
    axes.plot(np.linspace(0, 100, len(speeds)), speeds, marker=".")
    axes.axhline(USUAL, color="grey", linewidth=0.5)
    axes.set_yscale("log")
    axes.set_xlabel("cells of the grid, %", fontsize=8)
    axes.set_ylabel("speed of the default, to the better of 'off' and 'on'", fontsize=8)


EXPERIMENT = Experiment(
    "sharing_choice", "queries of a join, together or each alone", trials, bars, draw, ("pairs",), missed
)
