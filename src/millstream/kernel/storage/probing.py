"""Finding the partners of rows in sorted segments: equal codes, bands of values, pairs of rows in bounded chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import START, value_column
from millstream.kernel.columns import is_small
from millstream.kernel.keys import Codes, Positions, order_codes, order_ticks, physical
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.expressions import Call, Cast, Column, Expression, Literal, conjuncts
from millstream.kernel.step_limits import check_wanted, look_at_pairs
from millstream.kernel.storage.directory import directory_of
from millstream.kernel.storage.segments import codes_of, gather, numbers
from millstream.kernel.storage.time_spans import Runs, Span, runs_of_codes, within
from millstream.types import INTEGER_BITS, INTEGERS, INTERVAL, TIMESTAMP, TIMESTAMP_NTZ

Pairs = tuple[Positions, Positions]

_CHUNK = 1 << 20  # candidate pairs looked at together: bounds the memory of cross joins and of skewed keys
_MOST_ROWS_PER_PROBE = 1_000  # above, a directory would hardly be used as often as it takes to make up for making it


def equal_pairs(stored: Segment, probes: Codes, when: Callable[[], Span | None] | None = None) -> Iterator[Pairs]:
    """All (probe, row of the segment) of equal codes, by probe and then by row, in chunks. Where a code has many rows,
    those may be left out that do not start `when` they would have to."""
    codes = codes_of(stored)
    is_worth_it = not is_small(codes.size) and probes.size * _MOST_ROWS_PER_PROBE >= codes.size
    directory = directory_of(stored) if is_worth_it else None
    if directory is None:
        yield from pairs_of_runs(codes.searchsorted(probes), codes.searchsorted(probes, side="right"))
        return
    runs = directory.ranges(probes)
    if when is not None and _is_worth_halving(runs) and (asked := when()) is not None:
        yield from pairs_of_runs(*within(numbers(stored, START), runs_of_codes(codes, probes, runs), asked))
        return
    for i, j in pairs_of_runs(*runs):
        equal = codes[j] == probes[i]
        yield (i, j) if equal.all() else (i[equal], j[equal])


def _is_worth_halving(runs: Runs) -> bool:
    """Whether runs are so long that to halve them costs less than to look at all of their rows."""
    counts = runs[1] - runs[0]
    return int(counts.sum()) > 2 * counts.size * int(counts.max(initial=0)).bit_length()


def pairs_of_runs(first: Positions, past: Positions) -> Iterator[Pairs]:
    """All (row, position) with first[row] <= position < past[row], in chunks."""
    (rows,) = (past > first).nonzero()
    first = first[rows]
    counts = past[rows] - first
    ends = counts.cumsum()
    shift = first + counts - ends
    total = int(ends[-1]) if ends.size else 0
    look_at_pairs(total)
    if 0 < total <= _CHUNK:
        yield rows.repeat(counts), np.arange(total) + shift.repeat(counts)
        return
    for low in range(0, total, _CHUNK):
        check_wanted()
        high = min(low + _CHUNK, total)
        part = slice(int(ends.searchsorted(low, side="right")), int(ends.searchsorted(high)) + 1)
        # Only the first and the last run can reach over the chunk's bounds.
        taken = counts[part].copy()
        taken[0] = ends[part.start] - low
        taken[-1] -= ends[part.stop - 1] - high
        yield rows[part].repeat(taken), np.arange(low, high) + shift[part].repeat(taken)


@dataclass(frozen=True)
class ColumnBound:
    """The value of the probing row's column plus an offset."""

    column: int
    offset: int


@dataclass(frozen=True)
class Band:
    """What a condition says about one column of the stored rows: inclusive bounds that every pair keeps."""

    column: int
    lower: tuple[ColumnBound, ...]
    upper: tuple[ColumnBound, ...]

    def runs(self, stored: Codes, probe: Segment) -> Pairs:
        first = np.zeros(probe.height, np.intp)
        past = np.full(probe.height, stored.size, np.intp)
        for bound in self.lower:
            first = np.maximum(first, np.searchsorted(stored, _bound_codes(probe, bound)))
        for bound in self.upper:
            past = np.minimum(past, np.searchsorted(stored, _bound_codes(probe, bound), side="right"))
        for bound in (*self.lower, *self.upper):
            past[probe[value_column(bound.column)].is_null().to_numpy()] = 0
        return first, past


