"""Network flows on two links: joins, negation and duplicate elimination over windows, with their update patterns.

The queries are those of the update-pattern paper. What a plan keeps depends on how rows leave it: MONO (never), WKS (in
the order in which they came), WK (in another order, at known instants), STR (unforeseen).

    python examples/flows.py               # in this process
    python examples/flows.py spark         # on an embedded Spark
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

import millstream as ms

PROTOCOLS = np.array(["http", "smtp", "ftp", "telnet"])
QUERIES = {
    "both_links": """SELECT A.src, A.payload AS first, B.payload AS second
                     FROM Link1 [RANGE 50] A, Link2 [RANGE 50] B
                     WHERE A.src = B.src AND A.protocol = 'ftp' AND B.protocol = 'ftp'""",
    "sources": "SELECT DISTINCT src FROM Link1 [RANGE 50] WHERE protocol = 'telnet'",
    "only_link1": """SELECT src FROM Link1 [RANGE 50] A
                     WHERE NOT EXISTS (SELECT * FROM Link2 [RANGE 50] B WHERE A.src = B.src)""",
    "traffic": "SELECT protocol, sum(payload) AS bytes, count(*) AS flows FROM Link1 [RANGE 50] GROUP BY protocol",
    "ended": "SELECT DSTREAM(src) FROM (SELECT DISTINCT src FROM Link1 [RANGE 50] WHERE protocol = 'ftp') F",
}


def flows(link: int, ticks: int = 1_000, seed: int = 5) -> pa.Table:
    """Four flows per tick from 300 sources, the first ones being the busiest."""
    random = np.random.default_rng(seed + link)
    count = 4 * ticks
    return pa.table(
        {
            "src": (random.pareto(1.0, count) * 10).astype(np.int64) % 300,
            "dst": random.integers(0, 100, count),
            "protocol": PROTOCOLS[random.choice(4, count, p=[0.6, 0.25, 0.1, 0.05])],
            "payload": random.lognormal(6.0, 1.5, count).astype(np.int64),
            "ts": np.sort(random.integers(0, ticks, count)),
        }
    )


def main(engine: str = "inprocess") -> None:
    with ms.connect(engine=engine) as db:
        for link in (1, 2):
            db.execute(
                f"CREATE STREAM Link{link} (src BIGINT, dst BIGINT, protocol STRING, payload BIGINT) TIMESTAMP BY ts"
            )
        queries = {name: db.register(cql, name=name) for name, cql in QUERIES.items()}
        for link in (1, 2):
            db.insert(f"Link{link}", flows(link))
        db.advance(to=1_000)

        for name, query in queries.items():
            print(
                f"{name} ({query.kind}): {query.result(at=900).num_rows} rows at 900, "
                f"{_changes(query)} changes since then"
            )
        for row in queries["traffic"].result(at=900).sort_by([("bytes", "descending")]).to_pylist():
            print(f"  {row['protocol']:<7} {row['flows']:>4} flows {row['bytes']:>9,} bytes in the window")
        print(queries["only_link1"].explain())


def _changes(query: ms.Query) -> int:
    return int(query.changes(since=900).num_rows)


if __name__ == "__main__":
    main(*sys.argv[1:2])
