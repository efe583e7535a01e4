"""splitmix64: a fixed hash of 64-bit words, the same in every process and version."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]


def mix(words: Words) -> Words:
    """splitmix64; unsigned arithmetic wraps, as it should."""
    return mix_bits(words + np.uint64(0x9E3779B97F4A7C15))


def mix_bits(words: Words) -> Words:
    """The finalizer of splitmix64, a bijection."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
