"""Two producers of A ⋈ B that were asked for different rows become one: both have made the same by then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from tests.support.instants import Row, batch
from tests.support.join_conditions import compare
from tests.support.just_in_time import A, B, S, Y

from millstream.kernel.just_in_time.consumers import Alternatives, Consumer
from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.just_in_time.producers import OTHER, Producer, ProducerOutput
from millstream.kernel.multiway.join_tree import JoinTree
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.kernel.pipeline import Pipeline, Step
from millstream.kernel.relational.linear import Project
from millstream.kernel.scalar.expressions import Column
from millstream.types import BIGINT

END = 100
ONE, OTHERS = Consumer("one", S, (Y,)), Consumer("others", S, (Y,))
JIT, EQUAL = JustInTime(adaptive=False), compare("=", 0, 2)
MAKERS: dict[str, Callable[[Alternatives], Producer]] = {
    "tree": lambda asked: JoinTree([A, B], (0, 1), EQUAL, jit=JIT, alternatives=asked),
    "stems": lambda asked: StemJoin([A, B], EQUAL, jit=JIT, alternatives=asked),
}


class Run:
    def __init__(self, producer: Producer) -> None:
        self.producer, self.state = producer, NO_STATE

    def step(self, time: int, *rows: Sequence[Row], producer: Producer | None = None) -> list[Row]:
        """Rows start now, and time passes unless it is a step in which producers are united."""
        schemas = [A, B, *(S for _ in self.producer.consumer_inputs)]
        batches = [
            batch(schema, [(*row, time, END, 1) for row in new])
            for schema, new in zip(schemas, [*rows, *([] for _ in schemas[len(rows) :])], strict=True)
        ]
        reached = time - 1 if producer is None else time
        progress = Progress((reached,) * len(schemas), (time,) * len(schemas))
        made, self.state = (producer or self.producer).step(batches, self.state, progress)
        return sorted(row[:4] for row in made.rows())

    def unite(self, time: int, other: State, admitting: str) -> list[Row]:
        self.state = {**self.state, **{f"{OTHER}{name}": rows for name, rows in other.items()}}
        return self.step(time, producer=self.producer.merging_with(admitting))


def alternatives(*consumers: Consumer) -> Alternatives:
    return tuple((consumer,) for consumer in consumers)


@pytest.mark.parametrize("kind", sorted(MAKERS))
@pytest.mark.parametrize("admitting", ["other", "all"])
def test_each_makes_what_the_other_has_made_and_then_they_are_one(kind: str, admitting: str) -> None:
    ours, theirs = (Run(MAKERS[kind](alternatives(consumer))) for consumer in (ONE, OTHERS))
    a, b = [(1, 7), (2, 8), (3, 9)], [(1, 10), (2, 20), (3, 30)]
    assert ours.step(0, a, b, [(7,)]) == [(1, 7, 1, 10)]
    assert theirs.step(0, a, b, [(8,)]) == [(2, 8, 2, 20)]
    before = ours.state, theirs.state
    rest = [(3, 9, 3, 30)] if admitting == "all" else []
    assert ours.unite(0, before[1], admitting) == [(2, 8, 2, 20), *rest]
    assert theirs.unite(0, before[0], admitting) == [(1, 7, 1, 10), *rest]
    asked = {name: rows for name, rows in theirs.state.items() if name.startswith("asked")}
    both = Run(ours.producer.for_consumers(alternatives(ONE, OTHERS)))
    both.state = {**asked, **ours.state}
    # What was made is not made again; what nobody needs still waits, if it did.
    assert both.step(1, [], [(2, 21)], [], []) == [(2, 8, 2, 21)]
    assert both.step(2, [], [], [], [(9,)]) == ([(3, 9, 3, 30)] if admitting == "other" else [])
    assert both.step(3, [(4, 7)], [(4, 40)], [], [(9,)]) == [(4, 7, 4, 40)]


def test_a_pipeline_tells_producers_who_takes_their_rows() -> None:
    taken = {name: ProducerOutput((*A, *B), alternatives(consumer)) for name, consumer in (("p", ONE), ("q", OTHERS))}
    made = Step("made", MAKERS["tree"](()), ("a", "b"))
    first = Pipeline((made, Step("p", taken["p"], ("made",), awaited=("one",))))
    both = first.with_steps((Step("q", taken["q"], ("made",), awaited=("others",)),))
    told = {step.name: step for step in both.steps}
    assert told["made"].read == ("a", "b", "one", "others")
    assert told["made"].needed == ("a", "b")
    assert both.edges_below("p") == {"p", "made", "a", "b", "one"}
    assert {step.name: step for step in both.without(["q"]).steps}["made"].consumer_edges == ("one",)


def test_what_is_asked_by_is_made_before_the_producer() -> None:
    column = Column(BIGINT, 0, "y")
    late = Consumer("made late", S, (Y,))
    steps = (
        Step("made", MAKERS["tree"](()), ("a", "b")),
        Step("p", ProducerOutput((*A, *B), alternatives(late)), ("made",), awaited=("made late",)),
        Step("made late", Project(S, (column,)), ("s",)),
    )
    names = [step.name for step in Pipeline(steps).steps]
    assert names == ["made late", "made", "p"]


@pytest.mark.parametrize("generated", [False, True])
def test_who_takes_rows_has_them_from_its_first_open_instant_on(generated: bool) -> None:
    """Of a row that waited until now nobody wanted what is past; if it counts when it was generated, none of it."""
    rows = batch(S, [(1, 2, 9, 1), (2, 2, 5, -1), (3, 7, 8, 1)])
    output, state = ProducerOutput(S, ((),), generated=generated).step([rows], NO_STATE, Progress((4,), (6,)))
    assert output.rows() == ([(3, 7, 8, 1)] if generated else [(1, 5, 9, 1), (3, 7, 8, 1)])
    assert state == NO_STATE
