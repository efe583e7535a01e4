"""SAMPLE (p PERCENT), as docs/semantics.md defines it: a coin that is splitmix64 of the arrival number and the seed."""

from __future__ import annotations

_WORD = (1 << 64) - 1


def _mix(number: int) -> int:
    z = (number + 0x9E3779B97F4A7C15) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return z ^ (z >> 31)


def is_sampled(number: int, percent: int | None, seed: int = 0) -> bool:
    return percent is None or percent == 100 or _mix(number ^ _mix(seed)) < percent * (1 << 64) // 100
