"""Bloom filters: never a no for what is there, seldom a maybe for what is not."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from millstream.kernel.keys import mixed, word_of
from millstream.kernel.storage.bloom import BloomFilter, bloom_of


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_what_is_there_is_never_denied(values: list[int]) -> None:
    codes = mixed([word_of(pl.Series(values, dtype=pl.Int64))])
    assert BloomFilter.over(codes).may_have(codes).all()


def test_most_of_what_is_not_there_is_denied() -> None:
    keys = pl.DataFrame({"c0": np.arange(5_000), "c1": [f"{n}" for n in range(5_000)]})
    others = pl.DataFrame({"c0": np.arange(5_000), "c1": [f"{n + 1}" for n in range(5_000)]})
    codes = mixed([word_of(others[name]) for name in ("c0", "c1")])
    assert np.count_nonzero(bloom_of(keys, ("c0", "c1")).may_have(codes)) < 500


def test_a_filter_is_made_once_for_a_segment() -> None:
    keys = pl.DataFrame({"c0": [1, 2, 3]})
    assert bloom_of(keys, ("c0",)) is bloom_of(keys, ("c0",))
