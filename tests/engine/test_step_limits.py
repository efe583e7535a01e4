"""What a step takes counts to this step, and to nothing that its thread does before or after."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import millstream as ms
from millstream.kernel.batch import Batch, empty_batch
from millstream.kernel.examples import integers
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.step_limits import StepLimits, limited, make_rows
from millstream.kernel.stepping import stepped


class Making(Operator):
    schema = integers("v")

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        make_rows(self.rows, 1)
        return empty_batch(self.schema), state


def step(rows: int) -> None:
    stepped(Making(rows), [], NO_STATE, Progress((0,), (0,)))


def test_a_step_counts_for_itself() -> None:
    with limited(StepLimits(join_rows=100)):
        for _ in range(3):
            step(60)
        with pytest.raises(ms.EvaluationError, match="more than 100 rows"):
            step(101)
        step(100)


def test_what_comes_after_a_step_is_not_counted_to_it() -> None:
    with limited(StepLimits(join_rows=100)):
        step(60)
        with pytest.raises(ms.EvaluationError):
            step(101)
        for _ in range(3):
            make_rows(60, 1)
