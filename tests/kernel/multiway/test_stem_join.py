"""Joins by SteMs: cases a reader learns from, and random ones against a recomputation of every instant."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import batch, check_steps, floats, odd_sizes, run, small, sources, texts
from tests.support.join_conditions import (
    CHAIN,
    CONDITIONS,
    PAIR,
    STAR,
    column,
    compare,
    equal,
    joined,
)

from millstream.kernel.batch import BORN, END, INF, START, WEIGHT
from millstream.kernel.distribution import by_key
from millstream.kernel.eddy.stems import StemExperience
from millstream.kernel.just_in_time.detection import Detection
from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.just_in_time.tally import Tally
from millstream.kernel.just_in_time.variants.bloom import BloomLink
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.scalar.expressions import Call, Expression, Literal, conjunction
from millstream.types import BIGINT, DOUBLE, STRING, Field, Schema


def test_a_combination_lives_while_all_its_rows_do() -> None:
    a = batch(PAIR, [(1, 10, 0, 10, 1)])
    b = batch(PAIR, [(1, 2, 4, 20, 2), (2, 2, 4, 20, 1)])
    c = batch(PAIR, [(2, 30, 6, 8, 3), (2, 31, 10, 20, 1)])
    assert run(StemJoin([PAIR] * 3, CHAIN), [((a, b, c), (6, 6, 6))]) == [[(1, 10, 1, 2, 2, 30, 6, 8, 6)]]


def test_what_arrives_later_finds_what_was_there_whichever_input_it_comes_from() -> None:
    rows = [batch(PAIR, [(1, 1, 0, INF, 1)]), batch(PAIR, [(1, 2, 0, INF, 1)]), batch(PAIR, [(2, 3, 0, INF, 1)])]
    nothing = rows[0].clear()
    for last in range(3):
        first = [nothing if i == last else rows[i] for i in range(3)]
        then = [rows[i] if i == last else nothing for i in range(3)]
        outputs = run(StemJoin([PAIR] * 3, CHAIN), [(first, (-1, -1, -1)), (then, (0, 0, 0))])
        assert outputs == [[], [(1, 1, 1, 2, 2, 3, 0, INF, 1)]]


def test_a_retraction_takes_back_its_combinations_from_then_on() -> None:
    row = batch(PAIR, [(1, 1, 0, INF, 1)])
    gone = batch(PAIR, [(1, 1, 5, INF, -1)])
    outputs = run(StemJoin([PAIR] * 3, STAR), [((row,) * 3, (0,) * 3), ((row.clear(), gone, row.clear()), (5,) * 3)])
    assert outputs == [[(1, 1) * 3 + (0, INF, 1)], [(1, 1) * 3 + (5, INF, -1)]]


def test_a_self_join_sees_each_combination_once_per_order() -> None:
    schema: Schema = (Field("k", BIGINT),)
    first, second = batch(schema, [(1, 0, 9, 1)]), batch(schema, [(1, 3, 12, 1)])
    condition = conjunction([compare("=", 0, 1), compare("=", 1, 2)])
    outputs = run(StemJoin([schema] * 3, condition), [((first,) * 3, (0,) * 3), ((second,) * 3, (3,) * 3)])
    assert outputs == [[(1, 1, 1, 0, 9, 1)], [(1, 1, 1, 3, 12, 1), *[(1, 1, 1, 3, 9, 1)] * 6]]


def test_born_is_the_latest_of_the_components() -> None:
    a = batch(PAIR, [(1, 1, 4, 9, 1, 2)], born=True)
    b = batch(PAIR, [(1, 1, 3, 9, 1, 3)], born=True)
    outputs = run(StemJoin([PAIR] * 3, STAR), [((a, b, a.drop(BORN)), (4, 4, 4))])
    assert outputs == [[(1, 1) * 3 + (4, 9, 1, 3)]]


def test_rows_are_forgotten_when_all_other_inputs_have_passed_them() -> None:
    operator = StemJoin([PAIR] * 3, STAR)
    row, nothing = batch(PAIR, [(1, 1, 0, 5, 1)]), batch(PAIR, [])
    _, state = operator.step((row, nothing, nothing), NO_STATE, Progress((-1,) * 3, (0, 9, 3)))
    assert [segment.height for segment in state["stem 0"]] == [1]
    _, state = operator.step((nothing,) * 3, state, Progress((0, 9, 3), (0, 9, 4)))
    assert state["stem 0"] == ()


def test_rows_that_lack_what_they_are_compared_by_are_not_kept() -> None:
    operator = StemJoin([PAIR] * 2, conjunction([compare("=", 0, 2), compare("<", 1, 3)]))
    rows = batch(PAIR, [(1, None, 0, INF, 1), (None, 1, 0, INF, 1), (1, 1, 0, INF, 1)])
    _, state = operator.step((rows, rows), NO_STATE, Progress((-1, -1), (0, 0)))
    assert [state[name][0].height for name in ("stem 0", "stem 1")] == [1, 1]


def test_the_rows_of_an_input_are_kept_once_however_they_are_looked_for() -> None:
    rows = batch(PAIR, [(1, 1, 0, INF, 1)])
    _, state = StemJoin([PAIR] * 3, CHAIN).step((rows,) * 3, NO_STATE, Progress((-1,) * 3, (0,) * 3))
    assert {name: [s.height for s in segments] for name, segments in state.items() if name != "routing"} == {
        "stem 0": [1],
        "stem 1": [1],
        "stem 2": [1],
    }


@pytest.mark.parametrize(("condition", "stems"), [(STAR, {"stem 0"}), (CHAIN, {"stem 0", "stem 1"})])
def test_inputs_that_are_one_edge_have_one_stem_where_they_keep_the_same(
    condition: Expression, stems: set[str]
) -> None:
    rows = batch(PAIR, [(1, 1, 0, INF, 1)])
    operator = StemJoin([PAIR] * 3, condition, edges=["s", "s", "s"])
    _, state = operator.step((rows,) * 3, NO_STATE, Progress((-1,) * 3, (0,) * 3))
    assert state.keys() - {"routing"} == stems


def test_inputs_of_one_class_are_hashed_by_it_and_others_meet_on_one_shard() -> None:
    copies = tuple(tuple((i, start + i) for i in range(2)) for start in (0, 2, 4))
    assert StemJoin([PAIR] * 3, STAR).distribution == by_key([(0,), (0,), (0,)], *copies)
    assert StemJoin([PAIR] * 3, CHAIN).distribution == by_key([(), (), ()], *copies)


def test_conditions_that_can_fail_are_tested_on_whole_combinations_only() -> None:
    division = compare(">", Call(BIGINT, "/", (column(1), column(3))), Literal(BIGINT, 0))
    a, b = batch(PAIR, [(1, 6, 0, INF, 1)]), batch(PAIR, [(1, 0, 0, INF, 1), (1, 3, 0, INF, 1)])
    c = batch(PAIR, [(3, 9, 0, INF, 1)])
    operator = StemJoin([PAIR] * 3, conjunction([CHAIN, division]))
    assert run(operator, [((a, b, c), (0, 0, 0))]) == [[(1, 6, 1, 3, 3, 9, 0, INF, 1)]]


def test_rows_that_a_stem_has_nothing_for_are_neither_sent_nor_met_until_it_has() -> None:
    """The center of a star: a waits for c, though b has a partner for it."""
    condition = conjunction([compare("=", 0, 2), compare("=", 1, 4)])
    operator = StemJoin([PAIR] * 3, condition, jit=JustInTime(adaptive=False))
    a, nothing = batch(PAIR, [(1, 7, 0, INF, 1)]), batch(PAIR, [])
    b, c = batch(PAIR, [(1, 0, 1, INF, 1)]), batch(PAIR, [(7, 0, 2, INF, 1)])
    state, done, output = NO_STATE, [], nothing
    for time, inputs in enumerate([(a, nothing, nothing), (nothing, b, nothing), (nothing, nothing, c)]):
        output, state = operator.step(inputs, state, Progress((time - 1,) * 3, (time,) * 3))
        tally = Tally.of(state["counts"])
        done.append((output.height, tally.suspended, tally.resumed, tally.waiting))
    assert done == [(0, 1, 0, 1), (0, 1, 0, 1), (1, 1, 1, 0)]
    assert output.rows() == [(1, 7, 1, 0, 7, 0, 2, INF, 1)]


# Routing


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_rows_learn_to_meet_the_selective_stem_first(order: tuple[int, int]) -> None:
    """The center of a star: of its partners one has twenty rows for every key, the other hardly any."""
    condition = conjunction([compare("=", 0, 2), compare("=", 0, 4)])
    many, few = order
    keys = np.arange(100)
    held = {many: np.repeat(keys, 20), few: keys[:5]}
    nothing = batch(PAIR, [])
    stored = [nothing if i == 0 else _rows(held[i], 0) for i in range(3)]
    operator = StemJoin([PAIR] * 3, condition, chunk=100)
    _, state = operator.step(stored, NO_STATE, Progress((-1,) * 3, (0,) * 3))
    for step in range(1, 31):
        _, state = operator.step([_rows(keys, step), nothing, nothing], state, Progress((step - 1,) * 3, (step,) * 3))
    seen = StemExperience.of(3, state["routing"])
    assert seen.probes[0, few] > 3 * seen.probes[0, many]


def _rows(keys: np.ndarray[Any, Any], start: int) -> pl.DataFrame:
    times = np.full(keys.size, start)
    return pl.DataFrame({"c0": keys, "c1": keys, START: times, END: times + 1000, WEIGHT: np.ones_like(times)})


# Against every instant


@pytest.mark.parametrize("name", CONDITIONS)
@settings(deadline=None, max_examples=20)
@given(
    data=st.data(),
    collide=st.booleans(),
    policy=st.sampled_from(["fixed", "random", "ticket"]),
    steps=st.integers(1, 4),
    jit=st.sampled_from([None, JustInTime(), JustInTime(Detection(BloomLink)), JustInTime(adaptive=False)]),
)
def test_any_condition_is_right_at_every_instant(
    name: str, data: st.DataObject, collide: bool, policy: str, steps: int, jit: JustInTime | None
) -> None:
    condition, holds = CONDITIONS[name]
    inputs = [data.draw(sources(st.tuples(small, small), steps, retract=True, size=5)) for _ in range(3)]
    with odd_sizes(collide):
        operator = StemJoin([PAIR] * 3, condition, policy=policy, chunk=2, jit=jit, retracting=frozenset(range(3)))
        check_steps(operator, [PAIR] * 3, inputs, joined(holds), linear=True)


@settings(deadline=None, max_examples=30)
@given(
    data=st.data(),
    collide=st.booleans(),
    steps=st.integers(1, 4),
    width=st.integers(2, 4),
    jit=st.sampled_from([None, JustInTime(adaptive=False)]),
)
def test_keys_of_any_type_are_right_at_every_instant(
    data: st.DataObject, collide: bool, steps: int, width: int, jit: JustInTime | None
) -> None:
    kinds = {STRING: texts, BIGINT: small, DOUBLE: floats}
    kind = data.draw(st.sampled_from(list(kinds)))
    schema: Schema = (Field("k", kind),)
    inputs = [data.draw(sources(st.tuples(kinds[kind]), steps, retract=True, size=5)) for _ in range(width)]
    condition = conjunction([compare("=", i, i + 1, kind) for i in range(width - 1)])
    with odd_sizes(collide):
        operator = StemJoin([schema] * width, condition, chunk=2, jit=jit, retracting=frozenset(range(width)))
        expected = joined(lambda r: all(equal(r[i], r[i + 1]) for i in range(width - 1)))
        check_steps(operator, [schema] * width, inputs, expected, linear=True)


@settings(deadline=None, max_examples=30)
@given(data=st.data(), steps=st.integers(1, 4), name=st.sampled_from(["star", "chain", "two keys", "nothing"]))
def test_self_join_is_right_at_every_instant(data: st.DataObject, steps: int, name: str) -> None:
    source = data.draw(sources(st.tuples(small, small), steps, retract=True, size=6))
    condition, holds = CONDITIONS[name]
    with odd_sizes(collide=False):
        operator = StemJoin([PAIR] * 3, condition, edges=["s", "s", "s"])
        check_steps(operator, [PAIR] * 3, [source] * 3, joined(holds), linear=True)
