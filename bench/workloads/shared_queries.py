"""Many queries over one stream, as in the CACQ paper: its stream S, its random queries, and its fixed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch, batch_schema, value_column
from millstream.kernel.operator import State
from millstream.kernel.scalar.expressions import Column, Expression, Parameter, conjunction
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.parameters import QUERIES, QUERY, SHAPE, packed
from millstream.types import BIGINT, Field

ATTRIBUTES = "abcde"
SCHEMA = (Field("index", BIGINT), *(Field(name, BIGINT) for name in ATTRIBUTES))
VALUES = 100  # attributes are uniform in [0, 100)
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
