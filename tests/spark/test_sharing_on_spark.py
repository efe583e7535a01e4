"""Groups of queries over Spark: sources, shuffles, queries that come between batches; as each query alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import millstream as ms
from millstream.engine.materialization import Unmaterialized
from millstream.language.bind_parameters import with_constants

STREAM = "CREATE STREAM s (a INT, b INT, t STRING) TIMESTAMP BY ts"
TEMPLATES: dict[str, list[tuple[object, ...]]] = {
    "SELECT a, t FROM s WHERE a >= ? AND b < ?": [(n, 2 * n) for n in range(1, 9)],
    "SELECT t, COUNT(*) AS n, SUM(b) AS b FROM s [RANGE 20] WHERE a > ? GROUP BY t": [(n,) for n in range(6)],
    "SELECT COUNT(*) AS n FROM s [RANGE 30 SLIDE 10] WHERE b = ?": [(n,) for n in range(12)],
    "SELECT x.a, y.b FROM s [RANGE 5] x, s [RANGE 5] y WHERE x.a = y.b AND x.b > ? AND y.a < ?": [(3, 8), (6, 4)],
}


def elements(first: int, count: int) -> pl.DataFrame:
    ticks = pl.int_range(first, first + count, eager=True)
    return pl.DataFrame({"ts": ticks}).select(
        (pl.col("ts") * 7 % 11).cast(pl.Int32).alias("a"),
        (pl.col("ts") * 5 % 13).cast(pl.Int32).alias("b"),
        pl.format("t{}", pl.col("ts") % 3).alias("t"),
        "ts",
    )


def bag(query: ms.Query) -> Counter[str]:
    return Counter(repr(row) for row in query.changes().to_pylist())


@pytest.mark.parametrize("shards", [1, 3])
def test_groups_over_a_source(session: SparkSession, tmp_path: Path, shards: int) -> None:
    files = tmp_path / "files"
    files.mkdir()
    using = f"{STREAM} USING parquet OPTIONS ('path' '{files}')"
    with ms.connect(tmp_path / "db", spark=session) as db, ms.connect(engine="inprocess") as alone:
        db.execute(f"SET shards = {shards}; {using}")
        alone.execute(f"{STREAM}; SET sharing = 'off'")
        for number, (template, rows) in enumerate(TEMPLATES.items()):
            # One more group before each batch, so that most see some of the past.
            for query, row in zip(db.register_many(template, rows), rows, strict=True):
                alone.register(with_constants(template, row), name=query.name)
            batch = elements(100 * number, 100)
            batch.write_parquet(files / f"{number}.parquet")
            alone.insert("s", batch)
            db.run(until="idle")
        for each in (db, alone):
            each.advance("s", to=500)
        assert len(db.queries()) == 28
        for query in db.queries():
            assert bag(query) == bag(alone.query(query.name)), query.cql
            assert query.changes().num_rows


@pytest.mark.parametrize(
    "template",
    ["SELECT a, t FROM s [RANGE 20] WHERE a >= ?", "SELECT t, COUNT(*) AS n FROM s [RANGE 20] WHERE a > ? GROUP BY t"],
)
def test_many_that_keep_nothing_are_answered_by_one_job(
    session: SparkSession, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where history is too long for one process."""
    with ms.connect(spark=session) as db:
        db.execute(STREAM)
        queries = db.register_many(template, [(n,) for n in (1, 5, 9, 5)], mode="none", template="t")
        db.insert("s", elements(0, 100))
        db.advance("s", to=100)
        right = {at: [query.result(at).to_pylist() for query in queries] for at in (None, 50)}
        monkeypatch.setattr("millstream.engine.history.evaluation.HERE", 0)
        monkeypatch.setattr(Unmaterialized, "answer", lambda *_: pytest.fail("asked alone"))
        for at, single in right.items():
            for table in (queries.result(at).drop_columns(["_p1"]), db.results([*queries], at)):
                found = Counter(repr(row) for row in table.to_pylist())
                named = [{"_query": q.name, **row} for q, rows in zip(queries, single, strict=True) for row in rows]
                assert found == Counter(map(repr, named))
                assert found
