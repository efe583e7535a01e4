"""Connection records on several links, as the update-pattern paper's trace has them: generated, from a seed.

Each link sees its own part of the sources, in its own order of popularity, so that a source that is busy on one link
may be rare on another: joins on the source have partners, and negations lose and win rows all the time. Records come at
one per link and time unit on average, several at an instant or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import ARRIVAL, END, START, WEIGHT
from millstream.plan.cost import SourceStatistics, Statistics

Numbers = npt.NDArray[np.int64]

SCHEMA = "\n".join(
    f"CREATE STREAM Link{number} (src BIGINT, dst BIGINT, protocol STRING, duration BIGINT, payload BIGINT) "
    "TIMESTAMP BY ts;"
    for number in (1, 2, 3)
)
LINKS = ("link1", "link2", "link3")

# Telnet is ten times as frequent as ftp, which is what tells the two variants of Query 1 apart.
PROTOCOLS: Mapping[str, float] = {"telnet": 0.30, "nntp": 0.25, "http": 0.22, "smtp": 0.20, "ftp": 0.03}


@dataclass(frozen=True)
class Traffic:
    """Records per link, in order of time, and what the queries' selections are about."""

    links: Mapping[str, pl.DataFrame]
    frequent: str = "telnet"
    rare: str = "ftp"

    @property
    def units(self) -> int:
        """How many time units all links have records for."""
        return min(int(rows.get_column("ts")[-1]) for rows in self.links.values() if rows.height)

    @property
    def statistics(self) -> Statistics:
        """What an engine that has seen the records would tell the planner."""
        return {
            link: SourceStatistics(
                rows.height / max(self.units, 1),
                rows.height,
                tuple(float(column.n_unique()) for column in rows.drop("ts")),
            )
            for link, rows in self.links.items()
        }


@dataclass(frozen=True)
class Generator:
    """The defaults give about 2,000 sources and 20,000 pairs of source and destination in 200,000 records."""

    seed: int = 7
    hosts: int = 3_000  # sources on all links together
    sources: int = 2_000  # of these, on one link
    destinations: int = 2_000
    source_skew: float = 1.2
    destination_skew: float = 1.7

    def traffic(self, units: int) -> Traffic:
        random = np.random.default_rng(self.seed)
        return Traffic({name: self._link(number, units, random) for number, name in enumerate(LINKS)})

    def _link(self, number: int, units: int, random: np.random.Generator) -> pl.DataFrame:
        ts = np.floor(np.cumsum(random.exponential(1.0, units + units // 20 + 1_000))).astype(np.int64)
        ts = ts[ts <= units]
        count = ts.size
        hosts = random.permutation(self.hosts)[: self.sources]
        addresses = random.permutation(self.destinations) * len(LINKS) + number  # links have different networks behind
        protocols = pl.Series(list(PROTOCOLS), dtype=pl.String)
        chosen = random.choice(len(PROTOCOLS), count, p=list(PROTOCOLS.values()))
        return pl.DataFrame(
            {
                "ts": ts,
                "src": hosts[_zipf(random, self.sources, self.source_skew, count)],
                "dst": addresses[_zipf(random, self.destinations, self.destination_skew, count)],
                "protocol": protocols.gather(chosen),
                "duration": random.geometric(0.05, count),
                "payload": np.floor(random.lognormal(6.0, 1.5, count)).astype(np.int64),
            }
        )


def _zipf(random: np.random.Generator, ranks: int, skew: float, count: int) -> Numbers:
    """Ranks from 0, rank r with a probability in proportion to (r + 1) ** -skew."""
    cumulated = np.cumsum(np.arange(1, ranks + 1, dtype=np.float64) ** -skew)
    ranked: Numbers = np.searchsorted(cumulated, random.random(count) * cumulated[-1], side="right")
    return ranked


@dataclass(frozen=True)
class Step:
    """What arrives between two heartbeats, as the kernel takes it."""

    before: int
    after: int
    arrived: Mapping[str, pl.DataFrame]

    @property
    def elements(self) -> int:
        return sum(batch.height for batch in self.arrived.values())


def steps(traffic: Traffic, links: Sequence[str], first: int, past: int, size: int) -> list[Step]:
    """The records of the links from instant `first` up to `past`, exclusive, in batches of `size` time units."""
    streams = {link: as_stream(traffic.links[link]) for link in links}
    instants = {link: rows.get_column(START).to_numpy() for link, rows in streams.items()}
    made = []
    for low in range(first, past, size):
        high = min(low + size, past)
        arrived = {}
        for link, rows in streams.items():
            begin, end = np.searchsorted(instants[link], [low, high])
            arrived[link] = rows.slice(begin, end - begin).rechunk()
        made.append(Step(low - 1, high - 1, arrived))
    return made


def as_stream(records: pl.DataFrame) -> pl.DataFrame:
    """Records as elements of a stream: alive at their instant only."""
    values = records.drop("ts")
    return values.rename({name: f"c{index}" for index, name in enumerate(values.columns)}).with_columns(
        records.get_column("ts").alias(START),
        (records.get_column("ts") + 1).alias(END),
        pl.lit(1, pl.Int64).alias(WEIGHT),
        pl.int_range(pl.len(), dtype=pl.Int64).alias(ARRIVAL),
    )
