"""Comparisons of numbers with constants, and AND and OR of them, without a query of Polars.

Most conditions of most queries are made of these, and most batches are small.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, reduce

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.scalar.expressions import Call, Column, Expression, Literal, memoized
from millstream.types import DOUBLE

Bools = npt.NDArray[np.bool_]
Test = Callable[[pl.DataFrame], Bools | None]

_COMPARED = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMBINED = {"and": np.logical_and, "or": np.logical_or}
_DEEPEST = 8


def where_true(frame: pl.DataFrame, condition: Expression) -> Bools | None:
    """The rows on which a condition is true; None where it is not made of such comparisons, or a column has NULLs."""
    test: Test = memoized(condition, "test", partial(_test, deepest=_DEEPEST))
    return test(frame)


def _test(condition: Expression, deepest: int) -> Test:
    if not isinstance(condition, Call) or not deepest:
        return _unknown
    if condition.function in _COMBINED:
        parts = [_test(argument, deepest - 1) for argument in condition.arguments]
        return _unknown if _unknown in parts else partial(_combined, condition.function, parts)
    if condition.function not in _COMPARED:
        return _unknown
    function, (left, right) = condition.function, condition.arguments
    if isinstance(left, Literal):
        function, left, right = _FLIPPED[function], right, left
    if not (isinstance(left, Column) and isinstance(right, Literal)):
        return _unknown
    if left.type.is_integer and right.type.is_integer and type(right.value) is int:
        return partial(_compared, value_column(left.index), _COMPARED[function], right.value)
    if left.type == right.type == DOUBLE and type(right.value) is float and right.value == right.value:
        return partial(_compared_reals, value_column(left.index), _COMPARED[function], right.value)
    return _unknown


def _unknown(frame: pl.DataFrame) -> Bools | None:
    return None


def _compared(name: str, compare: Callable[..., Bools], constant: int, frame: pl.DataFrame) -> Bools | None:
    column = frame.get_column(name)
    return None if column.null_count() else compare(column.to_numpy(), constant)


def _compared_reals(name: str, compare: Callable[..., Bools], constant: float, frame: pl.DataFrame) -> Bools | None:
    column = frame.get_column(name)
    values = column.to_numpy()
    if column.null_count() or np.isnan(values).any():  # NaN is greater than all, which NumPy does not know
        return None
    return compare(values, constant)


def _combined(function: str, parts: list[Test], frame: pl.DataFrame) -> Bools | None:
    found = [part(frame) for part in parts]
    known = [rows for rows in found if rows is not None]
    return reduce(_COMBINED[function], known) if len(known) == len(parts) else None
