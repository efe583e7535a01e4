"""Aggregates that are functions of sums: what is summed, and what the sums say.

    total(t) = sum over rows (v, start, end, weight) with start <= t < end of weight * contribution(v)

COUNT, SUM, AVG, STDDEV, VARIANCE, COUNT_IF, ANY and EVERY need nothing but such totals. A total is linear in
the bag, so a row that enters adds its contribution and a row that leaves takes it out again, exactly (see
exact_sum). Totals are shared by the calls of one aggregation: AVG(x) and SUM(x) keep one sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from millstream.errors import EvaluationError
from millstream.kernel.aggregation import exact_sum, partial_sums
from millstream.kernel.aggregation.aggregate_calls import VARIANCES, AggregateCall
from millstream.kernel.aggregation.exact_sum import Bools, Float64s, Int64s, Limbs
from millstream.kernel.aggregation.partial_sums import PARTIAL_SUMS
from millstream.kernel.batch import WEIGHT, value_column
from millstream.kernel.columns import numbered
from millstream.types import INTERVAL, DataType, Schema, to_polars


@dataclass(frozen=True)
class Accumulator:
    """One total: a kind of contribution of one argument; `distinct` counts each value of a group once. Where rows stand
    for others of which it was made before, `summed` is the column that has it."""

    kind: str
    argument: int | None = None
    distinct: bool = False
    summed: int | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return f"{self.kind}{'' if self.argument is None else self.argument}{'d' if self.distinct else ''}"


# What is added and cumulated: a column of exact numbers per accumulator, all of one length.
Totals = Mapping[Accumulator, Limbs]

COPIES = Accumulator("copies")
OVERFLOW_HINT = "cast its argument to a wider type"
# Doubles that are not finite cannot be summed, but they can be counted; they decide the result while they are there.
NON_FINITE = ("nan", "plus_infinity", "minus_infinity")
_INFINITIES = {"plus_infinity": np.inf, "minus_infinity": -np.inf}


def accumulators_of(call: AggregateCall, schema: Schema) -> tuple[Accumulator, ...]:
    """The totals that a call of a linear function needs."""
    if call.argument is None:
        return (COPIES,)
    if call.name in PARTIAL_SUMS:
        return (Accumulator(PARTIAL_SUMS[call.name], call.argument),)
    kinds = ["count"]
    if call.name in ("any", "every", "count_if"):
        kinds.append("true")
    elif call.name in ("sum", "avg", *VARIANCES):
        kinds.append("sum")
        kinds += ["square"] if call.name in VARIANCES else []
        kinds += NON_FINITE if schema[call.argument].type.is_fractional else []
    return tuple(Accumulator(kind, call.argument, call.distinct) for kind in kinds)


def contributions(points: pl.DataFrame, accumulators: Iterable[Accumulator]) -> Totals:
    """What each change point adds to each total: its contribution times its weight."""
    weight = points.get_column(WEIGHT).to_numpy()
    result: dict[Accumulator, Limbs] = {}
    by_argument: dict[int, list[Accumulator]] = {}
    for accumulator in accumulators:
        if accumulator.summed is not None:
            sums = numbers_of(points.get_column(value_column(accumulator.summed)))
            result[accumulator] = exact_sum.multiplied(sums, weight)
        elif accumulator.argument is None:
            result[accumulator] = exact_sum.from_integers(weight)
        else:
            by_argument.setdefault(accumulator.argument, []).append(accumulator)
    for argument, wanted in by_argument.items():
        column = points.get_column(value_column(argument))
        valid = None if column.null_count() == 0 else column.is_not_null().to_numpy()
        result |= _argument_contributions(column, valid, weight, wanted)
    return result


def _argument_contributions(
    column: pl.Series, valid: Bools | None, weight: Int64s, wanted: Sequence[Accumulator]
) -> Totals:
    copies = weight if valid is None else np.where(valid, weight, 0)
    result: dict[Accumulator, Limbs] = {}
    numbers: Limbs | None = None
    doubles: Float64s | None = None
    if column.dtype.is_float():
        doubles = column.fill_null(0.0).cast(pl.Float64).to_numpy()
    for accumulator in wanted:
        match accumulator.kind:
            case "count":
                result[accumulator] = exact_sum.from_integers(copies)
            case "true":
                true = column.cast(pl.Boolean).fill_null(False).to_numpy()
                result[accumulator] = exact_sum.from_integers(np.where(true, weight, 0))
            case "sum" | "square":
                numbers = numbers_of(column, doubles) if numbers is None else numbers
                addend = numbers if accumulator.kind == "sum" else exact_sum.squared(numbers)
                result[accumulator] = exact_sum.multiplied(addend, weight)
            case kind:
                assert doubles is not None
                result[accumulator] = exact_sum.from_integers(np.where(_non_finite(kind, doubles), weight, 0))
    return result


def numbers_of(column: pl.Series, doubles: Float64s | None = None) -> Limbs:
    """A column as exact numbers, 0 for NULL; given as doubles without NULLs where it has such."""
    if doubles is not None:
        return exact_sum.from_doubles(np.where(np.isfinite(doubles), doubles, 0.0))
    if column.dtype.is_decimal():
        return exact_sum.from_decimals(column.fill_null(0))
    if column.dtype == pl.Null:
        return exact_sum.zeros(len(column))
    if column.dtype == pl.Binary:
        return partial_sums.decoded(column)
    return exact_sum.from_integers(filled(column if column.dtype == pl.Int64 else column.cast(pl.Int64)))


def filled(column: pl.Series) -> Int64s:
    """An integer column with 0 for NULL."""
    return (column.fill_null(0) if column.null_count() else column).to_numpy()


def _non_finite(kind: str, values: Float64s) -> Bools:
    found: Bools = np.isnan(values) if kind == "nan" else values == _INFINITIES[kind]
    return found


# Totals as columns of a segment: one column per limb, named by its place, so that only the limbs in use are kept.


def to_columns(totals: Totals) -> list[pl.Series]:
    columns: dict[str, Int64s] = {}
    for accumulator, limbs in totals.items():
        kept = exact_sum.trimmed(limbs)
        columns |= {f"{accumulator.name}.{kept.low + place}": part for place, part in enumerate(kept.parts)}
    return numbered(columns) if columns else []


def from_columns(segment: pl.DataFrame, accumulators: Iterable[Accumulator]) -> Totals:
    """The totals in a segment; a limb that is missing, or NULL where segments were put together, is zero."""
    places: dict[str, list[int]] = {}
    for column in segment.columns:
        name, dot, limb = column.rpartition(".")
        if dot:
            places.setdefault(name, []).append(int(limb))
    result: dict[Accumulator, Limbs] = {}
    for accumulator in accumulators:
        found = places.get(accumulator.name)
        if not found:
            result[accumulator] = exact_sum.zeros(segment.height)
            continue
        zero = np.zeros(segment.height, np.int64)
        limbs = {place: filled(segment.get_column(f"{accumulator.name}.{place}")) for place in found}
        parts = tuple(limbs.get(place, zero) for place in range(min(found), max(found) + 1))
        result[accumulator] = Limbs(min(found), parts)
    return result


def map_totals(totals: Totals, change: Callable[[Limbs], Limbs]) -> Totals:
    return {accumulator: change(limbs) for accumulator, limbs in totals.items()}


def concatenated(pieces: Sequence[Totals]) -> Totals:
    return {accumulator: exact_sum.concatenated([piece[accumulator] for piece in pieces]) for accumulator in pieces[0]}


# What the totals say


def evaluate(call: AggregateCall, totals: Totals, schema: Schema, shown: str) -> pl.Series:
    """The value of a call at each entry of the totals; `shown` is the call as the user wrote it."""
    values, wrong = attempted(call, totals, schema, shown)
    if wrong is not None and wrong.any():
        raise EvaluationError(overflow(call, shown), hint=OVERFLOW_HINT)
    return values


def attempted(call: AggregateCall, totals: Totals, schema: Schema, shown: str) -> tuple[pl.Series, Bools | None]:
    """The same, and where the value does not fit; it is NULL there."""
    argument = None if call.argument is None else schema[call.argument].type
    exact = call.name == "sum" or (call.name == "avg" and (call.type.is_decimal or call.type == INTERVAL))
    if argument is not None and exact and not argument.is_fractional:
        return _whole_numbers(call, totals, argument, shown)
    return _evaluated(call, totals, schema, shown), None


def _whole_numbers(
    call: AggregateCall, totals: Totals, argument: DataType, shown: str
) -> tuple[pl.Series, Bools | None]:
    """SUM and AVG of what is counted exactly."""
    counts = integers(totals[Accumulator("count", call.argument, call.distinct)], shown)
    total = totals[Accumulator("sum", call.argument, call.distinct)]
    if call.name == "avg":
        raised = exact_sum.multiplied(total, 10 ** (call.type.scale - argument.scale))
        total = exact_sum.divided(raised, np.maximum(counts, 1))
    values: pl.Series | Int64s
    if call.type.is_decimal:
        values, wrong = exact_sum.to_decimals(total, call.type.precision, call.type.scale)
    else:
        values, wrong = exact_sum.to_integers(total)
    return _nullable(values, (counts == 0) | wrong, call.type), wrong


def _evaluated(call: AggregateCall, totals: Totals, schema: Schema, shown: str) -> pl.Series:
    if call.argument is None:
        return pl.Series(integers(totals[COPIES], shown))

    def total(kind: str) -> Limbs:
        return totals[Accumulator(kind, call.argument, call.distinct)]

    if call.name in PARTIAL_SUMS:
        return partial_sums.encoded(total(PARTIAL_SUMS[call.name]), call.type)
    counts = integers(total("count"), shown)
    match call.name:
        case "count":
            return pl.Series(counts)
        case "count_if":
            return pl.Series(integers(total("true"), shown))
        case "any":
            return _nullable(integers(total("true"), shown) > 0, counts == 0, call.type)
        case "every":
            return _nullable(integers(total("true"), shown) == counts, counts == 0, call.type)
    argument = schema[call.argument].type
    divisor = np.maximum(counts, 1)
    match call.name:
        case "sum" if argument.is_fractional:
            values = exact_sum.to_doubles(total("sum"))
            return _nullable(_with_non_finite(values, total), counts == 0, call.type)
        case "avg" if argument.is_fractional:
            values = exact_sum.to_doubles(total("sum"), [divisor])
            return _nullable(_with_non_finite(values, total), counts == 0, call.type)
        case "avg":
            return _nullable(exact_sum.to_doubles(total("sum"), [divisor]), counts == 0, call.type)
    return _variance(call, total, counts, argument)


def _variance(call: AggregateCall, total: Callable[[str], Limbs], counts: Int64s, argument: DataType) -> pl.Series:
    """(n * sum of squares - square of sum) / (n * n), or / (n * (n - 1)) for samples: exact, then rounded once."""
    population = call.name in ("stddev_pop", "var_pop")
    numerator = exact_sum.added(
        exact_sum.multiplied(total("square"), counts), exact_sum.squared(total("sum")).negated()
    )
    divisors = [np.maximum(counts, 1), np.maximum(counts if population else counts - 1, 1)]
    # The sums are over unscaled integers: for decimals the square of the scale is divided out as well.
    digits = 2 * argument.scale
    divisors += [np.full(len(counts), 10 ** min(9, digits - at), np.int64) for at in range(0, digits, 9)]
    values = exact_sum.to_doubles(numerator, divisors)
    if argument.is_fractional:
        odd = sum(total(kind).parts[0] for kind in NON_FINITE) > 0
        values = np.where(odd, np.nan, values)
    if call.name.startswith("stddev"):
        values = np.sqrt(values)
    return _nullable(values, counts < (1 if population else 2), call.type)


def _with_non_finite(values: Float64s, total: Callable[[str], Limbs]) -> Float64s:
    nan, plus, minus = (total(kind).parts[0] > 0 for kind in NON_FINITE)
    values = np.where(plus, np.inf, np.where(minus, -np.inf, values))
    return np.where(nan | (plus & minus), np.nan, values)


def integers(limbs: Limbs, shown: str) -> Int64s:
    """Totals that must be BIGINTs."""
    values, wrong = exact_sum.to_integers(limbs)
    if wrong.any():
        raise EvaluationError(f"{shown} does not fit into BIGINT", hint=OVERFLOW_HINT)
    return values


def overflow(call: AggregateCall, shown: str) -> str:
    return f"{shown} does not fit into {call.type}"


def _nullable(values: pl.Series | Int64s | Float64s | Bools, missing: Bools, kind: DataType) -> pl.Series:
    series, wanted = values if isinstance(values, pl.Series) else pl.Series(values), to_polars(kind)
    series = series if series.dtype == wanted else series.cast(wanted)
    return series.set(pl.Series(missing), None) if missing.any() else series
