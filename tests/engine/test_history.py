"""History on disk: by period, compacted, dropped as it grows old, and of use to others."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.support.answers import read_by_duckdb

import millstream as ms
from millstream.database import Database
from millstream.engine.epochs.merging import history_merges
from millstream.engine.epochs.periods import ROWS, UNKNOWN, period_length
from millstream.state.manifest import Manifests
from millstream.state.snapshot import HistoryFile


def feed(db: Database, batches: range, step: int = 10) -> None:
    """An element per tick."""
    for batch in batches:
        db.insert("s", [(t % 3, f"v{t}", t) for t in range(batch * step, (batch + 1) * step)])


def files(path: Path) -> list[Path]:
    return sorted((path / "history" / "s").glob("**/*.parquet"))


def periods(path: Path) -> list[int]:
    return sorted(int(found.name.removeprefix("_period=")) for found in (path / "history" / "s").iterdir())


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is a file of its own, however small."""
    monkeypatch.setattr("millstream.state.store.SMALL", -1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db"


def opened(path: Path, retain: str = "RETAIN 800") -> Database:
    db = ms.connect(path, engine="inprocess")
    if "s" not in db.catalog:
        db.execute(f"CREATE STREAM s (k INT, v STRING) TIMESTAMP BY t {retain}")
    return db


def test_duckdb_reads_exactly_the_rows_that_are_kept(path: Path) -> None:
    """The directory at rest: nothing of what was merged away is counted."""
    with opened(path) as db:
        feed(db, range(60))
        found = read_by_duckdb(
            f"SELECT _ts, k, v, _period FROM read_parquet('{path}/history/s/**/*.parquet', hive_partitioning = true)"
        )
    assert sorted(row[:3] for row in found) == [(t, t % 3, f"v{t}") for t in range(600)]
    assert all(period <= t < period + 100 for t, _, _, period in found)


def test_a_file_is_of_the_period_of_its_last_instant(path: Path) -> None:
    with opened(path) as db:
        feed(db, range(3), step=75)  # the second reaches into the next period
        assert periods(path) == [0, 100, 200]
        assert [file.parent.name for file in files(path)] == ["_period=0", "_period=100", "_period=200"]


def test_files_of_one_period_become_one(path: Path) -> None:
    with opened(path) as db:
        feed(db, range(65))
        assert periods(path) == [0, 100, 200, 300, 400, 500, 600]
        assert {len(list((path / "history" / "s" / f"_period={n}").iterdir())) for n in range(0, 600, 100)} == {1}


def test_whole_files_are_dropped_when_all_of_them_is_older_than_retain(path: Path) -> None:
    with opened(path) as db:
        for batch in range(300):
            feed(db, range(batch, batch + 1))
            first_kept = max(0, db.stats()["streams"]["s"]["heartbeat"] - 800)
            (least,) = read_by_duckdb(f"SELECT min(_ts) FROM '{path}/history/s/**/*.parquet'")
            # All that is promised is there, and no more than a period too much.
            assert first_kept - 100 <= least[0] <= first_kept
            assert len(files(path)) < 30
        assert periods(path)[0] == 2100
        kept = db.engine.sources.history("s")
    with opened(path) as db:
        assert db.engine.sources.history("s").equals(kept)


def test_footers_know_the_least_and_greatest_of_each_column(path: Path) -> None:
    with opened(path) as db:
        feed(db, range(15))
        bounds = []
        for file in files(path):
            group = pq.read_metadata(file).row_group(0)
            found = {group.column(n).path_in_schema: group.column(n).statistics for n in range(group.num_columns)}
            assert {"_ts", "_arrival", "k", "v"} <= {name for name, known in found.items() if known.has_min_max}
            assert (found["k"].min, found["k"].max) == (0, 2)
            bounds.append((found["_ts"].min, found["_ts"].max))
        # The manifest knows the same of time.
        assert bounds == [(file.first, file.last) for file in db.engine.snapshot.history["s"]]


def test_a_column_may_be_called_like_anything(path: Path) -> None:
    with ms.connect(path, engine="inprocess") as db:
        db.execute("CREATE STREAM s (period INT) TIMESTAMP BY t")
        db.insert("s", [(7, 1)])
        text = f"SELECT period FROM read_parquet('{path}/history/s/**/*.parquet', hive_partitioning = true)"
        assert read_by_duckdb(text) == [(7,)]


def test_files_that_lie_flat_are_still_read_and_laid_out_when_merged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions before periods wrote them."""
    with monkeypatch.context() as patched, opened(path) as db:
        patched.setattr(Manifests, "_may_be_a_change", lambda owner, snapshot: False)
        feed(db, range(3))
    (manifest,) = (path / "manifest").glob("manifest-*.json")
    for file in files(path):
        file.rename(path / "history" / "s" / file.name)
    from millstream.state.files import read_whole, write_whole
    from millstream.state.manifest import FORMAT

    body = read_whole(manifest, "manifest", [FORMAT])
    write_whole(manifest, "manifest", FORMAT, body.replace(b"history/s/_period=0/", b"history/s/"))
    with opened(path) as db:
        assert len(db.engine.sources.history("s")) == 30
        feed(db, range(3, 25))
        assert len(db.engine.sources.history("s")) == 250
        assert all(file.parent.name.startswith("_period=") for file in files(path))


def file_of(first: int, last: int, rows: int) -> HistoryFile:
    return HistoryFile(f"{first}-{last}", rows, first, last)


def test_periods_of_what_is_kept_for_ever_hold_about_as_many_rows_each() -> None:
    assert period_length((), None) == UNKNOWN
    assert period_length((file_of(1_000, 1_999, 1_000),), None) == ROWS
    assert period_length((file_of(0, 999, 10_000),), None) == 2 ** (ROWS // 10).bit_length()
    assert period_length((file_of(0, 9, 1 << 60),), None) == 1


def test_merges_neither_cross_periods_nor_exceed_their_budget() -> None:
    row = 32
    large = (1 << 28) // row // 2  # two of them are the budget
    sizes = [10, 10, large, large, 10, 10, 10, 10]
    history = [file_of(place * 5, place * 5 + 4, rows) for place, rows in enumerate(sizes)]
    while found := list(history_merges({"s": tuple(history)}, {"s": ()}, {"s": 20})):
        (merge,) = found
        place = history.index(merge.files[0])
        assert tuple(history[place : place + len(merge.files)]) == merge.files
        assert sum(file.rows for file in merge.files) * row <= 1 << 28
        assert len({file.last // 20 for file in merge.files}) == 1
        made = file_of(merge.files[0].first, merge.files[-1].last, sum(file.rows for file in merge.files))
        history[place : place + len(merge.files)] = [made]
    assert [(file.first, file.last) for file in history] == [(0, 14), (15, 19), (20, 24), (25, 29), (30, 34), (35, 39)]
    assert all(one.last < other.first for one, other in pairwise(history))
