"""Limits on what one query may hold, and on one value."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.kernel.scalar.value_size import MAX_VALUE_BYTES


@dataclass
class Limits:
    """Of rows and state, 0 stands for no limit; one value always has one."""

    rows: int = 0
    state: int = 0
    value_bytes: int = MAX_VALUE_BYTES

    def change(self, rows: int, state: int, value_bytes: int) -> None:
        self.rows, self.state, self.value_bytes = rows, state, value_bytes
