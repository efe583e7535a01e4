"""20,000 bodies of rows with something changed: taken or refused, and what was taken is there."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.attacks.victim import Victim, scaled
from tests.support.mutations import changed_bytes

import millstream as ms

pytestmark = pytest.mark.slow
ARROW, NDJSON, CSV, JSON = "application/vnd.apache.arrow.stream", "application/x-ndjson", "text/csv", "application/json"
_TABLE = pa.table(
    {
        "k": pa.array([1, None, 3, 4], pa.int32()),
        "v": ["a", None, "ccc", "é"],
        "d": pa.array([Decimal("1.50"), None, Decimal("-9.99"), Decimal("0.00")], pa.decimal128(5, 2)),
        "t": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 4, pa.timestamp("us", "UTC")),
        "ts": [1_000_000, 1_000_001, 1_000_002, 1_000_003],
    }
)


def _arrow(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
        writer.write_table(table)
    return bytes(sink.getvalue())


def _bodies() -> list[tuple[bytes, str]]:
    """Right ones of all kinds."""
    coded = _TABLE.set_column(1, "v", _TABLE["v"].dictionary_encode())
    empty = _TABLE.set_column(1, "v", pa.nulls(4))
    file = pa.BufferOutputStream()
    with pa.ipc.new_file(file, _TABLE.schema) as writer:
        writer.write_table(_TABLE)
    rows = [{"k": n, "v": f"x{n}", "d": "1.25", "t": "2026-01-01T00:00:00Z", "ts": 2_000_000 + n} for n in range(4)]
    return [
        *((_arrow(table, packed), ARROW) for table in (_TABLE, coded, empty) for packed in (None, "lz4", "zstd")),
        (bytes(file.getvalue()), ARROW),
        ("\n".join(map(json.dumps, rows)).encode(), NDJSON),
        (json.dumps(rows).encode(), JSON),
        (b'k,v,d,t,ts\r\n1,"a ""b""",1.5,2026-01-01T00:00:00Z,3000000\r\n,,,,3000001\n', CSV),
    ]


def test_changed_bodies(victim: Victim) -> None:
    bodies = _bodies()
    for body, kind in bodies:
        status, said = victim.ask("POST", "/v1/streams/s/rows", body, kind)
        assert status == 200, said

    def send(seed: int) -> int:
        dice, taken = random.Random(seed), 0
        for _ in range(100):
            body, kind = dice.choice(bodies)
            status, said = victim.ask("POST", "/v1/streams/s/rows", changed_bytes(dice, body), kind)
            if status == 200:
                counts = json.loads(said)
                taken += counts["accepted"] + counts["late"]
        return taken

    with ms.connect(victim.address) as db, ThreadPoolExecutor(4) as threads:
        before = db.stats()["streams"]["s"]["arrived"]
        taken = sum(threads.map(send, range(-(-scaled(20_000) // 100))))
        assert db.stats()["streams"]["s"]["arrived"] == before + taken
