"""What evaluating one function gives: a value, and where it could not be computed.

ANSI SQL makes overflow, division by zero and bad casts errors, but only on rows that really evaluate the function: not
in a CASE branch they do not take. Vectorised code computes every row, so it must not raise on the way. Instead a
function gives some value everywhere, and failures: masks of the rows where that value does not count. The evaluator
restricts each mask to the rows that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Failure:
    """`mask` maps the computed value to a condition: true on the rows that failed (NULL counts as false).

    `suspicion`, where there is one, says something cheap about the whole batch: unless it is true, no row failed, and
    the mask need not be computed. `text`, where there is one, is what to say of each row instead of the message.
    """

    mask: Callable[[pl.Expr], pl.Expr]
    message: str
    hint: str | None = None
    suspicion: pl.Expr | None = None
    text: pl.Expr | None = None


@dataclass(frozen=True)
class Outcome:
    """A value for every row, and the failures to check it for."""

    value: pl.Expr
    failures: tuple[Failure, ...] = ()


def always(value: pl.Expr | Outcome) -> Outcome:
    """An outcome, whether or not the function can fail."""
    return value if isinstance(value, Outcome) else Outcome(value)


def fails_where_null(arguments: Sequence[pl.Expr], message: str, hint: str | None = None) -> Failure:
    """The computation gives NULL where it fails: a failure wherever the arguments are not NULL themselves."""

    def mask(value: pl.Expr) -> pl.Expr:
        condition = value.is_null()
        for argument in arguments:
            condition = condition & argument.is_not_null()
        return condition

    return Failure(mask, message, hint)


def null_where_failed(outcome: Outcome) -> pl.Expr:
    """The value with NULL instead of failures, as the lenient forms (TRY_CAST) give it."""
    value = outcome.value
    for failure in outcome.failures:
        value = pl.when(failure.mask(outcome.value).fill_null(False)).then(None).otherwise(value)
    return value


def by_column(compute: Callable[..., pl.Series], arguments: Sequence[pl.Expr], dtype: pl.DataType) -> pl.Expr:
    """Whole columns through a function of Polars series, for what no Polars expression says (or says exactly).

    Constants arrive as series of the batch's length, as Polars has no rule for functions of constants only.
    """

    def call(columns: Sequence[pl.Series]) -> pl.Series:
        height = columns[0].len()
        return compute(*(column_of_height(column, height) for column in columns[1:]))

    return pl.map_batches([pl.int_range(pl.len()), *arguments], call, return_dtype=dtype)


def column_of_height(column: pl.Series, height: int) -> pl.Series:
    return column if column.len() == height else column.new_from_index(0, height)
