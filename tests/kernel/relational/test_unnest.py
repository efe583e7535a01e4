"""Rows of lists, beside a loop over them."""

from __future__ import annotations

import random

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


def test_nothing_comes_of_nothing() -> None:
    run = Run(Unnest(integers("v", "x")))
    run.step(batch((1, [1], 0, 1, 1)).clear(), to=1)
    assert run.output.height == 0
