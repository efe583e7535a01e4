"""Synopses by expiry keep what can still match, as consolidated ones do, and drop what has passed."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from millstream.kernel.batch import END, START, WEIGHT
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.kernel.storage.expiry_groups import ExpiryGrouped, Fifo
from millstream.kernel.storage.synopsis import Consolidated, Synopsis
from millstream.types import BIGINT, Field

SCHEMA = (Field("k", BIGINT), Field("v", BIGINT))
SPAN = 40


def window_rows(rng: np.random.Generator, first: int, ticks: int, *, in_order: bool) -> pl.DataFrame:
    count = int(rng.integers(0, 15))
    start = np.sort(rng.integers(first, first + ticks, count))
    end = start + SPAN if in_order else start + rng.integers(1, SPAN, count)
    values = {"c0": rng.integers(0, 5, count), "c1": rng.integers(0, 100, count)}
    return pl.DataFrame({**values, START: start, END: end, WEIGHT: np.ones(count, np.int64)})


def run(synopsis: Synopsis, *, in_order: bool, seed: int) -> tuple[list[list[tuple[int, ...]]], int]:
    """What a join gives step by step, and the most rows it held towards the end."""
    rng = np.random.default_rng(seed)
    operator = InnerJoin(SCHEMA, SCHEMA, ((0, 0),), synopses=(synopsis, synopsis))
    state: State = NO_STATE
    given, held = [], []
    before = (-1, -1)
    for first in range(0, 600, 10):
        inputs = [window_rows(rng, first, 10, in_order=in_order) for _ in range(2)]
        after = (first + 9, first + 9 - int(rng.integers(0, 5)))
        after = (max(after[0], before[0]), max(after[1], before[1]))
        output, state = operator.step(inputs, state, Progress(before, after))
        before = after
        given.append(sorted(output.rows()))
        held.append(sum(segment.height for segments in state.values() for segment in segments))
    return given, max(held[-20:])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("in_order", [True, False])
def test_all_of_them_give_the_same(seed: int, in_order: bool) -> None:
    expected, least = run(Consolidated(), in_order=in_order, seed=seed)
    kinds = [ExpiryGrouped(SPAN, groups, lazy) for groups, lazy in ((1, 1), (4, 2), (50, 10))]
    others: list[Synopsis] = [*kinds, *([Fifo(SPAN, 10, 2), Fifo(SPAN, 1, 8)] if in_order else [])]
    for synopsis in others:
        given, held = run(synopsis, in_order=in_order, seed=seed)
        assert given == expected, synopsis
        # One group may be kept whole beyond its time, and one lazy interval.
        assert held <= 4 * least + 50, synopsis


def test_a_group_is_dropped_whole_and_untouched_segments_stay_the_same_objects() -> None:
    synopsis = ExpiryGrouped(span=100, groups=10, lazy=1)
    rows = pl.DataFrame({"c0": [1, 2, 3], START: [0, 0, 0], END: [5, 15, 17], WEIGHT: [1, 1, 1], "_key": [1, 2, 3]})
    kept = synopsis.retain((), rows.cast({"_key": pl.UInt64}), horizon=0, before=-1)
    assert [segment["c0"].to_list() for segment in kept] == [[1], [2, 3]]
    later = synopsis.retain(kept, kept[0].clear(), horizon=10, before=0)
    assert len(later) == 1
    assert later[0] is kept[1]
