"""How fast the kernel's aggregates are, alone and on one core.

    python -m bench.experiments.cql.kernel_aggregate [slide] [every] [others] [windows]

AVG and COUNT by 100 groups over RANGE 5 MINUTES, 2 M elements at one element per millisecond: with SLIDE 1
MINUTE, and without, where every element and every expiry is a change. Then other functions over the same
window, and the cost per element of MAX, in several forms, against the window's size.

Rates are per second of processor time, not of the clock on the wall: they say what one core does when it is left alone.
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
from bench.workloads.grouped_values import (
    AVERAGE,
    BATCH,
    ELEMENTS,
    GROUPS,
    MINUTE,
    SCHEMA,
    WINDOW,
    call,
    stream,
    with_retractions,
)

from millstream.kernel.aggregation.aggregate import Aggregate
from millstream.kernel.operator import NO_STATE, Operator, Progress, State


def run(operator: Operator, rows: pl.DataFrame, elements: int, batch: int) -> Iterator[tuple[int, float, int]]:
    """(rows out, seconds of one core, rows held) of each step; an element arrives at its tick."""
    state: State = NO_STATE
    arrival = rows.get_column("arrival").to_numpy()
    for low in range(0, elements, batch):
        high = min(low + batch, elements)
        first, stop = np.searchsorted(arrival, (low, high))
        part = rows.slice(first, stop - first).drop("arrival")
        begun = time.process_time()
        output, state = operator.step([part], state, Progress((low - 1,), (high - 1,)))
        seconds = time.process_time() - begun
        held = sum(segment.height for segments in state.values() for segment in segments)
        yield output.height, seconds, held


def rate(name: str, operator: Operator, rows: pl.DataFrame, elements: int, batch: int = BATCH, times: int = 3) -> None:
    """The best of several runs, in time of one core, since the machine is shared."""
    runs = [list(run(operator, rows, elements, batch)) for _ in range(times)]
    steps = min(runs, key=lambda run: sum(seconds for _, seconds, _ in run))
    seconds = sum(seconds for _, seconds, _ in steps)
    out, held = sum(rows for rows, _, _ in steps), max(held for _, _, held in steps)
    print(
        f"{name:44} {elements / seconds / 1e6:6.2f} M elements/s {seconds / elements * 1e9:7.0f} ns "
        f"{out:>10,} rows out {held:>10,} rows held",
        flush=True,
    )


def slide() -> None:
    rows = stream(ELEMENTS, GROUPS, WINDOW, MINUTE)
    rate("avg, count; slide 1 minute", Aggregate(SCHEMA, (0,), AVERAGE), rows, ELEMENTS)


def every() -> None:
    rows = stream(ELEMENTS, GROUPS, WINDOW)
    rate("avg, count; every element", Aggregate(SCHEMA, (0,), AVERAGE), rows, ELEMENTS)


def others() -> None:
    elements = ELEMENTS // 4
    rows = stream(elements, GROUPS, WINDOW // 4)
    negative = with_retractions(rows)
    for name in ("sum", "avg", "stddev"):
        rate(f"{name} of doubles", Aggregate(SCHEMA, (0,), (call(name, 2),)), rows, elements, times=1)
    rate("max", Aggregate(SCHEMA, (0,), (call("max", 1),), retractions=False), rows, elements, times=1)
    rate("max, retracted", Aggregate(SCHEMA, (0,), (call("max", 1),)), negative, elements, times=1)
    rate("last", Aggregate(SCHEMA, (0,), (call("last", 1),), retractions=False), rows, elements, times=1)
    rate("first, retracted", Aggregate(SCHEMA, (0,), (call("first", 1),)), negative, elements, times=1)
    rate("count distinct", Aggregate(SCHEMA, (0,), (call("count", 1, distinct=True),)), rows, elements, times=1)
    many = rows.with_columns(pl.Series("c0", np.random.default_rng(2).integers(0, elements // 4, elements)))
    rate("avg, count; 125 k groups", Aggregate(SCHEMA, (0,), AVERAGE), many, elements, times=1)


def windows() -> None:
    """Nothing grows with the window but what is held; 10 k elements a step."""
    for window in (1_000, 10_000, 100_000, 1_000_000):
        elements = max(2 * window, 200_000)
        rows = stream(elements, 1, window)
        calls = {"avg": False, "max": False, "max, retracted": True, "count distinct": False}
        for name, retracted in calls.items():
            one = call("count", 1, distinct=True) if name == "count distinct" else call(name.split(",")[0], 1)
            aggregate = Aggregate(SCHEMA, (), (one,), retractions=retracted)
            said = with_retractions(rows) if retracted else rows
            rate(f"{name}; window of {window:,}", aggregate, said, elements, batch=10_000, times=1)
        falling = rows.with_columns(-pl.col("c1").cum_count().cast(pl.Int64).alias("c1"))
        aggregate = Aggregate(SCHEMA, (), (call("max", 1),), retractions=False)
        rate(f"max, falling; window of {window:,}", aggregate, falling, elements, batch=10_000, times=1)


EXPERIMENTS: dict[str, Callable[[], None]] = {
    "slide": slide,
    "every": every,
    "others": others,
    "windows": windows,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or EXPERIMENTS:
        EXPERIMENTS[name]()
