"""Rows on their way between stages, and which shards get more of them than they should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from millstream.errors import EvaluationError
from millstream.kernel.batch import Batch, value_column
from millstream.kernel.columns import only
from millstream.kernel.distribution import Columns, shards_of

SKEW_ROWS = 10_000  # fewer rows do not tell
SKEW_FACTOR = 4
_HEAVIEST = 3
_FEW = 4  # shards for which picking rows out one shard after the other is faster than sorting them

Key = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Envelope:
    """Rows of a flow for a shard, or what made the flow fail. Those of one flow are put together in order of origin,
    so that nothing depends on which of them came first."""

    flow: str
    shard: int
    origin: int
    content: Batch | EvaluationError


@dataclass
class Exchanged:
    """Rows that were to go to other shards, as how many they went since a combiner had put them together, and the bytes
    of these: as they travel, or, where they never leave the process, in memory."""

    rows: int = 0
    sent: int = 0
    bytes: int = 0

    def add(self, other: Exchanged) -> None:
        self.rows += other.rows
        self.sent += other.sent
        self.bytes += other.bytes


@dataclass
class Load:
    """How many rows of a flow each shard was sent, and the heaviest keys where there was reason to look."""

    columns: Columns
    rows: list[int]
    heaviest: Counter[Key] = field(default_factory=Counter)
    exchanged: Exchanged = field(default_factory=Exchanged)


@dataclass(frozen=True)
class Skew:
    """A shard that got more than its share of an edge's rows, and the keys that made most of them."""

    edge: str
    columns: Columns
    shard: int
    share: float
    rows: int
    heaviest: tuple[tuple[Key, int], ...] = ()


def split(batch: Batch, columns: Columns, shards: int) -> tuple[list[tuple[int, Batch]], Load]:
    """The rows by shard, in order within each."""
    shard = shards_of(batch, columns, shards)
    counts = np.bincount(shard, minlength=shards)
    load = Load(columns, counts.tolist())
    if columns and is_skewed(load.rows):
        load.heaviest.update(_heaviest(batch.filter(pl.Series(shard == counts.argmax())), columns))
    if int(counts.max()) == batch.height:
        return [(int(counts.argmax()), batch)], load
    if shards <= _FEW:
        return [(int(s), only(batch, shard == s)) for s in np.flatnonzero(counts)], load
    ordered = batch[np.argsort(shard, kind="stable")]
    starts = np.cumsum(counts) - counts
    return [(int(s), ordered.slice(int(starts[s]), int(counts[s]))) for s in np.flatnonzero(counts)], load


def is_skewed(rows: list[int]) -> bool:
    """Whether a shard has several times its fair share; where shards are few, most of what the others should have."""
    total, fair = sum(rows), 1 / len(rows)
    return total >= SKEW_ROWS and max(rows) > total * min(SKEW_FACTOR * fair, (1 + fair) / 2)


def _heaviest(batch: Batch, columns: Columns) -> Mapping[Key, int]:
    names = [value_column(index) for index in columns]
    counted = batch.group_by(names).agg(pl.len().alias("_count")).top_k(_HEAVIEST, by="_count")
    return {row[:-1]: row[-1] for row in counted.rows()}


def skews(loads: Iterable[Mapping[str, tuple[str, Load]]]) -> Iterator[Skew]:
    """What is skewed when the loads that all tasks sent are summed up; each is known by its flow, and has its edge."""
    total: dict[str, tuple[str, Load]] = {}
    for sent in loads:
        for flow, (edge, load) in sent.items():
            _, sum_ = total.setdefault(flow, (edge, Load(load.columns, [0] * len(load.rows))))
            sum_.rows = [a + b for a, b in zip(sum_.rows, load.rows, strict=True)]
            sum_.heaviest.update(load.heaviest)
    for edge, load in total.values():
        if load.columns and is_skewed(load.rows):
            most = max(load.rows)
            heaviest = tuple(load.heaviest.most_common(_HEAVIEST))
            yield Skew(edge, load.columns, load.rows.index(most), most / sum(load.rows), most, heaviest)
