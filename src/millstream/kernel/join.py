"""Joins of two bags of weighted intervals.

    (a, [s1, e1), w1) joins (b, [s2, e2), w2)  gives  (a b, [max(s1, s2), min(e1, e2)), w1 * w2)

Stored rows lie in segments sorted by a 64-bit key, so that n rows find their partners among N in O(n log N).
Segments are merged when two are of one size class, as in a log-structured merge tree: there are O(log N) of
them, and a row is rewritten O(log N) times. What can match nothing any more is dropped with its whole segment
or at the next merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from itertools import groupby

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel import time_queue
from millstream.kernel.batch import (
    END,
    INF,
    INTERVAL_COLUMNS,
    START,
    WEIGHT,
    Batch,
    batch_schema,
    concat,
    value_column,
    value_columns,
)
from millstream.kernel.evaluate import select_true
from millstream.kernel.expressions import TRUE, Call, Cast, Column, Expression, Literal, conjuncts
from millstream.kernel.operator import Operator, Progress, Segment, State
from millstream.kernel.time_queue import TIME
from millstream.types import INTEGER_BITS, INTEGERS, INTERVAL, TIMESTAMP, TIMESTAMP_NTZ, Schema

_ROW = "_row"
KEY = "_key"  # what a segment is sorted by
BORN = "_born"  # the instant at which a combination of stream elements was generated

Codes = npt.NDArray[np.uint64]
Ticks = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]
Pairs = tuple[Positions, Positions]

_CHUNK = 1 << 20  # candidate pairs looked at together: bounds the memory of cross joins and of skewed keys
_SAMPLE = 64  # rows of a segment looked at to judge how much of it has expired
_SMALLEST_CLASS = 12  # segments below 2**13 rows are of one size class
_NULL_WORD = np.uint64(0x9E3779B97F4A7C15)
_SIGN = np.uint64(1 << 63)


# Keys


def key_codes(frame: pl.DataFrame, columns: Sequence[str]) -> Codes:
    """Equal keys have equal codes: NULL as NULL, 0.0 as -0.0, NaN as NaN. Codes are the same in every process
    and version, since segments that are sorted by them outlive both. A single column of fixed width up to 64
    bits without NULLs has distinct codes for distinct keys."""
    codes = np.zeros(frame.height, np.uint64)
    for column in columns:
        series = frame[column]
        mix = _mix_bytes if series.dtype in (pl.String, pl.Binary) else _mix_words
        codes = mix(codes, series)
    return codes


def _mix(codes: Codes) -> Codes:
    """The finalizer of SplitMix64, a bijection."""
    codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes ^ (codes >> np.uint64(31))


def _mix_words(codes: Codes, series: pl.Series) -> Codes:
    if series.dtype == pl.Null:
        return _mix(codes ^ _NULL_WORD)
    words: list[Codes]
    if isinstance(series.dtype, pl.Decimal):
        wide = series.reinterpret(dtype=pl.Int128).fill_null(0)
        low = (wide & (2**63 - 1)).cast(pl.Int64)
        high = (wide // 2**63).cast(pl.Int64)
        words = [low.to_numpy().view(np.uint64), high.to_numpy().view(np.uint64)]
    elif series.dtype.is_float():
        words = [_float_bits(series)]
    else:
        words = [_physical(series).view(np.uint64)]
    if series.null_count():
        words = [np.where(series.is_null().to_numpy(), _NULL_WORD, word) for word in words]
    return reduce(lambda mixed, word: _mix(mixed ^ word), words, codes)


def _physical(series: pl.Series) -> Ticks:
    """Integers, and what is kept as integers; 0 for NULL."""
    whole = series if series.dtype == pl.Int64 else series.to_physical().cast(pl.Int64)
    return (whole.fill_null(0) if whole.null_count() else whole).to_numpy()


def _float_bits(series: pl.Series) -> Codes:
    """The bits of a DOUBLE, one pattern for zero and one for NaN."""
    reals = series.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0
    return np.where(np.isnan(reals), np.nan, reals).view(np.uint64)


def _mix_bytes(codes: Codes, series: pl.Series) -> Codes:
    """Eight bytes of every text at a time, for those that are long enough."""
    array = series.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, content = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(bounds)
    padded = np.zeros((content.size if content else 0) + 8, np.uint8)
    if content:
        padded[:-8] = np.frombuffer(content, np.uint8)
    # Every position of the text as the start of an eight-byte word.
    words = np.ndarray((padded.size - 7,), "<u8", padded.data, strides=(1,))
    codes = _mix(codes ^ lengths.view(np.uint64))
    if series.null_count():
        codes = np.where(series.is_null().to_numpy(), _mix(codes ^ _NULL_WORD), codes)
    done = 0
    rows = np.flatnonzero(lengths)
    while rows.size:
        left = np.minimum(lengths[rows] - done, 8).astype(np.uint64)
        # A shift by 64 is undefined, so the mask of n bytes is made by shifting right by 64 - 8n < 64.
        mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - np.uint64(8) * left)
        codes[rows] = _mix(codes[rows] ^ (words[bounds[rows] + done] & mask))
        done += 8
        rows = rows[lengths[rows] > done]
    return codes


def are_codes_exact(frame: pl.DataFrame, columns: Sequence[str]) -> bool:
    """Whether rows of equal code are known to have equal keys, without looking at them."""
    if len(columns) != 1:
        return not columns
    series = frame[columns[0]]
    dtype = series.dtype
    fixed = dtype.is_integer() or dtype.is_float() or dtype.is_temporal() or dtype == pl.Boolean
    return fixed and series.null_count() == 0


def order_codes(series: pl.Series) -> Codes:
    """Codes without NULL that compare as the values do: -0.0 as 0.0, NaN above all."""
    if series.dtype.is_float():
        bits = _float_bits(series)
        return np.where(bits & _SIGN, ~bits, bits | _SIGN)
    return _order_ticks(_physical(series))


def _order_ticks(numbers: Ticks) -> Codes:
    return numbers.view(np.uint64) ^ _SIGN


def stable_order(codes: Codes) -> Positions:
    """The positions that sort the codes. Codes that are spread over all 64 bits give their low bits to the
    position, so that plain numbers are sorted, which is three times as fast as sorting positions."""
    bits = np.uint64(int(codes.size).bit_length())
    packed = ((codes >> bits) << bits) | np.arange(codes.size, dtype=np.uint64)
    packed.sort()
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.intp)
    ordered = codes[order]
    return order if (ordered[1:] >= ordered[:-1]).all() else np.argsort(codes, kind="stable")


# Segments


def horizon_of(frontier: int) -> int:
    """The first instant that an input with this frontier can still reach."""
    return min(frontier + 1, INF)


def numbers(segment: pl.DataFrame, column: str) -> npt.NDArray[np.int64]:
    return segment[column].to_numpy()


def codes_of(segment: Segment) -> Codes:
    return segment[KEY].to_numpy()


# Frames are taken apart into series, since a query of Polars costs a small batch more than the work in it.


def gather(frame: pl.DataFrame, columns: Sequence[str], rows: Positions) -> list[pl.Series]:
    chosen = pl.Series(rows.astype(np.uint32))
    return [frame.get_column(column)[chosen] for column in columns]


def only(frame: pl.DataFrame, kept: npt.NDArray[np.bool_]) -> pl.DataFrame:
    """The rows for which `kept` is true; the frame itself where it is so for all."""
    if kept.all():
        return frame
    chosen = pl.Series(kept)
    return pl.DataFrame([series.filter(chosen) for series in frame.get_columns()])


def alive(segment: Segment, horizon: int) -> Segment:
    return only(segment, numbers(segment, END) > horizon)


def size_classes_to_merge(segments: Sequence[Segment]) -> tuple[list[Segment], list[Segment]]:
    """Segments to keep, and those to merge: all from the largest size class that two of them share."""
    by_size = sorted(segments, key=lambda segment: -segment.height)
    shared = None
    for size_class, members in groupby(by_size, key=lambda segment: _size_class(segment.height)):
        if shared is None and len(list(members)) > 1:
            shared = size_class
    if shared is None:
        return by_size, []
    kept = [segment for segment in by_size if _size_class(segment.height) > shared]
    return kept, by_size[len(kept) :]


def _size_class(height: int) -> int:
    """Classes are a factor of four apart: half the segments to search of a factor of two, equal rewriting."""
    return max(height.bit_length(), _SMALLEST_CLASS) // 2


def retain(segments: Sequence[Segment], arrived: Segment, horizon: int) -> tuple[Segment, ...]:
    """The segments and the rows that arrived, of which only the instants from the horizon on matter."""
    live = [part for segment in segments if (part := without_expired(segment, horizon)).height]
    new = alive(arrived, horizon)
    if new.height:
        live.append(new)
    kept, merging = size_classes_to_merge(live)
    if not merging:
        return tuple(kept)
    merged = pl.concat([alive(segment, horizon) for segment in merging], rechunk=True)
    if (numbers(merged, WEIGHT) < 0).any():
        # Starts before the horizon no longer matter: with them cut off, a row and its retraction differ by
        # nothing but their weights.
        starts = np.maximum(numbers(merged, START), horizon)
        merged = _summed(merged.with_columns(pl.Series(START, starts)))
    return (*kept, merged.sort(KEY)) if merged.height else tuple(kept)


def without_expired(segment: Segment, horizon: int) -> Segment:
    """The segment itself as long as a good part of it lives: it is rewritten as seldom as it can be."""
    ends = numbers(segment, END)[:: max(1, segment.height // _SAMPLE)]
    if 4 * np.count_nonzero(ends <= horizon) < 3 * ends.size:
        return segment
    live = alive(segment, horizon)
    return live if 2 * live.height <= segment.height else segment


def _summed(frame: pl.DataFrame) -> pl.DataFrame:
    """One row for those that differ by nothing but their weights, none where these cancel."""
    floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    bits = {name: pl.UInt64 if frame.schema[name] == pl.Float64 else pl.UInt32 for name in floats}
    # Polars groups 0.0 with -0.0, and which of them survived would depend on the batches; bits differ.
    plain = frame.with_columns(pl.col(name).reinterpret(dtype=dtype) for name, dtype in bits.items())
    plain = plain.group_by([name for name in plain.columns if name != WEIGHT]).agg(pl.col(WEIGHT).sum())
    plain = plain.filter(pl.col(WEIGHT) != 0).select(frame.columns)
    return plain.with_columns(pl.col(name).reinterpret(dtype=frame.schema[name]) for name in floats)


def released(
    queue: Sequence[Segment], arrived: Batch, column: str, before: int, after: int
) -> tuple[Batch, tuple[Segment, ...]]:
    """Of what arrived and what waited: the rows whose instant the frontier has reached, and the others."""
    waits = numbers(arrived, column) > after
    waited = [part.rename({TIME: column}) for part in time_queue.due(queue, before, after)]
    waiting = only(arrived, waits).rename({column: TIME})
    ready = concat([only(arrived, ~waits), *waited], arrived).rechunk()
    return ready, time_queue.pushed(time_queue.advanced(queue, after), waiting, after)


# Probing


def equal_runs(stored: Codes, probes: Codes) -> Pairs:
    """Where each probe's code stands among the sorted stored ones: from `first` to `past`, exclusive."""
    first = np.searchsorted(stored, probes)
    past = first.copy()
    rows = np.flatnonzero(stored.take(first, mode="clip") == probes) if stored.size else first[:0]
    rows = rows[first[rows] < stored.size]
    # Most codes stand there only a few times: counting on is cheaper than a second binary search.
    for _ in range(4):
        past[rows] += 1
        rows = rows[past[rows] < stored.size]
        rows = rows[stored[past[rows]] == probes[rows]]
    past[rows] = np.searchsorted(stored, probes[rows], side="right")
    return first, past


