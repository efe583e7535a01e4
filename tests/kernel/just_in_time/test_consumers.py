"""Consumers of a tree, step by step: A ⋈ B by x, of which something above needs only some rows, by A.y."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.support.instants import Row, batch
from tests.support.join_conditions import compare
from tests.support.just_in_time import A, B, S, Y

from millstream.kernel.just_in_time.consumers import Consumer
from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.just_in_time.producers import ProducerOutput
from millstream.kernel.just_in_time.tally import Tally
from millstream.kernel.multiway.join_tree import JoinTree
from millstream.kernel.operator import NO_STATE, Progress, State

FOREVER = 1000
SOME = Consumer("S", S, (Y,))


class Stepped:
    """Takes what comes at each instant: of A, of B, and of what each consumer asks by."""

    def __init__(self, *alternatives: Sequence[Consumer], generated: bool = False) -> None:
        jit, condition = JustInTime(adaptive=False), compare("=", 0, 2)
        asked = tuple(map(tuple, alternatives))
        self.tree = JoinTree([A, B], (0, 1), condition, None, jit, alternatives=asked)
        self.taken = ProducerOutput(self.tree.schema, asked, generated=generated)
        self.state: State = NO_STATE
        self.time = 0

    def step(self, *rows: Sequence[Row]) -> list[Row]:
        """Rows start now and have an end and a weight."""
        time, schemas = self.time, [A, B, *(S for _ in self.tree.consumer_inputs)]
        batches = [
            batch(schema, [(*row[:-2], time, *row[-2:]) for row in new])
            for schema, new in zip(schemas, rows, strict=True)
        ]
        progress = Progress((time - 1,) * len(schemas), (time,) * len(schemas))
        made, self.state = self.tree.step(batches, self.state, progress)
        output, _ = self.taken.step([made], NO_STATE, progress)
        self.time += 1
        assert (output["_start"] >= time).all()
        return sorted(output.rows())

    @property
    def counts(self) -> tuple[int, int]:
        tally = Tally.of(self.state["counts"])
        return tally.suspended, tally.resumed


A1, A2, B1, B2 = (1, 7, FOREVER, 1), (1, 8, FOREVER, 1), (1, 1, FOREVER, 1), (1, 2, FOREVER, 1)


def test_rows_wait_for_a_key_and_are_there_from_then_on() -> None:
    tree = Stepped([SOME])
    assert tree.step([A1, A2], [B1], []) == []
    assert tree.step([], [B2], []) == []
    assert tree.step([], [], [(7, 4, 1)]) == [(1, 7, 1, 1, 2, FOREVER, 1), (1, 7, 1, 2, 2, FOREVER, 1)]
    assert tree.counts[1] >= 1


def test_what_waited_for_a_table_as_of_an_instant_is_too_late() -> None:
    """The pairs of a1 with b1 and b2 were generated before the table had anything for them; not that with b3."""
    tree = Stepped([SOME], generated=True)
    tree.step([A1, A2], [B1], [])
    tree.step([], [B2], [])
    assert tree.step([], [], [(7, FOREVER, 1)]) == []
    assert tree.step([], [(1, 3, FOREVER, 1)], []) == [(1, 7, 1, 3, 3, FOREVER, 1)]


def test_a_row_that_is_refused_for_all_its_life_waits_until_that_is_taken_back() -> None:
    tree = Stepped([replace(SOME, refuses=True)])
    assert tree.step([], [], [(7, FOREVER, 1), (8, FOREVER - 1, 1)]) == []
    # a2 outlives what refuses it, and is admitted.
    assert tree.step([A1, A2], [B1], []) == [(1, 8, 1, 1, 1, FOREVER, 1)]
    assert tree.counts == (1, 0)
    assert tree.step([], [B2], [(7, FOREVER, -1)]) == [
        (1, 7, 1, 1, 2, FOREVER, 1),
        (1, 7, 1, 2, 2, FOREVER, 1),
        (1, 8, 1, 2, 2, FOREVER, 1),
    ]
    assert tree.counts == (1, 1)


def test_copies_that_are_taken_back_do_not_refuse() -> None:
    tree = Stepped([replace(SOME, refuses=True)])
    tree.step([], [], [(7, FOREVER, 1)])
    tree.step([], [], [(7, FOREVER, -1)])
    assert tree.step([A1], [B1], []) == [(1, 7, 1, 1, 2, FOREVER, 1)]


@pytest.mark.parametrize("null_safe", [False, True])
def test_null_is_refused_only_where_nulls_are_equal(null_safe: bool) -> None:
    tree = Stepped([replace(SOME, refuses=True, null_safe=null_safe)])
    tree.step([], [], [(None, FOREVER, 1)])
    assert len(tree.step([(1, None, FOREVER, 1)], [B1], [])) == (0 if null_safe else 1)


def test_of_several_consumers_one_that_needs_a_row_is_enough() -> None:
    tree = Stepped([SOME], [replace(SOME, edge="other")])
    assert tree.step([A1, A2], [B1], [], []) == []
    assert tree.step([], [], [], [(7, FOREVER, 1)]) == [(1, 7, 1, 1, 1, FOREVER, 1)]
    assert tree.step([], [], [(7, FOREVER, 1)], []) == []  # it is there already
    assert tree.step([], [], [(8, FOREVER, 1)], []) == [(1, 8, 1, 1, 3, FOREVER, 1)]


def test_consumers_behind_each_other_must_all_need_a_row() -> None:
    tree = Stepped([SOME, replace(SOME, edge="other")])
    assert tree.step([A1], [B1], [(7, FOREVER, 1)], []) == []
    assert tree.step([], [], [], [(7, FOREVER, 1)]) == [(1, 7, 1, 1, 1, FOREVER, 1)]
