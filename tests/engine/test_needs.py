"""Late queries read only the files of history that they can need."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms
from millstream.database import Database
from millstream.state.store import DirectoryStore

# Of every query how many of the ten files it reads; k is 0 in the first, 1 in the second, and so on.
READ = {
    "SELECT v FROM s WHERE k = 4": 1,
    "SELECT v FROM s WHERE k = 4 AND v > 3": 1,
    "SELECT k, COUNT(*) AS n FROM s [RANGE 20] WHERE k >= 7 GROUP BY k": 3,
    "SELECT v FROM s WHERE 2 > k": 3,  # bounds are taken to be inclusive
    "SELECT v FROM s WHERE t IN ('t3', 't5')": 3,
    "SELECT v FROM s WHERE k BETWEEN 2 AND 3": 2,
    "SELECT v FROM s WHERE k = 77": 0,
    "SELECT a.v FROM s [RANGE 5] a, s [RANGE 5] b WHERE a.k = 1 AND b.k = 8": 2,
    # All of them: nothing is known, or something else looks at the rows.
    "SELECT v FROM s [RANGE 9]": 10,
    "SELECT v FROM s [ROWS 3] WHERE k = 4": 10,
    "SELECT v FROM s WHERE k = 4 OR v = 3": 10,
    "SELECT v FROM s WHERE k = 4 AND 10 / (k + 1) > 1": 10,
    "SELECT a.v FROM s [RANGE 5] a, s [RANGE 5] b WHERE a.k = 1": 10,
    "SELECT COUNT(*) AS n FROM s WHERE v <> 3 GROUP BY k HAVING k = 4": 10,
}


def play(db: Database) -> None:
    for k in range(10):
        db.insert("s", [(k, n, f"t{k}", 9 * k + n) for n in range(9)])
    db.advance(to=89)


@pytest.mark.parametrize("background", [0, 1000])
@pytest.mark.parametrize("text", READ)
def test_files_that_cannot_matter_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, background: int
) -> None:
    stream = "CREATE STREAM s (k INT, v INT, t STRING) TIMESTAMP BY ts RETAIN 81"  # a file is a period
    with ms.connect(tmp_path / "late", engine="inprocess") as db, ms.connect(engine="inprocess") as early:
        early.execute(stream)
        right = early.register(text)
        play(early)
        db.execute(f"{stream}; SET background_rows = {background}")
        play(db)
        db.engine.statistics()  # which looks at the newest
        files = len(db.engine.snapshot.history["s"])
        read: set[str] = set()
        usual = DirectoryStore.read_history

        def noted(store: DirectoryStore, name: str, *wanted: object) -> object:
            read.add(name)
            return usual(store, name, *wanted)  # type: ignore[arg-type]

        monkeypatch.setattr(DirectoryStore, "read_history", noted)
        query = db.register(text)
        assert query.wait(60)
        assert (files, len(read)) == (10, READ[text])
        # Windows reach back to what is no longer promised; from the first instant after that all is the same.
        assert query.changes(since=40).to_pylist() == right.changes(since=40).to_pylist()
