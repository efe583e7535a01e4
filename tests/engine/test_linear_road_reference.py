"""The toll notifications of a reference run of Linear Road, where its files are at hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

import millstream as ms

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "linear_road"
COLUMNS = [
    "type",
    "time",
    "vid",
    "speed",
    "xway",
    "lane",
    "dir",
    "seg",
    "pos",
    "qid",
    "sinit",
    "send",
    "dow",
    "tod",
    "day",
]


@pytest.mark.skipif(not DATA.exists(), reason="the reference run's files are not shipped with the project")
def test_every_notification_is_right() -> None:
    reports = pl.read_csv(
        gzip.decompress((DATA / "reports_450s.csv.gz").read_bytes()), has_header=False, new_columns=COLUMNS
    )
    positions = reports.filter(pl.col("type") == 0).select("time", "vid", "speed", "lane", "seg")
    expected = pl.read_csv(gzip.decompress((DATA / "toll_notifications_450s.csv.gz").read_bytes()))
    with ms.connect(engine="inprocess") as db:
        db.execute((ROOT / "examples" / "linear_road.cql").read_text())
        for part in positions.iter_slices(7_000):
            db.insert("Reports", part)
        db.advance(to=449)
        result = db.query("tolls").result()
    columns = ["time", "vid", "lav", "toll"]
    tolls = pl.DataFrame(result.rename_columns(columns)).cast(pl.Int64)
    assert tolls.sort(columns).equals(expected.select(columns).sort(columns))
    assert expected.filter(pl.col("toll") > 0).height > 100