def pairs_of_runs(first: Positions, past: Positions) -> Iterator[Pairs]:
    """All (row, position) with first[row] <= position < past[row], in chunks."""
    rows = np.flatnonzero(past > first)
    counts = (past - first)[rows]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.size else 0
    for low in range(0, total, _CHUNK):
        high = min(low + _CHUNK, total)
        part = slice(int(np.searchsorted(ends, low, side="right")), int(np.searchsorted(ends, high)) + 1)
        begins = ends[part] - counts[part]
        skipped = np.maximum(low - begins, 0)
        taken = np.minimum(ends[part], high) - begins - skipped
        shift = first[rows[part]] + skipped - (np.cumsum(taken) - taken)
        yield np.repeat(rows[part], taken), np.arange(high - low) + np.repeat(shift, taken)


@dataclass(frozen=True)
class _Bound:
    """The value of the probing row's column plus an offset."""

    column: int
    offset: int


@dataclass(frozen=True)
class _Band:
    """What a condition says about one column of the stored rows: inclusive bounds that every pair keeps."""

    column: int
    lower: tuple[_Bound, ...]
    upper: tuple[_Bound, ...]

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


def _bound_codes(probe: Segment, bound: _Bound) -> Codes:
    series = probe[value_column(bound.column)]
    if not bound.offset:
        return order_codes(series)
    ticks = _physical(series)
    limits = np.iinfo(np.int64)
    # A bound past the range of numbers is as good as its end: the condition itself is tested afterwards.
    least, most = limits.min - min(bound.offset, 0), limits.max - max(bound.offset, 0)
    return _order_ticks(np.clip(ticks, least, most) + bound.offset)


