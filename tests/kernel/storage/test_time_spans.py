"""Partners of a key within a span of time, against looking at all pairs."""

from __future__ import annotations

import gc
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from tests.support.instants import batch

from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_columns
from millstream.kernel.hashing import mix_bits
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.keys import KEY, Codes, Ticks, stable_order_of_ticks
from millstream.kernel.operator import NO_STATE, Progress, Segment, State
from millstream.kernel.storage import probing, time_spans
from millstream.kernel.windows.imposed import Imposed
from millstream.types import BIGINT, Field, Schema

SCHEMA: Schema = (Field("k", BIGINT), Field("v", BIGINT))


def segment(codes: Codes, starts: Ticks, lasting: Ticks) -> Segment:
    order = np.lexsort((starts, codes))
    return pl.DataFrame({KEY: codes[order], START: starts[order], END: (starts + lasting)[order]})


@pytest.mark.parametrize("seed", range(8))
def test_no_pair_that_meets_is_left_out(seed: int) -> None:
    dice = np.random.default_rng(seed)
    values, size = int(dice.integers(1, 5)), 4_000
    # Few codes that are neighbours, so that runs by upper bits have several.
    stored_codes = dice.integers(0, values, size).astype(np.uint64) + np.uint64(7 << 60)
    codes = dice.integers(0, values + 1, 60).astype(np.uint64) + np.uint64(7 << 60)
    if seed % 2:
        stored_codes, codes = mix_bits(stored_codes), mix_bits(codes)
    stored = segment(stored_codes, dice.integers(0, 10_000, size), dice.integers(1, 40, size))
    starts = dice.integers(0, 11_000, codes.size)
    ends = starts + dice.integers(1, 200, codes.size)
    order = time_spans.time_order_of(stored)
    assert order is not None
    found = [
        pair
        for i, j in probing.equal_pairs(stored, codes, lambda: time_spans.span(starts, ends, order.longest))
        for pair in zip(i.tolist(), j.tolist(), strict=True)
    ]
    equal = codes[:, None] == stored[KEY].to_numpy()[None, :]
    meets = starts[:, None] < stored[END].to_numpy()[None, :]
    meets &= stored[START].to_numpy()[None, :] < ends[:, None]
    wanted = set(zip(*(axis.tolist() for axis in np.nonzero(equal & meets)), strict=True))
    assert wanted <= set(found)
    assert len(found) == len(set(found)) < equal.sum() / 10
    assert found == sorted(found)


def test_rows_that_last_for_ever_are_never_too_old() -> None:
    long_ago = segment(np.zeros(5_000, np.uint64), np.arange(5_000), np.full(5_000, 1) * 0 + INF - np.arange(5_000))
    order = time_spans.time_order_of(long_ago)
    assert order is not None
    asked = time_spans.span(np.array([4_999]), np.array([5_000]), order.longest)
    assert asked.low is None
    [(i, _)] = probing.equal_pairs(long_ago, np.zeros(1, np.uint64), lambda: asked)
    assert i.size == 5_000


def test_a_segment_in_no_order_of_time_says_so() -> None:
    codes, starts = np.array([1, 1, 2], np.uint64), np.array([5, 3, 1])
    assert time_spans.time_order_of(pl.DataFrame({KEY: codes, START: starts, END: starts + 1})) is None
    assert time_spans.time_order_of(pl.DataFrame({KEY: codes[1:], START: starts[1:], END: starts[1:] + 1})) is not None


def test_an_order_is_known_as_long_as_its_segment() -> None:
    rows = segment(np.zeros(3, np.uint64), np.arange(3), np.ones(3, np.int64))
    assert time_spans.time_order_of(rows) is time_spans.time_order_of(rows)
    where = id(rows)
    assert where in time_spans._orders
    del rows
    gc.collect()
    assert where not in time_spans._orders


def rows(dice: np.random.Generator, count: int, low: int, high: int, *, imposed: bool) -> Batch:
    """Of few keys, mostly in order of time, some without an end, some taken back."""
    starts = dice.integers(low, high, count)
    starts = np.sort(starts) if dice.random() < 0.7 else starts
    lasting = np.ones(count, np.int64) if imposed else dice.integers(1, 60, count)
    ends = np.where(dice.random(count) < (0 if imposed else 0.02), INF, starts + lasting)
    signs = np.where(dice.random(count) < 0.1, -1, 1)
    columns = dice.integers(0, 3, count), dice.integers(0, 50, count), starts, ends, signs
    return batch(SCHEMA, list(zip(*(column.tolist() for column in columns), strict=True)))


def joined(seed: int, *, halving: bool, windows: tuple[Imposed, ...]) -> pl.DataFrame:
    """What a join gives in some steps, with every probe looking for a span of time, or with none."""
    dice, operator = np.random.default_rng(seed), InnerJoin(SCHEMA, SCHEMA, ((0, 0),), windows=windows)
    state: State = NO_STATE
    found: list[Batch] = []
    reached = -1
    with (
        patch.object(probing, "_is_worth_halving", lambda runs: halving),
        patch.object(probing, "is_small", lambda *rows: False),
    ):
        for low in range(0, 500, 100):
            inputs = [rows(dice, int(dice.integers(0, 80)), low, low + 100, imposed=bool(windows)) for _ in range(2)]
            progress = Progress((reached, reached), (low + 99, low + 99))
            output, state = operator.step(inputs, state, progress)
            found.append(output)
            reached = low + 99
    names = [*value_columns(4), START, END]
    together = pl.concat(found).group_by(names).agg(pl.col(WEIGHT).sum())
    return together.filter(pl.col(WEIGHT) != 0).sort(names)


@pytest.mark.parametrize("windows", [(), (Imposed(40), Imposed(15)), (Imposed(1 << 62), Imposed(10))])
@pytest.mark.parametrize("seed", range(6))
def test_a_join_gives_the_same(seed: int, windows: tuple[Imposed, ...]) -> None:
    by_time, whole = (joined(seed, halving=halving, windows=windows) for halving in (True, False))
    assert whole.height
    assert by_time.equals(whole)


@pytest.mark.parametrize("unit", [1, 7, 1_000_000, 1 << 40])
@pytest.mark.parametrize("size", [0, 1, 5, 3_000])
def test_instants_are_sorted_as_they_came(size: int, unit: int) -> None:
    instants = np.random.default_rng(size).integers(-1_000, 1_000, size) * unit
    assert stable_order_of_ticks(instants).tolist() == np.argsort(instants, kind="stable").tolist()


def test_instants_that_lie_as_far_apart_as_can_be_are_sorted() -> None:
    instants = np.array([INF, 0, -INF, INF - 1, 0, INF])
    assert stable_order_of_ticks(instants).tolist() == [2, 1, 4, 3, 0, 5]
