"""[ROWS N SLIDE L] and [PARTITION BY .. ROWS N SLIDE L].

Count the elements of a partition 1, 2, ... in timestamp order, ties by arrival, and let t(j) be the instant of the
j-th. Then

    S [ROWS N SLIDE L] = { (r_i, t(ceil(i/L) L), t(ceil((i+N)/L) L), +1) }

where an arrival that is still to come is INF, and an end that comes later is said by (r_i, t(..), INF, -1).

Keeps the elements beyond the frontier, which cannot be counted yet, the last N + L elements of each partition, and how
many there were. Where it did not see all of the stream (RETAIN), it is told how many there were before (`before`), and
keeps at which instant the (N + L)-th element from `since` on came: from then on all in it are such.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream.kernel.batch import ARRIVAL, BORN, END, INF, START, WEIGHT, Batch, value_column, value_columns
from millstream.kernel.distribution import Distribution, by_key, same_columns
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.storage.segments import released
from millstream.kernel.windows.time import Rows
from millstream.types import Schema

COVERED, AT = "covered", "_at"
_NUMBER, _ENTERS, _LEAVES, _SHOWN = "_number", "_enters", "_leaves", "_shown"


class RowsWindow(Operator):
    """The window of a stream whose elements have arrival numbers; `born` adds the instants at which they entered.

    >>> run = Run(RowsWindow(integers("v"), Rows(2)))
    >>> run.step(stream((7, 3), (8, 5)), to=5)
    (7, [3, INF), +1)
    (8, [5, INF), +1)
    >>> run.step(stream((9, 6)), to=6)
    (7, [6, INF), -1)
    (9, [6, INF), +1)
    """

    def __init__(
        self, schema: Schema, window: Rows, *, born: bool = False, since: int | None = None, before: int = 0
    ) -> None:
        self.schema = schema
        self.window = window
        self.born = born
        self.since = since
        self.before = before
        self.columns = value_columns(len(schema))
        self.partition = [value_column(index) for index in window.partition]

    @property
    def distribution(self) -> Distribution:
        return by_key([self.window.partition], same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        arrived = inputs[0].select(*self.columns, START, ARRIVAL)
        due, pending = released(state.get("pending", ()), arrived, START, progress.low_before, progress.low)
        if not due.height:
            return self._nothing(inputs[0]), {**state, "pending": pending}
        numbered = self._number(due, state)
        candidates = pl.concat([*state.get("recent", ()), numbered.with_columns(pl.lit(None, pl.Int64).alias(_SHOWN))])
        shown = self._show(candidates, numbered)
        remembered = {**self._remember(shown, numbered, state), **self._covered(numbered, state)}
        return self._rows(shown), {"pending": pending, **remembered}

    def _covered(self, numbered: Batch, state: State) -> dict[str, tuple[Batch, ...]]:
        """How many elements have come that count, and the instant of the last that is waited for."""
        known = state.get(COVERED, ())
        if self.since is None or (known and known[0][AT].item() is not None):
            return {COVERED: known} if known else {}
        count = known[0]["_count"].item() if known else 0
        instants = numbered.filter(pl.col(START) >= self.since)[START]
        wanted = self.window.rows + self.window.slide - count
        at = instants[wanted - 1] if instants.len() >= wanted else None
        counted = pl.DataFrame({"_count": [count + instants.len()], AT: pl.Series([at], dtype=pl.Int64)})
        return {COVERED: (counted,)}

    def united(self, state: State, other: State) -> State:
        both = super().united(state, other)
        counts = [segment.select(*self.partition, "_count") for segment in both.get("counts", ())]
        return {**both, "counts": (pl.concat(counts),)} if counts else both

    def _number(self, due: Batch, state: State) -> Batch:
        """The elements with their number in their partition, and those at whose arrival they enter and leave."""
        rows, slide = self.window.rows, self.window.slide
        ordered = due.sort(START, ARRIVAL)
        place = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
        counts = state.get("counts", ())
        if not self.partition:
            before = counts[0]["_count"].item() if counts else self.before
            numbered = ordered.with_columns((place + before).alias(_NUMBER))
        else:
            numbered = ordered.with_columns(place.over(self.partition).alias(_NUMBER))
            if counts:
                numbered = (
                    numbered.join(counts[0], on=self.partition, how="left", nulls_equal=True, maintain_order="left")
                    .with_columns((pl.col(_NUMBER) + pl.col("_count").fill_null(0)).alias(_NUMBER))
                    .drop("_count")
                )
        number = pl.col(_NUMBER)
        return numbered.with_columns(
            (-(-number // slide) * slide).alias(_ENTERS),
            (-(-(number + rows) // slide) * slide).alias(_LEAVES),
        )

    def _show(self, candidates: Batch, numbered: Batch) -> Batch:
        """The candidates with the instants at which they enter and leave, where the arrivals are here by now."""
        arrivals = numbered.select(*self.partition, _NUMBER, pl.col(START).alias("_at"))
        for reaches, instant in ((_ENTERS, "_entered"), (_LEAVES, "_left")):
            candidates = candidates.join(
                arrivals.rename({_NUMBER: reaches, "_at": instant}),
                on=[*self.partition, reaches],
                how="left",
                nulls_equal=True,
            )
        return candidates

    def _rows(self, shown: Batch) -> Batch:
        entered, left = pl.col("_entered"), pl.col("_left")
        enters = shown.filter(entered.is_not_null()).with_columns(
            entered.alias(START), left.fill_null(INF).alias(END), pl.lit(1, pl.Int64).alias(WEIGHT), entered.alias(BORN)
        )
        # Those that entered in an earlier step were said to stay for ever.
        leaves = shown.filter(pl.col(_SHOWN).is_not_null() & left.is_not_null()).with_columns(
            left.alias(START),
            pl.lit(INF, pl.Int64).alias(END),
            pl.lit(-1, pl.Int64).alias(WEIGHT),
            pl.col(_SHOWN).alias(BORN),
        )
        rows = pl.concat([enters, leaves]).filter(pl.col(START) < pl.col(END))
        return rows.select(*self.columns, START, END, WEIGHT, ARRIVAL, *([BORN] if self.born else []))

    def _remember(self, shown: Batch, numbered: Batch, state: State) -> dict[str, tuple[Batch, ...]]:
        recent = shown.filter(pl.col("_left").is_null()).with_columns(
            pl.coalesce(pl.col(_SHOWN), pl.col("_entered")).alias(_SHOWN)
        )
        recent = recent.select(*self.columns, START, ARRIVAL, _NUMBER, _ENTERS, _LEAVES, _SHOWN)
        last = pl.col(_NUMBER).max().alias("_count")
        if not self.partition:
            counts = numbered.select(last)
        else:
            counts = numbered.group_by(self.partition).agg(last)
            for old in state.get("counts", ()):
                untouched = old.join(counts, on=self.partition, how="anti", nulls_equal=True)
                counts = pl.concat([counts, untouched.select(counts.columns)])
        return {"recent": (recent,), "counts": (counts,)} if recent.height else {"counts": (counts,)}

    def _nothing(self, batch: Batch) -> Batch:
        nothing = batch.clear().select(*self.columns, START, END, WEIGHT, ARRIVAL)
        return nothing.with_columns(pl.col(START).alias(BORN)) if self.born else nothing
