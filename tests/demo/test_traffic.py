"""The traffic of the demo is repeatable, follows the paper's rules of reporting, and jams where it should."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from millstream.demo.traffic import REPORT_SECONDS, ROADWORKS, SCHEMA, SEGMENT_FEET, SEGMENTS, simulate

SECONDS = 900


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return simulate(SECONDS, 5000, seed=1)


@pytest.fixture(scope="module")
def reports(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.with_columns(segment=pl.col("xPos") // SEGMENT_FEET)


def test_a_seed_decides_everything(table: pa.Table) -> None:
    assert simulate(SECONDS, 5000, seed=1).equals(table)
    assert not simulate(SECONDS, 5000, seed=2).equals(table)


def test_a_shorter_time_and_no_time_at_all() -> None:
    assert simulate(0, 10, seed=1).num_rows == 0
    assert simulate(0, 10, seed=1).schema == SCHEMA
    assert simulate(60, 0, seed=1).num_rows == 0


def test_schema_order_and_ranges(table: pa.Table, reports: pl.DataFrame) -> None:
    assert table.schema == SCHEMA
    assert reports["ts"].is_sorted()
    assert reports["ts"].is_between(0, SECONDS - 1).all()
    assert reports["segment"].is_between(0, SEGMENTS - 1).all()
    assert reports["speed"].is_between(0, 80).all()


def test_every_car_reports_every_30_seconds_and_drives_on(reports: pl.DataFrame) -> None:
    steps = reports.select(
        time=pl.col("ts").diff().over("vehicleId"), way=pl.col("xPos").diff().over("vehicleId")
    ).drop_nulls()
    assert (steps["time"] == REPORT_SECONDS).all()
    assert (steps["way"] > 0).all()


def test_congestion_arises_and_stays_at_the_roadworks(reports: pl.DataFrame) -> None:
    average = reports.filter(pl.col("ts") >= SECONDS - 300).group_by("segment").agg(pl.col("speed").mean())
    congested = set(average.filter(pl.col("speed") < 40)["segment"])
    active = reports.filter(pl.col("ts") >= SECONDS - REPORT_SECONDS).group_by("segment").len()
    crowded = set(active.filter(pl.col("len") > 50)["segment"])

    assert set(ROADWORKS) <= congested & crowded
    near = {segment for works in ROADWORKS for segment in range(works - 3, works + 1)}
    assert congested <= near, "a jam grows backwards, a few miles at most"
    assert average.filter(~pl.col("segment").is_in(list(near)), pl.col("speed") < 50).is_empty()
