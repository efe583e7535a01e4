"""User-defined aggregates: Python classes that see the values of a group as columns.

    value(t) = terminate(iterate(initialize(), the values of the group at t))

One that can retract is carried along: what came is iterated, what went is retracted, and its state is pickled
into the group's record. One that cannot is computed from the kept bag at each instant at which its group
changed. The calls are as many as there are instants, which is what such a class costs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.errors import Error, EvaluationError
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.instants import AT, Instants
from millstream.kernel.aggregation.ordered_bag import OrderedBag
from millstream.kernel.aggregation.sorted_runs import Runs
from millstream.kernel.batch import WEIGHT, value_column
from millstream.kernel.scalar.value_size import largest_value, too_large, value_limit
from millstream.types import to_polars

Int64s = NDArray[np.int64]


class UserAggregation:
    """One call of a user-defined aggregate."""

    def __init__(self, call: AggregateCall, shown: str) -> None:
        assert call.definition is not None
        assert call.argument is not None
        self.call, self.shown = call, shown
        self.column = value_column(call.argument)
        self.aggregate: Any = call.definition()
        self.can_retract = hasattr(self.aggregate, "retract")

    def evaluate(
        self,
        changes: pl.DataFrame,
        bag: OrderedBag,
        runs: Runs,
        before: pl.Series,
        states: pl.Series,
        instants: Instants,
    ) -> tuple[pl.Series, pl.Series]:
        """The value at each instant, and the pickled state of each group after the step.

        `before` and `states` are the values and the states of the groups as the last step left them.
        """
        changes = changes.sort(AT)
        at, weight = changes.get_column(AT).to_numpy(), changes.get_column(WEIGHT).to_numpy()
        column = changes.get_column(self.column)
        starts, stops = np.searchsorted(at, instants.first), np.searchsorted(at, instants.stop)
        results: list[Any] = []
        pickled = states.to_list()
        for group in range(len(instants.group)):
            own = slice(int(starts[group]), int(stops[group]))
            values, change, when = column[own], weight[own], at[own]
            if self.can_retract:
                step, finish = self._carried(pickled[group], values, change)
            else:
                step, finish = self._recomputed(bag.content(runs, instants.group[group : group + 1]), values, change)
            value = before[group]
            fresh = pickled[group] is None
            for instant in range(int(instants.first[group]), int(instants.stop[group])):
                places = np.arange(*np.searchsorted(when, (instant, instant + 1)))
                if len(places) or fresh:
                    value = self._call(step, places)
                    fresh = False
                results.append(value)
            pickled[group] = finish()
        return self._series(results), pl.Series(states.name, pickled, dtype=pl.Binary)

    def _carried(
        self, pickled: bytes | None, values: pl.Series, weight: Int64s
    ) -> tuple[Callable[[Int64s], Any], Callable[[], bytes]]:
        state = self._call(self.aggregate.initialize) if pickled is None else pickle.loads(pickled)

        def step(places: Int64s) -> Any:
            nonlocal state
            came = np.repeat(places, np.maximum(weight[places], 0))
            went = np.repeat(places, np.maximum(-weight[places], 0))
            if len(came):
                state = self.aggregate.iterate(state, values.gather(came))
            if len(went):
                state = self.aggregate.retract(state, values.gather(went))
            return self.aggregate.terminate(state)

        return step, lambda: pickle.dumps(state)

    def _recomputed(
        self, content: pl.DataFrame, values: pl.Series, weight: Int64s
    ) -> tuple[Callable[[Int64s], Any], Callable[[], bytes]]:
        known = content.get_column(self.column) if content.height else values.clear()
        everything = pl.concat([known, values])
        copies = np.zeros(len(everything), np.int64)
        if content.height:
            kept = content.get_column(WEIGHT).to_numpy()
            copies[: len(known)] = np.minimum(kept, 1) if self.call.distinct else kept
        # A retraction counts against the value's own entry, so that no entry is taken below nothing.
        entry = _first_equal(everything)

        def step(places: Int64s) -> Any:
            np.add.at(copies, entry[places + len(known)], weight[places])
            batch = everything.gather(np.repeat(np.arange(len(everything)), np.maximum(copies, 0)))
            state = self.aggregate.initialize()
            if len(batch):
                state = self.aggregate.iterate(state, batch)
            return self.aggregate.terminate(state)

        return step, lambda: b""

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Error:
            raise
        except Exception as error:
            raise EvaluationError(f"{self.shown} failed", detail=f"{type(error).__name__}: {error}") from error

    def _series(self, results: list[Any]) -> pl.Series:
        try:
            values = pl.Series(results, dtype=to_polars(self.call.type))
        except Exception as error:
            raise EvaluationError(
                f"{self.shown} gave a value that is not {self.call.type}", detail=str(error)
            ) from error
        if (largest := largest_value(values)) > (most := value_limit()):
            raise too_large(f"{self.shown}: a value of {largest:,} bytes", most, EvaluationError)
        return values


def _first_equal(values: pl.Series) -> Int64s:
    """For each value the place of the first one equal to it."""
    frame = pl.DataFrame({"value": values}).with_row_index("place")
    return frame.select(pl.col("place").first().over("value")).to_series().to_numpy().astype(np.int64)
