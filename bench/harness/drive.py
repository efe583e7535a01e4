"""Runs a lowered query over prepared steps, keeping its answer, and counts what that takes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.harness.answers import Answer
from bench.harness.experiment import Sample
from bench.workloads.network import Step
from bench.workloads.queries import Plan

from millstream.kernel.operator import State
from millstream.kernel.pipeline import run


@dataclass(frozen=True)
class Position:
    """Where a run stands. Nothing in it changes: a run can be repeated from here."""

    answer: Answer
    states: Mapping[str, State] = field(default_factory=dict)

    def rows_of_state(self) -> int:
        segments = (segment for state in self.states.values() for parts in state.values() for segment in parts)
        return sum(segment.height for segment in segments)

    def digest(self) -> tuple[int, int]:
        """Equal for equal answers, in whatever order they are kept."""
        answer = self.answer.read()
        return answer.height, int(answer.hash_rows().sum()) if answer.height else 0


def drive(plan: Plan, position: Position, steps: Sequence[Step]) -> tuple[Position, Sample]:
    """Time is that of the kernel and of keeping the answer; rows held are averages over the steps."""
    kernel = keeping = wall = 0.0
    elements = rows_out = of_state = most = of_answer = 0
    sources = plan.sources
    for step in steps:
        before, after = dict.fromkeys(sources, step.before), dict.fromkeys(sources, step.after)
        wall_begun, begun = time.perf_counter(), time.process_time()
        outcome = run(plan.pipeline, step.arrived, position.states, before, after)
        ran = time.process_time()
        answer = position.answer.updated(outcome.batches[plan.edge], step.after)
        kept = time.process_time()
        wall += time.perf_counter() - wall_begun
        kernel, keeping = kernel + ran - begun, keeping + kept - ran
        position = Position(answer, outcome.states)
        held = position.rows_of_state()
        elements, rows_out = elements + step.elements, rows_out + outcome.batches[plan.edge].height
        of_state, most, of_answer = of_state + held, max(most, held), of_answer + answer.rows()
    count = max(len(steps), 1)
    more = {"kernel_cpu": kernel, "most_rows_held": float(most), "answer_rows": of_answer / count}
    return position, Sample(elements, kernel + keeping, wall, rows_out, of_state / count, more)
