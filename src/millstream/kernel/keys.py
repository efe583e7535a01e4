"""Codes of keys: 64-bit numbers by which stored rows are sorted and found.

They are the same in every process and version, since segments that are sorted by them outlive both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.columns import are_equal, is_plain, is_small, taken
from millstream.kernel.hashing import mix_bits
from millstream.kernel.lists import elements, lengths

KEY = "_key"  # what a segment is sorted by

Codes = npt.NDArray[np.uint64]
Ticks = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]

_NULL_WORD = np.uint64(0x9E3779B97F4A7C15)
_SIGN = np.uint64(1 << 63)


def key_codes(frame: pl.DataFrame, columns: Sequence[str]) -> Codes:
    """Equal keys have equal codes: NULL as NULL, 0.0 as -0.0, NaN as NaN. Codes are the same in every process
    and version, since segments that are sorted by them outlive both. A single column of fixed width up to 64
    bits without NULLs has distinct codes for distinct keys."""
    codes = np.zeros(frame.height, np.uint64)
    for column in columns:
        series = frame[column]
        if isinstance(series.dtype, pl.List):
            codes = _mix_lists(codes, series)
            continue
        mix = _mix_bytes if series.dtype in (pl.String, pl.Binary) else _mix_words
        codes = mix(codes, series)
    return codes


def _mix_lists(codes: Codes, series: pl.Series) -> Codes:
    """The elements' own codes, each mixed with its place, summed up; and how many there are."""
    sizes = lengths(series)
    codes = mix_bits(codes ^ sizes.view(np.uint64))
    if series.null_count():
        codes = np.where(series.is_null().to_numpy(), mix_bits(codes ^ _NULL_WORD), codes)
    ends = np.cumsum(sizes)
    if not sizes.size or not ends[-1]:
        return codes
    own = key_codes(elements(series).to_frame("element"), ["element"])
    place = np.arange(own.size) - np.repeat(ends - sizes, sizes)
    running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mix_bits(own + mix_bits(place.view(np.uint64))))))
    return np.where(sizes > 0, mix_bits(codes ^ (running[ends] - running[ends - sizes])), codes)


def _mix_words(codes: Codes, series: pl.Series) -> Codes:
    if not isinstance(series.dtype, pl.Decimal):
        return mix_bits(codes ^ _word(series))
    wide = series.reinterpret(dtype=pl.Int128).fill_null(0)
    low = (wide & (2**63 - 1)).cast(pl.Int64)
    high = (wide // 2**63).cast(pl.Int64)
    words = [low.to_numpy().view(np.uint64), high.to_numpy().view(np.uint64)]
    if series.null_count():
        words = [np.where(series.is_null().to_numpy(), _NULL_WORD, word) for word in words]
    return reduce(lambda mixed, word: mix_bits(mixed ^ word), words, codes)


def _word(series: pl.Series) -> Codes:
    """A value of fixed width as 64 bits."""
    if isinstance(series.dtype, pl.Int64) and not series.null_count():
        return series.to_numpy().view(np.uint64)
    if series.dtype == pl.Null:
        return np.full(series.len(), _NULL_WORD)
    word = _float_bits(series) if series.dtype.is_float() else physical(series).view(np.uint64)
    return np.where(series.is_null().to_numpy(), _NULL_WORD, word) if series.null_count() else word


def has_word(dtype: pl.DataType) -> bool:
    """Whether values are taken as 64 bits as they are."""
    return not isinstance(dtype, pl.String | pl.Binary | pl.Decimal | pl.List)


def word_of(series: pl.Series) -> Codes:
    """64 bits for each value, equal for equal ones."""
    return _word(series) if has_word(series.dtype) else key_codes(series.to_frame("value"), ["value"])


def mixed(words: Sequence[Codes]) -> Codes:
    """The codes of keys by the words of their columns: those of `key_codes` where all have one."""
    return reduce(lambda codes, word: mix_bits(codes ^ word), words, np.zeros(words[0].size, np.uint64))


def physical(series: pl.Series) -> Ticks:
    """Integers, and what is kept as integers; 0 for NULL."""
    if series.dtype.is_integer() and not series.null_count():
        return series.to_numpy().astype(np.int64, copy=False)  # without a query of Polars
    whole = series if series.dtype == pl.Int64 else series.to_physical().cast(pl.Int64)
    return (whole.fill_null(0) if whole.null_count() else whole).to_numpy()


def _float_bits(series: pl.Series) -> Codes:
    """The bits of a DOUBLE, one pattern for zero and one for NaN."""
    if series.null_count():
        series = series.fill_null(0.0)
    reals = (series if series.dtype == pl.Float64 else series.cast(pl.Float64)).to_numpy() + 0.0
    return np.where(np.isnan(reals), np.nan, reals).view(np.uint64)


def _mix_bytes(codes: Codes, series: pl.Series) -> Codes:
    """Eight bytes of every text at a time, for those that are long enough."""
    array = series.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, content = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(bounds)
    if series.null_count():
        # Bytes may lie below a NULL: they are not part of it.
        lengths = np.where(series.is_null().to_numpy(), 0, lengths)
    padded = np.zeros((content.size if content else 0) + 8, np.uint8)
    if content:
        padded[:-8] = np.frombuffer(content, np.uint8)
    # Every position of the text as the start of an eight-byte word.
    words = np.ndarray((padded.size - 7,), "<u8", padded.data, strides=(1,))
    codes = mix_bits(codes ^ lengths.view(np.uint64))
    if series.null_count():
        codes = np.where(series.is_null().to_numpy(), mix_bits(codes ^ _NULL_WORD), codes)
    done = 0
    rows = np.flatnonzero(lengths)
    while rows.size:
        left = np.minimum(lengths[rows] - done, 8).astype(np.uint64)
        # A shift by 64 is undefined, so the mask of n bytes is made by shifting right by 64 - 8n < 64.
        mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - np.uint64(8) * left)
        codes[rows] = mix_bits(codes[rows] ^ (words[bounds[rows] + done] & mask))
        done += 8
        rows = rows[lengths[rows] > done]
    return codes


