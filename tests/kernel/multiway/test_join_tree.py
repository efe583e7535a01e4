"""Join trees of any shape, just in time and not: cases a reader learns from, and random ones against a recomputation of
every instant."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import (
    Row,
    batch,
    check_steps,
    odd_sizes,
    outputs_of,
    random_inputs,
    run,
    small,
    sources,
)
from tests.support.join_conditions import (
    CHAIN,
    CONDITIONS,
    PAIR,
    STAR,
    clique,
    column,
    compare,
    every_two_equal,
    joined,
    shapes,
)
from tests.support.just_in_time import ALWAYS, LATTICE, tally

from millstream.kernel.batch import BORN, INF
from millstream.kernel.just_in_time.detection import Detection
from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.just_in_time.tally import Tally
from millstream.kernel.just_in_time.tree_shape import Nesting, demands_of, left_deep, tree_of
from millstream.kernel.just_in_time.variants.bloom import BloomLink
from millstream.kernel.just_in_time.variants.lattice_gate import Lattice
from millstream.kernel.just_in_time.variants.single import SingleRows
from millstream.kernel.multiway.join_tree import JoinTree
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.scalar.expressions import conjunction
from millstream.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, DataType, Field, Schema

VARIANTS = {
    "off": None,
    "on": ALWAYS,
    "by Bloom filters": JustInTime(Detection(BloomLink), adaptive=False),
    "nothing foreseen": JustInTime(look_ahead=False, adaptive=False),
    "no combinations": JustInTime(SingleRows(), adaptive=False),
    "adaptive": JustInTime(),
    "never again": JustInTime(adaptive=False, again=False),
    "by the lattice": LATTICE,
    "by the lattice and Bloom filters": JustInTime(Lattice(BloomLink), adaptive=False),
    "by the lattice, adaptive": JustInTime(Lattice()),
}
SHAPES_OF_THREE: list[Nesting] = [((0, 1), 2), (0, (1, 2)), ((0, 2), 1)]


# The paper's running example: (A ⋈ B) ⋈ C with A.x = B.x and A.y = C.y

A: Schema = (Field("x", BIGINT), Field("y", BIGINT))
B: Schema = (Field("x", BIGINT), Field("b", BIGINT))
C: Schema = (Field("y", BIGINT),)
EXAMPLE = conjunction([compare("=", 0, 2), compare("=", 1, 4)])


def example(jit: JustInTime | None) -> JoinTree:
    return JoinTree([A, B, C], ((0, 1), 2), EXAMPLE, jit=jit)


def table_1(jit: JustInTime | None, life: int = 300) -> tuple[list[list[Row]], list[Tally]]:
    """Table I, one step per timestamp, and c1 (y = 100) at 4; what each step gave, and what had been done by then.
    There is another c all the time, with an a of its own: without, not only a1 and a2 would have to wait."""
    arriving: list[tuple[list[Row], list[Row], list[Row]]] = [
        ([(9, 7)], [(1, 1), (1, 2), (1, 3)], [(7,)]),
        ([(1, 100)], [], []),
        ([], [(1, 4)], []),
        ([(1, 100)], [], []),
        ([], [], [(100,)]),
    ]
    operator, state, outputs, tallies = example(jit), NO_STATE, [], []
    for time, rows in enumerate(arriving):
        batches = [
            batch(schema, [(*row, time, time + life, 1) for row in new])
            for schema, new in zip((A, B, C), rows, strict=True)
        ]
        output, state = operator.step(batches, state, Progress((time - 1,) * 3, (time,) * 3))
        outputs.append(sorted(output.rows()))
        tallies.append(tally(state))
    return outputs, tallies


def test_table_1_of_the_paper_step_by_step() -> None:
    """a1 meets b1, and is suspended before it meets b2; when it is resumed it meets b2 to b4, and a2 meets b1 to b4.

    In the paper it is the c that a1b1 looks for in vain that suspends a1. We ask before anything is made; so there is
    one (c0) until a1b1 has been made."""
    forever, table = 300, list[tuple[int, str, tuple[int, ...], int]]()
    table += [(0, "A", (9, 7), forever), (0, "C", (7,), forever)]  # c7 and its a: without any c, b1 would have to wait
    table += [(0, "B", (1, 1), forever), (0, "C", (100,), 3)]
    table += [(1, "A", (1, 100), forever), (4, "B", (1, 2), forever), (4, "B", (1, 3), forever)]
    table += [(5, "B", (1, 4), forever), (6, "A", (1, 100), forever), (7, "C", (100,), forever)]
    reference, operator = example(None), example(ALWAYS)
    states, pairs, tallies, made = [NO_STATE, NO_STATE], list[tuple[int, int]](), list[Tally](), list[object]()
    for time in range(8):
        batches = [
            batch(schema, [(*row, t, end, 1) for t, source, row, end in table if (t, source) == (time, name)])
            for name, schema in (("A", A), ("B", B), ("C", C))
        ]
        progress = Progress((time - 1,) * 3, (time,) * 3)
        expected, states[0] = reference.step(batches, states[0], progress)
        output, states[1] = operator.step(batches, states[1], progress)
        assert sorted(output.rows()) == sorted(expected.rows())
        stored = [row for segment in states[1].get("join 0", ()) for row in segment.rows(named=True)]
        now = [(row["_start"], row["c3"]) for row in stored]
        made.append(sorted(pair for pair in now if pair not in pairs))
        pairs = now
        tallies.append(tally(states[1]))
    # The pairs that each step made, by the later arrival of the two and the number of b.
    assert made[:7] == [[], [(1, 1)], [], [], [], [], []]
    assert made[7] == [(4, 2), (4, 3), (5, 4), (6, 1), (6, 2), (6, 3), (6, 4)]
    # c0 waits for a1 to come; b2 and b3 find a1 and are refused; a2 is like a1; both are resumed by c1.
    assert [t.suspended for t in tallies] == [1, 1, 1, 1, 2, 2, 3, 3]
    assert [(t.resumed, t.waiting) for t in tallies] == [(0, 1), (1, 0), (1, 0), (1, 0), (1, 1), (1, 1), (1, 2), (3, 0)]
    # a1 was active from the second step to before the fifth, and is from the eighth on; a2 only is.
    spans = [row for segment in states[1]["waits 0"] for row in segment.rows()]
    assert sorted(row[1:] for row in spans if row[1] > 1) == [(2, 8, 5, 2**31 - 1), (8, 0, 2**31 - 1, 0)]


def test_nothing_is_made_before_its_partner_comes_and_then_everything_once() -> None:
    outputs, tallies = table_1(ALWAYS)
    assert outputs == table_1(None)[0]
    # c1 meets a1 and a2, each with b1 to b4: the paper's seven, and a1b1, which it has made before it was told not to.
    assert [row[3] for row in outputs[4]] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [t.made for t in tallies] == [0, 0, 0, 0, 8]
    assert [t.made for t in table_1(None)[1]] == [0, 3, 4, 8, 8]
    counted = [(t.suspended, t.resumed, t.waiting) for t in tallies]
    assert counted == [(0, 0, 0), (1, 0, 1), (1, 0, 1), (2, 0, 2), (2, 2, 0)]


def test_a_row_that_expires_while_it_waits_costs_nothing_more() -> None:
    outputs, tallies = table_1(ALWAYS, life=3)
    assert outputs == table_1(None, life=3)[0]
    assert tallies[4].made == 1  # a2 with b4: all others have left


def test_who_asks_whom() -> None:
    asked = {
        source: [(demand.kind, sorted(demand.inputs)) for demand in demands]
        for source, demands in demands_of(tree_of((((0, 1), (2, 3)), (4, 5)))).items()
        if isinstance(source, int)
    }
    assert asked == {
        0: [("foreseen", [2, 3])],
        1: [("foreseen", [2, 3])],
        2: [("made", [0, 1])],
        3: [("made", [0, 1])],
        4: [("made", [0, 1, 2, 3])],
        5: [("made", [0, 1, 2, 3])],
    }
    deep = demands_of(tree_of(left_deep(4)))
    assert [[(demand.kind, *demand.inputs) for demand in deep[source]] for source in range(4)] == [
        [("input", 3), ("input", 2)],
        [("input", 3), ("input", 2)],
        [("input", 3), ("arrived", 0), ("arrived", 1)],
        [("arrived", 0), ("arrived", 1), ("arrived", 2)],
    ]


def test_two_sides_do_not_wait_for_each_other() -> None:
    """(A ⋈ B) ⋈ (C ⋈ D): a waits for cd, c for ab; b and d that would make them come while both wait."""
    schemas, condition = clique(4)
    operator = JoinTree(schemas, ((0, 1), (2, 3)), condition, jit=ALWAYS)
    row = (1, 1, 1)
    arriving: list[tuple[int, Row]] = [(0, row), (1, (1, 2, 1)), (2, row), (3, (2, 1, 1)), (1, row), (3, row)]
    state, found = NO_STATE, list[Row]()
    for time, (source, values) in enumerate(arriving):
        batches = [
            batch(schema, [(*values, time, INF, 1)] if number == source else [])
            for number, schema in enumerate(schemas)
        ]
        output, state = operator.step(batches, state, Progress((time - 1,) * 4, (time,) * 4))
        found += output.rows()
    assert found == [(*row * 4, 5, INF, 1)]


def test_a_producer_sleeps_while_there_is_nothing_on_the_other_side() -> None:
    schema: Schema = (Field("k", BIGINT),)
    operator = JoinTree([schema] * 3, ((0, 1), 2), compare("=", 0, 1), jit=ALWAYS)
    rows, nothing = batch(schema, [(1, 0, INF, 1)]), batch(schema, [])
    output, state = operator.step((rows, rows, nothing), NO_STATE, Progress((-1,) * 3, (0,) * 3))
    assert (output.height, tally(state).made, tally(state).waiting) == (0, 0, 2)
    output, state = operator.step((nothing, nothing, rows), state, Progress((0,) * 3, (1,) * 3))
    assert output.rows() == [(1, 1, 1, 0, INF, 1)]
    assert (tally(state).made, tally(state).waiting) == (1, 0)


def test_demands_travel_through_levels() -> None:
    """((A ⋈ B) ⋈ C) ⋈ D: without d no c is admitted, and without c no a."""
    schema: Schema = (Field("k", BIGINT),)
    condition = conjunction([compare("=", n, n + 1) for n in range(3)])
    operator = JoinTree([schema] * 4, left_deep(4), condition, jit=ALWAYS)
    rows, nothing = batch(schema, [(1, 0, INF, 1)]), batch(schema, [])
    _, state = operator.step((rows, rows, rows, nothing), NO_STATE, Progress((-1,) * 4, (0,) * 4))
    assert (tally(state).made, tally(state).waiting) == (0, 3)
    output, state = operator.step((nothing, nothing, nothing, rows), state, Progress((0,) * 4, (1,) * 4))
    assert (output.height, tally(state).made, tally(state).waiting) == (1, 2, 0)


def test_combinations_are_withheld_whose_parts_are_needed_but_not_together() -> None:
    """(A ⋈ B) ⋈ C: there are c for a and c for b, but none for both; then one comes, and finds all of them."""
    schemas, condition = clique(3)  # A (ab, ac), B (ab, bc), C (ac, bc)
    operator = JoinTree(schemas, ((0, 1), 2), condition, jit=ALWAYS)
    nothing = batch(schemas[0], [])
    a = batch(schemas[0], [(1, 1, 0, INF, 1)] * 2 + [(7, 9, 0, INF, 1)])
    b = batch(schemas[0], [(1, 2, 0, INF, 1)] * 3 + [(8, 9, 0, INF, 1)])
    c = batch(schemas[0], [(1, 9, 0, INF, 1), (9, 2, 0, INF, 1)])
    output, state = operator.step((a, b, c), NO_STATE, Progress((-1,) * 3, (0,) * 3))
    assert (output.height, tally(state).made, tally(state).withheld, tally(state).waiting) == (0, 0, 6, 0)
    another = batch(schemas[0], [(1, 1, 1, INF, 1)])
    output, state = operator.step((another, nothing, nothing), state, Progress((0,) * 3, (1,) * 3))
    assert (output.height, tally(state).made, tally(state).withheld) == (0, 0, 9)
    partner = batch(schemas[0], [(1, 2, 2, INF, 1)])
    output, state = operator.step((another.clear(), nothing, partner), state, Progress((1,) * 3, (2,) * 3))
    assert (output.height, tally(state).made) == (9, 9)
    # From now on such combinations are made at once, each once.
    again = batch(schemas[0], [(1, 2, 3, INF, 1)])
    output, state = operator.step((nothing, again, again), state, Progress((2,) * 3, (3,) * 3))
    assert (output.height, tally(state).made) == (9 + 2 * 3, 12)


def test_born_is_the_latest_of_the_components() -> None:
    a = batch(PAIR, [(1, 1, 4, 9, 1, 2)], born=True)
    b = batch(PAIR, [(1, 1, 3, 9, 1, 3)], born=True)
    outputs = run(JoinTree([PAIR] * 3, ((0, 1), 2), STAR, jit=ALWAYS), [((a, b, a.drop(BORN)), (4, 4, 4))])
    assert outputs == [[(1, 1) * 3 + (4, 9, 1, 3)]]


def test_a_row_and_its_retraction_cancel_whenever_they_came() -> None:
    """Otherwise those of a ROWS window would be kept for ever."""
    operator = JoinTree([PAIR] * 3, ((0, 1), 2), CHAIN, jit=ALWAYS, retracting=frozenset({0}))
    nothing, state = batch(PAIR, []), NO_STATE
    for time in range(0, 60, 2):
        # A partner for the row is there as it comes, and not as it is taken back.
        a = batch(PAIR, [(time, 0, time, INF, 1)])
        c = batch(PAIR, [(7, 7, time, time + 1, 1)])
        _, state = operator.step((a, nothing, c), state, Progress((time - 1,) * 3, (time,) * 3))
        gone = batch(PAIR, [(time, 0, time + 1, INF, -1)])
        _, state = operator.step((gone, nothing, nothing), state, Progress((time,) * 3, (time + 1,) * 3))
    assert sum(segment.height for segment in state["rows 0"]) < 10


@pytest.mark.parametrize("kind", [STRING, DOUBLE, DATE, BOOLEAN, DataType("DECIMAL", 5, 1)], ids=str)
@pytest.mark.parametrize(("variant", "count"), [("on", 1), ("by Bloom filters", 1), ("on", 2001)])
def test_keys_of_any_type_find_their_partners(kind: DataType, variant: str, count: int) -> None:
    """By codes of words, one column and two, few rows and as many as Bloom filters are asked for first."""
    jit = VARIANTS[variant]
    values = {STRING: "text", DOUBLE: -0.0, DATE: date(2020, 1, 1), BOOLEAN: True}
    value = values.get(kind, Decimal("1.5"))
    schema: Schema = (Field("k", kind), Field("l", kind))
    for equal_columns in ([0], [0, 1]):
        equalities = [
            compare("=", column(own, kind), column(2 * n + own, kind)) for own in equal_columns for n in (1, 2)
        ]
        rows = batch(schema, [(value, value, 0, INF, 1)] * count)
        one, nothing = batch(schema, [(value, value, 0, INF, 1)]), batch(schema, [])
        for operator in (
            JoinTree([schema] * 3, ((0, 1), 2), conjunction(equalities), jit=jit),
            StemJoin([schema] * 3, conjunction(equalities), jit=jit),
        ):
            outputs = run(operator, [((rows, one, nothing), (0, 0, 0)), ((nothing, nothing, one), (1, 1, 1))])
            assert [len(output) for output in outputs] == [0, count]


# Against every instant


@pytest.mark.parametrize("name", CONDITIONS)
@settings(deadline=None, max_examples=16)
@given(
    data=st.data(),
    collide=st.booleans(),
    shape=st.sampled_from(SHAPES_OF_THREE),
    steps=st.integers(1, 4),
    variant=st.sampled_from(sorted(VARIANTS)),
    retract=st.booleans(),
)
def test_any_condition_is_right_at_every_instant(
    name: str, variant: str, data: st.DataObject, collide: bool, shape: Nesting, steps: int, retract: bool
) -> None:
    condition, holds = CONDITIONS[name]
    inputs = [data.draw(sources(st.tuples(small, small), steps, retract=retract, size=5)) for _ in range(3)]
    retracting = frozenset(range(3) if retract else ())
    with odd_sizes(collide):
        operator = JoinTree([PAIR] * 3, shape, condition, jit=VARIANTS[variant], retracting=retracting)
        check_steps(operator, [PAIR] * 3, inputs, joined(holds), linear=True)


@settings(deadline=None, max_examples=40)
@given(
    data=st.data(),
    steps=st.integers(1, 5),
    count=st.integers(3, 5),
    retract=st.booleans(),
    variant=st.sampled_from(sorted(VARIANTS)),
)
def test_cliques_of_any_shape_are_right_at_every_instant(
    variant: str, data: st.DataObject, steps: int, count: int, retract: bool
) -> None:
    schemas, condition = clique(count)
    values = st.tuples(*[st.sampled_from([0, 0, 1])] * (count - 1))
    inputs = [data.draw(sources(values, steps, retract=retract, size=4)) for _ in range(count)]
    shape = data.draw(shapes(data.draw(st.permutations(range(count)))))
    retracting = frozenset(range(count) if retract else ())
    with odd_sizes(collide=False):
        operator = JoinTree(schemas, shape, condition, jit=VARIANTS[variant], retracting=retracting)
        check_steps(operator, schemas, inputs, joined(every_two_equal(count)), linear=True)


@settings(deadline=None, max_examples=35)
@given(
    data=st.data(),
    steps=st.integers(1, 6),
    count=st.integers(3, 6),
    domain=st.integers(1, 3),
    variant=st.sampled_from(sorted(set(VARIANTS) - {"off"})),
)
def test_every_step_gives_the_same_as_without(
    variant: str, data: st.DataObject, steps: int, count: int, domain: int
) -> None:
    """Not only in the end: nothing is late."""
    schemas, condition = clique(count)
    values = st.tuples(*[st.integers(1, domain)] * (count - 1))
    inputs = [data.draw(sources(values, steps, retract=False, size=5)) for _ in range(count)]
    shape = data.draw(shapes(range(count)))
    with odd_sizes(collide=False):
        results = [
            outputs_of(JoinTree(schemas, shape, condition, jit=jit), schemas, inputs)
            for jit in (None, VARIANTS[variant])
        ]
    assert results[0] == results[1]


SEEDS = st.integers(0, 2**32)
AGAIN = {
    "again": ALWAYS,
    "again, single rows": JustInTime(SingleRows(), adaptive=False),
    "adaptive": JustInTime(),
    "again, by the lattice": LATTICE,
}


@settings(deadline=None, max_examples=10)
@given(data=st.data(), seed=SEEDS, count=st.integers(3, 4), domain=st.integers(2, 3), variant=st.sampled_from([*AGAIN]))
def test_rows_that_are_suspended_again_meet_exactly_what_they_have_not_met(
    data: st.DataObject, seed: int, count: int, domain: int, variant: str
) -> None:
    schemas, condition = clique(count)
    inputs, shape = random_inputs(seed, count, 14, domain), data.draw(shapes(range(count)))
    jit = AGAIN[variant]
    results = [outputs_of(JoinTree(schemas, shape, condition, jit=one), schemas, inputs) for one in (None, jit)]
    assert results[0] == results[1]
