"""A process that feeds a database, and may be killed: started again, it goes on where the database stands.

python tests/support/feeder.py PATH [inprocess|spark] [BATCHES]
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import millstream as ms

BATCH, BATCHES = 20, 12


def rows(batch: int) -> list[tuple[int, int, int]]:
    dice = random.Random(batch)
    return [(dice.randrange(4), dice.randrange(100), batch * 10 + number // 2) for number in range(BATCH)]


def declare(db: ms.Database) -> None:
    statements = {
        "s": "CREATE STREAM s (k INT, v INT) TIMESTAMP BY t",
        "d": "CREATE TABLE d (k INT, name STRING)",
    }
    for name, text in statements.items():
        if name not in db.catalog:
            db.execute(text)
    if not db.engine.sources.history("d").height:
        db.execute("INSERT INTO d VALUES (0, 'zero'), (1, 'one')")
    queries = {
        "sums": "SELECT k, SUM(v) AS total FROM s [RANGE 15] GROUP BY k",
        "pairs": "SELECT ISTREAM(a.k, a.v, b.v) FROM s [RANGE 3] a, s [ROWS 5] b WHERE a.k = b.k",
        "named": "SELECT DISTINCT d.name FROM s [RANGE 8], d WHERE s.k = d.k",
    }
    known = {query.name for query in db.queries()}
    for name, cql in queries.items():
        if name not in known:
            db.register(cql, name=name)


def main(path: str, place: str = "inprocess") -> None:
    places: dict[str, Any] = {"inprocess": {"engine": "inprocess"}, "spark": {}}
    with ms.connect(Path(path), **places.get(place, {"master": place})) as db:
        declare(db)
        for batch in range(db.stats()["streams"]["s"]["arrived"] // BATCH, BATCHES):
            db.insert("s", rows(batch))
            print(batch, flush=True)  # noqa: T201 - for whoever waits for the right moment
        db.advance(to=BATCHES * 10 + 40)


if __name__ == "__main__":
    main(*sys.argv[1:])
