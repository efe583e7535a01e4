"""What operators on ordered rows have in common: what they keep of partitions, and which of these a step concerns.

Rows are taken up to the frontier, those that start later wait. What is kept are the rows of each partition, sorted by
the code of the partition; and the instants at which known ends wake one up. A step looks at the partitions that rows
come to or that wake up, and at no others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import END, INF, INTERVAL_COLUMNS, START, Batch, empty_batch, value_columns
from millstream.kernel.columns import frame_of, one_zero, only, stacked, take
from millstream.kernel.distribution import Distribution, by_key, same_columns
from millstream.kernel.keys import KEY, Codes, key_codes
from millstream.kernel.operator import Operator, Progress, Segment, State
from millstream.kernel.ordering.ordered_rows import value_names
from millstream.kernel.ordering.sort_keys import RowOrder
from millstream.kernel.storage import time_queue
from millstream.kernel.storage.expiries import note_gone
from millstream.kernel.storage.probing import equal_pairs
from millstream.kernel.storage.segments import codes_of, numbers, released
from millstream.kernel.storage.synopsis import retain
from millstream.kernel.storage.time_queue import TIME
from millstream.types import Schema

WAITING, ROWS, WAKES = "waiting", "rows", "wakes"


class OrderedOperator(Operator):
    """Looks at the rows of partitions in their order, at every instant."""

    def __init__(self, schema: Schema, input_schema: Schema, order: RowOrder) -> None:
        self.schema = schema
        self.order = order.complete(len(input_schema))
        self._columns = value_columns(len(input_schema))

    @property
    def distribution(self) -> Distribution:
        return by_key([self.order.partition], same_columns(len(self._columns)))

    def is_idle(self, state: State, progress: Progress) -> bool:
        queues = (state.get(name, ()) for name in (WAITING, WAKES))
        return not any(time_queue.is_due(queue, progress.low_before, progress.low) for queue in queues)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        before, low = progress.low_before, progress.low
        arrived, waiting = released(state.get(WAITING, ()), self._keyed(inputs[0]), START, before, low)
        kept, wakes = state.get(ROWS, ()), state.get(WAKES, ())
        woken = time_queue.due(wakes, before, low)
        touched = np.unique(np.concatenate([codes_of(arrived), *map(codes_of, woken)]))
        output = empty_batch(self.schema)
        if touched.size:
            found = (self._found(segment, touched, before) for segment in kept)
            known = stacked([arrived, *(part for part in found if part.height)])
            output = self._changes(known, before, low, state)
        wakes = time_queue.advanced(wakes, low)
        wakes = time_queue.pushed(wakes, self._wakes(arrived, low), low)
        rows = self._kept(kept, arrived, low)
        note_gone(kept, arrived.height, rows)
        return output, {name: value for name, value in ((WAITING, waiting), (ROWS, rows), (WAKES, wakes)) if value}

    @abstractmethod
    def _changes(self, known: pl.DataFrame, before: int, low: int, state: State) -> Batch:
        """What is new from `before` to `low`, of all rows of some partitions that matter since `before`."""

    def _kept(self, kept: Sequence[Segment], arrived: pl.DataFrame, low: int) -> tuple[Segment, ...]:
        """The rows that are kept after a step: those that end after it, which is to be said then."""
        new = take(arrived, np.argsort(codes_of(arrived), kind="stable"))
        return retain(kept, new, low)

    def _keyed(self, batch: Batch) -> Batch:
        """The batch with the code of each row's partition; values that are equal are the same."""
        values = (one_zero(batch.get_column(name)) for name in self._columns)
        frame = frame_of([*values, *(batch.get_column(name) for name in INTERVAL_COLUMNS)])
        return frame.hstack([pl.Series(KEY, key_codes(frame, value_names(self.order.partition)))])

    def _found(self, segment: Segment, touched: Codes, before: int) -> pl.DataFrame:
        """The rows of some partitions that are still there after `before`."""
        if self.order.partition:
            places = [rows for _, rows in equal_pairs(segment, touched)]
            segment = take(segment, np.concatenate(places) if places else np.zeros(0, np.intp))
        return only(segment, numbers(segment, END) > before)

    def _wakes(self, arrived: pl.DataFrame, low: int) -> pl.DataFrame:
        """When which partitions change by themselves, each once."""
        ends = numbers(arrived, END)
        ending = only(arrived, (ends < INF) & (ends > low))
        named = [ending.get_column(self._columns[0])] if 0 in self.order.partition else []
        found = frame_of([ending.get_column(KEY), ending.get_column(END).alias(TIME), *named])
        order = np.lexsort((codes_of(found), numbers(found, TIME)))
        codes, times = codes_of(found)[order], numbers(found, TIME)[order]
        is_first = np.ones(order.size, np.bool_)
        is_first[1:] = (codes[1:] != codes[:-1]) | (times[1:] != times[:-1])
        return take(found, order[is_first])
