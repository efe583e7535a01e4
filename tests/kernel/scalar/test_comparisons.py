"""Comparisons of numbers with constants, as Polars and the compiled program have them."""

from __future__ import annotations

import polars as pl
import pytest

from millstream.kernel.scalar.comparisons import where_true
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Call, Column, Expression, Literal
from millstream.types import BIGINT, BOOLEAN, DOUBLE

NAN, INF = float("nan"), float("inf")
FUNCTIONS = ["=", "<>", "<", "<=", ">", ">="]


def compared(function: str, column: int, value: float | int) -> Expression:
    kind = DOUBLE if isinstance(value, float) else BIGINT
    return Call(BOOLEAN, function, (Column(kind, column, "x"), Literal(kind, value)))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, INF, 3])
def test_numbers_are_compared_as_the_program_does(function: str, value: float | int) -> None:
    frame = pl.DataFrame({"c0": [0.0, -0.0, 1.5, -INF, INF, 2.0], "c1": [3, 2, 4, -(2**63), 2**63 - 1, 3]})
    condition = compared(function, 0 if isinstance(value, float) else 1, value)
    found = where_true(frame, condition)
    assert found is not None
    assert found.tolist() == evaluate(frame, [condition], ["x"]).to_series().to_list()


def test_not_a_number_and_null_are_left_to_the_program() -> None:
    for values in ([1.0, NAN], [1.0, None]):
        assert where_true(pl.DataFrame({"c0": values}), compared(">", 0, 0.5)) is None
    assert where_true(pl.DataFrame({"c0": [1.0]}), compared(">", 0, NAN)) is None
