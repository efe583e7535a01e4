"""Conditions with parameters: what each query of a shape has its own value for.

A query table has a row per query: its number, its shape, and the values of its parameters as columns c0, c1, ...
Queries of many shapes are in one segment where the types of their parameters are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from millstream.kernel.keys import Positions
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.compiler import compile_expressions
from millstream.kernel.scalar.expressions import Column, Expression, Literal, Parameter
from millstream.kernel.scalar.functions_user import UserCall
from millstream.kernel.sharing.identity import Recent, serial_of

QUERY, SHAPE = "query", "shape"
QUERIES = "queries"  # the synopsis in which an operator finds its query table

ByShape = Mapping[str, Sequence[pl.DataFrame]]

_parted: Recent[dict[str, pl.DataFrame]] = Recent(
    1 << 28, lambda parts: 256 + sum(int(part.estimated_size()) for part in parts.values())
)


def by_shape(segments: Iterable[Segment]) -> dict[str, list[pl.DataFrame]]:
    """The rows of a query table by shape. The frames are the same ones each time."""
    found: dict[str, list[pl.DataFrame]] = {}
    for segment in segments:
        for shape, rows in _parted.get(serial_of(segment), lambda segment=segment: _parts(segment)).items():  # type: ignore[misc]
            found.setdefault(shape, []).append(rows)
    return found


def _parts(segment: Segment) -> dict[str, pl.DataFrame]:
    if not segment.height:
        return {}
    first = segment[SHAPE][0]
    if segment.height == 1 or bool((segment[SHAPE] == first).all()):
        return {first: segment}
    parts = segment.partition_by(SHAPE, maintain_order=True)
    return {part[SHAPE][0]: part for part in parts}


def shapes_of(segment: Segment) -> tuple[tuple[str, ...], Positions]:
    """The shapes of a segment, and which of them each row is of."""
    shapes = segment[SHAPE]
    names = shapes.unique(maintain_order=True)
    if names.len() <= 1:
        return tuple(names), np.zeros(segment.height, np.intp)
    return tuple(names), shapes.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.intp)


def packed(tables: Iterable[pl.DataFrame]) -> list[pl.DataFrame]:
    """Rows of query tables in as few segments as their columns allow."""
    alike: dict[tuple[tuple[str, pl.DataType], ...], list[pl.DataFrame]] = {}
    for rows in tables:
        if rows.height:
            alike.setdefault(tuple(rows.schema.items()), []).append(rows)
    # In one piece each: rows come one by one, and what is written stays in memory as it was.
    return [pl.concat(found, rechunk=True) if len(found) > 1 else found[0] for found in alike.values()]


def parameters_as_columns(expression: Expression, width: int) -> Expression:
    """The same expression over a row of `width` columns that is followed by the values of the parameters."""

    def change(node: Expression) -> Expression:
        return Column(node.type, width + node.index, str(node)) if isinstance(node, Parameter) else node

    return expression.transform(change)


def with_values(expression: Expression, values: Sequence[object]) -> Expression:
    """The expression of a single query, given the values of its parameters."""

    def change(node: Expression) -> Expression:
        return Literal(node.type, values[node.index]) if isinstance(node, Parameter) else node

    return expression.transform(change)


def parameters_used(expression: Expression) -> set[int]:
    return {node.index for node in expression.walk() if isinstance(node, Parameter)}


def never_fails(expression: Expression) -> bool:
    """Whether the expression has a value on every row: no cast that may not fit, no division, no user's code.

    What can fail must not be evaluated on rows that its query would have left out before.
    """
    if not expression.children:
        return True
    if any(isinstance(node, UserCall) for node in expression.walk()):
        return False
    columns = [node.index for node in expression.walk() if isinstance(node, Column)]
    return not compile_expressions((parameters_as_columns(expression, max(columns, default=-1) + 1),)).checks