_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _find_band(condition: Expression, left_width: int, side: int) -> _Band | None:
    """The best band for storing this side: bounded from both sides if there is one."""
    lower: dict[int, list[_Bound]] = {}
    upper: dict[int, list[_Bound]] = {}
    for part in conjuncts(condition):
        if not (isinstance(part, Call) and part.function in _FLIPPED):
            continue
        one, other = (_column_and_offset(argument) for argument in part.arguments)
        if one is None or other is None or (one[0] < left_width) == (other[0] < left_width):
            continue
        function = part.function
        if (one[0] < left_width) != (side == 0):
            one, other, function = other, one, _FLIPPED[function]
        local = [index - left_width if index >= left_width else index for index in (one[0], other[0])]
        bounds = upper if function in ("<", "<=") else lower
        bounds.setdefault(local[0], []).append(_Bound(local[1], other[1] - one[1]))
    columns = [*(lower.keys() & upper.keys()), *lower, *upper]
    if not columns:
        return None
    return _Band(columns[0], tuple(lower.get(columns[0], ())), tuple(upper.get(columns[0], ())))


def _column_and_offset(expression: Expression) -> tuple[int, int] | None:
    """(position, offset) of a column, perhaps widened, plus or minus a constant that can be added exactly."""
    kind = expression.type
    if isinstance(expression, Column):
        ordered = kind.is_integer or kind.is_fractional or kind.is_temporal or kind == INTERVAL
        return (expression.index, 0) if ordered else None
    if isinstance(expression, Cast) and kind in INTEGERS and expression.argument.type in INTEGERS:
        wider = INTEGER_BITS[kind] >= INTEGER_BITS[expression.argument.type]
        return _column_and_offset(expression.argument) if wider else None
    if not isinstance(expression, Call) or expression.function not in ("+", "-"):
        return None
    one, other = expression.arguments[0], expression.arguments[-1]
    if expression.function == "+" and isinstance(one, Literal):
        one, other = other, one
    base, value = _column_and_offset(one), other.value if isinstance(other, Literal) else None
    if isinstance(value, timedelta) and kind in (TIMESTAMP, TIMESTAMP_NTZ, INTERVAL):
        value = value // timedelta(microseconds=1)
    elif not kind.is_integer:
        value = None
    if base is None or one.type != kind or not isinstance(value, int) or abs(value) >= 2**61:
        return None
    return base[0], base[1] + (value if expression.function == "+" else -value)


