"""Cells of rows that stay, or that nothing foretells the end of.

    C(t) = totals of cells, of which those that q is in come to the total of its rows at t, for each query q

Rows that leave by themselves take their cells along. Others do not: a cell that no row comes to any more, since queries
have come and gone, is there as long as its rows are, and a row that is taken back lies in another cell then. So cells
are put together once there are far more than queries and keys: each query gets one cell of its own per key, with what
all its cells come to. That costs what it would have cost to keep the cells of each query apart from the first.

Keeps what CellAggregate does, and how many cells there were when they were last counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.aggregation import accumulators
from millstream.kernel.aggregation.accumulators import COPIES, Totals
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.combined import are_some
from millstream.kernel.aggregation.exact_sum import grouped
from millstream.kernel.aggregation.group_table import DEAD, EXISTS, GROUP, TABLE, UNTIL
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, concat, value_column
from millstream.kernel.columns import constant, frame_of, only, stacked, take, taken
from millstream.kernel.keys import first_of_equal
from millstream.kernel.operator import Progress, State
from millstream.kernel.relational.cell_aggregate import CellAggregate
from millstream.kernel.sharing.cells import CELL, LINEAGE_COLUMN, SPAN_COLUMN, by_span, cells_of_queries, members_of
from millstream.kernel.sharing.parameters import QUERIES, QUERY
from millstream.kernel.storage.segments import numbers
from millstream.types import Schema

COUNTED = "counted"
FAR_MORE = 2  # times as many cells
_FEW = 1024  # cells for which it is not worth while
_TOGETHER = 1024  # queries whose cells are put together at a time

Int64s = npt.NDArray[np.int64]


class CompactedCellAggregate(CellAggregate):
    r"""Where rows are not `lasting`, nothing is put together.

    >>> from millstream.kernel.sharing.cells import cell_of
    >>> total = AggregateCall("partial_sum", 2, False, BIGINT)
    >>> cells = (*CELL, *integers("v"))
    >>> run = Run(CompactedCellAggregate(cells, (0, 1), (total,), retractions=True), queries(of={1: [5], 2: [5]}))
    >>> _ = run.step(batch(*((0, (2 * n + 7).to_bytes(8, "little"), 1, 0, INF, +1) for n in range(2100))), to=0)
    >>> run.output.height  # as many, taken back, and two
    4202
    >>> run.step(batch((0, cell_of(2)[1], 10, 1, INF, +1)), to=1)
    (0, b'\x04\x00\x00\x00\x00\x00\x00\x00', 1050, [1, INF), -1)
    (0, b'\x04\x00\x00\x00\x00\x00\x00\x00', 1060, [1, INF), +1)
    """

    def __init__(
        self,
        input_schema: Schema,
        keys: tuple[int, ...],
        calls: tuple[AggregateCall, ...],
        *,
        retractions: bool,
        lasting: bool = True,
    ) -> None:
        super().__init__(input_schema, keys, calls, retractions=retractions)
        self.lasting = lasting

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        held = {name: runs for name, runs in state.items() if name not in (QUERIES, COUNTED)}
        output, after = super().step(inputs, held, progress)
        known = state.get(COUNTED, ())
        counted = sum(int(segment.item()) for segment in known)
        size = sum(run.height for run in after.get(TABLE, ()))
        if not self.lasting or size <= FAR_MORE * max(counted, _FEW) or progress.low < 0:
            return output, {**after, COUNTED: known} if known else after
        records = self.groups.all_records(after)
        table = state.get(QUERIES, ())
        queries = np.unique(np.concatenate([np.zeros(0, np.int64), *(numbers(rows, QUERY) for rows in table)]))
        records, output, after = self._without_nothing(records, queries, output, after, progress.low)
        key, heads = self._keys_of(records)
        if records.height > FAR_MORE * max(len(queries) * len(heads), _FEW):
            before, records = records, self._compacted(records, queries, key, heads, progress.low)
            after = {**after, **self.groups.rebuilt(records, after)}
            output = concat(
                [output, self._shown(before, progress.low, -1), self._shown(records, progress.low, 1)], output
            )
        return output, {**after, COUNTED: (pl.DataFrame({COUNTED: [records.height]}),)}

    def _without_nothing(
        self, records: pl.DataFrame, queries: Int64s, output: Batch, after: State, low: int
    ) -> tuple[pl.DataFrame, Batch, State]:
        """Without the records of keys of which rows were taken back in other cells than they came in, where that comes
        to nothing for each query."""
        key, heads = self._keys_of(records)
        suspect = np.zeros(len(heads), np.bool_)
        suspect[key[self._copies(records) < 0]] = True
        suspect[key[records.get_column(UNTIL).to_numpy() > low]] = False
        chosen = np.flatnonzero(suspect[key])
        if not chosen.size:
            return records, output, after
        for _, places, _ in self._own_totals(take(records, chosen), queries, key[chosen], len(heads)):
            suspect[places] = False
        nothing = suspect[key]
        if not nothing.any():
            return records, output, after
        kept = only(records, ~nothing)
        gone = self._shown(only(records, nothing), low, -1)
        return kept, concat([output, gone], output), {**after, **self.groups.rebuilt(kept, after)}

    def _copies(self, records: pl.DataFrame) -> Int64s:
        """How many rows each record stands for, where that is known."""
        totals = accumulators.from_columns(records, self.plan.summed)
        if COPIES not in totals:
            return np.zeros(records.height, np.int64)
        return accumulators.integers(totals[COPIES], "copies")

    def _keys_of(self, records: pl.DataFrame) -> tuple[Int64s, Int64s]:
        """The place of the key of each record, and a record of each."""
        names = self.groups.keys[len(CELL) :]
        if not names:
            return np.zeros(records.height, np.int64), np.zeros(min(records.height, 1), np.int64)
        heads, place = np.unique(first_of_equal(records, names), return_inverse=True)
        return place, heads

    def _compacted(self, records: pl.DataFrame, queries: Int64s, key: Int64s, heads: Int64s, low: int) -> pl.DataFrame:
        """Records of cells of one query each; and of those that something is still to come for, without totals."""
        found = [*self._own_totals(records, queries, key, len(heads))]
        query = np.concatenate([each[0] for each in found]) if found else np.zeros(0, np.int64)
        place = np.concatenate([each[1] for each in found]) if found else np.zeros(0, np.int64)
        names = self.groups.keys
        own = [
            *cells_of_queries(query),
            *taken([records.get_column(name) for name in names[len(CELL) :]], heads[place]),
        ]
        awaiting = only(records, records.get_column(UNTIL).to_numpy() > low)
        keyed = stacked([awaiting[names], frame_of([c.alias(name) for c, name in zip(own, names, strict=True)])])
        # A cell of one query may be one that something is still to come for.
        first = first_of_equal(keyed, names)
        is_first = first == np.arange(keyed.height)
        nothing = accumulators.map_totals(
            accumulators.from_columns(awaiting, self.plan.summed), lambda limbs: limbs.take(np.arange(0))
        )
        pieces = [nothing, *(each[2] for each in found)]
        owner = (np.cumsum(is_first) - 1)[first][awaiting.height :]
        count = int(is_first.sum())
        totals = accumulators.map_totals(accumulators.concatenated(pieces), lambda limbs: grouped(limbs, owner, count))
        return self._recorded(take(keyed, np.flatnonzero(is_first)), totals, awaiting, low)

    def _own_totals(
        self, records: pl.DataFrame, queries: Int64s, key: Int64s, keys: int
    ) -> Iterator[tuple[Int64s, Int64s, Totals]]:
        """Of some queries at a time: a query, the place of a key, and the totals, for each that is not 0."""
        totals = accumulators.from_columns(records, self.plan.summed)
        span, lineage = (records.get_column(name) for name in self.groups.keys[: len(CELL)])
        cells = frame_of([span.alias(SPAN_COLUMN), lineage.alias(LINEAGE_COLUMN), _counted_rows(records.height)])
        for number, within in by_span(cells):
            rows = numbers(within, GROUP)
            for first in range(0, len(queries), _TOGETHER):
                chosen = queries[first : first + _TOGETHER]
                row, query = members_of(within, number, chosen)
                if not row.size:
                    continue
                row = rows[row]
                codes, owner = np.unique(np.searchsorted(chosen, query) * keys + key[row], return_inverse=True)
                sums = {total: grouped(limbs.take(row), owner, len(codes)) for total, limbs in totals.items()}
                there = np.flatnonzero(are_some(sums, len(codes)))
                kept = {total: limbs.take(there) for total, limbs in sums.items()}
                yield chosen[codes[there] // keys], codes[there] % keys, kept

    def _recorded(self, keyed: pl.DataFrame, totals: Totals, awaiting: pl.DataFrame, low: int) -> pl.DataFrame:
        """Records with totals, of which the first are those of groups there were. The others have no number yet."""
        count, known = keyed.height, awaiting.height
        group = np.full(count, -1)
        group[:known] = numbers(awaiting, GROUP)
        until = np.full(count, low)
        until[:known] = numbers(awaiting, UNTIL)
        flags = {EXISTS: are_some(totals, count), DEAD: np.zeros(count, np.bool_)}
        values = (
            accumulators.evaluate(call, totals, self.plan.schema, shown).alias(f"o{place}")
            for place, (call, shown) in enumerate(zip(self.plan.calls, self.plan.shown, strict=True))
        )
        return frame_of(
            [
                *(pl.Series(GROUP, group), *keyed.get_columns(), pl.Series(UNTIL, until)),
                *(pl.Series(name, flag) for name, flag in flags.items()),
                *(*values, *accumulators.to_columns(totals)),
            ]
        )

    def _shown(self, records: pl.DataFrame, instant: int, weight: int) -> Batch:
        """The rows of cells that are there, from an instant on."""
        there = only(records, records.get_column(EXISTS).to_numpy())
        names = [*self.groups.keys, *(f"o{index}" for index in range(len(self.plan.calls)))]
        values = [there.get_column(name).alias(value_column(index)) for index, name in enumerate(names)]
        since = ((START, max(instant, 0)), (END, INF), (WEIGHT, weight))
        return frame_of([*values, *(constant(name, value, there.height) for name, value in since)])


def _counted_rows(count: int) -> pl.Series:
    return pl.Series(GROUP, np.arange(count))
