"""What one step of an operator may take, and whether anybody still wants what it makes.

    value_bytes     of one value                     join_pairs   pairs of rows that a join looks at in one step
    column_bytes    of the texts that a function     join_rows    rows that it makes of them
                    makes for one batch              join_bytes   bytes of these: eight for each of their columns

All of these are counted before the memory is taken, so that they end a step at the same place wherever it is run. A
step of which too much is asked fails alone. Work that nobody waits for any more ends between two steps, and between two
chunks of the pairs of a join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass

from millstream.errors import EvaluationError


@dataclass(frozen=True)
class StepLimits:
    value_bytes: int = 16 << 20
    column_bytes: int = 1 << 30
    join_pairs: int = 1_000_000_000
    join_rows: int = 50_000_000
    join_bytes: int = 512 << 20


@dataclass(frozen=True)
class Counted:
    """Something that steps take, the limit that it has, and what is said of more of it."""

    limit: str
    said: str
    hint: str


PAIRS = Counted(
    "join_pairs",
    "a join of {taken:,} pairs of rows at once is more than the {most:,} allowed",
    "join by equal columns, filter first or shorten the windows, or raise max_join_pairs",
)
ROWS = Counted(
    "join_rows",
    "a join that makes more than {most:,} rows at once",
    "join by more columns, filter first or shorten the windows, or raise max_join_rows",
)
BYTES = Counted(
    "join_bytes",
    "a join that makes rows of more than {most:,} bytes at once",
    "join by more columns, filter first, shorten the windows or select fewer columns, or raise max_join_bytes",
)
ELEMENTS = Counted(
    "join_rows",
    "an UNNEST that makes {taken:,} rows at once, more than the {most:,} allowed",
    "filter first or shorten the lists, or raise max_join_rows",
)


class StepMeter:
    """What the step that a thread is at has taken so far."""

    __slots__ = ("limits", "taken")

    def __init__(self, limits: StepLimits) -> None:
        self.limits = limits
        self.taken = dict.fromkeys((PAIRS, ROWS, BYTES, ELEMENTS), 0)

    def take(self, kind: Counted, count: int) -> None:
        self.taken[kind] += count
        most = getattr(self.limits, kind.limit)
        if self.taken[kind] > most:
            raise EvaluationError(kind.said.format(taken=self.taken[kind], most=most), hint=kind.hint)


_limits: ContextVar[StepLimits] = ContextVar("step_limits", default=StepLimits())  # noqa: B039 - it is frozen
_meter: ContextVar[StepMeter | None] = ContextVar("step_meter", default=None)
_check: ContextVar[Callable[[], None] | None] = ContextVar("check_wanted", default=None)


def step_limits() -> StepLimits:
    """What holds for the steps that this thread runs."""
    return _limits.get()


@contextmanager
def limited(limits: StepLimits) -> Iterator[None]:
    """What this thread runs within the block keeps to limits."""
    before = _limits.set(limits)
    try:
        yield
    finally:
        _limits.reset(before)


@contextmanager
def wanted_while(check: Callable[[], None]) -> Iterator[None]:
    """What this thread runs within the block is ended by what `check` raises, once it does."""
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def wanted_for_good() -> AbstractContextManager[None]:
    """What this thread runs within the block is not ended: what it belongs to has been committed."""
    return wanted_while(lambda: None)


def begin_step() -> Token[StepMeter | None]:
    """A step begins: nothing is counted yet. Gives what `end_step` is to be called with."""
    check_wanted()
    return _meter.set(StepMeter(_limits.get()))


def end_step(begun: Token[StepMeter | None]) -> None:
    """What this thread does from now on does not count to the step."""
    _meter.reset(begun)


def check_wanted() -> None:
    """Raise where nobody wants what this thread computes any more."""
    check = _check.get()
    if check is not None:
        check()


def look_at_pairs(count: int) -> None:
    """A join is about to look at so many pairs of rows."""
    _take(PAIRS, count)


def make_rows(count: int, width: int) -> None:
    """A join makes so many rows, of so many columns."""
    _take(ROWS, count)
    _take(BYTES, 8 * width * count)


def unfold(count: int) -> None:
    """Lists are about to become so many rows."""
    _take(ELEMENTS, count)


def _take(kind: Counted, count: int) -> None:
    meter = _meter.get()
    if meter is not None:
        meter.take(kind, count)


def check_column(size: int, limits: StepLimits) -> None:
    """Refuse to make texts or lists of so many bytes for one batch. Polars computes in threads of its own: the limits
    are those of the thread that asks."""
    if size > limits.column_bytes:
        raise EvaluationError(
            f"values of {size:,} bytes in one column at once are more than the {limits.column_bytes:,} allowed",
            hint="make shorter texts or lists, or of fewer rows at a time, or raise max_column_bytes",
        )
