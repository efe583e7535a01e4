"""What a plan costs in an epoch of a few rows, and what the epoch costs with many plans.

CPU time of a plan is that of an epoch with many plans of one kind less that with few. Plans of a kind differ in their
constants, and nothing is shared: each has steps and state of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial
from bench.harness.pictures import bars as draw_bars

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHERE = "a > {0} AND b < {1}"
KINDS = {
    "selection": f"SELECT * FROM s WHERE {WHERE}",
    "join": "SELECT s.a, r.b FROM s [RANGE 100], r [RANGE 100] WHERE s.k = r.k AND s.a > {0} AND r.b < {1}",
    "ISTREAM of a sum": f"SELECT ISTREAM(SUM(a) AS t) FROM s [RANGE 100] WHERE {WHERE}",
    "DISTINCT over ROWS": "SELECT DISTINCT a FROM s [ROWS {2}]",
    "COUNT and MAX by group": f"SELECT k, COUNT(*) AS n, MAX(a) AS m FROM s [RANGE 100] WHERE {WHERE} GROUP BY k",
}
WANTED = {  # milliseconds of CPU time per plan
    "selection": 0.3,
    "join": 1.0,
    "ISTREAM of a sum": 2.0,
    "DISTINCT over ROWS": 2.0,
    "COUNT and MAX by group": 3.0,
}
SKELETONS, UNCONCERNED = "500 skeletons, 200 rows per stream", "50 of 5,000 queries, by those 50 alone"
FEW, MANY = 10, 40
Row = tuple[int, int, int, int]


def texts(kind: str, count: int) -> list[str]:
    return [KINDS[kind].format(number % 50, 100 - number // 50, 80 + number) for number in range(count)]


def rows_from(instant: int, count: int, dice: random.Random) -> list[Row]:
    return [(dice.randrange(20), dice.randrange(100), dice.randrange(100), instant + n // 2) for n in range(count)]


def epoch_seconds(queries: Sequence[str], rows: int, epochs: int, sources: str) -> float:
    """CPU time of rows for each of the sources, the lower quartile over epochs: others use the machine too."""
    dice, spent = random.Random(5), []
    with ms.connect(engine="inprocess") as db:
        db.execute("SET sharing = 'off'")
        for source in "sr":
            db.execute(f"CREATE STREAM {source} (k BIGINT, a BIGINT, b BIGINT) TIMESTAMP BY ts")
        for query in queries:
            db.register(query)
        for epoch in range(epochs):
            taken = [(source, rows_from(epoch * rows // 2, rows, dice)) for source in sources]
            begun = time.process_time()
            for source, of_source in taken:
                db.insert(source, of_source)
            spent.append(time.process_time() - begun)
    filled = sorted(spent[epochs // 3 :])  # windows are full
    return filled[len(filled) // 4]


def per_plan(kind: str, epochs: int) -> float:
    """Milliseconds."""
    few, many = (epoch_seconds(texts(kind, count), 20, epochs, "rs") for count in (FEW, MANY))
    return 1e3 * (many - few) / (MANY - FEW)


def skeletons(epochs: int) -> float:
    queries = [text for kind in KINDS for text in texts(kind, 100)]
    return epoch_seconds(queries, 200, epochs, "rs")


def unconcerned(epochs: int) -> float:
    concerned = texts("selection", 50)
    others = [f"SELECT * FROM r WHERE a > {n % 100} AND b < {n // 100 + 3}" for n in range(4_950)]
    alone, among = (epoch_seconds(queries, 20, epochs, "s") for queries in (concerned, concerned + others))
    return among / alone


def trials(settings: Settings) -> list[Trial]:
    epochs = 15 if settings.quick else 45
    measured: Mapping[str, Callable[[int], float]] = {
        **{kind: partial(per_plan, kind) for kind in KINDS},
        SKELETONS: skeletons,
        UNCONCERNED: unconcerned,
    }
    return [Trial(name, partial(_measured, name, partial(measure, epochs))) for name, measure in measured.items()]


def _measured(name: str, measure: Callable[[], float]) -> list[Measurement]:
    begun, wall = time.process_time(), time.perf_counter()
    cost = measure()
    sample = Sample(20, time.process_time() - begun, time.perf_counter() - wall, more={"cost": cost})
    return [Measurement(name, "inprocess", MANY, sample)]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    costs = {m.case: m.sample.more["cost"] for m in measurements}
    wanted = {f"{kind}, ms of CPU per plan": (kind, most) for kind, most in WANTED.items()}
    wanted |= {f"{SKELETONS}, s of CPU per epoch": (SKELETONS, 1.0), UNCONCERNED: (UNCONCERNED, 1.2)}
    return [Bar(name, costs[case], most, at_most=True) for name, (case, most) in wanted.items() if case in costs]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    plans = [m for m in measurements if m.case in KINDS]
    draw_bars(figure, plans, lambda m: m.sample.more["cost"], "ms of CPU time per plan and epoch")


EXPERIMENT = Experiment("small_epochs", "epochs of a few rows, many plans", trials, bars, draw, shown=("cost",))