def first_of_equal(frame: pl.DataFrame, columns: Sequence[str]) -> Positions:
    """Of each row the first one that has the same values, NULL as NULL, NaN as NaN and 0.0 as -0.0."""
    if is_small(frame.height):
        _, firsts, place = np.unique(key_codes(frame, columns), return_index=True, return_inverse=True)
        found: Positions = firsts[place]
        if are_codes_exact(frame, columns) or all(_are_the_same(frame.get_column(name), found) for name in columns):
            return found
    firsts_of = frame.with_row_index("_row").select(pl.col("_row").first().over(columns))
    return firsts_of.to_series().to_numpy().astype(np.intp)


def _are_the_same(column: pl.Series, places: Positions) -> bool:
    """Whether each value is the one that stands at its place."""
    if is_plain(column):
        values = column.to_numpy()
        return bool((values[places] == values).all())
    return bool(are_equal(column, taken([column], places)[0]).all())


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
    return order_ticks(physical(series))


def order_ticks(numbers: Ticks) -> Codes:
    return numbers.view(np.uint64) ^ _SIGN


def ticks_of_codes(codes: Codes) -> Ticks:
    """What `order_ticks` gave these codes to."""
    return (codes ^ _SIGN).view(np.int64)


def stable_order(codes: Codes) -> Positions:
    """The positions that sort the codes. Codes that are spread over all 64 bits give their low bits to the
    position, so that plain numbers are sorted, which is three times as fast as sorting positions."""
    bits = np.uint64(int(codes.size).bit_length())
    packed = ((codes >> bits) << bits) | np.arange(codes.size, dtype=np.uint64)
    packed.sort()
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.intp)
    ordered = codes[order]
    return order if (ordered[1:] >= ordered[:-1]).all() else np.argsort(codes, kind="stable")


def stable_order_of_ticks(ticks: Ticks) -> Positions:
    """The positions that sort instants. As distances from the least of them, without the low bits that none has, they
    leave room for the position in 64 bits: then plain numbers are sorted."""
    if not ticks.size:
        return np.zeros(0, np.intp)
    distances = (ticks - ticks.min()).view(np.uint64)
    used, bits = int(np.bitwise_or.reduce(distances)), int(ticks.size).bit_length()
    unused = (used & -used).bit_length() - 1 if used else 0
    if used.bit_length() - unused + bits > 64:
        return np.argsort(ticks, kind="stable")
    packed = ((distances >> np.uint64(unused)) << np.uint64(bits)) | np.arange(ticks.size, dtype=np.uint64)
    packed.sort()
    positions: Positions = (packed & np.uint64((1 << bits) - 1)).astype(np.intp)
    return positions
