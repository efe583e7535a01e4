"""SET timezone: a property of the database, which a standing query keeps over restarts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import millstream as ms

HOURS = "SELECT hour(ts) AS h, CAST(ts AS STRING) AS shown, ts + INTERVAL '1' DAY AS later FROM S [RANGE 1 DAY]"


def _feed(db: ms.Database, hour: int) -> None:
    db.execute(f"INSERT INTO S VALUES (TIMESTAMP '2024-03-30 {hour:02}:00:00')")
    db.advance("S", to=f"2024-03-30 {hour:02}:00:00")


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_clocks_are_those_of_the_zone_after_a_restart_too(tmp_path: Path, mode: str) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("SET timezone = 'Europe/Berlin'; CREATE STREAM S (ts TIMESTAMP) TIMESTAMP BY ts")
        query = db.register(HOURS, name="q", mode=mode)
        _feed(db, 12)
        assert query.result().to_pylist() == [_row(13, 12)]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        _feed(db, 20)
        assert sorted(db.query("q").result().to_pylist(), key=lambda row: row["h"]) == [_row(13, 12), _row(21, 20)]
        asked = db.execute("SELECT hour(TIMESTAMP '2024-07-01 00:00:00Z') AS h").table
        assert asked is not None
        assert asked["h"].to_pylist() == [2]


def _row(local: int, hour: int) -> dict[str, object]:
    """Clocks are put forward in the night that follows: the same time tomorrow is 23 hours away."""
    later = datetime(2024, 3, 31, hour - 1, tzinfo=UTC)
    return {"h": local, "shown": f"2024-03-30 {local}:00:00", "later": later}


def test_it_cannot_change_once_there_are_queries_or_views() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (ts TIMESTAMP) TIMESTAMP BY ts")
        db.execute("SET timezone = 'Asia/Tokyo'; SET timezone = 'UTC'; CREATE VIEW v AS SELECT hour(ts) AS h FROM S")
        with pytest.raises(ms.CatalogError, match="timezone cannot change once there are views or queries"):
            db.execute("SET timezone = 'Asia/Tokyo'")
        db.execute("SET timezone = 'Z'")  # which is the same
        with pytest.raises(ms.TypeError, match='unknown time zone "Mars/Base"'):
            db.execute("SET timezone = 'Mars/Base'")


@pytest.mark.parametrize("sharing", ["on", "off"])
def test_queries_that_differ_in_months_share(tmp_path: Path, sharing: str) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"SET sharing = '{sharing}'; CREATE STREAM S (d DATE, ts BIGINT) TIMESTAMP BY ts")
        for months in range(1, 6):
            text = f"SELECT d + INTERVAL '{months}' MONTH AS e FROM S [RANGE 10] WHERE d > DATE '2020-01-0{months}'"
            db.register(text, name=f"q{months}")
        db.execute("INSERT INTO S VALUES (DATE '2024-01-31', 1)")
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.advance("S", to=1)
        found = [str(db.query(f"q{months}").result()["e"][0]) for months in range(1, 6)]
        assert found == ["2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31", "2024-06-30"]
