"""Connection records: of a trace, or generated."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from bench.workloads.network import Generator, Traffic
from bench.workloads.zeek import read_traffic


@lru_cache(maxsize=1)
def traffic_of(trace: Path | None, units: int) -> Traffic:
    """A trace's records, or generated ones for so many time units."""
    return Generator().traffic(units) if trace is None else read_traffic(trace)
