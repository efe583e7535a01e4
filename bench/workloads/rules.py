"""Rules over one wide stream, as in the workload of CACQ's figure 6: each counts the rows that it wants."""

from __future__ import annotations

import numpy as np

COLUMNS = "idx BIGINT, a INT, b INT, c INT, d INT, e INT"
# Each query counts its matches; the count is shown once, when the input is over.
ATTRIBUTES = "abcde"
RANGES = " AND ".join(f"{name} > ? AND {name} < ?" for name in ATTRIBUTES)
TEMPLATE = f"SELECT COUNT(*) AS n FROM s [TUMBLE {{}}] WHERE {RANGES}"

Rule = tuple[int, ...]


def rules(count: int) -> list[Rule]:
    """Conditions on random attributes, as in the workload of CACQ's figure 6: a bound from above or from below on about
    half of them, and on one at least. Where there is none, the bound lies outside."""
    dice = np.random.default_rng(11)
    found = []
    for _ in range(count):
        bounded = dice.random(len(ATTRIBUTES)) < 0.5
        bounded[dice.integers(len(ATTRIBUTES))] = True
        above, at = dice.random(len(ATTRIBUTES)) < 0.5, dice.integers(0, 100, len(ATTRIBUTES))
        lows, highs = np.where(bounded & above, at, -1), np.where(bounded & ~above, at, 100)
        found.append(tuple(int(bound) for pair in zip(lows, highs, strict=True) for bound in pair))
    return found
