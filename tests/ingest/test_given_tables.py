"""What rows may be given as: tables of any library, and texts where there are instants."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import millstream as ms
from millstream.database import Database

TEXTS = ["2026-01-01 00:00:01", "2026-01-01T00:00:02Z"]
COLUMNS: dict[str, Any] = {"v": [1, 2], "ts": TEXTS}
RELATION = "SELECT 1 AS v, '2026-01-01 00:00:01' AS ts UNION ALL SELECT 2, '2026-01-01 00:00:02'"
EXPECTED = [(1, dt.datetime(2026, 1, 1, 0, 0, 1)), (2, dt.datetime(2026, 1, 1, 0, 0, 2))]


def opened() -> Database:
    db = ms.connect(engine="inprocess")
    db.execute(
        "CREATE STREAM s (v INT, ts TIMESTAMP) TIMESTAMP BY ts; CREATE STREAM d (v INT, day DATE) TIMESTAMP BY t"
    )
    return db


def kept(db: Database) -> list[tuple[int, dt.datetime]]:
    db.execute("ADVANCE s TO TIMESTAMP '2026-01-02'")
    rows = db.execute("SELECT v, ts FROM s").fetchall()
    return sorted((v, ts.replace(tzinfo=None)) for _, v, ts in rows)


@pytest.mark.parametrize(
    "made",
    [
        lambda: [*zip(*COLUMNS.values(), strict=True)],
        lambda: [(1, TEXTS[0]), (2, dt.datetime(2026, 1, 1, 0, 0, 2))],
        lambda: pa.table(COLUMNS),
        lambda: pa.table({**COLUMNS, "ts": pa.array(TEXTS).dictionary_encode()}),
        lambda: pl.DataFrame(COLUMNS),
        lambda: pl.LazyFrame(COLUMNS),
        lambda: pd.DataFrame(COLUMNS),
        lambda: pa.table(COLUMNS).to_reader(),
        lambda: duckdb.connect().sql(RELATION),
    ],
)
def test_whatever_it_is_the_rows_are_the_same(made: Any) -> None:
    with opened() as db:
        assert db.insert("s", made()).accepted == 2
        assert kept(db) == EXPECTED


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "", "2026-01-01 25:00:00"])
def test_a_text_that_is_no_instant_is_refused_and_nothing_is_kept(text: str) -> None:
    with opened() as db:
        for rows in ([(1, TEXTS[0]), (2, text)], pa.table({"v": [1, 2], "ts": [TEXTS[0], text]})):
            with pytest.raises(ms.InputError, match='column "ts"'):
                db.insert("s", rows)
        assert kept(db) == []


def test_dates_as_texts_and_missing_ones() -> None:
    with opened() as db:
        db.insert("d", [(1, "2026-02-03", 1), (2, None, 1)])
        db.insert("d", pa.table({"v": [3], "day": pa.nulls(1, pa.string()), "t": [2]}))
        db.execute("ADVANCE d TO 5")
        rows = sorted((v, day) for _, v, day in db.execute("SELECT v, day FROM d"))
        assert rows == [(1, dt.date(2026, 2, 3)), (2, None), (3, None)]


def test_what_is_no_table_is_refused() -> None:
    with opened() as db, pytest.raises(ms.InputError, match="is not a table"):
        db.insert("s", pl.Series([1, 2]))
