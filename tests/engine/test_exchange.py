"""The shard of a row, which must never change, and what is told about shards that get too many rows."""

from __future__ import annotations

import polars as pl
import pytest

import millstream as ms
from millstream.engine.epochs.exchange import SKEW_ROWS, Load, is_skewed, skews, split
from millstream.kernel.distribution import HASH, shards_of


def mixed(word: int) -> int:
    """splitmix64's finalizer, in plain integers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
    return word ^ (word >> 31)


def test_the_hash_is_that_of_its_version() -> None:
    """If this fails, state that exists is on other shards: HASH must change with the hash."""
    assert HASH == "splitmix64-1"
    numbers = [0, 1, 2, 3, -1, 2**40]
    texts = ["", "a", "b", None, "a longer text", "é"]
    batch = pl.DataFrame({"c0": numbers, "c1": texts})
    assert shards_of(batch, (0,), 7).tolist() == [mixed(mixed(number % 2**64)) % 7 for number in numbers]
    assert shards_of(batch, (1,), 7).tolist() == [0, 4, 1, 5, 4, 1]
    assert shards_of(batch, (0, 1), 7).tolist() == [0, 6, 2, 2, 6, 3]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pl.Series([1, -5, None], dtype=pl.Int32), pl.Series([1, -5, None], dtype=pl.Int64)),
        (pl.Series([0.0, 1.5, float("nan")]), pl.Series([-0.0, 1.5, -float("nan")])),
        (pl.Series([0.5, None], dtype=pl.Float32), pl.Series([0.5, None], dtype=pl.Float64)),
    ],
)
def test_equal_keys_meet(one: pl.Series, other: pl.Series) -> None:
    shards = [shards_of(pl.DataFrame({"c0": key}), (0,), 1000).tolist() for key in (one, other)]
    assert shards[0] == shards[1]


def test_no_columns_mean_the_first_shard() -> None:
    assert shards_of(pl.DataFrame({"c0": [1, 2, 3]}), (), 5).tolist() == [0, 0, 0]


def test_rows_are_split_in_order() -> None:
    batch = pl.DataFrame({"c0": [i % 10 for i in range(1000)], "c1": range(1000)})
    parts, load = split(batch, (0,), 3)
    assert sum(load.rows) == 1000
    for shard, rows in parts:
        assert rows.height == load.rows[shard]
        assert shards_of(rows, (0,), 3).tolist() == [shard] * rows.height
        assert rows["c1"].is_sorted()


@pytest.mark.parametrize(
    ("shares", "skewed"),
    [((50, 50), False), ((70, 30), False), ((80, 20), True), ((20,) * 5, False), ((52,) + (6,) * 8, True)],
)
def test_skew(shares: tuple[int, ...], skewed: bool) -> None:
    assert is_skewed([share * SKEW_ROWS // 100 for share in shares]) == skewed
    assert not is_skewed(list(shares))  # too few rows to tell


def test_loads_are_summed_before_they_are_judged() -> None:
    even = [Load((0,), [SKEW_ROWS, 0]), Load((0,), [0, SKEW_ROWS])]
    assert not list(skews({"s by 0": ("s", load)} for load in even))


def test_a_skewed_key_is_reported() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (k STRING) TIMESTAMP BY ts; SET shards = 8")
        db.register("SELECT k, COUNT(*) AS n FROM S [RANGE 10] GROUP BY k")
        db.insert("S", [("hot" if i % 4 else f"k{i}", 1) for i in range(2 * SKEW_ROWS)])
        (skew,) = db.stats()["skew"]
    assert skew["share"] > 0.7
    assert skew["heaviest"][0] == (("hot",), 3 * SKEW_ROWS // 2)
