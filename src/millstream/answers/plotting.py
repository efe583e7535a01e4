"""Answers as plots over time, by matplotlib where it is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from millstream.errors import InputError, NameError, SetupError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TIME, _WEIGHT, _SERIES = "_ts", "_weight", "_series"
_MOST = 20  # lines


def plot(
    rows: pa.Table,
    *,
    is_stream: bool,
    title: str,
    y: str | Sequence[str] | None,
    by: str | Sequence[str] | None,
    ax: Any,
) -> Axes:
    """Draw elements of a stream as points, or the changes of a relation as steps: a line for each number and for each
    value of the columns `by` (texts, where nobody says)."""
    frame = pl.DataFrame(rows)
    values = [name for name in frame.columns if name not in (_TIME, _WEIGHT)]
    numbers = _chosen(y, values) or [name for name in values if _is_number(frame[name].dtype)]
    keys = _chosen(by, values) if by is not None else [name for name in values if frame[name].dtype == pl.String]
    numbers = [name for name in numbers if name not in keys]
    if not numbers:
        raise InputError(f"{title} has no numbers to plot", detail=f"the columns are {', '.join(values)}")
    wrong = [name for name in numbers if not _is_number(frame[name].dtype)]
    if wrong:
        raise InputError(f'column "{wrong[0]}" has no numbers', hint="choose others: plot(y=[..])")
    axes = ax if ax is not None else _axes()
    lines = _lines(frame, numbers, keys, is_stream)
    for label, times, points in lines[:_MOST]:
        if is_stream:
            axes.plot(times, points, marker=".", label=label)
        else:
            axes.step(times, points, where="post", label=label)
    left_out = len(lines) - _MOST
    axes.set_title(title if left_out <= 0 else f"{title} ({left_out} lines left out)")
    axes.set_xlabel("time")
    if lines:
        axes.legend()
    return axes  # type: ignore[no-any-return]


def _axes() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise SetupError("matplotlib is not there to plot with", hint="pip install millstream[plots]") from None
    return pyplot.subplots()[1]


def _chosen(names: str | Sequence[str] | None, known: Sequence[str]) -> list[str]:
    given = [] if names is None else [names] if isinstance(names, str) else [*names]
    by_key = {name.lower(): name for name in known}
    for name in given:
        if name.lower() not in by_key:
            raise NameError(f'there is no column "{name}"', hint=did_you_mean(name, known))
    return [by_key[name.lower()] for name in given]


def _is_number(kind: pl.DataType) -> bool:
    return kind.is_numeric() or kind == pl.Boolean


def _lines(
    frame: pl.DataFrame, numbers: Sequence[str], keys: Sequence[str], is_stream: bool
) -> list[tuple[str, list[Any], list[float | None]]]:
    """What to draw: a label, instants and values each. Of a relation, what comes at an instant counts; where something
    only goes there is nothing from then on."""
    found: list[tuple[str, list[Any], list[float | None]]] = []
    series = frame.partition_by(keys, as_dict=True, maintain_order=True) if keys else {(): frame}
    for key, part in series.items():
        for name in numbers:
            value = pl.col(name).cast(pl.Float64)
            if not is_stream:
                value = value.filter(pl.col(_WEIGHT) > 0).last()
                part_lines = part.group_by(_TIME, maintain_order=True).agg(value)
            else:
                part_lines = part.select(_TIME, value)
            label = ", ".join([*map(str, key), *([name] if len(numbers) > 1 or not keys else [])])
            found.append((label, part_lines[_TIME].to_list(), part_lines[name].to_list()))
    return found
