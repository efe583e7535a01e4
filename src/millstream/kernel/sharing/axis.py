"""The axis of an attribute: codes that order its values, and cuts that the constants of queries make in it.

    code(v) < code(w)  iff  v < w,    and a cut at x parts the values of code < x from those of code >= x

Values of fixed width have codes of their own (NaN above all, -0.0 as 0.0). Texts, bytes and wide decimals have none in
64 bits: they are coded by their place among the constants, 2i + 1 for the i-th constant and 2i for what lies before it
and after the one before. In both cases the cut before a constant is at its code and the cut after it one further on.
NULL is apart from all of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl

from millstream.kernel.keys import Codes, order_codes
from millstream.types import BINARY, STRING, DataType

LAST_CODE = np.uint64(2**64 - 1)  # nothing comes after it, so there is no cut there
_EXACT_DIGITS = 18  # decimals of so many digits are 64-bit integers


def has_codes(kind: DataType) -> bool:
    """Whether values of the type have codes without a dictionary of constants."""
    return kind not in (STRING, BINARY) and not (kind.is_decimal and kind.precision > _EXACT_DIGITS)


def comparable(series: pl.Series, kind: DataType) -> pl.Series:
    """Values as Polars orders and finds them by their codes: decimals as whole numbers, texts as bytes."""
    if kind.is_decimal:
        wide = series.reinterpret(dtype=pl.Int128)
        return wide.cast(pl.Int64) if has_codes(kind) else wide
    return series.cast(pl.Binary) if kind == STRING else series


def codes_of_values(values: pl.Series, constants: pl.Series | None) -> Codes:
    """Codes of comparable values, by their own or by their place in a dictionary; anything for NULL."""
    if constants is None:
        return order_codes(values)
    return _search(constants, values, "left") + _search(constants, values, "right")


def codes_of_constants(values: pl.Series, constants: pl.Series | None) -> Codes:
    """The same for values without NULL that the dictionary has."""
    if constants is None:
        return order_codes(values)
    return _search(constants, values, "left") * np.uint64(2) + np.uint64(1)


def dictionary(constants: Sequence[pl.Series]) -> pl.Series:
    """The distinct constants in their order."""
    return pl.concat(constants).unique().sort()


def moved(cuts: Codes, old: pl.Series, new: pl.Series) -> Codes:
    """Cuts by one dictionary as cuts by another one that has its constants and more."""
    places = _search(new, old, "left")
    index = (cuts - np.uint64(1)) >> np.uint64(1)
    return places[index.view(np.int64)] * np.uint64(2) + cuts - index * np.uint64(2)


def _search(constants: pl.Series, values: pl.Series, side: Literal["left", "right"]) -> Codes:
    if not values.len() or not constants.len():
        return np.zeros(values.len(), np.uint64)
    return constants.search_sorted(values, side=side).to_numpy().astype(np.uint64)
