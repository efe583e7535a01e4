"""Exact sums of integers, decimals and doubles, a whole column at a time.

    value[i] = sum over j of parts[j][i] * 2**(32 * (low + j))

A column of numbers is held as 32-bit limbs in int64 arrays. Because a limb leaves 31 bits of headroom, limbs
are added, subtracted and cumulated as plain integers, and carries are settled only when the headroom would run
out. Nothing is ever rounded until a sum is turned into the type of its result, once: the same bag gives the
same bits, in whatever order and in however many pieces its rows came and went. A double is 53 bits at some
power of two and so falls into three neighbouring limbs; only the limbs that the data reaches are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]
Float64s = NDArray[np.float64]
Bools = NDArray[np.bool_]

BITS = 32
MASK = (1 << BITS) - 1
_U = np.uint64
# Limbs below this can be added once more without leaving int64.
HEADROOM = 1 << 61
# Up to here every integer is a double, so that one division of doubles is one correct rounding.
EXACT_DOUBLE = 1 << 53
_MANTISSA_BITS = 53
_LEAST_EXPONENT = -1074  # the smallest double is 2**-1074


@dataclass(frozen=True, eq=False)
class Limbs:
    """A column of exact numbers; at least one part, all of the same length."""

    low: int
    parts: tuple[Int64s, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    @property
    def high(self) -> int:
        return self.low + len(self.parts)

    def magnitude(self) -> int:
        """No limb is larger than this in absolute value."""
        if not len(self):
            return 0
        return max(max(int(part.max()), -int(part.min())) for part in self.parts)

    def are_ones(self) -> bool:
        """Is every number 1?"""
        part = self.parts[0]
        return self.low == 0 and len(self.parts) == 1 and part.size > 0 and bool(part.min() == 1 == part.max())

    def take(self, index: Int64s) -> Limbs:
        return Limbs(self.low, tuple(part[index] for part in self.parts))

    def negated(self) -> Limbs:
        # The least int64 has no negative: only settled limbs are sure to be small enough.
        limbs = self if self.magnitude() < HEADROOM else normalized(self)
        return Limbs(limbs.low, tuple(-part for part in limbs.parts))

    def aligned(self, low: int, high: int) -> Limbs:
        """The same numbers with limbs from `low` to `high`, which must hold those that are there."""
        if low == self.low and high == self.high:
            return self
        zero = np.zeros(len(self), np.int64)
        below, above = self.low - low, high - self.high
        return Limbs(low, (zero,) * below + self.parts + (zero,) * above)


def zeros(count: int) -> Limbs:
    return Limbs(0, (np.zeros(count, np.int64),))


def normalized(limbs: Limbs) -> Limbs:
    """The same numbers with every limb in [0, 2**32) but the highest, which has the sign and is in [-2**31, 2**31)."""
    parts = []
    carry: Int64s | None = None
    for part in limbs.parts:
        # A carry has 32 bits at most, but a part may be near the end of int64: its own carry is split off first.
        low = (part & MASK) + (carry if carry is not None else 0)
        parts.append(low & MASK)
        carry = (part >> BITS) + (low >> BITS)
    assert carry is not None
    if _extends(carry, parts[-1]):
        parts[-1] = _signed(parts[-1])
    else:
        parts.append(carry)
    return Limbs(limbs.low, tuple(parts))


def _signed(part: Int64s) -> Int64s:
    return np.where(part >> (BITS - 1) != 0, part - (1 << BITS), part)


def _extends(top: Int64s, part: Int64s) -> bool:
    """Is `top` nothing but the sign of the settled limb below it?"""
    return bool(np.array_equal(top, -(part >> (BITS - 1))))


def trimmed(limbs: Limbs) -> Limbs:
    """Settled, without the limbs that say nothing: what is worth keeping in a segment."""
    if len(limbs.parts) == 1 and limbs.magnitude() < 1 << (BITS - 1):
        return limbs
    limbs = normalized(limbs)
    low, parts = limbs.low, list(limbs.parts)
    while len(parts) > 1 and _extends(parts[-1], parts[-2]):
        parts.pop()
        parts[-1] = _signed(parts[-1])
    while len(parts) > 1 and not parts[0].any():
        parts.pop(0)
        low += 1
    return Limbs(low, tuple(parts))


def concatenated(pieces: Sequence[Limbs]) -> Limbs:
    if len(pieces) == 1:
        return pieces[0]
    low, high = min(piece.low for piece in pieces), max(piece.high for piece in pieces)
    rows = [piece.aligned(low, high).parts for piece in pieces]
    return Limbs(low, tuple(np.concatenate(column) for column in zip(*rows, strict=True)))


def added(left: Limbs, right: Limbs) -> Limbs:
    if left.magnitude() + right.magnitude() >= HEADROOM:
        left, right = normalized(left), normalized(right)
    low, high = min(left.low, right.low), max(left.high, right.high)
    pairs = zip(left.aligned(low, high).parts, right.aligned(low, high).parts, strict=True)
    return Limbs(low, tuple(a + b for a, b in pairs))


def cumulated(limbs: Limbs) -> Limbs:
    """Running sums."""
    if len(limbs) * limbs.magnitude() >= HEADROOM:
        limbs = normalized(limbs)
    return Limbs(limbs.low, tuple(np.cumsum(part) for part in limbs.parts))


def grouped(limbs: Limbs, codes: Int64s, size: int) -> Limbs:
    """Sums per code, codes being 0 to size - 1."""
    if limbs.are_ones():
        return Limbs(0, (np.bincount(codes, minlength=size),))
    if len(limbs) * limbs.magnitude() >= EXACT_DOUBLE:
        limbs = normalized(limbs)
    if len(limbs) * limbs.magnitude() < EXACT_DOUBLE:
        # bincount adds doubles, which is exact below 2**53 and far faster than sorting.
        sums = [np.bincount(codes, weights=part, minlength=size).astype(np.int64) for part in limbs.parts]
        return Limbs(limbs.low, tuple(sums))
    columns = [np.zeros(size, np.int64) for _ in limbs.parts]
    for column, part in zip(columns, limbs.parts, strict=True):
        np.add.at(column, codes, part)
    return Limbs(limbs.low, tuple(columns))


def multiplied(limbs: Limbs, factor: Int64s | int) -> Limbs:
    """Each number times an integer of its own."""
    factors = np.asarray(factor, np.int64)
    largest = max(int(factors.max()), -int(factors.min())) if factors.size else 0
    if largest == 1 and factors.min() == 1:
        return limbs
    if largest * limbs.magnitude() >= HEADROOM:
        limbs = normalized(limbs)
    if largest * limbs.magnitude() < HEADROOM:
        return Limbs(limbs.low, tuple(part * factors for part in limbs.parts))
    # Horner's scheme over 16-bit digits of the factor; the topmost digit carries the sign.
    result = Limbs(limbs.low, tuple(part * (factors >> 48) for part in limbs.parts))
    for shift in (32, 16, 0):
        raised = multiplied(normalized(result), 1 << 16)
        result = added(raised, Limbs(limbs.low, tuple(part * (factors >> shift & 0xFFFF) for part in limbs.parts)))
    return result


def absolute(limbs: Limbs) -> tuple[Limbs, Int64s]:
    """Magnitudes, every limb in [0, 2**32), and signs (-1 or 1)."""
    limbs = normalized(limbs)
    sign = np.where(limbs.parts[-1] < 0, -1, 1).astype(np.int64)
    return normalized(Limbs(limbs.low, tuple(part * sign for part in limbs.parts))), sign


def squared(limbs: Limbs) -> Limbs:
    if len(limbs.parts) == 1 and limbs.magnitude() < 1 << 31:
        return Limbs(2 * limbs.low, (limbs.parts[0] * limbs.parts[0],))
    size, _ = absolute(limbs)
    parts = [part.astype(_U) for part in size.parts]
    result = [np.zeros(len(limbs), np.int64) for _ in range(2 * len(parts) + 1)]
    for i, a in enumerate(parts):
        for j, b in enumerate(parts[i:], start=i):
            product = a * b
            twice = 1 if i == j else 2
            result[i + j] += (product & _U(MASK)).astype(np.int64) * twice
            result[i + j + 1] += (product >> _U(BITS)).astype(np.int64) * twice
    return Limbs(2 * limbs.low, tuple(result))


# From columns to limbs


def from_integers(values: Int64s) -> Limbs:
    return Limbs(0, (values,))


def from_decimals(values: pl.Series) -> Limbs:
    """The unscaled integers of a decimal column without NULLs."""
    array = values.rechunk().to_arrow()
    words = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
    lower, upper = words[0::2], words[1::2].view(np.int64)
    halves = ((lower & _U(MASK)).astype(np.int64), (lower >> _U(BITS)).astype(np.int64))
    if np.array_equal(upper, lower.view(np.int64) >> 63):
        return Limbs(0, (lower.view(np.int64),))
    return Limbs(0, (*halves, upper & MASK, upper >> BITS))


def from_doubles(values: Float64s) -> Limbs:
    """Finite doubles."""
    fraction, exponent = np.frexp(values)
    mantissa = np.ldexp(fraction, _MANTISSA_BITS).astype(np.int64)
    power = exponent.astype(np.int64) - _MANTISSA_BITS
    nonzero = mantissa != 0
    if not nonzero.any():
        return zeros(len(values))
    least = int(power[nonzero].min())
    power = np.where(nonzero, power, least)
    limb, shift = power >> 5, power & 31
    low, high = least >> 5, int(power.max()) >> 5
    lower, upper = (mantissa & MASK) << shift, (mantissa >> BITS) << shift
    columns = np.zeros((high - low + 3, len(values)), np.int64)
    row, place = np.arange(len(values)), limb - low
    columns[place, row] = lower & MASK
    columns[place + 1, row] = (lower >> BITS) + (upper & MASK)
    columns[place + 2, row] = upper >> BITS
    return Limbs(low, tuple(columns))


# From limbs to results, rounded once


def to_integers(limbs: Limbs) -> tuple[Int64s, Bools]:
    """Whole numbers as int64, and where they do not fit."""
    assert limbs.low >= 0, "a sum of integers has no fraction"
    if limbs.high == 1:
        return limbs.parts[0], np.zeros(len(limbs), np.bool_)
    limbs = normalized(limbs)
    # One limb more than can matter, so that the highest holds nothing but the sign where the number fits.
    limbs = normalized(limbs.aligned(0, max(limbs.high, 2) + 1))
    values = limbs.parts[0] | (limbs.parts[1] << BITS)
    wrong = np.zeros(len(limbs), np.bool_)
    for place, part in enumerate(limbs.parts[2:], start=3):
        top = place == len(limbs.parts)
        wrong |= part != np.where(values < 0, -1 if top else MASK, 0)
    return values, wrong


def to_decimals(limbs: Limbs, precision: int, scale: int) -> tuple[pl.Series, Bools]:
    """Unscaled whole numbers as a decimal column, and where they need more digits than `precision`."""
    size, sign = absolute(limbs)
    wrong = ~_below(size, 10**precision)
    parts = [np.where(wrong, 0, part) for part in size.aligned(0, max(size.high, 4)).parts[:4]]
    lower = parts[0].astype(_U) | (parts[1].astype(_U) << _U(BITS))
    upper = parts[2].astype(_U) | (parts[3].astype(_U) << _U(BITS))
    negative = sign < 0
    # Two's complement over the two words: invert both and add one, which carries only if the lower word was zero.
    words = np.empty(2 * len(limbs), np.uint64)
    words[0::2] = np.where(negative, ~lower + _U(1), lower)
    words[1::2] = np.where(negative, ~upper + (lower == 0).astype(_U), upper)
    physical = pl.Series(np.zeros(0)) if not len(limbs) else _decimal_series(words, scale)
    return physical.cast(pl.Decimal(precision, scale)), wrong


def _decimal_series(words: UInt64s, scale: int) -> pl.Series:
    array = pa.Array.from_buffers(pa.decimal128(38, scale), len(words) // 2, [None, pa.py_buffer(words)])
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series


def _below(size: Limbs, bound: int) -> Bools:
    """Which magnitudes are less than a positive integer."""
    count = max(size.high, bound.bit_length() // BITS + 1)
    less = np.zeros(len(size), np.bool_)
    equal = np.ones(len(size), np.bool_)
    for place, part in reversed(list(enumerate(size.aligned(0, count).parts))):
        digit = bound >> (BITS * place) & MASK
        less |= equal & (part < digit)
        equal &= part == digit
    return less


def divided(limbs: Limbs, divisor: Int64s) -> Limbs:
    """Whole numbers divided by positive integers, halves rounded away from zero (as SQL rounds decimals)."""
    size, sign = absolute(limbs)
    assert size.low >= 0, "a sum of decimals has no fraction of its own"
    if len(divisor) and int(divisor.max()) > MASK:
        halves = [
            (2 * value + by) // (2 * by) for value, by in zip(_python_integers(size), divisor.tolist(), strict=True)
        ]
        return multiplied(_from_python_integers(halves), sign)
    by = divisor.astype(_U)
    quotient, remainder = _long_division([part.astype(_U) for part in reversed(size.aligned(0, size.high).parts)], by)
    quotient[-1] += (remainder >= by - remainder).astype(_U)
    return multiplied(Limbs(0, tuple(part.astype(np.int64) for part in reversed(quotient))), sign)


def _long_division(parts: Sequence[UInt64s], by: UInt64s) -> tuple[list[UInt64s], UInt64s]:
    """Quotients and remainders of limbs, highest first, by divisors below 2**32."""
    remainder = np.zeros(len(by), np.uint64)
    quotient = []
    for part in parts:
        current = (remainder << _U(BITS)) | part
        digit = current // by
        remainder = current - digit * by
        quotient.append(digit)
    return quotient, remainder


def to_doubles(limbs: Limbs, divisors: Sequence[Int64s] = ()) -> Float64s:
    """The doubles nearest to value / (the product of the divisors), ties to even; divisors are positive."""
    if limbs.low == 0 and len(limbs.parts) == 1 and len(divisors) <= 1 and limbs.magnitude() <= EXACT_DOUBLE:
        values = limbs.parts[0].astype(np.float64)
        if not divisors:
            return values
        if len(limbs) == 0 or int(divisors[0].max()) <= EXACT_DOUBLE:
            return values / divisors[0] + 0.0
    size, sign = absolute(limbs)
    if any(len(divisor) and int(divisor.max()) > MASK for divisor in divisors):
        return _slow_doubles(size, sign, divisors)
    window, place, sticky = _leading(size, 4 + len(divisors))
    for divisor in divisors:
        window, remainder = _long_division(window, divisor.astype(_U))
        sticky |= remainder != 0
    return _rounded(window, place, sticky) * sign + 0.0


def _leading(size: Limbs, count: int) -> tuple[list[UInt64s], Int64s, Bools]:
    """The `count` limbs from the first that is not zero, the place of the last of them, and whether more follow."""
    columns = np.stack(size.parts).astype(_U)
    rows = np.arange(len(size))
    top = len(columns) - 1 - np.argmax(columns[::-1] != 0, axis=0)
    window = []
    for offset in range(count):
        index = top - offset
        window.append(np.where(index >= 0, columns[np.maximum(index, 0), rows], _U(0)))
    sticky = np.zeros(len(size), np.bool_)
    for index in range(len(columns)):
        sticky |= (columns[index] != 0) & (index <= top - count)
    return window, top.astype(np.int64) - (count - 1) + size.low, sticky


def _rounded(window: Sequence[UInt64s], place: Int64s, sticky: Bools) -> Float64s:
    """Limbs, highest first, the last one at `place`, to the nearest double; `sticky` says that a bit more was there."""
    stacked = np.stack([*window, *[np.zeros_like(window[0])] * 2])
    rows = np.arange(stacked.shape[1])
    lead = np.argmax(stacked != 0, axis=0)
    lead = np.minimum(lead, len(window) - 1)
    first = stacked[lead, rows]
    rest = (stacked[lead + 1, rows] << _U(BITS)) | stacked[lead + 2, rows]
    for index in range(3, len(stacked)):
        sticky = sticky | ((stacked[index] != 0) & (index > lead + 2))
    length = np.frexp(first.astype(np.float64))[1].astype(np.int64)
    shift = length.astype(_U)
    # 64 leading bits, the last of which also stands for everything below it: enough to round to 53 correctly.
    kept = np.where(length > 0, (first << ((_U(64) - shift) & _U(63))) | (rest >> shift), rest)
    lost = (rest & ((_U(1) << shift) - _U(1))) != 0
    bits = kept | (sticky | lost).astype(_U)
    exponent = length + BITS * (place + (len(window) - 1 - lead) - 2)
    with np.errstate(over="ignore"):  # a sum beyond the doubles is infinite
        result: Float64s = np.ldexp(bits.astype(np.float64), exponent.astype(np.int32))
    tiny = (bits != 0) & (exponent + 64 - _MANTISSA_BITS < _LEAST_EXPONENT)
    if tiny.any():
        result[tiny] = _subnormal(bits[tiny], exponent[tiny])
    return result


def _subnormal(bits: UInt64s, exponent: Int64s) -> Float64s:
    """bits * 2**exponent below the normal doubles, rounded once to a multiple of 2**-1074."""
    drop = np.minimum(_LEAST_EXPONENT - exponent, 66).astype(_U)
    inside = np.minimum(drop, _U(63))
    whole = np.where(drop < 64, bits >> inside, _U(0))
    half_place = np.minimum(drop - _U(1), _U(63))
    half = np.where(drop <= 64, (bits >> half_place) & _U(1), _U(0))
    below = np.where(drop <= 64, bits & ((_U(1) << half_place) - _U(1)), bits) != 0
    up = (half != 0) & (below | (whole & _U(1) != 0))
    result: Float64s = np.ldexp((whole + up.astype(_U)).astype(np.float64), _LEAST_EXPONENT)
    return result


# Groups of more than 2**32 copies leave the vectorised division, which needs 32-bit divisors, for Python's integers.


def _python_integers(size: Limbs) -> list[int]:
    total = np.zeros(len(size), object)
    for place, part in enumerate(size.parts):
        total = total + part.astype(object) * (1 << (BITS * place))
    return [int(value) << (BITS * max(size.low, 0)) for value in total]


def _from_python_integers(values: Sequence[int]) -> Limbs:
    count = max((value.bit_length() for value in values), default=0) // BITS + 1
    parts = [np.array([value >> (BITS * j) & MASK for value in values], np.int64) for j in range(count)]
    return Limbs(0, tuple(parts))


def _slow_doubles(size: Limbs, sign: Int64s, divisors: Sequence[Int64s]) -> Float64s:
    below = 1 << (BITS * max(-size.low, 0))
    products = np.ones(len(size), object) * below
    for divisor in divisors:
        products = products * divisor.astype(object)
    # Python divides integers of any size with one correct rounding.
    quotients = [value / by for value, by in zip(_python_integers(size), products.tolist(), strict=True)]
    return np.array(quotients, np.float64) * sign + 0.0