# Operators


class _Join(Operator):
    """What both joins share: finding the pairs that satisfy the condition, whatever their intervals."""

    def __init__(
        self,
        left_schema: Schema,
        right_schema: Schema,
        keys: tuple[tuple[int, int], ...],
        residual: Expression = TRUE,
        null_safe: bool = False,
    ) -> None:
        self.schema = left_schema + right_schema
        self.schemas = (left_schema, right_schema)
        self.keys = keys
        self.residual = residual
        self.null_safe = null_safe
        self._columns = (value_columns(len(left_schema)), value_columns(len(right_schema)))
        self._key_columns = [[value_column(key[side]) for key in keys] for side in (0, 1)]
        self._bands = [None if keys else _find_band(residual, len(left_schema), side) for side in (0, 1)]

    def _arrange(self, batch: Batch, side: int) -> Segment:
        """The rows that can match at all, sorted by key."""
        keys, band = self._key_columns[side], self._bands[side]
        required = keys if not self.null_safe else []
        required = [value_column(band.column)] if band is not None else required
        frame = batch[[*self._columns[side], *INTERVAL_COLUMNS, *([BORN] if BORN in batch.columns else [])]]
        if any(frame[column].null_count() for column in required):
            frame = frame.drop_nulls(required)
        if band is not None:
            codes = order_codes(frame[value_column(band.column)])
            order = np.argsort(codes, kind="stable")
        else:
            codes = key_codes(frame, keys)
            order = stable_order(codes)
        return pl.DataFrame([*gather(frame, frame.columns, order), pl.Series(KEY, codes[order])])

    def _candidates(self, probe: Segment, stored: Segment, side: int) -> Iterator[Pairs]:
        """(row of the probe, row of what is stored of that side) in chunks: a superset of what matches."""
        codes, band = codes_of(stored), self._bands[side]
        if self.keys:
            runs = equal_runs(codes, codes_of(probe))
        elif band is not None:
            runs = band.runs(codes, probe)
        else:
            runs = np.zeros(probe.height, np.intp), np.full(probe.height, codes.size, np.intp)
        yield from pairs_of_runs(*runs)

    def _agreeing(
        self, left: pl.DataFrame, right: pl.DataFrame, i: Positions, j: Positions, pairs: Positions
    ) -> Positions:
        """Those of the pairs (i, j) whose keys are equal, where equal codes do not say so already."""
        if are_codes_exact(left, self._key_columns[0]) and are_codes_exact(right, self._key_columns[1]):
            return pairs
        return pairs[equal_values(left, right, i[pairs], j[pairs], *self._key_columns)]

    def _empty(self, born: bool) -> Batch:
        return pl.DataFrame(schema=batch_schema(self.schema) | ({BORN: pl.Int64()} if born else {}))

    def _values(self, left: pl.DataFrame, right: pl.DataFrame, i: Positions, j: Positions) -> list[pl.Series]:
        """The columns of the concatenated rows."""
        width = len(self._columns[0])
        of_right = gather(right, self._columns[1], j)
        renamed = [series.alias(value_column(width + number)) for number, series in enumerate(of_right)]
        return gather(left, self._columns[0], i) + renamed

    def _satisfying(self, frame: Batch) -> Batch:
        return frame if self.residual == TRUE or not frame.height else select_true(frame, self.residual)


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


