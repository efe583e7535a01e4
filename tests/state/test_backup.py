"""Backups: consistent while the database runs, refused where they would write over something, open as databases."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

import millstream as ms
from millstream.cli import app

SETUP = """
    CREATE STREAM s (k INT, v INT) TIMESTAMP BY t;
    REGISTER QUERY sums AS SELECT k, SUM(v) AS total FROM s [RANGE 20] GROUP BY k;
    REGISTER QUERY lazily MODE LAZY AS SELECT k, v FROM s [RANGE 5];
"""


def opened(path: Path) -> ms.Database:
    return ms.connect(path, engine="inprocess")


def rows(batch: int) -> list[tuple[int, int, int]]:
    return [(number % 3, batch, batch) for number in range(4)]


@pytest.mark.parametrize("copy", [False, True])
def test_a_backup_answers_as_of_its_moment_and_goes_on(tmp_path: Path, copy: bool) -> None:
    with opened(tmp_path / "db") as db:
        db.execute(f"{SETUP}; SET sharing = 'on'")
        for batch in range(12):
            db.insert("s", rows(batch))
        for number in range(3):
            db.register(f"SELECT k FROM s WHERE v > {number}", name=f"more{number}")
        expected = {query.name: query.changes() for query in db.queries()}
        told: list[tuple[int, int]] = []
        made = db.backup(tmp_path / "copy", copy=copy, progress=lambda done, of: told.append((done, of)))
        assert told[0][0] == 0
        assert told[-1] == (made.bytes, made.bytes)
        for batch in range(12, 30):
            db.insert("s", rows(batch))
        later = {query.name: query.changes() for query in db.queries()}
    with opened(tmp_path / "copy") as db:
        assert {query.name: query.changes() for query in db.queries()} == expected
        for batch in range(12, 30):
            db.insert("s", rows(batch))
        assert {query.name: query.changes() for query in db.queries()} == later
    with opened(tmp_path / "db") as db:  # whose files are its own still
        assert {query.name: query.changes() for query in db.queries()} == later


def test_backups_while_rows_come_in_have_whole_epochs(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        db.execute(SETUP)
        over = threading.Event()

        def insert() -> None:
            batch = 0
            while not over.is_set():
                db.insert("s", rows(batch))
                batch += 1

        inserting = threading.Thread(target=insert)
        inserting.start()
        for number in range(4):
            db.backup(tmp_path / f"copy{number}")
        over.set()
        inserting.join()
    for number in range(4):
        with opened(tmp_path / f"copy{number}") as copy:
            arrived = copy.stats()["streams"]["s"]["arrived"]
            assert copy.engine.sources.history("s").height == arrived
            assert arrived % 4 == 0
            copy.advance(to=10_000)
            copy.query("sums").changes()


def test_a_backup_never_writes_over_anything(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        db.execute(SETUP)
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "mine").write_text("mine")
        with pytest.raises(ms.StateError, match="is not empty"):
            db.backup(tmp_path / "full")
        assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
        with pytest.raises(ms.StateError, match="in the database itself"):
            db.backup(tmp_path / "db" / "copy")
        (tmp_path / "file").write_text("mine")
        with pytest.raises(ms.StateError, match="cannot be a backup"):
            db.backup(tmp_path / "file")
    with ms.connect(engine="inprocess") as db, pytest.raises(ms.NotSupportedError, match="cannot be backed up"):
        db.backup(tmp_path / "other")


def test_a_backup_that_fails_leaves_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "db") as db:
        db.execute(SETUP)
        db.insert("s", rows(1))

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("millstream.state.backup.os.link", full)
        with pytest.raises(ms.StateError, match="No space left"):
            db.backup(tmp_path / "copy")
        monkeypatch.undo()
        assert list((tmp_path / "copy").iterdir()) == []
        db.backup(tmp_path / "copy")


def test_the_command_copies_a_directory(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        db.execute(SETUP)
        db.insert("s", rows(1))
        used = CliRunner().invoke(app, ["backup", str(tmp_path / "db"), str(tmp_path / "copy")])
        assert used.exit_code == 1
    done = CliRunner().invoke(app, ["backup", str(tmp_path / "db"), str(tmp_path / "copy")])
    assert done.exit_code == 0, done.output
    with opened(tmp_path / "copy") as db:
        assert db.engine.sources.history("s").height == 4
    assert CliRunner().invoke(app, ["backup", str(tmp_path / "none"), str(tmp_path / "x")]).exit_code == 1
    assert not (tmp_path / "none").exists()
