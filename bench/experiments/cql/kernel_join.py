"""How fast the kernel's joins and set operations are, alone and on one core.

    python -m bench.experiments.cql.kernel_join [join] [except] [distinct] [windows]

A window join (500 k + 500 k elements, 50 k keys, 60 s windows at one element per millisecond), EXCEPT of two
such windows, DISTINCT by counting and by δ*, and the cost per element of a join against the window's size.
"""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import sys
from collections.abc import Callable, Sequence

import polars as pl
from bench.harness.operators import run
from bench.workloads.keyed_elements import BATCH, ELEMENTS, KEYS, NARROW, WIDE, WINDOW, stream

from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.operator import Operator
from millstream.kernel.relational.multiplicity import DirectMultiplicity, DistinctStar, Multiplicity, SetOperation


def rate(name: str, operator: Operator, inputs: Sequence[pl.DataFrame], batch: int = BATCH) -> None:
    """The median of three runs, by the time of the clock."""
    runs = [list(run(operator, inputs, batch)) for _ in range(3)]
    steps = sorted(runs, key=lambda run: sum(step.wall for step in run))[1]
    elements = sum(rows.height for rows in inputs) / 1e6
    wall, cpu = sum(step.wall for step in steps), sum(step.cpu for step in steps)
    out, held = sum(step.rows_out for step in steps), max(step.rows_held for step in steps)
    print(
        f"{name:30} {elements / wall:5.2f} M elements/s ({elements / cpu:5.2f} by CPU time) "
        f"{out:>9,} rows out {held:>8,} rows held"
    )


def window_join() -> None:
    inputs = [stream(WIDE, ELEMENTS, KEYS, WINDOW, seed) for seed in (1, 2)]
    rate("window join, batches of 50 k", InnerJoin(WIDE, WIDE, ((0, 0),)), inputs)
    rate("window join, batches of 5 k", InnerJoin(WIDE, WIDE, ((0, 0),)), inputs, BATCH // 10)
    texts = [rows.with_columns(pl.format("key-{}", "c0").alias("c0")) for rows in inputs]
    rate("window join on a string", InnerJoin(WIDE, WIDE, ((0, 0),)), texts)


def set_operations() -> None:
    inputs = [stream(NARROW, ELEMENTS, KEYS, WINDOW, seed) for seed in (1, 2)]
    for operation in (SetOperation.EXCEPT, SetOperation.EXCEPT_ALL, SetOperation.INTERSECT):
        rate(f"{operation.value} of two windows", Multiplicity(NARROW, operation), inputs)
        rate(f"{operation.value} foretold", DirectMultiplicity(NARROW, operation), inputs)


def distinct() -> None:
    inputs = [stream(NARROW, 2 * ELEMENTS, KEYS, WINDOW, 1)]
    rate("DISTINCT by counting", Multiplicity(NARROW, SetOperation.DISTINCT), inputs)
    rate("DISTINCT by δ*", DistinctStar(NARROW), inputs)


def window_sizes() -> None:
    """As many keys as elements in a window, so that the output does not grow with it; batches of 5 k."""
    batch = 5_000
    for window in (1_000, 10_000, 100_000, 1_000_000):
        # The window is filled first, and then measured while it is filled anew, with all merges that takes.
        filling = -(-window // batch)
        steps = max(filling, 40)
        inputs = [stream(WIDE, (filling + steps) * batch, window, window, seed) for seed in (1, 2)]
        measured = list(run(InnerJoin(WIDE, WIDE, ((0, 0),)), inputs, batch))[filling:]
        nanoseconds = 1e9 / (2 * steps * batch)
        wall = sum(step.wall for step in measured) * nanoseconds
        cpu = sum(step.cpu for step in measured) * nanoseconds
        print(f"join, window of {window:>9,} {wall:9.0f} ns per element ({cpu:.0f} of CPU time)")


EXPERIMENTS: dict[str, Callable[[], None]] = {
    "join": window_join,
    "except": set_operations,
    "distinct": distinct,
    "windows": window_sizes,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or EXPERIMENTS:
        EXPERIMENTS[name]()