def _bound_codes(probe: Segment, bound: ColumnBound) -> Codes:
    series = probe[value_column(bound.column)]
    if not bound.offset:
        return order_codes(series)
    ticks = physical(series)
    limits = np.iinfo(np.int64)
    # A bound past the range of numbers is as good as its end: the condition itself is tested afterwards.
    least, most = limits.min - min(bound.offset, 0), limits.max - max(bound.offset, 0)
    return order_ticks(np.clip(ticks, least, most) + bound.offset)


FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def find_band(condition: Expression, left_width: int, side: int) -> Band | None:
    """The best band for storing this side: bounded from both sides if there is one."""
    lower: dict[int, list[ColumnBound]] = {}
    upper: dict[int, list[ColumnBound]] = {}
    for part in conjuncts(condition):
        if not (isinstance(part, Call) and part.function in FLIPPED):
            continue
        one, other = (column_and_offset(argument) for argument in part.arguments)
        if one is None or other is None or (one[0] < left_width) == (other[0] < left_width):
            continue
        function = part.function
        if (one[0] < left_width) != (side == 0):
            one, other, function = other, one, FLIPPED[function]
        local = [index - left_width if index >= left_width else index for index in (one[0], other[0])]
        bounds = upper if function in ("<", "<=") else lower
        bounds.setdefault(local[0], []).append(ColumnBound(local[1], other[1] - one[1]))
    columns = [*(lower.keys() & upper.keys()), *lower, *upper]
    if not columns:
        return None
    return Band(columns[0], tuple(lower.get(columns[0], ())), tuple(upper.get(columns[0], ())))


def column_and_offset(expression: Expression) -> tuple[int, int] | None:
    """(position, offset) of a column, perhaps widened, plus or minus a constant that can be added exactly."""
    kind = expression.type
    if isinstance(expression, Column):
        ordered = kind.is_integer or kind.is_fractional or kind.is_temporal or kind == INTERVAL
        return (expression.index, 0) if ordered else None
    if isinstance(expression, Cast) and kind in INTEGERS and expression.argument.type in INTEGERS:
        wider = INTEGER_BITS[kind] >= INTEGER_BITS[expression.argument.type]
        return column_and_offset(expression.argument) if wider else None
    if not isinstance(expression, Call) or expression.function not in ("+", "-"):
        return None
    one, other = expression.arguments[0], expression.arguments[-1]
    if expression.function == "+" and isinstance(one, Literal):
        one, other = other, one
    base, value = column_and_offset(one), other.value if isinstance(other, Literal) else None
    if isinstance(value, timedelta) and kind in (TIMESTAMP, TIMESTAMP_NTZ, INTERVAL):
        value = value // timedelta(microseconds=1)
    elif not kind.is_integer:
        value = None
    if base is None or one.type != kind or not isinstance(value, int) or abs(value) >= 2**61:
        return None
    return base[0], base[1] + (value if expression.function == "+" else -value)


def equal_values(
    left: pl.DataFrame,
    right: pl.DataFrame,
    i: Positions,
    j: Positions,
    left_columns: Sequence[str],
    right_columns: Sequence[str],
) -> npt.NDArray[np.bool_]:
    """Which of the pairs of rows (i, j) agree in the columns, NULL as NULL, NaN as NaN and 0.0 as -0.0."""
    agree = np.ones(i.size, np.bool_)
    for one, other in zip(gather(left, left_columns, i), gather(right, right_columns, j), strict=True):
        nulls = one.null_count() or other.null_count()
        agree &= (one.eq_missing(other) if nulls else one == other).to_numpy()
    return agree
