"""Rows of SteMs that are suspended again when their partners have left: who, by which turns, and that nothing is lost
or made twice."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import Row, Source, batch, check_steps, odd_sizes, outputs_of, random_inputs, sources
from tests.support.join_conditions import PAIR, clique, compare, every_two_equal, joined
from tests.support.just_in_time import ALWAYS

from millstream.kernel.batch import INF
from millstream.kernel.just_in_time import resuspension as resuspension
from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.just_in_time.resuspension import Resuspension
from millstream.kernel.just_in_time.tally import Tally
from millstream.kernel.keys import key_codes
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.scalar.expressions import conjunction

CENTER = conjunction([compare("=", 0, 2), compare("=", 1, 4)])  # a.k = b.k, a.x = c.k


def stepped(
    operator: Operator, table: list[tuple[int, int, Row]], times: int
) -> tuple[list[list[Row]], list[tuple[int, int, int]], State]:
    """Rows (time, input, row) in a step for each time: what each gave, and (suspended, resumed, waiting) by then."""
    state, outputs, counts = NO_STATE, [], []
    for time in range(times):
        inputs = [batch(PAIR, [row for t, source, row in table if (t, source) == (time, one)]) for one in range(3)]
        output, state = operator.step(inputs, state, Progress((time - 1,) * 3, (time,) * 3))
        tally = Tally.of(state.get("counts", ()))
        outputs.append(sorted(output.rows()))
        counts.append((tally.suspended, tally.resumed, tally.waiting))
    return outputs, counts, state


LEAVING: list[tuple[int, int, Row]] = [
    (0, 0, (1, 7, 0, INF, 1)),  # a
    (0, 1, (1, 10, 0, INF, 1)),  # its b
    (0, 2, (7, 20, 0, 2, 1)),  # its c, which leaves
    (3, 2, (8, 0, 3, INF, 1)),  # a c that nobody needs, with which it is a's turn
    (4, 1, (1, 11, 4, INF, 1)),
    (5, 2, (7, 21, 5, INF, 1)),  # another c for a
]


def test_a_row_waits_again_when_a_stem_has_nothing_for_it_any_more() -> None:
    outputs, counts, _ = stepped(StemJoin([PAIR] * 3, CENTER, jit=ALWAYS), LEAVING, 6)
    assert outputs == stepped(StemJoin([PAIR] * 3, CENTER, jit=JustInTime(again=False)), LEAVING, 6)[0]
    assert outputs[0] == [(1, 7, 1, 10, 7, 20, 0, 2, 1)]
    assert outputs[5] == [(1, 7, 1, 10, 7, 21, 5, INF, 1), (1, 7, 1, 11, 7, 21, 5, INF, 1)]
    # The c that nobody needs waits, and a with it; b finds a though it waits; the last c puts a back.
    assert counts == [(0, 0, 0), (0, 0, 0), (0, 0, 0), (2, 0, 2), (2, 0, 2), (2, 1, 1)]


def test_a_row_that_may_be_taken_back_stays_in_with_its_retraction() -> None:
    operator = StemJoin([PAIR] * 3, CENTER, jit=ALWAYS, retracting=frozenset({0}))
    outputs, counts, state = stepped(operator, [*LEAVING, (6, 0, (1, 7, 6, INF, -1))], 7)
    assert [count[2] for count in counts] == [0, 0, 0, 1, 1, 1, 1]  # the c that nobody needs
    assert [(row[3], row[-1]) for row in outputs[6]] == [(10, -1), (11, -1)]
    assert not any(segment.height for segment in state["stem 0"])


def test_partners_that_were_taken_back_are_missed() -> None:
    table = [(time, source, row) for time, source, row in LEAVING if (time, source) != (0, 2)]
    table += [(0, 2, (7, 20, 0, INF, 1)), (2, 2, (7, 20, 2, INF, -1))]
    operator = StemJoin([PAIR] * 3, CENTER, jit=ALWAYS, retracting=frozenset({2}))
    outputs, counts, _ = stepped(operator, table, 6)
    assert outputs == stepped(StemJoin([PAIR] * 3, CENTER), table, 6)[0]
    assert counts[-1] == (2, 1, 1)


@pytest.mark.parametrize("share", [1, 7, 100])
def test_a_round_asks_every_row_once_however_segments_are_merged(share: int) -> None:
    rows = batch(PAIR, [(n, n, 0, INF, 1) for n in range(100)])
    codes = np.sort(key_codes(rows, ["c0"]))
    order = Resuspension(np.zeros(1))
    asked = np.zeros(100, np.int64)
    with patch.object(resuspension, "_FEWEST", share):
        while order.rounds[0] < 1:
            chosen = order.take([0], [100], 0)
            past = 2**64 if chosen.past is None else chosen.past
            asked += [chosen.first <= int(code) < past for code in codes]
            order = Resuspension.of(1, [order.segment()])
    assert (asked == 1).all()


def test_the_stem_that_was_gone_through_least_is_next() -> None:
    order = Resuspension(np.zeros(3))
    with patch.object(resuspension, "_FEWEST", 10):
        taken = [order.take([0, 2], [20, 50, 40], 10).stem for _ in range(8)]
    assert taken == [0, 2, 2, 0, 2, 2, 0, 2]


def test_rows_of_a_late_input_meet_what_lasts_no_longer_for_others() -> None:
    """c comes when a and b are far ahead: no row of theirs may be suspended since it has ended for what they bring."""
    early: list[Row] = [(1, 7, 0, 3, 1), (2, 8, 20, 23, 1)]
    a, b, c = batch(PAIR, early), batch(PAIR, early), batch(PAIR, [(7, 0, 0, 3, 1)])
    nothing, operator, state, before = a.clear(), StemJoin([PAIR] * 3, CENTER, jit=ALWAYS), NO_STATE, (-1, -1, -1)
    for inputs, after in [((nothing, b, nothing), (-1, 20, -1)), ((a, nothing, nothing), (20, 20, -1))]:
        _, state = operator.step(inputs, state, Progress(before, after))
        before = after
    output, _ = operator.step((nothing, nothing, c), state, Progress(before, (20, 20, 0)))
    assert output.rows() == [(1, 7, 1, 7, 7, 0, 0, 3, 1)]


def lagging(source: Source, steps: int) -> Source:
    """The same, so many steps later."""
    rows = [*([] for _ in range(steps)), *source.rows]
    return Source(rows[: len(source.rows)], [-1] * steps + source.frontiers[: len(source.rows) - steps])


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 2**32),
    lags=st.lists(st.sampled_from([0, 0, 1, 5]), min_size=4, max_size=4),
    count=st.integers(3, 4),
    domain=st.integers(2, 3),
    fewest=st.sampled_from([1, 3, 256]),
    policy=st.sampled_from(["ticket", "fixed"]),
    jit=st.sampled_from([ALWAYS, JustInTime()]),
)
def test_every_step_gives_the_same_as_without(
    seed: int, lags: list[int], count: int, domain: int, fewest: int, policy: str, jit: JustInTime
) -> None:
    schemas, condition = clique(count)
    inputs = [lagging(*late) for late in zip(random_inputs(seed, count, 14, domain), lags, strict=False)]
    with patch.object(resuspension, "_FEWEST", fewest), odd_sizes(collide=False):
        results = [
            outputs_of(StemJoin(schemas, condition, policy=policy, chunk=2, jit=one), schemas, inputs)
            for one in (None, jit)
        ]
    assert results[0] == results[1]


@settings(deadline=None, max_examples=20)
@given(
    data=st.data(),
    steps=st.integers(2, 5),
    count=st.integers(3, 4),
    retracting=st.sets(st.integers(0, 3)),
    collide=st.booleans(),
    fewest=st.sampled_from([1, 256]),
)
def test_whoever_takes_rows_back_it_is_right_at_every_instant(
    data: st.DataObject, steps: int, count: int, retracting: set[int], collide: bool, fewest: int
) -> None:
    schemas, condition = clique(count)
    values = st.tuples(*[st.sampled_from([0, 0, 1])] * (count - 1))
    inputs: list[Source] = [
        data.draw(sources(values, steps, retract=source in retracting, size=5)) for source in range(count)
    ]
    with patch.object(resuspension, "_FEWEST", fewest), odd_sizes(collide):
        operator = StemJoin(schemas, condition, jit=ALWAYS, retracting=frozenset(retracting & set(range(count))))
        check_steps(operator, schemas, inputs, joined(every_two_equal(count)), linear=True)
