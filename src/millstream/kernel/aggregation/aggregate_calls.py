"""Which aggregate functions there are, what they take and what type they give.

Types follow Spark SQL: sums of integers are BIGINT, sums of DECIMAL(p,s) have ten more digits, averages of
decimals four more, averages of the rest are DOUBLE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from millstream.errors import NameError, TypeError, did_you_mean
from millstream.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTERVAL,
    MAX_DECIMAL_PRECISION,
    NULL,
    DataType,
    decimal,
)

ALIASES: Mapping[str, str] = {
    "mean": "avg",
    "std": "stddev",
    "stddev_samp": "stddev",
    "var_samp": "variance",
    "some": "any",
    "bool_or": "any",
    "all": "every",
    "bool_and": "every",
    "first_value": "first",
    "last_value": "last",
    "any_value": "first",
    "string_agg": "listagg",
    "array_agg": "collect_list",
}
# The best row by some order: by value, or by time.
EXTREMES = ("min", "max", "first", "last", "single_value", "max_by", "min_by")
VARIANCES = ("stddev", "stddev_pop", "variance", "var_pop")
BOOLEANS = ("any", "every", "count_if")
# Computed from all values of a group, in their order.
OF_ALL_VALUES = ("percentile_cont", "percentile_disc", "mode", "listagg", "collect_list")
FUNCTIONS = ("count", "sum", "avg", *EXTREMES, *VARIANCES, *BOOLEANS, *OF_ALL_VALUES)
Option = str | float | bool


class UserAggregate(Protocol):
    """A user-defined aggregate. `batch` is a Polars column of argument values, NULLs and repetitions included.

    The state may be anything that can be pickled. A class may also have `retract(state, batch)`, which takes values
    out again; one that has not is computed anew from the values that remain.
    """

    def initialize(self) -> Any: ...

    def iterate(self, state: Any, batch: pl.Series) -> Any: ...

    def terminate(self, state: Any) -> Any: ...


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of a SELECT list: a function over a column of the input row (None for COUNT(*)), perhaps over
    others too, with constants that it takes."""

    function: str
    argument: int | None
    distinct: bool
    type: DataType
    definition: Callable[[], UserAggregate] | None = None
    gives_error: bool = False  # not its value, but what is to say where it cannot be computed: NULL where it can
    others: tuple[int, ...] = ()
    options: tuple[Option, ...] = ()

    @property
    def name(self) -> str:
        """The function under its one name here, whatever the user called it."""
        return self.function if self.definition is not None else canonical(self.function)

    def show(self, columns: tuple[str, ...]) -> str:
        shown = ["*" if self.argument is None else columns[self.argument], *(columns[other] for other in self.others)]
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{', '.join(shown)})"


def canonical(name: str) -> str:
    lower = name.lower()
    return ALIASES.get(lower, lower)


def can_overflow(name: str, argument: DataType | None) -> bool:
    """Whether a built-in aggregate may have no value for a group, or one that its type cannot hold. Of narrower
    integers, and of decimals with room for ten digits more, nobody waits for so many rows."""
    match canonical(name):
        case "single_value" | "listagg" | "collect_list":
            return True
        case "sum":
            wide = argument is not None and argument.is_decimal and argument.precision + 10 > MAX_DECIMAL_PRECISION
            return wide or argument in (BIGINT, INTERVAL)
        case "avg":
            return argument is not None and argument.is_decimal and argument.precision + 4 > MAX_DECIMAL_PRECISION
    return False


def resolve_aggregate(name: str, argument_type: DataType | None, distinct: bool) -> DataType:
    """The type of a built-in aggregate over an argument of a type (None for the `*` of COUNT(*))."""
    function = canonical(name)
    if function not in FUNCTIONS:
        raise NameError(
            f'there is no aggregate function "{name}"',
            hint=did_you_mean(name, (*FUNCTIONS, *ALIASES)),
        )
    if argument_type is None:
        if function != "count" or distinct:
            shown = f"{name}(DISTINCT *)" if distinct else f"{name}(*)"
            raise TypeError(f"{shown} has no meaning", hint=f"name a column: {name}(column)")
        return BIGINT
    if function == "count":
        return BIGINT
    if function in BOOLEANS:
        if argument_type not in (BOOLEAN, NULL):
            raise TypeError(
                f"{name} takes a BOOLEAN, not {argument_type}",
                hint=f"compare the value with something, as in {name}(x > 0)",
            )
        return BIGINT if function == "count_if" else BOOLEAN
    if function in EXTREMES:
        return argument_type
    return _numeric_result(name, function, argument_type)


def _numeric_result(name: str, function: str, argument: DataType) -> DataType:
    if argument == INTERVAL and function in ("sum", "avg"):
        return INTERVAL
    if not argument.is_numeric and argument != NULL:
        raise TypeError(
            f"{name} takes a number, not {argument}",
            hint=f"cast the argument, as in {name}(CAST(x AS DOUBLE))",
        )
    if function == "sum":
        if argument.is_decimal:
            return decimal(min(MAX_DECIMAL_PRECISION, argument.precision + 10), argument.scale)
        return BIGINT if argument.is_integer else DOUBLE
    if function == "avg" and argument.is_decimal:
        return decimal(
            min(MAX_DECIMAL_PRECISION, argument.precision + 4), min(MAX_DECIMAL_PRECISION, argument.scale + 4)
        )
    return DOUBLE
