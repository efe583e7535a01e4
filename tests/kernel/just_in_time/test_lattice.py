"""Minimal sub-tuples that are not demanded: the lattice against the definition, and marks step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import Row, batch, outputs_of, random_inputs
from tests.support.join_conditions import clique, shapes
from tests.support.just_in_time import ALWAYS, LATTICE, tally

from millstream.kernel.batch import END, INF
from millstream.kernel.joins.graph import Access, InputSet, JoinGraph
from millstream.kernel.just_in_time.blacklist import Flags
from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.just_in_time.partners import Link, WordsByColumn, words_of
from millstream.kernel.just_in_time.tally import Tally
from millstream.kernel.just_in_time.tree_shape import Nesting, TreeJoin, left_deep, tree_of
from millstream.kernel.just_in_time.variants import lattice_gate
from millstream.kernel.just_in_time.variants.bloom import BloomLink
from millstream.kernel.just_in_time.variants.lattice import Ends, LatticeNode, SideOfPairs, carrying, nodes_of
from millstream.kernel.just_in_time.variants.lattice_gate import Lattice
from millstream.kernel.just_in_time.variants.marks import Marks
from millstream.kernel.keys import Codes, mixed
from millstream.kernel.multiway.join_tree import JoinTree
from millstream.kernel.operator import NO_STATE, Progress, State

Keys = tuple[int, ...]
SubTuple = tuple[tuple[int, ...], Keys]  # components, and the key of each


@dataclass
class Remembering:
    """What holds rows with one key for each component, and remembers all that it is told."""

    rows: pl.DataFrame
    known: dict[InputSet, set[int]]
    asked: list[tuple[InputSet, int]] = field(default_factory=list)
    found: list[tuple[InputSet, int]] = field(default_factory=list)
    is_resting: bool = False

    def remembers(self, node: LatticeNode) -> bool:
        return node.components in self.known

    def knows(self, node: LatticeNode, codes: Codes) -> Flags:
        known = self.known.get(node.components, set())
        return np.array([int(code) in known for code in codes], np.bool_)

    def marks(self, node: LatticeNode, side: int, codes: Codes) -> Flags:
        return np.ones(codes.size, np.bool_)

    def is_checked(self, node: LatticeNode) -> bool:
        return not self.is_resting

    def demands(self, node: LatticeNode, words: WordsByColumn) -> Flags:
        self.asked += [(node.components, int(code)) for code in mixed(words_of(words, node.columns))]
        return node.to_opposite.has_partner(words, [(self.rows, None)])

    def note(self, node: LatticeNode, codes: Codes, parts: tuple[Codes, Codes], ends: Ends) -> int:
        self.found += [(node.components, int(code)) for code in codes]
        for side, own in zip(node.sides, parts, strict=True):
            assert bool(own.any()) <= bool(side)
        return codes.size

    def count(self, node: LatticeNode, pairs: int, asked: int) -> None:
        assert node.is_whole
        assert asked <= pairs


def minimal(row: Keys, opposite: Sequence[Keys]) -> set[SubTuple]:
    """By the definition: sub-tuples that no row opposite matches, while it matches all their proper parts."""

    def is_demanded(some: tuple[int, ...]) -> bool:
        return any(all(row[n] == other[n] for n in some) for other in opposite)

    everything = [some for size in range(1, len(row) + 1) for some in combinations(range(len(row)), size)]
    unmatched = [some for some in everything if not is_demanded(some)]
    least = [some for some in unmatched if not any(set(other) < set(some) for other in unmatched)]
    return {(some, tuple(row[n] for n in some)) for some in least}


def code(keys: Keys) -> int:
    return int(mixed([np.array([key], np.uint64) for key in keys])[0])


@settings(deadline=None, max_examples=40)
@given(data=st.data(), left=st.integers(1, 3), right=st.integers(1, 2))
def test_the_lattice_finds_what_the_definition_says(data: st.DataObject, left: int, right: int) -> None:
    """Of pairs that carry one within a side, those across are left out: they are not needed anyway."""
    count = left + right
    schemas, condition = clique(count + 1)
    graph = JoinGraph([len(schema) for schema in schemas], condition)
    join = tree_of((left_deep(left), _moved(left_deep(right), left)))
    nodes = nodes_of(graph, join, *_links(graph, join, count))
    assert len(nodes) == (2**count - 1 if count <= 4 else 5 + 10 + 1)
    values = st.lists(st.tuples(*[st.integers(1, 3)] * count), min_size=1, max_size=8)
    combined, opposite = data.draw(values), data.draw(values)
    columns = [f"c{n * count + count - 1}" for n in range(count)]
    rows = pl.DataFrame(combined, schema=columns, orient="row").with_columns(pl.lit(5, pl.Int64).alias(END))
    stored = pl.DataFrame(opposite, schema=[f"c{count * count + n}" for n in range(count)], orient="row")
    stored = stored.with_columns(pl.lit(5, pl.Int64).alias(END))
    pairs = data.draw(st.lists(st.sampled_from([*product(range(len(combined)), repeat=2)]), min_size=1, max_size=20))
    i, j = (np.array(positions, np.intp) for positions in zip(*pairs, strict=True))
    sides = SideOfPairs(rows.select(*columns[:left], END), i), SideOfPairs(rows.select(*columns[left:], END), j)

    expected, carried = set[SubTuple](), []
    for one, other in pairs:
        found = minimal((*combined[one][:left], *combined[other][left:]), opposite)
        within = {(some, keys) for some, keys in found if max(some) < left or min(some) >= left}
        expected |= within or found
        carried.append(bool(found))
    there = Remembering(stored, {})
    assert carrying(nodes, *sides, there).tolist() == carried
    if count <= 4:
        assert set(there.found) == {(frozenset(some), code(keys)) for some, keys in expected}
    assert len(there.found) == len(set(there.found))
    assert len(there.asked) == len(set(there.asked))
    # What is known is not asked for again, nor anything that contains it.
    known: dict[InputSet, set[int]] = {}
    for components, own in there.found:
        known.setdefault(components, set()).add(own)
    again = Remembering(stored, known)
    assert carrying(nodes, *sides, again).tolist() == carried
    assert not again.found
    assert not set(again.asked) & set(there.found)
    # Whoever does not ask for parts any more still knows them, and asks for the whole of what is left.
    resting = Remembering(stored, known, is_resting=True)
    assert carrying(nodes, *sides, resting).tolist() == carried
    assert {components for components, _ in resting.asked} <= {nodes[-1].components}


def _moved(shape: Nesting, by: int) -> Nesting:
    return shape + by if isinstance(shape, int) else (_moved(shape[0], by), _moved(shape[1], by))


def _links(graph: JoinGraph, join: TreeJoin, opposite: int) -> tuple[Link, Link]:
    there = Link.between(graph, frozenset({opposite}), join.inputs, Access())
    return there, there


def test_what_there_is_no_room_for_is_not_remembered() -> None:
    marks = Marks({}, 3)
    some = np.array([5, 3, 9, 7], np.uint64)
    assert marks.add((0, 1), some, (some, some), np.full(4, 10), across=True) == 3
    assert marks.knows((0, 1), some).tolist() == [True, True, True, False]
    marks.remove((0, 1), np.array([3, 4], np.uint64))
    assert marks.knows((0, 1), some).tolist() == [True, False, True, False]
    assert marks.has_part((0, 1), 1, some).tolist() == [True, False, True, False]


def test_sub_tuples_are_known_as_long_as_rows_carry_both_their_parts() -> None:
    marks = Marks({}, 10)
    some = np.array([1, 2, 3], np.uint64)
    marks.add((0, 3), some, (some * 10, some * 100), np.array([4, 5, 6]), across=True)
    lasting = {10: 9, 20: 9, 300: 9, 100: 8, 200: 5, 30: 5}

    def carried(name: tuple[int, int], side: int, codes: Codes) -> Ends:
        assert name == (0, 3)
        return np.array([lasting[int(one)] for one in codes], np.int64)

    ((_, (early,)),) = marks.retained(3, carried)
    assert early[END].to_list() == [4, 5, 6]
    ((_, (kept,)),) = marks.retained(5, carried)
    # 2 has no row on its right side any more; 3 is not looked at, since its pair lasts.
    assert kept.select("_key", END).rows() == [(1, 8), (3, 6)]


# Marks step by step: (A ⋈ B) ⋈ C with A (ab, ac), B (ab, bc), C (ac, bc)


class Steps:
    """A tree, a step at a time."""

    def __init__(self, count: int, shape: object, jit: JustInTime | None = LATTICE) -> None:
        self.schemas, condition = clique(count)
        self.operator = JoinTree(self.schemas, shape, condition, jit=jit)  # type: ignore[arg-type]
        self.state: State = NO_STATE
        self.time = -1

    def step(self, *arriving: tuple[int, Row, int]) -> list[Row]:
        """Of (input, values, life)."""
        self.time += 1
        batches = [
            batch(
                schema,
                [(*row, self.time, INF if life == INF else self.time + life, 1) for n, row, life in arriving if n == s],
            )
            for s, schema in enumerate(self.schemas)
        ]
        count = len(self.schemas)
        progress = Progress((self.time - 1,) * count, (self.time,) * count)
        output, self.state = self.operator.step(batches, self.state, progress)
        return sorted(output.rows())

    @property
    def tally(self) -> Tally:
        return tally(self.state)

    @property
    def marks(self) -> tuple[int, int, int]:
        return self.tally.marks_of_1, self.tally.marks_of_2, self.tally.marks_of_more


A, B, C, D = range(4)
# A c for each of two parts, and an a and a b without which they would have to wait.
BESIDE = (C, (1, 9), INF), (C, (9, 2), INF), (A, (7, 9), INF), (B, (8, 9), INF)


def test_marked_with_marked_is_withheld_and_marked_with_unmarked_is_made() -> None:
    tree = Steps(3, ((0, 1), 2))
    # There are c for a (ac = 1) and for b (bc = 2), but none for both: ab is an MNS, and both carry its mark.
    tree.step((A, (1, 1), INF), (B, (1, 2), INF), *BESIDE)
    assert (tree.tally.made, tree.tally.withheld, tree.marks) == (0, 1, (0, 1, 0))
    # Another a and another b that carry the mark are withheld without asking.
    with patch.object(lattice_gate._Opposite, "demands", side_effect=_single_rows_only):
        tree.step((A, (1, 1), INF))
        tree.step((B, (1, 2), INF))
    assert (tree.tally.made, tree.tally.withheld, tree.marks) == (0, 4, (0, 1, 0))
    # Unmarked with marked is made: bc = 9 with both a, ac = 9 with both b; they are unmarked among each other too, but
    # there is no c for them.
    tree.step((B, (1, 9), INF))
    assert (tree.tally.made, tree.tally.withheld, tree.marks) == (2, 4, (0, 1, 0))
    tree.step((A, (1, 9), INF))
    assert (tree.tally.made, tree.tally.withheld, tree.marks) == (4, 5, (0, 2, 0))
    # c for both comes: what was withheld is made, each once, and the mark is gone.
    found = tree.step((C, (1, 2), INF))
    assert found == [(1, 1, 1, 2, 1, 2, start, INF, 1) for start in (5, 5, 5, 5)]
    assert (tree.tally.made, tree.tally.withheld, tree.marks) == (8, 5, (0, 1, 0))
    # From now on it is made at once.
    assert len(tree.step((A, (1, 1), INF))) == 2 + 1
    assert (tree.tally.made, tree.tally.withheld, tree.marks) == (11, 5, (0, 1, 0))


def test_what_is_like_a_stored_combination_is_made_although_its_partner_has_left() -> None:
    """Otherwise it could not be told from the one that was made when a partner comes."""
    tree, reference = (Steps(3, ((0, 1), 2), jit) for jit in (LATTICE, None))
    arriving: list[list[tuple[int, Row, int]]] = [
        [(A, (1, 1), INF), (B, (1, 2), INF), (C, (1, 2), 2), *BESIDE],
        [],
        [],
        [(A, (1, 1), INF)],
        [(C, (1, 2), INF)],
    ]
    for new in arriving:
        assert tree.step(*new) == reference.step(*new)
    assert (tree.tally.made, tree.tally.withheld, tree.marks) == (2, 0, (0, 0, 0))


def _single_rows_only(node: LatticeNode, words: WordsByColumn) -> Flags:
    assert len(node.components) == 1
    return np.ones(next(iter(words.values())).size, np.bool_)


def test_a_sub_tuple_within_a_side_travels_down_and_everything_is_made_once() -> None:
    """((A ⋈ B) ⋈ C) ⋈ D: ab is made while there is a d for both, and withdrawn when c asks for it in vain."""
    tree, reference = (Steps(4, (((0, 1), 2), 3), jit) for jit in (LATTICE, None))
    # A (ab, ac, ad), B (ab, bc, bd), C (ac, bc, cd), D (ad, bd, cd)
    row = (1, 1, 1)
    # There are always d for a, for b, for c and for the other c, and what these d would have to wait for.
    always = [(D, (1, 7, 1)), (D, (7, 1, 1)), (D, (7, 7, 2)), (A, (5, 5, 7)), (B, (6, 6, 7)), (C, (8, 8, 1))]
    arriving: list[list[tuple[int, Row, int]]] = [
        [(A, row, INF), (B, row, INF), (C, (1, 1, 2), INF), (D, row, 2), *((n, values, INF) for n, values in always)],
        [],
        [],
        [(C, row, INF)],  # the d for both a and b has left
        [(A, row, INF)],
        [(D, row, INF)],
        [(B, row, INF)],
    ]
    made, marks, withdrawn = [], [], []
    for new in arriving:
        assert tree.step(*new) == reference.step(*new)
        made.append(tree.tally.made)
        marks.append(tree.marks)
        withdrawn.append(tree.tally.withdrawn)
    # The other c has no d together with a, nor with b. ab is found where it meets c; it is withdrawn from A ⋈ B, which
    # makes none of the next a.
    assert made[:5] == [1, 1, 1, 1, 1]
    assert withdrawn == [0, 0, 0, 1, 1, 1, 1]
    assert marks == [(0, 2, 0)] * 3 + [(0, 3, 0)] * 2 + [(0, 2, 0)] * 2
    # d comes back: ab twice, and abc twice; the next b meets two a, and c.
    assert (made[5], made[6]) == (5, 9)


@pytest.mark.parametrize("bloom", [False, True])
def test_marks_leave_with_the_rows_that_carry_them(bloom: bool) -> None:
    tree = Steps(3, ((0, 1), 2), JustInTime(Lattice(BloomLink if bloom else Link), adaptive=False))
    tree.step((A, (1, 1), 3), (B, (1, 2), INF), *BESIDE)
    assert tree.marks == (0, 1, 0)
    tree.step((A, (1, 1), 5))
    tree.step()
    tree.step()
    assert tree.marks == (0, 1, 0)  # the second a carries it
    for _ in range(4):
        tree.step()
    assert tree.marks == (0, 0, 0)


@settings(deadline=None, max_examples=8)
@given(data=st.data(), seed=st.integers(0, 2**32), count=st.integers(3, 4))
def test_the_same_is_withheld_as_without_marks(data: st.DataObject, seed: int, count: int) -> None:
    """Where nothing is withdrawn."""
    schemas, condition = clique(count)
    inputs, shape = random_inputs(seed, count, 10, 3), data.draw(shapes(range(count)))
    tallies = []
    for jit in (ALWAYS, LATTICE):
        state = NO_STATE
        operator = JoinTree(schemas, shape, condition, jit=jit)
        with patch.object(lattice_gate, "_WORTH_REWRITING", 0):
            for time in range(10):
                batches = [batch(schema, source.rows[time]) for schema, source in zip(schemas, inputs, strict=True)]
                _, state = operator.step(batches, state, Progress((time - 1,) * count, (time,) * count))
        counted = tally(state)
        tallies.append((counted.made, counted.withheld, counted.suspended, counted.resumed, counted.waiting))
    assert tallies[0] == tallies[1]


def check_withdrawing(data: st.DataObject, seed: int, count: int, room: int, *, bloom: bool = False) -> None:
    schemas, condition = clique(count)
    inputs, shape = random_inputs(seed, count, 12, 3), data.draw(shapes(range(count)))
    variants = (None, JustInTime(Lattice(BloomLink if bloom else Link), adaptive=False))
    with patch.object(lattice_gate, "_WORTH_REWRITING", 10**6), patch.object(lattice_gate, "_LEAST_ROOM", room):
        results = [outputs_of(JoinTree(schemas, shape, condition, jit=jit), schemas, inputs) for jit in variants]
    assert results[0] == results[1]


ROOMS = st.sampled_from([0, 3, 1000])


@settings(deadline=None, max_examples=8)
@given(data=st.data(), seed=st.integers(0, 2**32), count=st.integers(3, 4), room=ROOMS)
def test_whatever_is_withdrawn_every_step_gives_the_same(data: st.DataObject, seed: int, count: int, room: int) -> None:
    check_withdrawing(data, seed, count, room)


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(data=st.data(), seed=st.integers(0, 2**32), count=st.integers(3, 5), room=ROOMS, bloom=st.booleans())
def test_whatever_is_withdrawn_in_many_cases(
    data: st.DataObject, seed: int, count: int, room: int, bloom: bool
) -> None:
    check_withdrawing(data, seed, count, room, bloom=bloom)
