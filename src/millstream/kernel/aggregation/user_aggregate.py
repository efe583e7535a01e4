"""User-defined aggregates: Python classes that see the values of a group as columns.

    value(t) = terminate(iterate(initialize(), the values of the group at t))

One that can retract is carried along: what came is iterated, what went is retracted, and its state is pickled
into the group's record. One that cannot is computed from the kept bag at each instant at which its group
changed. The calls are as many as there are instants, which is what such a class costs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.errors import Error, EvaluationError
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.instants import AT, GroupInstants
from millstream.kernel.aggregation.ordered_bag import OrderedBag
from millstream.kernel.aggregation.sorted_runs import SortedRuns
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
        runs: SortedRuns,
        before: tuple[pl.Series, pl.Series],
        states: pl.Series,
        instants: GroupInstants,
    ) -> tuple[pl.Series, pl.Series, pl.Series]:
        """The value at each instant, NULL where the class raises; what it raised there, else NULL; and the pickled
        state of each group after the step.

        `before` and `states` are the values, the errors and the states of the groups as the last step left them.
        """
        changes = changes.sort(AT)
        at, weight = changes.get_column(AT).to_numpy(), changes.get_column(WEIGHT).to_numpy()
        column = changes.get_column(self.column)
        starts, stops = np.searchsorted(at, instants.first), np.searchsorted(at, instants.stop)
        results: list[tuple[Any, str | None]] = []
        pickled = states.to_list()
        for group in range(len(instants.group)):
            own = slice(int(starts[group]), int(stops[group]))
            values, change, when = column[own], weight[own], at[own]
            content = partial(self._content, bag, runs, instants.group[group : group + 1], values, change)
            carried = _Carried(self.aggregate, pickled[group], content) if self.can_retract else None
            held = None if carried is not None else content()
            result = before[0][group], before[1][group]
            fresh = pickled[group] is None
            for instant in range(int(instants.first[group]), int(instants.stop[group])):
                places = np.arange(*np.searchsorted(when, (instant, instant + 1)))
                if len(places) or fresh:
                    if carried is not None:
                        result = self._called(partial(carried.step, places, values, change))
                    elif held is not None:
                        held.take(places)
                        result = self._called(partial(_computed, self.aggregate, held))
                    fresh = False
                results.append(result)
            pickled[group] = b"" if carried is None else carried.pickled()
        series, errors = self._series(results)
        return series, errors, pl.Series(states.name, pickled, dtype=pl.Binary)

    def _content(self, bag: OrderedBag, runs: SortedRuns, group: Int64s, values: pl.Series, weight: Int64s) -> _Content:
        return _Content(bag.content(runs, group), self.column, values, weight, distinct=self.call.distinct)

    def _called(self, compute: Callable[[], Any]) -> tuple[Any, str | None]:
        try:
            return compute(), None
        except (MemoryError, OSError):
            raise  # the machine's, not the group's: the epoch is tried again
        except Error:
            raise
        except Exception as error:
            return None, f"{self.shown} failed\n{type(error).__name__}: {error}"

    def _series(self, results: list[tuple[Any, str | None]]) -> tuple[pl.Series, pl.Series]:
        errors = pl.Series([error for _, error in results], dtype=pl.String)
        dtype = to_polars(self.call.type)
        try:
            values = pl.Series([value for value, _ in results], dtype=dtype)
        except Exception:  # what a user's class gives can be anything
            values = None
        if values is not None and largest_value(values) <= value_limit():
            return values, errors
        found = [(value, error) if error is not None else self._fitting(value) for value, error in results]
        values = pl.concat([pl.Series([value], dtype=dtype) for value, _ in found])
        return values, pl.Series([error for _, error in found], dtype=pl.String)

    def _fitting(self, value: Any) -> tuple[Any, str | None]:
        """One value, or why it is none."""
        try:
            series = pl.Series([value], dtype=to_polars(self.call.type))
        except Exception as error:
            return None, f"{self.shown} gave a value that is not {self.call.type}\n{error}"
        if (largest := largest_value(series)) > (most := value_limit()):
            return None, too_large(f"{self.shown}: a value of {largest:,} bytes", most, EvaluationError).primary
        return value, None


class _Content:
    """The values of a group: those that it had, and changes that are taken in bit by bit."""

    def __init__(
        self, content: pl.DataFrame, column: str, values: pl.Series, weight: Int64s, *, distinct: bool
    ) -> None:
        known = content.get_column(column) if content.height else values.clear()
        self._everything = pl.concat([known, values])
        self._weight = weight
        self._known = len(known)
        self._copies = np.zeros(len(self._everything), np.int64)
        if content.height:
            kept = content.get_column(WEIGHT).to_numpy()
            self._copies[: self._known] = np.minimum(kept, 1) if distinct else kept
        # A retraction counts against the value's own entry, so that no entry is taken below nothing.
        self._entry = _first_equal(self._everything)

    def take(self, places: Int64s) -> None:
        np.add.at(self._copies, self._entry[places + self._known], self._weight[places])

    def values(self) -> pl.Series:
        return self._everything.gather(np.repeat(np.arange(len(self._everything)), np.maximum(self._copies, 0)))


def _computed(aggregate: Any, content: _Content) -> Any:
    return aggregate.terminate(_iterated(aggregate, content))


def _iterated(aggregate: Any, content: _Content) -> Any:
    state, values = aggregate.initialize(), content.values()
    return aggregate.iterate(state, values) if len(values) else state


class _Carried:
    """The state of an aggregate that can retract. Once it has raised, its state may be anything: then it is computed
    from all values of the group, until that goes well."""

    def __init__(self, aggregate: Any, pickled: bytes | None, content: Callable[[], _Content]) -> None:
        self._aggregate = aggregate
        self._content = content
        self._broken = pickled == b""
        self._begun = bool(pickled)
        self._state: Any = pickle.loads(pickled) if pickled else None
        self._reached = 0

    def step(self, places: Int64s, values: pl.Series, weight: Int64s) -> Any:
        self._reached = max(self._reached, int(places[-1]) + 1 if len(places) else 0)
        if not self._broken:
            try:
                return self._moved(places, values, weight)
            except (MemoryError, OSError):
                raise
            except Exception:
                self._broken = True
        content = self._content()
        content.take(np.arange(self._reached))
        self._state = _iterated(self._aggregate, content)
        value = self._aggregate.terminate(self._state)
        self._broken, self._begun = False, True
        return value

    def _moved(self, places: Int64s, values: pl.Series, weight: Int64s) -> Any:
        if not self._begun:
            self._state, self._begun = self._aggregate.initialize(), True
        came = np.repeat(places, np.maximum(weight[places], 0))
        went = np.repeat(places, np.maximum(-weight[places], 0))
        if len(came):
            self._state = self._aggregate.iterate(self._state, values.gather(came))
        if len(went):
            self._state = self._aggregate.retract(self._state, values.gather(went))
        return self._aggregate.terminate(self._state)

    def pickled(self) -> bytes:
        return b"" if self._broken else pickle.dumps(self._state)


def _first_equal(values: pl.Series) -> Int64s:
    """For each value the place of the first one equal to it."""
    frame = pl.DataFrame({"value": values}).with_row_index("place")
    return frame.select(pl.col("place").first().over("value")).to_series().to_numpy().astype(np.int64)
