"""Trees that hold back what nothing above them needs, through the engine: what is made, and that answers stay."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from tests.engine.just_in_time import SCHEMA, THREE, TWO

import millstream as ms
from millstream.database import Database

PAIRS = f"(SELECT A.k, x, y FROM {TWO})"
QUERIES = {
    "exists": f"SELECT A.k, x, B.y, z FROM {THREE} WHERE EXISTS (SELECT * FROM S [RANGE 9] WHERE S.x = A.x)",
    "both columns": f"""SELECT A.k, x, B.y, z FROM {THREE}
        WHERE EXISTS (SELECT * FROM R [RANGE 30] WHERE R.x = A.x AND R.y = B.y)""",
    "two inputs": f"SELECT A.k, x, y FROM {TWO} WHERE EXISTS (SELECT * FROM S [RANGE 9] WHERE S.x = A.x)",
    "a table": f"SELECT A.k, A.x, y FROM {TWO} WHERE A.x IN (SELECT x FROM T)",
    "two of them": f"""SELECT A.k, A.x, B.y FROM {THREE} WHERE A.x IN (SELECT x FROM T)
        AND EXISTS (SELECT * FROM S [RANGE 9] WHERE S.z = C.z)""",
    "not in a table": f"SELECT A.k, A.x, y FROM {TWO} WHERE NOT EXISTS (SELECT * FROM T WHERE T.x = A.x)",
    "not in a stream": f"SELECT A.k, A.x, y FROM {TWO} WHERE NOT EXISTS (SELECT * FROM S [RANGE 90] WHERE S.x = A.x)",
    "in one, not in the other": f"""SELECT A.k, A.x, y FROM {TWO} WHERE NOT EXISTS (SELECT * FROM T WHERE T.x = A.x)
        AND EXISTS (SELECT * FROM S [RANGE 9] WHERE S.x = A.x)""",
    "padded": f"SELECT S.x, S.z, p.k, p.y FROM S [RANGE 9] LEFT JOIN {PAIRS} p ON p.x = S.x",
    "padded on the left": f"""SELECT S.x, S.z, p.k, p.y FROM {PAIRS} p
        RIGHT JOIN S [RANGE 9] ON p.x = S.x AND p.y <> S.z""",
    "asked for": f"SELECT x, z FROM S [RANGE 30] WHERE EXISTS (SELECT * FROM {PAIRS} p WHERE p.x = S.x)",
    "not asked for": f"SELECT x, z FROM S [RANGE 30] WHERE NOT EXISTS (SELECT * FROM {PAIRS} p WHERE p.x = S.x)",
    "as of": f"SELECT A.k, A.x, y, n FROM {TWO} JOIN N ON N.x = A.x",
    "two readers": f"""SELECT p.k, p.y, S.z FROM {PAIRS} p, S [RANGE 9] WHERE p.x = S.x
        UNION ALL SELECT p.k, p.y, T.t FROM {PAIRS} p, T WHERE p.x = T.x""",
    "readers of two kinds": f"""SELECT p.k, p.y, S.z FROM {PAIRS} p, S [RANGE 9] WHERE p.x = S.x
        UNION ALL SELECT p.k, p.y, p.x FROM {PAIRS} p WHERE NOT EXISTS (SELECT * FROM T WHERE T.x = p.x)""",
    "distinct": f"SELECT DISTINCT q.x, q.y FROM {PAIRS} q WHERE EXISTS (SELECT * FROM S [RANGE 9] WHERE S.x = q.x)",
}
RESUMES = set(QUERIES) - {"not in a stream", "distinct"}


def fill(db: Database, seed: int, batches: int) -> None:
    """Keys of few values for joins, of many for those who ask; tables change in between."""
    rng = np.random.default_rng(seed)
    spans = {"A": (6, 20), "B": (6, 6), "C": (6, 20), "S": (20, 20), "R": (20, 6)}
    often = {"A": 2, "B": 2, "C": 2, "S": 8, "R": 8}
    times = 160
    rows = {
        name: [(*(int(rng.integers(0, span)) for span in spans[name]), t) for t in range(0, times, often[name])]
        for name in spans
    }
    db.execute("INSERT INTO T VALUES (1, 1), (2, 2), (3, 3), (NULL, 4); INSERT INTO N VALUES (1, 1), (2, 2)")
    for low in range(0, times, times // batches):
        high = low + times // batches
        for name in rng.permutation(sorted(rows)):
            db.insert(str(name), [row for row in rows[str(name)] if low <= row[-1] < high])
        db.advance(to=high - 1)
        x, at = int(rng.integers(0, 20)), high + int(rng.integers(0, 5))
        db.execute(f"INSERT INTO T VALUES ({x}, 7) AT {at}; INSERT INTO N VALUES ({x}, 7) AT {at}")
        x = int(rng.integers(0, 20))
        db.execute(f"DELETE FROM T WHERE x = {x} AT {at + 1}; DELETE FROM N WHERE x = {x} AT {at + 1}")
    db.advance(to=400)


def counts(db: Database) -> dict[str, int]:
    text = str(db.execute("EXPLAIN ANALYZE QUERY q"))
    found = [line for line in text.split("\n") if ": made" in line]
    return {name: int(number) for name, number in re.findall(r"(\w+) (\d+)", found[0].split(": ")[1])} if found else {}


def answers(query: str, jit: str, plan: str = "tree") -> tuple[Counter[object], dict[str, int]]:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{SCHEMA} SET join_plan = '{plan}'; SET jit = {jit}")
        registered = db.register(query, name="q")
        if jit == "on":
            assert re.search(r"just in time for (some|none|as of)", registered.explain())
        fill(db, seed=1, batches=8)
        changes = registered.changes()
        rows = zip(*(changes[name].to_pylist() for name in changes.column_names), strict=True)
        return Counter(rows), counts(db)


@pytest.mark.parametrize("name", QUERIES)
def test_answers_stay_and_rows_are_held_back(name: str) -> None:
    # By SteMs every place has its own join: two readers ask nothing together.
    everything, _ = answers(QUERIES[name], "off")
    assert len(everything) > 10
    for plan in ("tree", "eddy") if "readers" not in name else ("tree",):
        found, counted = answers(QUERIES[name], "on", plan)
        assert found == everything
        assert counted["suspended"] > 0
        assert counted["resumed"] > 0 or name not in RESUMES
