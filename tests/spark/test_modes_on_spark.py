"""Modes LAZY and NONE over Spark, shuffles included: as EAGER in one process."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import millstream as ms
from millstream.engine.history import evaluation

STREAMS = "CREATE STREAM S (a INT, b INT) TIMESTAMP BY ts; CREATE STREAM T (a INT, c INT) TIMESTAMP BY ts"
QUERIES = {
    "selection": "SELECT b FROM S [RANGE 5] WHERE a > 1",
    "join": "SELECT S.b, T.c FROM S [RANGE 6], T [RANGE 3] WHERE S.a = T.a",
    "tree": "SELECT a, COUNT(*) AS n, SUM(b) AS b FROM S [RANGE 7] GROUP BY a",
    "apart": "SELECT S.a, COUNT(*) AS n, MAX(c) AS c FROM S [RANGE 6], T [RANGE 3] WHERE S.a = T.a GROUP BY S.a",
    "outer": "SELECT S.b, T.c FROM S [RANGE 5] LEFT JOIN T [TUMBLE 4] ON S.a = T.a",
}
TREES, SUMMED = "SELECT COUNT(*) AS n, SUM(b) AS b FROM S [RANGE 8] WHERE b > ?", ["six", "seven", "eight"]
TEMPLATE, VALUES = "SELECT S.b, T.c FROM S [RANGE 4], T [RANGE 9] WHERE S.a = T.a AND S.b > ?", [(3,), (30,), (35,)]


def bag(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


@pytest.mark.parametrize("small", [None, 0], ids=["one task", "shuffled"])
def test_modes_over_spark(
    session: SparkSession, tmp_path: Path, small: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "HERE", 1_000_000 if small is None else 0)  # so that NONE is a job
    with ms.connect(tmp_path / "db", spark=session) as db, ms.connect(engine="inprocess") as right:
        db.engine.runner.small_epoch = small  # type: ignore[attr-defined]
        db.execute("SET small_epochs = 'spark'")
        for each in (db, right):
            each.execute(f"SET shards = 2; {STREAMS}")
        for first, last in ((0, 10), (10, 25), (25, 40)):
            if first == 10:
                for name, text in QUERIES.items():
                    right.register(text, name=name)
                    for mode in ("lazy", "none"):
                        db.register(text, name=f"{name}_{mode}", mode=mode)
                right.register_many(TEMPLATE, VALUES, ["one", "two", "three"])
                right.register_many(TREES, VALUES, SUMMED)
                db.register_many(TREES, VALUES, [f"{name}_lazy" for name in SUMMED], mode="lazy")
                db.register_many(TEMPLATE, VALUES, ["one_lazy", "two_lazy", "three_lazy"], mode="lazy")
            for each in (db, right):
                each.insert("S", [(at % 4, at, at) for at in range(first, last)])
                each.insert("T", [(at % 3, -at, at) for at in range(first, last)])
        for query in db.queries():
            expected = right.query(query.name.partition("_")[0])
            assert bag(query.result(at=20)) == bag(expected.result(at=20)), query.name
            assert bag(query.result()) == bag(expected.result()), query.name
            assert bag(query.changes(since=15)) == bag(expected.changes(since=15)), query.name
        # Jobs that compute an answer run in the background, whatever these hold.
        with ThreadPoolExecutor(1) as thread, db.engine.lock:
            found = thread.submit(db.query("join_none").result).result(timeout=300)
        assert bag(found) == bag(right.query("join").result())
