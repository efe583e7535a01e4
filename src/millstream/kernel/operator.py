"""What the kernel's operators have in common.

An operator is a pure function: batches of its inputs, its state and the progress of time in, one batch and a new
state out. It holds nothing itself, so that any process can run it for any shard, and a failed attempt leaves no trace.

State is a mapping from synopsis name to immutable segments. A step returns unchanged segments as the very same
objects, so that only new ones need to be written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.distribution import ONE_SHARD, Distribution
from millstream.types import Schema

Segment = pl.DataFrame
State = Mapping[str, tuple[Segment, ...]]
NO_STATE: State = {}
# What every shard reads, whichever of them wrote it: the query tables, and errors that are foreseen. A step that keeps
# something under such a name gives it back each time, and with it what it adds.
EVERYWHERE = "all/"


@dataclass(frozen=True)
class Horizons:
    """The instants before which nothing that is kept of an input matters any more, before and after a step."""

    before: int
    after: int

    def least(self, other: Horizons) -> Horizons:
        return Horizons(min(self.before, other.before), min(self.after, other.after))


@dataclass(frozen=True)
class Progress:
    """How far each input is final, before and after this step (inclusive instants; -1 where nothing is)."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    shared: Mapping[int, Horizons] = field(default_factory=dict)  # of the inputs whose rows others keep as well

    @property
    def low_before(self) -> int:
        """The instant up to which the output was final before: the least over all inputs."""
        return min(self.before)

    @property
    def low(self) -> int:
        """The instant up to which the output is final after this step."""
        return min(self.after)


@dataclass(frozen=True)
class KeptInput:
    """That an operator keeps the rows of an input under the name of a synopsis, arranged in some way and for so long:
    operators that arrange the same rows in the same way keep the same (`common_work`).

    `is_kept_by` says whether what another one keeps will do for what is kept here; without it both must mean the same
    from the horizon on. Some `others` are the same for all who keep it.
    """

    synopsis: str
    arrangement: Hashable
    horizons: Horizons
    is_kept_by: Callable[[Sequence[Segment], Sequence[Segment]], bool] | None = None
    others: tuple[str, ...] = ()


class Combiner(Protocol):
    """Puts rows of an operator's only input together before they are sent to it: what it makes of the whole is the
    same."""

    @property
    def layout(self) -> Batch | None:
        """The columns of totals that may stand for rows, a further input of the operator; None where nothing does."""
        ...

    def sums(self, batch: Batch) -> Batch | None:
        """Totals that stand for all rows, where that is worth it."""
        ...

    def consolidated(self, batch: Batch) -> Batch:
        """Fewer rows with the same columns that mean the same, where that is worth it."""
        ...


class Operator(ABC):
    """One operator of the shared plan; `schema` describes its output."""

    schema: Schema

    @property
    def distribution(self) -> Distribution:
        """Which rows must come to the same shard.

        On a shard that has neither rows nor state for it an operator must have nothing to say, and is not even called;
        unless all its rows are on one shard: there it is, since COUNT(*) has something to say about nothing.
        """
        return ONE_SHARD

    @property
    def combiner(self) -> Combiner | None:
        """What puts rows together that are on their way to it."""
        return None

    @abstractmethod
    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        """Take what is new on each input; give what is new on the output.

        Rows that arrive later never start or end at or before an input's `after` frontier, nor do later outputs
        change R(t) for t <= `low`. Called with empty inputs too: time passing is a change of its own.
        """

    def is_idle(self, state: State, progress: Progress) -> bool:
        """Whether a step without rows would say nothing and keep what is kept, since nothing of it falls due. Then it
        is left out; to ask must cost little."""
        return False

    def kept_inputs(self, progress: Progress) -> Mapping[int, KeptInput]:
        """What is kept of inputs such that others may keep the same."""
        return {}

    def merged_states(self, state: State, other: State) -> State:
        """One state of two at the same instant that have no key in common: those of different queries of a group."""
        return {name: (*state.get(name, ()), *other.get(name, ())) for name in {**state, **other}}

    def of_queries(self, state: State, queries: pl.Series) -> State:
        """What is kept for some queries of a group: of rows whose first column is the query."""
        return {name: tuple(own(segment, value_column(0), queries) for segment in kept) for name, kept in state.items()}


def own(segment: Segment, column: str, wanted: pl.Series) -> Segment:
    """The rows with one of some values; the same object where these are all."""
    is_own = segment[column].is_in(wanted.implode())
    return segment if is_own.all() else segment.filter(is_own)
