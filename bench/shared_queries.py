"""Many queries over one stream, as in the CACQ paper: its stream S, its random queries, and its fixed ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import polars as pl
from bench.experiment import Sample

from millstream.kernel.batch import Batch, batch_schema, value_column
from millstream.kernel.eddy.filters import Memory
from millstream.kernel.eddy.policies import policy
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.scalar.expressions import Column, Expression, Parameter, conjunction
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing.eddy import Eddy
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.index import index_of
from millstream.kernel.sharing.parameters import QUERIES, QUERY, SHAPE, by_shape, packed
from millstream.kernel.sharing.predicates import shape_of
from millstream.types import BIGINT, Field

ATTRIBUTES = "abcde"
SCHEMA = (Field("index", BIGINT), *(Field(name, BIGINT) for name in ATTRIBUTES))
VALUES = 100  # attributes are uniform in [0, 100)
NO_TIME = Progress((0,), (0,))
_OPERATORS = ("", "<", ">", "<=", ">=")

Predicate = tuple[int, str, int]  # attribute, operator, constant
Ranges = Sequence[tuple[int, int]]


def stream(rows: int, seed: int = 1, ranges: Ranges = ((0, VALUES),) * 5) -> Batch:
    """Elements of S with attributes uniform in the ranges."""
    random = np.random.default_rng(seed)
    values = {value_column(i + 1): random.integers(low, high, rows) for i, (low, high) in enumerate(ranges)}
    columns = {value_column(0): np.arange(rows), **values, "_start": 0, "_end": 1, "_weight": 1}
    return pl.DataFrame(columns, schema=batch_schema(SCHEMA))


@dataclass(frozen=True)
class Queries:
    """Conditions by the name of their shape, and the query tables."""

    shapes: Mapping[str, Expression]
    state: State

    def operator(self, routing: str = "ticket") -> GroupedSelection:
        return GroupedSelection(SCHEMA, self.shapes, routing)


def condition(predicates: Sequence[tuple[int, str]]) -> Expression:
    """attribute operator ?, and so on."""
    parts = [
        call(operator, [Column(BIGINT, attribute + 1, ATTRIBUTES[attribute]), Parameter(BIGINT, place)])
        for place, (attribute, operator) in enumerate(predicates)
    ]
    return conjunction(parts)


def fixed_queries(queries: Mapping[int, Sequence[Predicate]]) -> Queries:
    """Queries by their numbers."""
    shapes, tables = {}, []
    for number, predicates in queries.items():
        name = str(number)
        shapes[name] = condition([(attribute, operator) for attribute, operator, _ in predicates])
        constants = {value_column(i): [constant] for i, (_, _, constant) in enumerate(predicates)}
        tables.append(pl.DataFrame({QUERY: [number], **constants, SHAPE: name}))
    return Queries(shapes, {QUERIES: tuple(packed(tables))})


def random_queries(count: int, seed: int = 1) -> Queries:
    """Each attribute has a predicate with probability 1/2: one of <, >, <=, >= with a constant in [0, 100)."""
    random = np.random.default_rng(seed)
    operators = np.where(random.random((count, 5)) < 0.5, random.integers(1, 5, (count, 5)), 0)
    constants = random.integers(0, VALUES, (count, 5))
    kinds, shape_of_query = np.unique(operators @ 5 ** np.arange(5), return_inverse=True)
    order = np.argsort(shape_of_query, kind="stable")
    shapes, tables = {}, []
    for rows in np.split(order, np.cumsum(np.bincount(shape_of_query, minlength=kinds.size))[:-1]):
        asked = np.flatnonzero(operators[rows[0]]).tolist()
        predicates = [(attribute, _OPERATORS[operators[rows[0], attribute]]) for attribute in asked]
        name = " and ".join(ATTRIBUTES[attribute] + operator for attribute, operator in predicates)
        shapes[name] = condition(predicates)
        values = {value_column(i): constants[rows, attribute] for i, attribute in enumerate(asked)}
        tables.append(pl.DataFrame({QUERY: rows.astype(np.int64), **values, SHAPE: name}))
    return Queries(shapes, {QUERIES: tuple(packed(tables))})


def sampled(run: Callable[[], int], elements: int) -> Sample:
    """One run, which says how many rows it gave."""
    cpu, wall = time.process_time(), time.perf_counter()
    rows_out = run()
    return Sample(elements, time.process_time() - cpu, time.perf_counter() - wall, rows_out)


class Stepping:
    """An operator that gets one batch after the other; what it learns goes from step to step."""

    def __init__(self, operator: Operator, state: State) -> None:
        self.operator = operator
        self.state = dict(state)

    def step(self, batch: Batch) -> int:
        output, learnt = self.operator.step([batch], self.state, NO_TIME)
        self.state |= learnt
        return output.height


class Routed:
    """The eddy alone: which filters rows enter, and who holds the tickets."""

    def __init__(self, routing: str, seed: int = 1) -> None:
        self.policy, self.seeds = policy(routing), count(seed * 1_000_000, 10_000)
        self.memory = Memory()

    def step(self, queries: Queries, batch: Batch) -> dict[str, int]:
        """How many rows entered each filter."""
        tables = [
            (shape_of(queries.shapes[name]), rows)
            for name, found in by_shape(queries.state[QUERIES]).items()
            for rows in found
        ]
        index = index_of(tables)
        ranks: list[npt.NDArray[np.intp]] = [axis.ranks(batch) for axis in index.axes]
        eddy = Eddy(self.policy, self.memory, next(self.seeds))
        for block in index.blocks:
            eddy.route(block, ranks, np.empty((batch.height, block.members.size), np.uint64))
        return eddy.entered
