"""Merged results are the same relation in fewer rows."""

from __future__ import annotations

import random
from collections import Counter

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from millstream.kernel.batch import INF
from millstream.kernel.storage.coalescing import current

LAST = 30
SCHEMA = {
    "c0": pl.String(),
    "c1": pl.Float64(),
    "_lineage": pl.Array(pl.UInt64, 2),
    "_start": pl.Int64(),
    "_end": pl.Int64(),
    "_weight": pl.Int64(),
}


def rows_of(seed: int) -> pl.DataFrame:
    """Rows, of which some are taken back from an instant on."""
    dice, found = random.Random(seed), []
    for _ in range(dice.randint(0, 20)):
        values = (
            dice.choice([None, "a", "b"]),
            dice.choice([0.0, -0.0, None, float("nan")]),
            dice.choice([[1, 2], [1, 3]]),
        )
        start = dice.randrange(LAST)
        end = dice.choice([start + dice.randint(1, 9), INF])
        found.append((*values, start, end, 1))
        if dice.random() < 0.5:
            found.append((*values, dice.randint(start, min(end, LAST + 9) - 1), end, -1))
    return pl.DataFrame(found, schema=SCHEMA, orient="row")


def at_each_instant(rows: pl.DataFrame, first: int) -> Counter[tuple[str, int]]:
    counts: Counter[tuple[str, int]] = Counter()
    for *values, start, end, weight in rows.rows():
        for instant in range(max(start, first), min(end, LAST + 10)):
            counts[str(values), instant] += weight
    return Counter({key: count for key, count in counts.items() if count})


@given(st.integers(0, 2**32), st.sampled_from([0, 7]))
def test_merging_changes_no_answer(seed: int, first: int) -> None:
    rows = rows_of(seed)
    merged = current(rows, first)
    assert at_each_instant(merged, first) == at_each_instant(rows, first)
    assert (merged.schema, (merged["_weight"] > 0).all()) == (rows.schema, True)


def test_what_is_taken_back_has_its_end() -> None:
    rows = pl.DataFrame({"c0": [1, 1, 2], "_start": [0, 5, 1], "_end": [INF, INF, 9], "_weight": [1, -1, 1]})
    assert sorted(current(rows, 0).rows()) == [(1, 0, 5, 1), (2, 1, 9, 1)]
