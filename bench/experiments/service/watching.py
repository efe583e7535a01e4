"""What it costs to be watched: system streams beside the epochs that they tell of.

What is noticed in an epoch, and the epochs that feed the streams once somebody reads them, are timed by themselves,
since a fiftieth of all time is less than two runs differ by. All of it is processor time of the threads that do it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial
from bench.harness.pictures import bars as draw_bars

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNREAD, READ = "nobody reads them", "six standing queries read them"
MOST = 0.02  # of an epoch
QUERIES = 50
READING = (
    "SELECT ISTREAM(epoch, total_ms) FROM sys.epochs [RANGE 1 HOUR] WHERE total_ms > 500",
    "SELECT operator, sum(ms) AS ms FROM sys.operators [RANGE 1 MINUTES] GROUP BY operator HAVING sum(ms) > 1000",
    "SELECT ISTREAM(query, error) FROM sys.queries [NOW] WHERE state = 'failed'",
    "SELECT ISTREAM(stream, late) FROM sys.streams [RANGE 1 MINUTES] WHERE late > 0",
    "SELECT operator, module, share FROM sys.routing [RANGE 1 MINUTES]",
    "SELECT ISTREAM(sink, error) FROM sys.sinks [NOW] WHERE state = 'paused'",
)


def trials(settings: Settings) -> list[Trial]:
    seconds = 3.0 if settings.quick else 20.0
    return [
        Trial(f"{rows} rows, {variant}", lambda rows=rows, variant=variant: [_run(rows, variant, seconds)])  # type: ignore[misc]
        for rows in (100, 10_000)
        for variant in (UNREAD, READ)
    ]


class _Timed:
    """A function, and the processor time of the thread that called it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any) -> Any:
        begun = time.thread_time()
        try:
            return self.function(*arguments)
        finally:
            self.seconds += time.thread_time() - begun


def _run(rows: int, variant: str, seconds: float) -> Measurement:
    with ms.connect(engine="inprocess") as db:
        _declare(db)
        if variant == READ:
            for number, text in enumerate(READING):
                db.register(text, name=f"watching_{number}")
        noticing, feeding = _Timed(db.system.epoch), _Timed(db.system._feed_now)
        db.engine.on_epoch[db.engine.on_epoch.index(db.system.epoch)] = noticing
        vars(db.system)["_feed_now"] = feeding
        inserting = _Timed(db.insert)
        epochs, ended, begun = 0, time.perf_counter() + seconds, time.perf_counter()
        while time.perf_counter() < ended:
            inserting("s", [(n % 97, n % 1009, rows * epochs + n) for n in range(rows)])
            epochs += 1
        wall, cpu = time.perf_counter() - begun, inserting.seconds
        own = cpu - noticing.seconds
        more = {
            "epochs": float(epochs),
            "ms_per_epoch": 1e3 * own / epochs,
            "noticed_percent": 100 * noticing.seconds / own,
            "fed_percent": 100 * feeding.seconds / own,
        }
    return Measurement("an epoch, 50 queries", variant, rows, Sample(rows * epochs, cpu, wall, more=more))


def _declare(db: ms.Database) -> None:
    db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts")
    for number in range(QUERIES):
        text = f"SELECT k, max(v) AS top FROM s [RANGE {1000 + 100 * number}] GROUP BY k"
        if number % 2:
            text = f"SELECT k, v FROM s [RANGE 1000] WHERE v > {20 * number} AND k < {number}"
        db.register(text, name=f"q{number}")


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for m in measurements:
        share = m.sample.more["noticed_percent"] + m.sample.more["fed_percent"]
        found.append(Bar(f"{m.size:,} rows, {m.variant}: % of the time", share, 100 * MOST, at_most=True))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(
        figure, measurements, lambda m: m.sample.more["noticed_percent"] + m.sample.more["fed_percent"], "% of the time"
    )


EXPERIMENT = Experiment(
    "watching",
    "system streams beside the epochs that they tell of",
    trials,
    bars,
    draw,
    shown=("epochs", "ms_per_epoch", "noticed_percent", "fed_percent"),
)
