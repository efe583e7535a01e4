"""Readers of server-sent events, many in one process, that check that nothing is missing and nothing comes twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import numpy as np


@dataclass
class Reader:
    """What one reader has seen: how often each (instant, value), in which order instants came, and events."""

    query: str
    seen: Counter[tuple[int, int]] = field(default_factory=Counter)
    last: int = -1
    events: int = 0
    out_of_order: int = 0

    def take(self, rows: list[dict[str, int]]) -> None:
        self.events += 1
        if not rows:
            return
        # Events follow one another: an instant that was seen in an earlier one does not come again.
        self.out_of_order += rows[0]["_ts"] <= self.last
        self.last = rows[-1]["_ts"]
        for row in rows:
            self.seen[row["_ts"], row["v"]] += row["_weight"]


async def follow(url: str, reader: Reader, ready: asyncio.Semaphore) -> None:
    """Read events until the service ends them."""
    address = urlsplit(url)
    source, sink = await asyncio.open_connection(address.hostname, address.port, limit=1 << 24)
    sink.write(f"GET /v1/queries/{reader.query}/follow HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
    await source.readuntil(b": following\n\n")
    ready.release()
    try:
        while True:
            line = await source.readline()
            if not line:
                return
            if line.startswith(b"data: "):
                reader.take(json.loads(line[6:])["rows"])
    finally:
        sink.close()


def missing_and_extra(reader: Reader, keys: np.ndarray, values: np.ndarray, instants: np.ndarray) -> tuple[int, int]:
    """How many elements a reader has not seen, and how many it has seen too often."""
    mine = keys == int(reader.query[1:])
    expected = Counter(zip(instants[mine].tolist(), values[mine].tolist(), strict=True))
    return (expected - reader.seen).total(), (reader.seen - expected).total()
