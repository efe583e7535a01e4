"""Trees that are asked by what stands above them: A ⋈ B, of which others, in one query or in several, need only the
rows of some keys.

REF makes all of A ⋈ B, JIT what is asked for. The number of keys that are asked for varies; where all are, holding back
is in vain and shows what it costs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns
from bench.harness.pictures import lines

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = """
CREATE STREAM A (k INT, x INT) TIMESTAMP BY ts;
CREATE STREAM B (k INT, y INT) TIMESTAMP BY ts;
CREATE STREAM S (x INT) TIMESTAMP BY ts;
CREATE TABLE F (x INT) STATIC;
CREATE TABLE N (x INT) NON RETROACTIVE;
CREATE TABLE T (x INT);
CREATE TABLE W (x INT);
"""
PAIRS = "(SELECT A.k, x, y FROM A [RANGE 10], B [RANGE 10] WHERE A.k = B.k)"
QUERIES = {
    "semi join": f"SELECT k, y FROM {PAIRS} p WHERE EXISTS (SELECT * FROM S [RANGE 10] WHERE S.x = p.x)",
    "anti join": f"SELECT k, y FROM {PAIRS} p WHERE NOT EXISTS (SELECT * FROM T WHERE T.x = p.x)",
    "LEFT JOIN": f"SELECT S.x, k, y FROM S [RANGE 10] LEFT JOIN {PAIRS} p ON S.x = p.x",
    "NON RETROACTIVE": f"SELECT k, y FROM {PAIRS} p, N WHERE p.x = N.x",
    "STATIC": "SELECT A.k, y FROM A [RANGE 10], B [RANGE 10], F WHERE A.k = B.k AND A.x = F.x",
    "two readers": f"""SELECT k, y FROM {PAIRS} p, S [RANGE 10] WHERE p.x = S.x
        UNION ALL SELECT k, y FROM {PAIRS} p, W WHERE p.x = W.x""",
    "8 queries": ";".join(
        f"SELECT k, y FROM {PAIRS} p WHERE EXISTS (SELECT * FROM S [RANGE {n}] WHERE S.x = p.x)" for n in range(3, 11)
    ),
}
KEYS, BATCHES, ROWS, PARTNERS = 1_000, 20, 2_000, 50  # partners of a row, on average
ASKED = (1, 10, 50, 100)  # percent of the keys
VARIANTS = {"REF": "off", "JIT": "on"}


def run(query: str, jit: str, percent: int, rows: int) -> Sample:
    dice = np.random.default_rng(5)
    wanted = dice.permutation(KEYS)[: KEYS * percent // 100]
    refused = np.setdiff1d(np.arange(KEYS), wanted)
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{SCHEMA} SET join_plan = 'tree'; SET jit = {jit}")
        for table, keys in (("F", wanted), ("N", wanted), ("W", wanted), ("T", refused)):
            if keys.size:
                db.execute(f"INSERT INTO {table} VALUES {', '.join(f'({key})' for key in keys)}")
        registered = [db.register(text) for text in query.split(";")]
        cpu = wall = 0.0
        for now in range(BATCHES):
            whole = {name: dice.integers(0, 10 * rows // PARTNERS, rows, dtype=np.int32) for name in "AB"}
            other = {name: dice.integers(0, KEYS, rows, dtype=np.int32) for name in "AB"}
            instants = np.full(rows, now)
            given = {
                "A": pl.DataFrame({"k": whole["A"], "x": other["A"], "ts": instants}),
                "B": pl.DataFrame({"k": whole["B"], "y": other["B"], "ts": instants}),
                "S": pl.DataFrame({"x": dice.choice(wanted, wanted.size // 10 + 1), "ts": now}).cast({"x": pl.Int32}),
            }
            begun, clock = time.process_time(), time.perf_counter()
            for name, batch in given.items():
                db.insert(name, batch)
            db.advance(to=now)
            if now >= BATCHES // 2:  # windows are full
                cpu, wall = cpu + time.process_time() - begun, wall + time.perf_counter() - clock
        held = sum(db.stats()["state_bytes"].values()) / 2**20
        shown = sum(each.result().num_rows for each in registered)
        return Sample(rows * BATCHES, cpu, wall, shown, more={"MiB": held})


def _trial(name: str, percent: int, settings: Settings) -> Trial:
    def measure() -> list[Measurement]:
        rows = ROWS // 5 if settings.quick else ROWS
        runs = {variant: partial(run, QUERIES[name], jit, percent, rows) for variant, jit in VARIANTS.items()}
        best = in_turns(runs, 1 if settings.quick else 2)
        if len({sample.rows_out for sample in best.values()}) != 1:
            raise AssertionError(f"{name}: answers differ")
        return [Measurement(name, variant, percent, sample) for variant, sample in best.items()]

    return Trial(f"{name}, {percent} % of the keys", measure)


def trials(settings: Settings) -> list[Trial]:
    return [_trial(name, percent, settings) for name in QUERIES for percent in (ASKED[:1] if settings.quick else ASKED)]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    """None was set; that asking pays where few rows are needed is what it is for."""
    found = []
    for name in QUERIES:
        ref, jit = (find(measurements, name, variant, ASKED[0]) for variant in VARIANTS)
        if ref is not None and jit is not None:
            found.append(
                Bar(f"{name}, 1 % asked for: CPU time of REF in that of JIT", ref.sample.cpu / jit.sample.cpu, 1.0)
            )
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    figure.set_size_inches(13, 5.6)
    places = figure.subplots(2, 4)
    places.flat[-1].set_axis_off()
    for axes, name in zip(places.flat, QUERIES, strict=False):
        lines(axes, [m for m in measurements if m.case == name], lambda m: m.sample.cpu)
        axes.set_xscale("log")
        axes.set_yscale("linear")
        axes.set_ylim(bottom=0)
        axes.set_xticks(ASKED, labels=[str(percent) for percent in ASKED])
        axes.set_title(name, fontsize=8)
        axes.set_xlabel("percent of the keys asked for", fontsize=8)
        axes.set_ylabel("CPU s for 10 batches", fontsize=8)
        axes.legend(frameon=False, fontsize=7)


EXPERIMENT = Experiment("consumers", "trees asked by what stands above them", trials, bars, draw, shown=("MiB",))