class InnerJoin(_Join):
    """A join B = {(a b, [max(s1, s2), min(e1, e2)), w1 * w2) : a in A, b in B, keys equal, residual true}

        change(A join B) = change(A) join B_before + A_after join change(B).

    Keeps the rows of both sides. A row is forgotten once the other side's frontier has reached its end - 1,
    since no partner can start in time any more; a row and its retraction are forgotten together once the
    other side's frontier has passed the start of the retraction. Rows whose key is NULL are not kept unless
    keys are null-safe.

    `_born` of a result is the greatest of its components; a side without the column has no say in it.
    """

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        left, right = self._arrange(inputs[0], 0), self._arrange(inputs[1], 1)
        before = state.get("left", ()), state.get("right", ())
        pieces = [piece for stored in (*before[1], right) for piece in self._product(left, stored, 1)]
        pieces += [piece for stored in before[0] for piece in self._product(stored, right, 0)]
        after = {
            "left": retain(before[0], left, horizon_of(progress.after[1])),
            "right": retain(before[1], right, horizon_of(progress.after[0])),
        }
        return concat(pieces, self._empty(BORN in left.columns or BORN in right.columns)), after

    def _product(self, left: Segment, right: Segment, stored_side: int) -> Iterator[Batch]:
        if not left.height or not right.height:
            return
        probe, stored = (left, right) if stored_side == 1 else (right, left)
        for probing, found in self._candidates(probe, stored, stored_side):
            i, j = (probing, found) if stored_side == 1 else (found, probing)
            start = np.maximum(numbers(left, START)[i], numbers(right, START)[j])
            end = np.minimum(numbers(left, END)[i], numbers(right, END)[j])
            kept = np.flatnonzero(start < end)
            kept = self._agreeing(left, right, i, j, kept)
            i, j, start, end = i[kept], j[kept], start[kept], end[kept]
            weight = numbers(left, WEIGHT)[i] * numbers(right, WEIGHT)[j]
            columns = self._values(left, right, i, j)
            columns += [pl.Series(START, start), pl.Series(END, end), pl.Series(WEIGHT, weight)]
            sides = ((left, i), (right, j))
            born = [numbers(side, BORN)[rows] for side, rows in sides if BORN in side.columns]
            if born:
                columns.append(pl.Series(BORN, reduce(np.maximum, born)))
            yield self._satisfying(pl.DataFrame(columns))


