"""Rows from the beginning of their run of presence on."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.plan.nodes.rows import Distinct


@dataclass(frozen=True)
class Runs(Distinct):
    """DISTINCT by counts: a row comes when its run of presence begins, and is taken back when that has ended; whatever
    makes it longer, it is the same row."""
