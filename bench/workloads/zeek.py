"""Connection records from Zeek's logs of DNS and TLS: a real trace in place of the generated one.

Records are split into links by destination, as in the paper, such that the links are about equally busy; time is
scaled to one record per link and unit.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
from bench.workloads.network import LINKS, Traffic

from millstream.errors import InputError

LOGS = {"dns.log.gz": "qtype_name", "ssl.log.gz": "version"}  # and the column that stands for the protocol


def read_traffic(directory: Path) -> Traffic:
    """The logs' records; the most frequent protocol, and the one that is nearest to a tenth as frequent."""
    missing = [name for name in LOGS if not (directory / name).exists()]
    if missing:
        raise InputError(f"there is no {missing[0]} in {directory}", hint="--trace takes a directory of Zeek logs")
    records = pl.concat([_read(directory / name, protocol) for name, protocol in LOGS.items()]).sort("seconds")
    seconds = records.get_column("seconds")
    units_per_second = records.height / len(LINKS) / (seconds[-1] - seconds[0])
    records = records.select(
        ((pl.col("seconds") - seconds[0]) * units_per_second).cast(pl.Int64).alias("ts"),
        pl.col("src").cast(pl.Categorical).to_physical().cast(pl.Int64),
        pl.col("dst").cast(pl.Categorical).to_physical().cast(pl.Int64),
        "protocol",
        pl.lit(0, pl.Int64).alias("duration"),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("payload"),
    )
    counts = records.get_column("protocol").value_counts().sort("count", descending=True)
    tenth = counts["count"][0] / 10
    nearest = int(np.argmin(np.abs(np.log(counts["count"].to_numpy() / tenth))))
    return Traffic(_by_link(records), counts["protocol"][0], counts["protocol"][nearest])


def _read(path: Path, protocol: str) -> pl.DataFrame:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        fields = next(line for line in file if line.startswith("#fields")).rstrip("\n").split("\t")[1:]
    log = pl.read_csv(
        path,
        separator="\t",
        comment_prefix="#",
        has_header=False,
        new_columns=fields,
        quote_char=None,
        infer_schema=False,
    )
    return log.select(
        pl.col("ts").cast(pl.Float64).alias("seconds"),
        pl.col("id.orig_h").alias("src"),
        pl.col("id.resp_h").alias("dst"),
        pl.format("{} {}", pl.lit(path.name.split(".")[0]), protocol).alias("protocol"),
    )


def _by_link(records: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The busiest destinations first, each to the link that has least."""
    load = [0] * len(LINKS)
    link_of = {}
    for dst, count in records.get_column("dst").value_counts().sort("count", descending=True).iter_rows():
        link = load.index(min(load))
        load[link] += count
        link_of[dst] = link
    links = records.get_column("dst").replace_strict(link_of, return_dtype=pl.Int64)
    return {name: records.filter(links == number) for number, name in enumerate(LINKS)}