class NonRetroactiveJoin(_Join):
    """A join T = {(a b, [s1, e1), w1 * w2) : a in A, b in T, s2 <= born(a) < e2, keys equal, residual true},

    where born(a) is `_born` of a, or s1 without that column: a row of the stream side meets the table as of
    the instant at which it was generated, and later changes of the table do not act on it. A retraction
    carries the `_born` of what it retracts, and so meets the same version.

    Keeps the table's versions, and rows of the stream side born after the table's frontier, until that
    reaches them. A version is forgotten when nothing can be born into it any more: `lag` says that no row
    starts more than so many ticks after it was born. It is 0 without `_born`; where it is not known (None),
    all versions are kept.
    """

    def __init__(
        self,
        left_schema: Schema,
        right_schema: Schema,
        keys: tuple[tuple[int, int], ...],
        residual: Expression = TRUE,
        null_safe: bool = False,
        lag: int | None = None,
    ) -> None:
        super().__init__(left_schema, right_schema, keys, residual, null_safe)
        self.lag = lag

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        has_born = BORN in inputs[0].columns
        born, after = BORN if has_born else START, progress.after[1]
        arrived = inputs[0][[*self._columns[0], *INTERVAL_COLUMNS, *([BORN] if has_born else [])]]
        ready, waiting = released(state.get("waiting", ()), arrived, born, progress.before[1], after)
        left = self._arrange(ready, 0)
        changed = self._arrange(inputs[1].drop(BORN, strict=False), 1)
        table = state.get("table", ())
        output = self._as_of(left, (*table, changed), born)
        lag = self.lag if has_born else 0
        reached = -1 if lag is None else min(progress.after[0] - lag, after)
        return output, {"waiting": waiting, "table": retain(table, changed, max(horizon_of(reached), 0))}

    def _as_of(self, left: Segment, table: Sequence[Segment], born: str) -> Batch:
        """The rows joined with the versions of the table they were born into."""
        instants = numbers(left, born)
        found = []
        for version in table if left.height else ():
            starts, ends = numbers(version, START), numbers(version, END)
            for i, j in self._candidates(left, version, 1):
                pairs = np.flatnonzero((starts[j] <= instants[i]) & (instants[i] < ends[j]))
                pairs = self._agreeing(left, version, i, j, pairs)
                rows = pl.Series(_ROW, i[pairs].astype(np.int64))
                found.append(pl.DataFrame([*gather(version, [*self._columns[1], WEIGHT], j[pairs]), rows]))
        if not any(part.height for part in found):
            return self._empty(BORN in left.columns)
        matches = pl.concat(found, rechunk=True)
        if (numbers(matches, WEIGHT) < 0).any():
            # What the table took back before the row was born is no match, not one that is taken back.
            matches = _summed(matches)
        i = numbers(matches, _ROW).astype(np.intp)
        columns = self._values(left, matches, i, np.arange(i.size))
        columns += gather(left, [START, END], i)
        columns.append(pl.Series(WEIGHT, numbers(left, WEIGHT)[i] * numbers(matches, WEIGHT)))
        columns += gather(left, [BORN] if BORN in left.columns else [], i)
        return self._satisfying(pl.DataFrame(columns))
