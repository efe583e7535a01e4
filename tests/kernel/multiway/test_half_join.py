"""Half joins: cases a reader learns from, and routes of them against a join by SteMs."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import batch, check_steps, odd_sizes, run, small, sources
from tests.support.join_conditions import CHAIN, PAIR, compare, equal, joined, less

from millstream.kernel.batch import INF, Batch, concat, empty_batch
from millstream.kernel.distribution import by_key
from millstream.kernel.joins.graph import JoinGraph
from millstream.kernel.multiway.half_join import HalfJoin
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.scalar.expressions import Expression, conjunction
from millstream.plan.lowering.routes import by_routes

TRIANGLE = conjunction([CHAIN, compare("=", 5, 1)])
CONDITIONS = {
    "chain": (CHAIN, lambda r: equal(r[0], r[2]) and equal(r[3], r[4])),
    "triangle": (TRIANGLE, lambda r: equal(r[0], r[2]) and equal(r[3], r[4]) and equal(r[5], r[1])),
    "compared": (
        conjunction([CHAIN, compare("<", 1, 5)]),
        lambda r: equal(r[0], r[2]) and equal(r[3], r[4]) and less(r[1], r[5]),
    ),
}


class Routes(Operator):
    """The stops of all routes of a join, run one after the other as the steps of a pipeline are."""

    def __init__(self, condition: Expression) -> None:
        self.steps: list[tuple[str, HalfJoin, tuple[str, str]]] = []
        whole = StemJoin([PAIR] * 3, condition)
        self.schema, self.sources = whole.schema, ("a", "b", "c")
        self.ends = by_routes(whole, self.sources, "q", self._add)

    def _add(self, name: str, half: HalfJoin, *edges: str) -> str:
        self.steps.append((name, half, (edges[0], edges[1])))
        return name

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batches = dict(zip(self.sources, inputs, strict=True))
        before, after = (dict(zip(self.sources, to, strict=True)) for to in (progress.before, progress.after))
        kept: dict[str, tuple[Batch, ...]] = {}
        for name, half, edges in self.steps:
            for frontiers in (before, after):
                frontiers[name] = min(frontiers[edge] for edge in edges)
            reached = Progress(tuple(before[edge] for edge in edges), tuple(after[edge] for edge in edges))
            rows = [batches[edge] for edge in edges]
            batches[name], own = half.step(rows, {"stem": state.get(name, ())}, reached)
            kept[name] = own["stem"]
        return concat([batches[edge] for edge in self.ends], empty_batch(self.schema)), kept


def test_new_rows_of_the_target_are_met_where_they_count_as_there() -> None:
    rows, stored = batch(PAIR, [(1, 10, 0, 10, 1)]), batch(PAIR, [(1, 2, 4, 20, 2)])
    for meets_new, found in ((True, [(1, 10, 1, 2, 4, 10, 2)]), (False, [])):
        half = HalfJoin([PAIR] * 3, CHAIN, (0,), 1, meets_new=meets_new)
        assert run(half, [((rows, stored), (4, 4))]) == [found]


def test_results_have_their_inputs_in_order_whichever_came_first() -> None:
    rows, stored = batch(PAIR, [(1, 2, 0, INF, 1)]), batch(PAIR, [(1, 10, 0, INF, 1)])
    half = HalfJoin([PAIR] * 3, CHAIN, (1,), 0, meets_new=True)
    assert run(half, [((rows, stored), (0, 0))]) == [[(1, 10, 1, 2, 0, INF, 1)]]


def test_rows_of_the_left_are_not_kept() -> None:
    rows, stored = batch(PAIR, [(1, 10, 0, INF, 1)]), batch(PAIR, [(1, 2, 0, INF, 1)])
    half = HalfJoin([PAIR] * 3, CHAIN, (0,), 1, meets_new=True)
    nothing = rows.clear()
    assert run(half, [((rows, nothing), (0, -1)), ((nothing, stored), (0, 0))]) == [[], []]


def test_rows_are_hashed_by_what_is_equal_there() -> None:
    assert HalfJoin([PAIR] * 3, CHAIN, (0,), 1, meets_new=False).distribution.keys == by_key([(0,), (0,)]).keys
    half = HalfJoin([PAIR] * 3, CHAIN, (0, 1), 2, meets_new=False)
    graph = JoinGraph([2, 2, 2], CHAIN)
    (probing,) = graph.access(2, frozenset({0, 1})).probing
    assert half.distribution.keys == ((int(probing[1:]),), (0,))


@settings(deadline=None, max_examples=30)
@given(data=st.data(), collide=st.booleans(), steps=st.integers(1, 4), name=st.sampled_from([*CONDITIONS]))
def test_routes_are_right_at_every_instant(data: st.DataObject, collide: bool, steps: int, name: str) -> None:
    condition, holds = CONDITIONS[name]
    inputs = [data.draw(sources(st.tuples(small, small), steps, retract=True, size=5)) for _ in range(3)]
    with odd_sizes(collide):
        check_steps(Routes(condition), [PAIR] * 3, inputs, joined(holds), linear=True)
