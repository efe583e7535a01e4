"""splitmix64: a fixed hash of 64-bit words, the same in every process and version."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(words: Words) -> Words:
    """splitmix64; unsigned arithmetic wraps, as it should."""
    return mix_bits(words + np.uint64(0x9E3779B97F4A7C15))


def mix_bits(words: Words) -> Words:
    """The finalizer of splitmix64, a bijection."""
    mixed = words >> _SHIFTS[0]
    mixed ^= words
    for shift, factor in zip(_SHIFTS[1:], _FACTORS, strict=True):
        mixed *= factor
        mixed ^= mixed >> shift
    return mixed
