"""Limits on what one query may hold, one step may take and one answer may have; and how eddies route and who runs
epochs, by which no answer changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.errors import TooLargeError
from millstream.kernel.step_limits import StepLimits


@dataclass(frozen=True)
class AnswerLimits:
    """Of one answer: the elements of an RSTREAM that are unfolded, all rows, and their bytes in memory."""

    rstream_rows: int = 10_000_000
    rows: int = 0
    bytes: int = 0

    def check(self, rows: int, size: float) -> None:
        """Refuse an answer of so many rows and bytes before it is made."""
        if self.rows and rows > self.rows:
            raise TooLargeError(
                f"an answer of {rows:,} rows is more than the {self.rows:,} allowed", hint=_HINT + "max_answer_rows"
            )
        if self.bytes and size > self.bytes:
            raise TooLargeError(
                f"an answer of {int(size):,} bytes is more than the {self.bytes:,} allowed",
                hint=_HINT + "max_answer_bytes",
            )


_HINT = "ask for fewer columns or rows, aggregate, take the changes in parts by following them, or raise "


@dataclass
class Limits:
    """Of rows, state and answers, 0 stands for no limit; steps always have theirs."""

    rows: int = 0
    state: int = 0
    steps: StepLimits = field(default_factory=StepLimits)
    answers: AnswerLimits = field(default_factory=AnswerLimits)
    routing: str = ""  # the policy that all eddies go by, where it is not their own
    small_epochs: str = "auto"  # who runs epochs: the driver, Spark's workers, or whoever is done first

    @property
    def value_bytes(self) -> int:
        return self.steps.value_bytes
