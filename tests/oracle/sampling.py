"""SAMPLE (p PERCENT): a coin that falls the same way for the same element, seed and percentage."""

from __future__ import annotations

from fractions import Fraction

_WORD = (1 << 64) - 1


def mix(number: int) -> int:
    """splitmix64: every bit of the answer depends on every bit of the number."""
    z = (number + 0x9E3779B97F4A7C15) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return z ^ (z >> 31)


def derived_key(ts: int, rank: int) -> int:
    """The key of an element of a derived stream: the rank-th of its instant, in the order of values."""
    return (mix(ts & _WORD) + rank) & _WORD


def kept(key: int, percent: Fraction, seed: int) -> bool:
    return mix(key ^ mix(seed & _WORD)) < int(percent * (1 << 64) / 100)
