"""Aggregates of queries that hardly two rows are wanted by the same of: summed for each query, as DuckDB does."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest

import millstream as ms

ROWS, QUERIES = 12_000, 60
GROUPINGS = {"": "", "k, ": " GROUP BY k"}


def elements(seed: int) -> pl.DataFrame:
    """Some hundreds for each instant, in the order of time, with values of many sizes and none."""
    dice = np.random.default_rng(seed)
    large = pl.Series(dice.integers(-(2**55), 2**55, ROWS))
    values = {name: dice.integers(0, 100, ROWS) for name in "abcd"}
    missing = pl.Series(dice.random(ROWS) < 0.1)
    return pl.DataFrame(
        {
            "k": pl.Series(dice.integers(0, 3, ROWS)).set(pl.Series(dice.random(ROWS) < 0.05), None),
            **values,
            "v": pl.Series(dice.integers(-1000, 1000, ROWS)).set(missing, None),
            "large": large,
            "ts": np.arange(ROWS) // 1200,
        }
    )


def conditions(seed: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in np.random.default_rng(seed).integers(0, 100, (QUERIES, 4)).tolist()]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("keys", GROUPINGS)
@pytest.mark.parametrize(
    ("window", "at", "seen"),
    [
        ("[TUMBLE 5]", 5, "WHERE ts < 5"),
        ("[RANGE 3]", 4, "WHERE ts BETWEEN 1 AND 4"),
        ("[ROWS 5000]", 9, f"LIMIT 5000 OFFSET {ROWS - 5000}"),
    ],
)
@pytest.mark.parametrize("sums", ["count(*) AS n, sum(v) AS s, count(v) AS c", "sum(large) AS s, avg(v) AS m"])
def test_as_duckdb_sums(shards: int, keys: str, window: str, at: int, seen: str, sums: str) -> None:
    rows, early, late = elements(3), conditions(1), conditions(2)
    where = "a < ? AND b > ? AND c <> ? AND d < ?"
    with ms.connect(engine="inprocess") as db, duckdb.connect() as oracle:
        db.execute(f"SET shards = {shards}")
        db.execute("CREATE STREAM s (k INT, a INT, b INT, c INT, d INT, v INT, large BIGINT) TIMESTAMP BY ts")
        text = f"SELECT {keys}{sums} FROM s {window} WHERE {where}{GROUPINGS[keys]}"
        queries = db.register_many(text, early)
        for first in range(0, ROWS, ROWS // 2):
            db.insert("s", rows[first : first + ROWS // 2])
            queries = [*queries, *(db.register_many(text, late) if not first else [])]
        queries.pop(7).drop()
        db.advance("s", to=10)
        oracle.register("elements", rows)
        constants = [row for place, row in enumerate([*early, *late]) if place != 7]
        for query, row in zip(queries, constants, strict=True):
            expected = oracle.execute(
                f"SELECT {keys}{sums} FROM (SELECT * FROM elements {seen}) s WHERE {where}{GROUPINGS[keys]}", row
            )
            found = [tuple(values.values()) for values in query.result(at=at).to_pylist()]
            assert sorted(map(repr, found)) == sorted(map(repr, expected.fetchall()))
