"""Pairs of equal codes, however these are spread, against looking at all pairs."""

from __future__ import annotations

import gc

import numpy as np
import polars as pl
import pytest

from millstream.kernel.hashing import mix_bits
from millstream.kernel.keys import KEY, Codes
from millstream.kernel.operator import Segment
from millstream.kernel.storage import directory, probing


def _segment(codes: Codes) -> Segment:
    return pl.DataFrame({KEY: np.sort(codes)})


def _spread(values: int, size: int, seed: int) -> Codes:
    return mix_bits(np.random.default_rng(seed).integers(0, values, size).astype(np.uint64))


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("stored", "probes"),
    [
        (_spread(300, 300, 1), _spread(300, 200, 2)),
        (_spread(5, 300, 1), _spread(9, 50, 2)),
        (np.arange(100, dtype=np.uint64), np.arange(50, 150, dtype=np.uint64)),  # all in one range
        (np.array([0, 2**64 - 1, 2**64 - 1], np.uint64), np.array([0, 1, 2**64 - 2, 2**64 - 1], np.uint64)),
        (_spread(2000, 2000, 1), _spread(2000, 1, 2)),  # too few for a directory
        (_spread(9, 0, 1), _spread(9, 9, 2)),
        (_spread(9, 9, 1), _spread(9, 0, 2)),
    ],
)
def test_equal_pairs(stored: Codes, probes: Codes, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_CHUNK", chunk)
    segment = _segment(stored)
    found = [pair for i, j in probing.equal_pairs(segment, probes) for pair in zip(i.tolist(), j.tolist(), strict=True)]
    i, j = np.nonzero(probes[:, None] == segment[KEY].to_numpy()[None, :])
    assert found == list(zip(i.tolist(), j.tolist(), strict=True))


def test_a_directory_lives_as_long_as_its_segment() -> None:
    segment = _segment(_spread(100, 100, 1))
    known = directory.directory_of(segment)
    assert directory.directory_of(segment) is known
    where = id(segment)
    assert where in directory._directories
    del segment
    gc.collect()
    assert where not in directory._directories
