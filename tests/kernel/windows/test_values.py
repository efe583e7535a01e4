"""[RANGE v ON c] holds what its definition says, whatever the batches."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.windows.streams import SCHEMA, WIDTH, Stream, as_batch, streams
from tests.oracle.inputs import Element
from tests.support.instants import Bag, Row, at

from millstream.kernel.batch import START, batch_schema, value_columns
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.kernel.windows.time import RangeOn
from millstream.kernel.windows.values import ElementsLeftOut, ValueWindow


def _left_out(window: RangeOn, elements: list[Element]) -> Counter[tuple[object, ...]]:
    latest: dict[Row, int] = {}
    found = Counter[tuple[object, ...]]()
    for element in sorted(elements, key=lambda element: (element.ts, element.key)):
        part, value = tuple(element.values[index] for index in window.partition), element.values[window.column]
        if value is not None and value >= latest.get(part, value):
            latest[part] = value
        else:
            found[*element.values, latest.get(part), element.ts] += 1
    return found


def _contents(window: RangeOn, elements: list[Element]) -> Bag:
    latest: dict[Row, int] = {}
    taken: list[tuple[Row, int, Row]] = []
    for element in sorted(elements, key=lambda element: (element.ts, element.key)):
        part, value = tuple(element.values[index] for index in window.partition), element.values[window.column]
        if value is not None and value >= latest.get(part, value):
            latest[part] = value
            taken.append((part, value, element.values))
    within = window.within - 1 if window.half_open else window.within
    return Counter(values for part, value, values in taken if latest[part] - value <= within)


@given(
    within=st.integers(0, 3),
    half_open=st.booleans(),
    column=st.sampled_from([0, 1]),
    partition=st.sampled_from([(), (0,), (1,)]),
    stream=streams(),
)
@settings(max_examples=150)
def test_the_window_is_as_defined(
    within: int, half_open: bool, column: int, partition: tuple[int, ...], stream: Stream
) -> None:
    window = RangeOn(column, within, half_open, partition)
    operator, beside = ValueWindow(SCHEMA, window), ElementsLeftOut((*SCHEMA, SCHEMA[column]), window)
    state: State = NO_STATE
    state_beside: State = NO_STATE
    output: list[Row] = []
    left_out = Counter[tuple[object, ...]]()
    before = -1
    for elements, after in zip(stream.elements, stream.frontiers, strict=True):
        new, state = operator.step([as_batch(elements)], state, Progress((before,), (after,)))
        more, state_beside = beside.step([as_batch(elements)], state_beside, Progress((before,), (after,)))
        left_out.update(more.select(*value_columns(WIDTH + 1), START).rows())
        assert left_out == _left_out(window, stream.until(after))
        output += new.select(*batch_schema(SCHEMA)).rows()
        for instant in range(after + 1):
            assert at(output, WIDTH, instant) == _contents(window, stream.until(instant)), f"{window} at {instant}"
        before = after
