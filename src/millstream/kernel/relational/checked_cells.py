"""Sums of cells of which those of a query may not fit into their type.

    C(t) = the totals of each cell, as in CompactedCellAggregate;   it fails where f(the totals of all cells that q is
    in) does, for a query q of the query table and a key at a final instant

The sums of a cell always fit. As long as all that came would fit together, so do those of any query, and none is looked
at: a bound of it is kept, which arrivals raise. Where that says nothing any more it is made anew of what is there;
where that does not help, sums are put together for all queries, but only of keys of which they may be too large.

Keeps the bound beside what CompactedCellAggregate keeps. All cells of a key lie on one shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.aggregation import accumulators
from millstream.kernel.aggregation.accumulators import Accumulator, Totals, accumulators_of
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.aggregate_values import PANES, POINTS
from millstream.kernel.aggregation.change_points import from_rows, from_segment
from millstream.kernel.aggregation.combined import CombinedAggregate
from millstream.kernel.aggregation.exact_sum import to_doubles
from millstream.kernel.batch import END, INTERVAL_COLUMNS, START, WEIGHT, Batch, concat, value_column
from millstream.kernel.columns import frame_of, only
from millstream.kernel.distribution import Distribution, by_key
from millstream.kernel.keys import key_codes
from millstream.kernel.operator import NO_STATE, Operator, Progress, Segment, State
from millstream.kernel.pending_errors import error_in
from millstream.kernel.relational.compacted_cells import CompactedCellAggregate
from millstream.kernel.relational.failures import Failing
from millstream.kernel.sharing.cells import CELL, by_span, members_of
from millstream.kernel.sharing.parameters import QUERIES, QUERY
from millstream.kernel.storage.segments import gather, numbers
from millstream.types import MAX_DECIMAL_PRECISION, Schema

BOUND = "bound"
_MARGIN = 1 - 1e-6  # bounds are doubles, which round
_TOGETHER = 1024  # queries whose sums are put together at a time

_Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MemberCheck:
    """What an operator that looks at single rows of queries computes: what of it fails, and its rows."""

    failing: Failing | None
    rows: Operator


class CheckedCellAggregate(CompactedCellAggregate):
    r"""`combined` puts totals together for a query, and tells in columns of its own where one does not fit; `checks`
    are what reads it. Here queries 1 and 2 are in a cell, and query 1 in another one.

    >>> from dataclasses import replace
    >>> from millstream.kernel.relational.linear import Project
    >>> from millstream.kernel.scalar.expressions import Column, Reported
    >>> from millstream.types import STRING, Field, decimal
    >>> wide, sums = decimal(38, 0), {Accumulator("copies"): 1, Accumulator("count", 3): 1, Accumulator("sum", 3): 2}
    >>> value = AggregateCall("sum", 3, False, BIGINT)
    >>> calls = value, replace(value, type=STRING, gives_error=True)
    >>> parts = (*integers("query", "copies"), Field("sum", wide))
    >>> combined = CombinedAggregate(parts, 1, integers("v"), calls, sums)
    >>> read = Reported(BIGINT, column(1), Column(STRING, 2, "error"))
    >>> check = MemberCheck(Failing([read], carried=integers("query")), Project(integers("v"), [read]))
    >>> totals = AggregateCall("count", None, False, BIGINT), AggregateCall("partial_sum", 2, False, wide)
    >>> cells, rows = (*CELL, *integers("v")), {"retractions": False, "lasting": False}
    >>> operator = CheckedCellAggregate(cells, (0, 1), totals, combined=combined, checks=[check], **rows)
    >>> run = Run(operator, queries(of={1: [5], 2: [5]}))
    >>> both, one = bytes([6, *bytes(7)]), bytes([2, *bytes(7)])
    >>> run.step(batch((0, both, 2**62, 0, 9, +1), (0, one, 5, 0, 9, +1)), to=3)
    (0, b'\x02\x00\x00\x00\x00\x00\x00\x00', 1, 5, [0, INF), +1)
    (0, b'\x06\x00\x00\x00\x00\x00\x00\x00', 1, 4611686018427387904, [0, INF), +1)
    >>> run.step(batch((0, one, 2**62, 4, 9, +1)), to=4)
    Traceback (most recent call last):
        ...
    millstream.errors.EvaluationError: sum(v) does not fit into BIGINT
    """

    def __init__(
        self,
        input_schema: Schema,
        keys: tuple[int, ...],
        calls: tuple[AggregateCall, ...],
        *,
        retractions: bool,
        lasting: bool,
        combined: CombinedAggregate,
        checks: Sequence[MemberCheck],
    ) -> None:
        super().__init__(input_schema, keys, calls, retractions=retractions, lasting=lasting)
        self.combined = combined
        self.checks = tuple(checks)
        self.first = 0  # the first instant at which what fails counts
        self.limits: dict[Accumulator, float] = {}
        for total, limit in self._limited():
            self.limits[total] = min(limit, self.limits.get(total, limit))

    def _limited(self) -> Iterator[tuple[Accumulator, float]]:
        """The totals that may come to too much, and what is too much."""
        plan = self.combined.plan
        columns = {total.argument: total.summed for total in plan.summed if total.kind == "sum"}
        for place, error in plan.errors.items():
            call = plan.calls[place]
            column = columns[call.argument]
            if column is None or call.argument is None or not plan.calls[error].gives_error:
                raise AssertionError("no sums")
            (total,) = accumulators_of(self.plan.calls[column - len(self.combined.keys)], self.plan.schema)
            limit = 2.0**63
            if call.type.is_decimal:
                limit = 10.0 ** (MAX_DECIMAL_PRECISION - (call.type.scale - plan.schema[call.argument].type.scale))
            yield total, limit * _MARGIN

    @property
    def distribution(self) -> Distribution:
        return by_key([self.keys[len(CELL) :]], tuple((key, place) for place, key in enumerate(self.keys)))

    @property
    def combiner(self) -> None:
        """The bound is of rows as they come."""
        return None

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        held = {name: runs for name, runs in state.items() if name != BOUND}
        output, after = super().step(inputs, held, progress)
        known = state.get(BOUND, ())
        arriving = self._arriving(inputs[0])
        if not arriving.any() and not self._is_beyond(_total(known, self.limits)):
            return output, {**after, **({BOUND: known} if known else {})}
        bound = _total(known, self.limits) + arriving
        if self._is_beyond(bound):
            bound = self._present(held) + arriving
            if self._is_beyond(bound):
                self._check(output, held, state.get(QUERIES, ()), progress)
        return output, {**after, BOUND: (pl.DataFrame({str(i): [each] for i, each in enumerate(bound.tolist())}),)}

    # How large sums may be

    def _is_beyond(self, bound: _Doubles) -> bool:
        return any(each >= limit for each, limit in zip(bound.tolist(), self.limits.values(), strict=True))

    def _arriving(self, rows: Batch) -> _Doubles:
        if not rows.height:
            return np.zeros(len(self.limits))
        copies = float(np.abs(numbers(rows, WEIGHT)).sum())
        columns = (rows.get_column(value_column(total.argument or 0)) for total in self.limits)
        return np.array([copies * _largest(column) for column in columns])

    def _present(self, state: State) -> _Doubles:
        """What is there and what is still to come or go, each as if it were for the worse."""
        wanted = (*self.limits,)
        found = [accumulators.from_columns(self.groups.all_records(state), wanted)]
        found += [from_segment(segment, wanted).totals for segment in state.get(PANES, ())]
        found += [from_rows(segment, wanted).totals for segment in state.get(POINTS, ())]
        magnitudes: _Doubles = np.sum([self._magnitudes(totals) for totals in found], axis=0)
        return magnitudes

    def _magnitudes(self, totals: Totals) -> _Doubles:
        return np.array([np.abs(to_doubles(totals[total])).sum() for total in self.limits])

    # Where they are too large

    def _check(self, output: Batch, state: State, table: Sequence[Segment], progress: Progress) -> None:
        """Raise the first error of a query, of those at the instants of this step."""
        queries = np.unique(np.concatenate([np.zeros(0, np.int64), *(numbers(rows, QUERY) for rows in table)]))
        rows = self._concerned(
            concat([self._shown(self.groups.all_records(state), progress.low_before, 1), output], output)
        )
        errors: list[Batch] = []
        for span, cells in by_span(rows):
            for first in range(0, len(queries), _TOGETHER):
                errors += self._errors_of(cells, span, queries[first : first + _TOGETHER], table, progress)
        found = [batch for batch in errors if batch.height]
        if found:
            raise error_in(pl.concat([batch.sort(START).head(1) for batch in found]).sort(START))

    def _concerned(self, rows: Batch) -> Batch:
        """The rows of those keys of which some query may have too much."""
        names = [value_column(place) for place in range(len(CELL), len(self.keys))]
        codes = key_codes(rows, names) if names else np.zeros(rows.height, np.uint64)
        _, owner = np.unique(codes, return_inverse=True)
        beyond = np.zeros(int(owner.max()) + 1 if rows.height else 0, np.bool_)
        for place, call in enumerate(self.plan.calls):
            for total in accumulators_of(call, self.plan.schema):
                if total in self.limits:
                    sums = accumulators.numbers_of(rows.get_column(value_column(len(self.keys) + place)))
                    beyond |= np.bincount(owner, np.abs(to_doubles(sums)), len(beyond)) >= self.limits[total]
        return only(rows, beyond[owner])

    def _errors_of(
        self, cells: Batch, span: int, queries: npt.NDArray[np.int64], table: Sequence[Segment], progress: Progress
    ) -> Iterator[Batch]:
        row, query = members_of(cells, span, queries)
        if not row.size:
            return
        width = len(self.schema)
        values = gather(cells, [value_column(index) for index in range(len(CELL), width)], row)
        named = [column.alias(value_column(index + 1)) for index, column in enumerate(values)]
        placed = frame_of(
            [pl.Series(value_column(0), query, pl.Int64), *named, *gather(cells, [*INTERVAL_COLUMNS], row)]
        )
        since = Progress((max(progress.low_before, 0) - 1,), (progress.low,))
        made, _ = self.combined.step([placed], NO_STATE, since)
        texts = [made.get_column(value_column(len(self.combined.keys) + i)) for i in self.combined.plan.error_calls]
        starts, ends = np.maximum(numbers(made, START), self.first), numbers(made, END)
        wrong = np.logical_or.reduce([text.is_not_null().to_numpy() for text in texts])
        wrong &= (starts <= progress.low) & (ends > starts)
        rows = only(made.with_columns(pl.Series(START, starts)), wrong)
        for check in self.checks if rows.height else ():
            if check.failing is not None:
                yield check.failing.step([rows], NO_STATE, progress)[0]
            rows, _ = check.rows.step([rows], {QUERIES: (*table,)}, progress)


def _total(bounds: Sequence[Segment], limits: dict[Accumulator, float]) -> _Doubles:
    """Of states that were put together, their sum."""
    total: _Doubles = np.sum([np.zeros(len(limits)), *(np.array(bound.row(0)) for bound in bounds)], axis=0)
    return total


def _largest(column: pl.Series) -> float:
    """The largest magnitude of numbers, of decimals without their point."""
    least, greatest = column.min(), column.max()
    if least is None or greatest is None:
        return 0.0
    scale = column.dtype.scale if isinstance(column.dtype, pl.Decimal) else 0
    return max(abs(float(least)), abs(float(greatest))) * 10.0**scale  # type: ignore[arg-type]
