"""CACQ's Tables 1 and 2: what 100,000 queries over five sources take, per source, per query and per element.

Five sources of three attributes; 20,000 queries for each, of one or two predicates. The paper estimates 87,900 bytes
per source, 64 per query and 2,500 per element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, sampled, with_more
from bench.harness.operators import NO_TIME, Stepping
from bench.harness.pictures import bars as draw_bars
from bench.workloads.shared_queries import VALUES, Queries, condition, stream

from millstream.kernel.sharing.index import index_of
from millstream.kernel.sharing.lineage import LINEAGE
from millstream.kernel.sharing.parameters import QUERIES, QUERY, SHAPE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCES, ATTRIBUTES = 5, 3
ROWS = 1_000


def trials(settings: Settings) -> list[Trial]:
    sizes = (1_000,) if settings.quick else (1_000, 10_000, 100_000)
    return [Trial(f"{size:,} queries", lambda size=size: _measured(size)) for size in sizes]  # type: ignore[misc]


def _queries(count: int) -> Queries:
    """Half of the queries have one predicate, half two."""
    random = np.random.default_rng(1)
    shapes, tables = {}, []
    numbers = random.permutation(count)
    kinds = [[a] for a in range(ATTRIBUTES)] + [[a, b] for a in range(ATTRIBUTES) for b in range(a)]
    for number, (attributes, queries) in enumerate(zip(kinds, np.array_split(numbers, len(kinds)), strict=True)):
        name = str(number)
        shapes[name] = condition([(attribute, ">") for attribute in attributes])
        constants = {f"c{i}": random.integers(0, VALUES, queries.size) for i in range(len(attributes))}
        tables.append(pl.DataFrame({QUERY: queries, **constants, SHAPE: name}))
    return Queries(shapes, {QUERIES: tuple(tables)})


def _measured(size: int) -> list[Measurement]:
    queries = _queries(size // SOURCES)
    tables = queries.state[QUERIES]
    index = index_of(queries.shapes, tables).size
    stored = sum(table.estimated_size() for table in tables)
    selection, batch = Stepping(queries.operator(), queries.state), stream(ROWS)
    output, _ = selection.operator.step([batch], queries.state, NO_TIME)
    lineage = output[LINEAGE].estimated_size() / ROWS
    sample = sampled(lambda: selection.step(batch), ROWS)
    kinds = {"per source": index + stored, "per query": (index + stored) * SOURCES / size, "per element": lineage}
    return [Measurement(f"{size:,} queries", name, size, with_more(sample, bytes=n)) for name, n in kinds.items()]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    return []


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.sample.more["bytes"], "bytes")


EXPERIMENT = Experiment(
    "query_storage", "bytes of queries and lineage (CACQ, Tables 1 and 2)", trials, bars, draw, shown=("bytes",)
)
