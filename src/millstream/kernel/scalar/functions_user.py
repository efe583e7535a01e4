"""User-defined functions: a Python callable over whole columns, called on the rows that need it.

The callable gets one column per argument and gives one back, of the same length. It runs only on rows that reach it
(a CASE branch's rows, for one), never on none, and must give equal results for equal rows, whatever the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from millstream.errors import EvaluationError
from millstream.kernel.scalar.expressions import Call, Expression
from millstream.kernel.scalar.outcome import Failure, Outcome, column_of_height
from millstream.kernel.scalar.value_size import largest_value, too_large, value_limit
from millstream.types import DataType, to_arrow, to_polars

_VALUE, _ERROR = "value", "error"


class _NotAColumnError(EvaluationError):
    """What a function gives is no column of so many values, whatever is in it."""


@dataclass(frozen=True)
class UserFunction:
    """A function that a user made: argument types are not checked, the result must fit `returns`."""

    name: str
    # Within a database a name is given once; the fingerprint must be the same in the next process.
    body: Callable[..., Any] = field(repr=False, metadata={"fingerprint": False})
    returns: DataType
    columns: Literal["polars", "arrow"] = "polars"  # what the body takes

    def __call__(self, arguments: Sequence[Expression]) -> UserCall:
        return UserCall(self.returns, self.name, tuple(arguments), self)


@dataclass(frozen=True)
class UserCall(Call):
    """A call that carries its function along, so that a plan needs no registry where it runs."""

    user_function: UserFunction


def call_outcome(
    node: UserCall, arguments: Sequence[pl.Expr], guard: pl.Expr | None, as_column: Callable[[pl.Expr], pl.Expr]
) -> Outcome:
    """The call; `guard` marks the rows that need it (None: all of them). Rows on which it raises fail, and no others:
    where it raises for many, halves of them are tried."""
    dtype = to_polars(node.type)
    most = value_limit()  # of the thread that compiles: Polars calls from threads of its own
    called = pl.Struct({_VALUE: dtype, _ERROR: pl.String()})

    def compute(columns: Sequence[pl.Series]) -> pl.Series:
        height = columns[0].len()
        needed, *values = (column_of_height(column, height) for column in columns[1:])
        chosen = needed.fill_null(False)
        if not chosen.all():
            values = [value.filter(chosen) for value in values]
        result, errors = _attempted(node.user_function, values, int(chosen.sum()), most)
        if not chosen.all():
            places = chosen.arg_true()
            result = pl.Series([None], dtype=dtype).new_from_index(0, height).scatter(places, result)
            errors = pl.Series([None], dtype=pl.String).new_from_index(0, height).scatter(places, errors)
        return pl.DataFrame([result.alias(_VALUE), errors.alias(_ERROR)]).to_struct("called").cast(called)

    needed = pl.lit(True) if guard is None else guard
    column = as_column(pl.map_batches([pl.int_range(pl.len()), needed, *arguments], compute, return_dtype=called))
    error = column.struct.field(_ERROR)
    failure = Failure(lambda _: error.is_not_null(), f"function {node.user_function.name} fails", text=error)
    return Outcome(column.struct.field(_VALUE), (failure,))


def _attempted(
    function: UserFunction, values: Sequence[pl.Series], height: int, most: int
) -> tuple[pl.Series, pl.Series]:
    """What the function gives, and what it raised: one of both for each row."""
    try:
        return _apply(function, values, height, most), pl.Series([None], dtype=pl.String).new_from_index(0, height)
    except EvaluationError as error:
        if height > 1 and not isinstance(error, _NotAColumnError):
            middle = height // 2
            parts = [
                _attempted(function, [value.slice(at, size) for value in values], size, most)
                for at, size in ((0, middle), (middle, height - middle))
            ]
            return pl.concat([part[0] for part in parts]), pl.concat([part[1] for part in parts])
        nothing = pl.Series([None], dtype=to_polars(function.returns)).new_from_index(0, height)
        return nothing, pl.Series([error.primary]).new_from_index(0, height)


def _apply(function: UserFunction, values: Sequence[pl.Series], height: int, most: int) -> pl.Series:
    dtype = to_polars(function.returns)
    if not height:
        return pl.Series([], dtype=dtype)
    columns: list[Any] = list(values)
    if function.columns == "arrow":
        columns = [value.to_arrow() for value in values]
    try:
        result = function.body(*columns)
    except (MemoryError, OSError):
        raise  # the machine's, not the row's: the epoch is tried again
    except Exception as error:
        raise EvaluationError(f"function {function.name} raised {type(error).__name__}: {error}") from error
    series = _as_series(function, result, dtype)
    if series.len() != height:
        raise _NotAColumnError(
            f"function {function.name} gave {series.len()} values for {height} rows",
            hint="it gets whole columns and must give one value for each row",
        )
    if (largest := largest_value(series)) > most:
        raise too_large(f"function {function.name}: a value of {largest:,} bytes", most, EvaluationError)
    return series


def _as_series(function: UserFunction, result: Any, dtype: pl.DataType) -> pl.Series:
    try:
        if isinstance(result, pa.Array | pa.ChunkedArray):
            result = result.cast(to_arrow(function.returns))
            result.validate(full=True)  # a text that is no UTF-8 would end the process that meets it later
            result = pl.from_arrow(result)
        if isinstance(result, pl.Series):
            return result.cast(dtype)
        return pl.Series(result, dtype=dtype)  # NumPy arrays, lists and so on
    except Exception as error:  # what a user's function gives can be anything
        raise EvaluationError(
            f"function {function.name} gave {type(result).__name__}, which is not a column of {function.returns}",
            detail=str(error).partition("\n")[0],
        ) from error
