"""Queries that differ in one place: what many of them cost, in times what one costs, by where the constant stands.

Beside the CPU time of an epoch the changes of the answers are counted: a place in which the constant changes all rows
of the answer costs at least what it takes to write these, whoever shares what.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns, with_more
from bench.harness.pictures import bars as draw_bars

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS, INSTANTS, WINDOW = 2_000, 20, 5  # of an epoch; a window is of so many epochs
VALUES, KEYS, GROUPS = 1_000, 500, 20
COUNTS, QUICK_COUNTS = (1, 200, 1_000), (1, 200)
ALONE = 1
SAMPLED = 5  # queries whose changes are counted
_RANGE = f"[RANGE {WINDOW * INSTANTS}]"
_S = f"s {_RANGE}"
_T = f"t {_RANGE}"
STREAMS = """
    CREATE STREAM s (k INT, g INT, a INT, v INT) TIMESTAMP BY ts;
    CREATE STREAM t (k INT, w INT) TIMESTAMP BY ts
"""

# {n} is the number of the query, never 0, {few} one of four sizes, {ten} a number up to ten,
# {size} a size of its own.
PLACES: Mapping[str, str] = {
    "label": f"SELECT 'alert {{n}}' AS label, k, v FROM {_S} WHERE a > 990",
    "CASE": f"SELECT k, CASE WHEN v > {{n}} THEN 'high' ELSE 'low' END AS c FROM {_S} WHERE a > 990",
    "function": f"SELECT k, pmod(v + {{n}}, 7) AS f FROM {_S} WHERE a > 990",
    "WHERE =": f"SELECT k, v FROM {_S} WHERE a = {{n}}",
    "WHERE IN": f"SELECT k, v FROM {_S} WHERE a IN ({{n}}, {{n}} + 1, {{n}} + 7)",
    "WHERE, GROUP BY": f"SELECT g, sum(v) AS t FROM {_S} WHERE a > {{n}} GROUP BY g",
    "HAVING": f"SELECT k, sum(v) AS t FROM {_S} GROUP BY k HAVING sum(v) > 15000 + {{n}}",
    "HAVING beside WHERE": f"SELECT g, sum(v) AS t FROM {_S} WHERE a < {{n}} GROUP BY g HAVING count(*) > {{n}}",
    "FILTER": f"SELECT g, count(*) FILTER (WHERE v > {{n}}) AS c FROM {_S} GROUP BY g",
    "sum(CASE)": f"SELECT g, sum(CASE WHEN v > {{n}} THEN a ELSE 0 END) AS t FROM {_S} GROUP BY g",
    "GROUP BY key": f"SELECT v / ({{n}} + 50) AS bucket, count(*) AS c FROM {_S} GROUP BY v / ({{n}} + 50)",
    "RANGE, own sizes": "SELECT g, count(*) AS c FROM s [RANGE {size}] GROUP BY g",
    "RANGE, four sizes": "SELECT g, count(*) AS c FROM s [RANGE {few}] WHERE a > {n} GROUP BY g",
    "ROWS, own sizes": "SELECT g, count(*) AS c FROM s [ROWS {size}0] GROUP BY g",
    "ROWS, four sizes": "SELECT k, v FROM s [ROWS {few}0] WHERE a = {n}",
    "RANGE of a join": "SELECT s.k, s.v, t.w FROM s [RANGE {size}], t [RANGE {size}] WHERE s.k = t.k AND s.a > 950",
    "RANGE of a join, four sizes": (
        "SELECT s.k, s.v, t.w FROM s [RANGE {few}], t [RANGE {few}] WHERE s.k = t.k AND s.a = {n}"
    ),
    "LIMIT": f"SELECT k, v FROM {_S} ORDER BY v DESC, k LIMIT {{n}}",
    "LIMIT, WHERE": f"SELECT k, v FROM {_S} WHERE a = {{n}} ORDER BY v DESC, k LIMIT 3",
    "OVER, ten limits": (
        f"SELECT k, v, rank() OVER (PARTITION BY g ORDER BY v DESC) AS r FROM {_S} QUALIFY r <= {{ten}}"
    ),
    "OVER beside a constant": (
        f"SELECT k, v + {{n}} AS x, rank() OVER (PARTITION BY g ORDER BY v) AS r FROM {_S} WHERE a > 990"
    ),
    "scalar subquery, WHERE": (
        f"SELECT k, v FROM s [NOW] WHERE a > 990 AND v > (SELECT avg(v) FROM {_S} WHERE g < {{n}})"
    ),
    "scalar subquery, beside": (f"SELECT k, v FROM s [NOW] WHERE a > 990 AND v > (SELECT avg(v) FROM {_S}) + {{n}}"),
    "EXISTS": f"SELECT k, v FROM {_S} WHERE a > 990 AND EXISTS (SELECT * FROM {_T} WHERE t.k = s.k AND t.w = {{n}})",
    "IN subquery": f"SELECT k, v FROM {_S} WHERE a = {{n}} AND k IN (SELECT k FROM {_T} WHERE w > 990)",
    "WHERE of a join": f"SELECT s.k, s.v, t.w FROM {_S}, {_T} WHERE s.k = t.k AND s.a = {{n}}",
    "LEFT JOIN, WHERE": f"SELECT s.k, s.v, t.w FROM {_S} LEFT JOIN {_T} ON s.k = t.k WHERE s.a = {{n}}",
    "LEFT JOIN, ON": f"SELECT s.k, s.v, t.w FROM {_S} LEFT JOIN {_T} ON s.k = t.k AND t.w = {{n}} WHERE s.a > 990",
    "FULL JOIN, ON": f"SELECT s.v, t.w FROM {_S} FULL JOIN {_T} ON s.k = t.k AND s.v = {{n}} AND t.w > 990",
    "UNION": f"SELECT k FROM {_S} WHERE a = {{n}} UNION SELECT k FROM {_T} WHERE w = {{n}}",
    "EXCEPT": f"SELECT k FROM {_S} WHERE a = {{n}} EXCEPT SELECT k FROM {_T} WHERE w = {{n}}",
    "FROM subquery": f"SELECT k, c FROM (SELECT k, count(*) AS c FROM {_S} WHERE a < {{n}} GROUP BY k) WHERE c > 30",
    "view": "SELECT k, t FROM sums WHERE k = {n}",
}
VIEWS = f"CREATE VIEW sums AS SELECT k, sum(v) AS t FROM {_S} GROUP BY k"


def texts(place: str, count: int) -> list[str]:
    """One query alone has a constant from the middle of those of many."""
    numbers = [VALUES // 4] if count == ALONE else [1 + number * (VALUES // 2) // count for number in range(count)]
    numbers = numbers if len({*numbers}) == count else [*range(1, count + 1)]
    few = (20, 40, 70, 100)
    return [
        PLACES[place]
        .replace("{few}", str(few[n % 4]))
        .replace("{ten}", str(1 + n % 10))
        .replace("{size}", str(n))
        .replace("{n}", str(n))
        for n in numbers
    ]


def _run(place: str, count: int, epochs: int) -> Sample:
    """Epochs count once the windows are full."""
    rng = np.random.default_rng(2)
    took = wall = 0.0
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; {VIEWS}")
        members = [db.register(text, name=f"q{number}") for number, text in enumerate(texts(place, count))]
        for epoch in range(WINDOW + 1 + epochs):
            ts = epoch * INSTANTS + np.arange(ROWS) * INSTANTS // ROWS
            drawn = {"k": KEYS, "g": GROUPS, "a": VALUES, "v": VALUES, "w": VALUES}
            columns = {name: rng.integers(0, below, ROWS).astype(np.int32) for name, below in drawn.items()}
            s = pl.DataFrame({**{name: columns[name] for name in "kgav"}, "ts": ts})
            t = pl.DataFrame({"k": rng.permutation(columns["k"]), "w": columns["w"], "ts": ts})
            started = time.process_time(), time.perf_counter()
            db.insert("s", s)
            db.insert("t", t)
            if epoch > WINDOW:
                took += time.process_time() - started[0]
                wall += time.perf_counter() - started[1]
        sampled = members[:: max(1, count // SAMPLED)]
        changes = [member.changes(since=(WINDOW + 1) * INSTANTS).num_rows for member in sampled]
        plans = len({member.edge for member in members})
    sample = Sample(elements=2 * epochs * ROWS, cpu=took, wall=wall)
    each = sum(changes) / len(changes) / epochs
    return with_more(sample, epoch_ms=1e3 * took / epochs, changes_each=each, plans=plans)


def trials(settings: Settings) -> list[Trial]:
    epochs, counts = (2, QUICK_COUNTS) if settings.quick else (5, COUNTS)

    def measure(place: str) -> list[Measurement]:
        runs = {str(count): partial(_run, place, count, epochs) for count in counts}
        best = in_turns(runs, 1 if settings.quick else 2, far_behind=200.0)
        return [Measurement(place, name, int(name), sample) for name, sample in best.items()]

    return [Trial(place, partial(measure, place)) for place in PLACES]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    """No bar is common to all places: what is inherent is the number of changes."""
    return []


def notes(measurements: Sequence[Measurement]) -> list[str]:
    found = []
    for place in PLACES:
        alone = find(measurements, place, str(ALONE))
        if alone is None:
            continue
        parts = [f"one {alone.sample.more['epoch_ms']:.1f} ms, {alone.sample.more['changes_each']:.0f} changes"]
        for m in (m for m in measurements if m.case == place and m.size != ALONE):
            more, times = m.sample.more, alone.rate / m.rate
            written = more["changes_each"] * m.size
            parts.append(
                f"{m.size:,}: {times:.1f}x, {more['plans']:.0f} plans, {written:.0f} changes, "
                f"{1e6 * more['epoch_ms'] / max(written, 1):.0f} ns each"
            )
        found.append(f"{place}: {'; '.join(parts)}")
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.sample.more["epoch_ms"], "ms of CPU time per epoch")


EXPERIMENT = Experiment(
    "constants",
    "queries that differ in one place",
    trials,
    bars,
    draw,
    shown=("epoch_ms", "changes_each", "plans"),
    notes=notes,
)
