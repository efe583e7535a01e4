"""Limits on what one query may hold, and on one value; and how eddies route, which no answer depends on either."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.kernel.scalar.value_size import MAX_VALUE_BYTES


@dataclass
class Limits:
    """Of rows and state, 0 stands for no limit; one value always has one."""

    rows: int = 0
    state: int = 0
    value_bytes: int = MAX_VALUE_BYTES
    routing: str = ""  # the policy that all eddies go by, where it is not their own

    def change(self, rows: int, state: int, value_bytes: int) -> None:
        self.rows, self.state, self.value_bytes = rows, state, value_bytes
