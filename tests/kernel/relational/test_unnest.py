"""Rows of lists, beside a loop over them."""

from __future__ import annotations

import random
from itertools import zip_longest

import polars as pl
import pytest

from millstream.kernel.examples import Run, batch, integers
from millstream.kernel.relational.unnest import Unnest


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("position", [False, True])
def test_rows_come_once_for_each_element(outer: bool, position: bool) -> None:
    chance = random.Random(7)
    lists = [None if chance.random() < 0.2 else [chance.choice([1, 2, None]) for _ in range(chance.randrange(4))]
             for _ in range(200)]  # fmt: skip
    rows = batch(*((number, values, number, number + 5, chance.choice([1, -1])) for number, values in enumerate(lists)))
    rows = rows.with_columns(pl.col("c1").cast(pl.List(pl.Int64)), _arrival=pl.int_range(pl.len()))
    unnest = Unnest(integers(*("v", "x", "n")[: 2 + position]), position=position, outer=outer)
    run = Run(unnest)
    run.step(rows, to=1)
    wanted = []
    for row in rows.iter_rows(named=True):
        found: list[tuple[int | None, int | None]] = list(enumerate(row["c1"] or []))
        for number, value in found or ([(None, None)] if outer else []):
            wanted.append(
                (row["c0"], value, *([number] if position else []), row["_start"], row["_weight"], row["_arrival"])
            )
    shown = ["c0", "c1", *(["c2"] if position else []), "_start", "_weight", "_arrival"]
    assert run.output.select(shown).rows() == wanted
    assert run.output.get_column("c1").dtype == pl.Int64


@pytest.mark.parametrize("outer", [False, True])
def test_lists_come_side_by_side(outer: bool) -> None:
    chance = random.Random(8)
    pairs = [[None if chance.random() < 0.2 else [*range(chance.randrange(4))] for _ in range(2)] for _ in range(200)]
    rows = batch(*((number, one, two, number, number + 5, 1) for number, (one, two) in enumerate(pairs)))
    rows = rows.with_columns(pl.col("c1", "c2").cast(pl.List(pl.Int64)))
    run = Run(Unnest(integers("v", "x", "y", "n"), position=True, outer=outer, lists=2))
    run.step(rows, to=1)
    wanted = []
    for number, (one, two) in enumerate(pairs):
        found: list[tuple[int | None, ...]] = [
            (x, y, at) for at, (x, y) in enumerate(zip_longest(one or [], two or []))
        ]
        wanted += [(number, *each) for each in found or ([(None, None, None)] if outer else [])]
    assert run.output.select("c0", "c1", "c2", "c3").rows() == wanted


def test_nothing_comes_of_nothing() -> None:
    run = Run(Unnest(integers("v", "x")))
    run.step(batch((1, [1], 0, 1, 1)).clear(), to=1)
    assert run.output.height == 0
