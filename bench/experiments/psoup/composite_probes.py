"""PSoup's composite tuples: what hybrid structs have in common is evaluated once, and the rest by sort-merge.

A new query  S.c op1 constant AND S.b op2 R.a  finds n elements of R: n hybrid structs, which share the first factor.
New data, an element of R, meets n queries  S.c op1 R.a AND S.b op2 constant: n hybrid structs, which share the first
factor as well. Separate, each of them searches an index of S for the factor that is more selective, and tests the other
one on what it finds. Composite is what the engine does: the kernel's join and grouped selection over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, find, in_turns, sampled
from bench.harness.pictures import grid

from millstream.kernel.batch import Batch, batch_schema
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.scalar.evaluate import select_true
from millstream.kernel.scalar.expressions import TRUE, Column, Expression, Literal, Parameter
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.lineage import lineage_of, popcounts
from millstream.kernel.sharing.parameters import QUERIES, QUERY, SHAPE
from millstream.types import BIGINT, Field

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = npt.NDArray[np.int64]
ROWS, VALUES = 20_000, 1_000
SIZES = (10, 100, 1_000, 10_000)
WORKLOADS = {"eq, ineq": ("=", "<"), "ineq, eq": ("<", "="), "ineq, ineq": ("<", "<")}
LEFT, RIGHT = (Field("a", BIGINT),), (Field("b", BIGINT), Field("c", BIGINT))
NARROW = VALUES // 50  # constants of inequalities, so that pairs stay few
WAYS = ("new query", "new data")


def _batch(schema: tuple[Field, ...], *columns: Numbers) -> Batch:
    values = {f"c{n}": column for n, column in enumerate(columns)}
    return pl.DataFrame({**values, "_start": 0, "_end": 1, "_weight": 1}, schema=batch_schema(schema))


def _drawn(operator: str, beside: str, count: int, random: np.random.Generator) -> Numbers:
    """What factors compare with: anything in equalities and beside them, little in inequalities alone."""
    return random.integers(0, VALUES if "=" in (operator, beside) else NARROW, count)


class Separate:
    """Each hybrid struct by itself: a binary search for one factor, and a test of the other."""

    def __init__(self, rows: Batch) -> None:
        b, c = rows["c0"].to_numpy(), rows["c1"].to_numpy()
        self.b_order, self.c_order = np.argsort(b, kind="stable"), np.argsort(c, kind="stable")
        self.by_b, self.c_by_b = b[self.b_order], c[self.b_order]
        self.by_c, self.b_by_c = c[self.c_order], b[self.c_order]

    def probe(self, on_c: str, c: int, on_b: str, b: int) -> int:
        # An equality is more selective than an inequality; of equals, the index of b.
        if on_c == "=" and on_b != "=":
            found = _found(self.by_c, on_c, c)
            return int(self.c_order[found][_true(self.b_by_c[found], on_b, b)].size)
        found = _found(self.by_b, on_b, b)
        return int(self.b_order[found][_true(self.c_by_b[found], on_c, c)].size)


def _found(sorted_values: Numbers, operator: str, value: int) -> slice:
    first = 0 if operator == "<" else int(np.searchsorted(sorted_values, value))
    return slice(first, int(np.searchsorted(sorted_values, value, side="left" if operator == "<" else "right")))


def _true(values: Numbers, operator: str, value: int) -> npt.NDArray[np.bool_]:
    return values < value if operator == "<" else values == value


def _join(operator: str, stored: int) -> InnerJoin:
    """R.a joined with a column of S: by equality, or by a range."""
    if operator == "=":
        return InnerJoin(LEFT, RIGHT, ((0, stored),), TRUE)
    sides = [Column(BIGINT, 1 + stored, "s"), Column(BIGINT, 0, "a")]
    return InnerJoin(LEFT, RIGHT, (), call("<", sides))


def new_query(workload: str, count: int) -> dict[str, Callable[[], int]]:
    shared, own = WORKLOADS[workload]
    random = np.random.default_rng(1)
    rows = _batch(RIGHT, *(random.integers(0, VALUES, ROWS) for _ in range(2)))
    constant = int(_drawn(shared, own, 1, random)[0]) if shared == "=" else NARROW // 2
    values = _drawn(own, shared, count, random)
    alone, hybrids, join = Separate(rows), _batch(LEFT, values), _join(own, 0)
    condition: Expression = call(shared, [Column(BIGINT, 1, "c"), Literal(BIGINT, constant)])

    def separate() -> int:
        return sum(alone.probe(shared, constant, own, value) for value in values.tolist())

    def composite() -> int:
        wanted = select_true(rows, condition)
        return join.step([hybrids, wanted], NO_STATE, Progress((-1, -1), (0, 0)))[0].height

    return {"separate": separate, "composite": composite}


def new_data(workload: str, count: int) -> dict[str, Callable[[], int]]:
    shared, own = WORKLOADS[workload]
    random = np.random.default_rng(1)
    rows = _batch(RIGHT, *(random.integers(0, VALUES, ROWS) for _ in range(2)))
    value = int(_drawn(shared, own, 1, random)[0]) if shared == "=" else NARROW // 2
    constants = _drawn(own, shared, count, random)
    alone, join, element = Separate(rows), _join(shared, 1), _batch(LEFT, np.array([value]))
    nothing = _batch(LEFT, np.empty(0, np.int64))
    _, state = join.step([nothing, rows], NO_STATE, Progress((-1, -1), (-1, -1)))
    asked: Expression = call(own, [Column(BIGINT, 1, "b"), Parameter(BIGINT, 0)])
    selection = GroupedSelection((*LEFT, *RIGHT), {"q": asked})
    table = {QUERIES: (pl.DataFrame({QUERY: np.arange(count), "c0": constants, SHAPE: "q"}),)}

    def separate() -> int:
        return sum(alone.probe(shared, value, own, constant) for constant in constants.tolist())

    def composite() -> int:
        found, _ = join.step([element, rows.clear()], state, Progress((-1, -1), (-1, -1)))
        selected, _ = selection.step([found], table, Progress((0,), (0,)))
        return int(popcounts(lineage_of(selected)).sum())

    return {"separate": separate, "composite": composite}


def trials(settings: Settings) -> list[Trial]:
    def measure(way: str, workload: str, count: int) -> list[Measurement]:
        runs = (new_query if way == WAYS[0] else new_data)(workload, count)
        assert len({run() for run in runs.values()}) == 1, "different matches"
        timed = {name: partial(sampled, run, count) for name, run in runs.items()}
        best = in_turns(timed, settings.repetitions)
        return [Measurement(f"{way}: {workload}", name, count, sample) for name, sample in best.items()]

    sizes = SIZES[:2] if settings.quick else SIZES
    return [
        Trial(f"{way}, {workload}, {count}", partial(measure, way, workload, count))
        for way in WAYS
        for workload in WORKLOADS
        for count in sizes
    ]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for case in dict.fromkeys(m.case for m in measurements):
        composite, separate = (find(measurements, case, variant) for variant in ("composite", "separate"))
        if composite and separate:
            ratio = separate.nanoseconds / composite.nanoseconds
            found.append(Bar(f"{case}: composite, times as fast", ratio, 1.0))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    cases = dict.fromkeys(m.case for m in measurements)
    panels = [(f"{case}: ms", [m for m in measurements if m.case == case], _milliseconds) for case in cases]
    grid(figure, panels)


def _milliseconds(measurement: Measurement) -> float:
    return 1e3 * measurement.sample.cpu


EXPERIMENT = Experiment("composite_probes", "hybrid structs that probe together or alone", trials, bars, draw)
