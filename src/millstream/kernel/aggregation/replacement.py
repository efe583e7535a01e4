"""Results that replace one another by label: the output rows of a group-by.

    at an instant t where the row of a group changes from `old` to `new`:  (old, t, INF, -1) and (new, t, end, +1)

where `end` is the next change of the group if this step knows it, and INF if not. Equal rows do not replace
each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation.instants import GroupInstants
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_column
from millstream.kernel.columns import are_equal, frame_of, is_plain, joined, numbered, positions, taken

Bools = NDArray[np.bool_]


def replacements(
    instants: GroupInstants,
    keys: Sequence[pl.Series],
    shown_before: tuple[Bools, Sequence[pl.Series]],
    shown: tuple[Bools, Sequence[pl.Series]],
) -> Batch:
    """The output of a step: whether each group has a row and of what values, before the step and at each instant."""
    existed, old = shown_before
    exists, new = shown
    differs = np.zeros(len(instants), np.bool_)
    for before, values in zip(old, new, strict=True):
        differs |= _differs(instants, before, values)
    was = np.append(False, exists[:-1])
    was[instants.first] = existed
    changed = np.flatnonzero((exists != was) | (exists & differs))
    owner = instants.owner[changed]
    time = instants.time[changed]
    same = owner[1:] == owner[:-1]
    end = np.append(np.where(same, time[1:], INF), INF) if len(changed) else time
    begins = np.append(True, ~same) if len(changed) else np.zeros(0, np.bool_)
    gone = np.flatnonzero(begins & existed[owner])
    here = np.flatnonzero(exists[changed])
    labels = np.concatenate((owner[gone], owner[here]))
    places = np.concatenate((owner[gone], changed[here] + len(existed)))
    shown_values = (joined([before, values.alias(before.name)]) for before, values in zip(old, new, strict=True))
    of_keys, of_values = positions(labels, places)
    columns = [*taken(keys, of_keys), *taken([*shown_values], of_values)]
    intervals = {
        START: np.concatenate((time[gone], time[here])),
        END: np.concatenate((np.full(len(gone), INF), end[here])),
        WEIGHT: np.repeat([-1, 1], (len(gone), len(here))),
    }
    named = (column.alias(value_column(index)) for index, column in enumerate(columns))
    return frame_of([*named, *numbered(intervals)])


def _differs(instants: GroupInstants, before: pl.Series, values: pl.Series) -> Bools:
    """Where a value is not the one before it in its group, NULL and NaN being equal to themselves."""
    if values.null_count() == len(values) and before.null_count() == len(before):
        return np.zeros(len(instants), np.bool_)
    differs = np.ones(len(instants), np.bool_)
    if is_plain(values) and is_plain(before):
        numbers = values.to_numpy()
        differs[1:] = numbers[1:] != numbers[:-1]
        differs[instants.first] = numbers[instants.first] != before.to_numpy()
        return differs
    differs[1:] = ~are_equal(values[1:], values[:-1])
    differs[instants.first] = ~are_equal(taken([values], instants.first)[0], before)
    return differs
