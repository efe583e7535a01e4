"""A flipped bit anywhere in what counts is found, named, and said whom it concerns; nothing is written meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.formats.make import HERE
from typer.testing import CliRunner

import millstream as ms
from millstream.cli import app
from millstream.kernel.distribution import HASH
from millstream.state.manifest import Layout
from millstream.state.store import DirectoryStore
from millstream.state.verification import parts_with, verify
from millstream.state.writers import SMALL

ROWS = 4_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with something of every kind of file, as one that was killed leaves it."""
    directory = tmp_path_factory.mktemp("made") / "db"
    with ms.connect(directory, engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT, v STRING) TIMESTAMP BY ts; CREATE STREAM other (k INT) TIMESTAMP BY ts")
        db.register("SELECT k, COUNT(*) AS n FROM s [RANGE 50] GROUP BY k", name="counts")
        db.register("SELECT k FROM other WHERE k > 1", name="others")
        db.register_many("SELECT v FROM s [RANGE 9] WHERE k = ?", [1, 2], names=["one", "two"])
        texts = [f"{'x' * 400}{number}" for number in range(ROWS)]
        db.insert("s", [(number % 50, text, number // 50) for number, text in enumerate(texts)])  # a file of its own
        assert 400 * ROWS > SMALL
        for ts in range(100, 110):
            db.insert("s", [(1, "y", ts)])
            db.insert("other", [(ts, ts)])
        db.register("SELECT v FROM s [RANGE 9] WHERE k = 3", name="three")  # a note
        shutil.copytree(directory, directory.parent / "copy")
    return directory.parent / "copy"


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "db")
    return tmp_path / "db"


def flipped(path: Path, place: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ (1 << bit)]))


def prints(directory: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(directory)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


def files(directory: Path, pattern: str) -> list[Path]:
    found = [path for path in directory.glob(pattern) if path.stat().st_size]
    assert found, pattern
    return found


def test_all_is_well_and_nothing_is_written(directory: Path) -> None:
    before = prints(directory)
    names = [path.name for path in (directory / "manifest").iterdir()]
    for kind in ("manifest-", "catalog-", "changes-", "notes-"):
        assert any(name.startswith(kind) for name in names), names
    report = ms.check(directory)
    assert report.is_well
    assert report.epoch is not None
    assert "all as it was written" in str(report)
    assert prints(directory) == before
    done = CliRunner().invoke(app, ["check", str(directory)])
    assert (done.exit_code, done.stdout.strip()) == (0, str(report))


HEADS = ("manifest/manifest-*.json", "manifest/catalog-*.json", "manifest/changes-*.log", "manifest/notes-*.log")


@pytest.mark.parametrize("pattern", HEADS)
def test_a_bit_of_what_says_what_counts(directory: Path, pattern: str) -> None:
    chosen = random.Random(pattern)
    (path,) = files(directory, pattern)
    size = path.stat().st_size
    for place in {0, 1, 12, size // 2, size - 2, size - 1, *(chosen.randrange(size) for _ in range(8))}:
        bit = chosen.randrange(8)
        flipped(path, place, bit)
        report = ms.check(directory)
        assert [damaged.path for damaged in report.damaged] == [path.relative_to(directory)], (place, bit)
        (damaged,) = report.damaged
        assert damaged.concerns == "the whole database"
        assert "backup" in damaged.advice
        flipped(path, place, bit)
    assert ms.check(directory).is_well


def test_a_bit_of_what_counts(directory: Path) -> None:
    """Of every kind of what a snapshot names: rows in files and among segments, state, results, query tables."""
    chosen, store = random.Random(7), DirectoryStore(directory)
    snapshot = verify(directory, Layout(1, HASH)).snapshot
    assert snapshot is not None
    kinds = set()
    for name in sorted({*snapshot.names()}):
        (path,) = store.paths([name])
        _, first, length = _place_of(name) if "@" in name else ("", 0, path.stat().st_size)
        place = first + chosen.randrange(length)
        flipped(path, place)
        (damage,) = verify(directory, Layout(1, HASH)).damages
        assert (damage.path, damage.names) == (path, frozenset([name]))
        kinds |= {(section, "@" in name) for section, _ in parts_with(snapshot, damage.names)}
        flipped(path, place)
    assert {("history", False), ("history", True), ("states", True), ("results", True)} <= kinds
    assert ("query_tables", True) in kinds


def test_history_names_the_stream_and_its_readers(directory: Path) -> None:
    path = files(directory, "history/s/*/*.parquet")[0]
    flipped(path, path.stat().st_size // 3)
    (damaged,) = ms.check(directory).damaged
    assert (damaged.path, damaged.streams) == (path.relative_to(directory), ("s",))
    assert "counts" in damaged.queries
    assert any("WHERE k = ?" in name for name in damaged.queries)  # it cannot be opened to look for names
    assert "others" not in damaged.queries
    assert "history of s" in damaged.concerns


def test_queries_are_named_where_it_can_be_opened(directory: Path) -> None:
    with ms.connect(directory, engine="inprocess") as db:  # so that none waits for its past any more
        assert db.query("three").changes().num_rows
    path = files(directory, "history/s/*/*.parquet")[0]
    flipped(path, path.stat().st_size // 2)
    (damaged,) = ms.check(directory).damaged
    assert {"counts", "one", "two", "three"} == {*damaged.queries}


def _place_of(name: str) -> tuple[str, int, int]:
    """File, first byte and length of a segment."""
    file, _, rest = name.partition("@")
    place, _, length = rest.partition("#")[0].partition("+")
    return file, int(place), int(length)


def test_state_of_a_query_names_the_query(directory: Path) -> None:
    with ms.connect(directory, engine="inprocess") as db:
        db.execute("CREATE STREAM own (k INT) TIMESTAMP BY ts")
        query = db.register("SELECT k, SUM(k) AS total FROM own [RANGE 1000000] GROUP BY k", name="heavy")
        db.insert("own", [(number, number // 100) for number in range(200_000)])
        db.advance("own", to=2_000)
        below = db.engine.pipeline.edges_below(query.edge)
        kept = {name for step in below for names in db.engine.snapshot.states.get(step, {}).values() for name in names}
    path, place, length = max((_place_of(name) for name in kept), key=lambda found: found[2])
    flipped(directory / "segments" / path, place + length // 2)
    (damaged,) = ms.check(directory).damaged
    assert damaged.path == Path("segments") / path
    assert "heavy" in damaged.queries
    assert "register them again" in damaged.advice or "history of own" in damaged.concerns


@pytest.mark.parametrize("how", ["gone", "short", "unreadable"])
def test_files_that_are_not_there_or_not_all(directory: Path, how: str) -> None:
    path = files(directory, "history/s/*/*.parquet")[0]
    if how == "gone":
        path.unlink()
    elif how == "short":
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.unlink()
        path.mkdir()
    done = CliRunner().invoke(app, ["check", str(directory), "--json"])
    assert done.exit_code == 1
    (damaged,) = json.loads(done.stdout)["damaged"]
    assert damaged["path"] == str(path.relative_to(directory))
    assert damaged["streams"] == ["s"]
    assert "counts" in damaged["queries"]


def test_what_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for where in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        done = CliRunner().invoke(app, ["check", str(where)])
        assert (done.exit_code, "there is no database in" in done.stderr) == (2, True), done.output
        assert CliRunner().invoke(app, ["upgrade", str(where)]).exit_code == 1


def test_while_another_one_writes(tmp_path: Path) -> None:
    """Files come and go between the look at what there should be and the look at them."""
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts")
        db.register("SELECT k, COUNT(*) AS n FROM s [RANGE 5] GROUP BY k", name="q")
        stop, failures = threading.Event(), list[BaseException]()

        def write() -> None:
            generator, ts = np.random.default_rng(1), 0
            try:
                while not stop.is_set():
                    db.insert("s", [(int(k), ts) for k in generator.integers(0, 9, 200)])
                    ts += 1
                    if ts % 7 == 0:
                        db.execute(f"CREATE STREAM s{ts} (k INT) TIMESTAMP BY ts")
            except BaseException as error:  # of a thread: shown below
                failures.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(15):
                report = ms.check(tmp_path / "db")
                assert report.is_well, str(report)
        finally:
            stop.set()
            writer.join()
        assert not failures


def test_a_database_that_is_open_is_not_upgraded(tmp_path: Path) -> None:
    with tarfile.open(min(HERE.glob("format_*.tar.gz"))) as packed:
        packed.extractall(tmp_path, filter="data")
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        done = CliRunner().invoke(app, ["upgrade", str(tmp_path / "db")])
        assert done.exit_code == 1
        assert "is open already" in done.stderr
        assert db.queries()


def test_a_later_format_is_refused(directory: Path) -> None:
    (path,) = files(directory, "manifest/manifest-*.json")
    head, _, body = path.read_bytes().partition(b"\n")
    words = head.split(b" ")
    path.write_bytes(b" ".join([*words[:2], b"99", *words[3:]]) + b"\n" + body)
    assert "format 99" in ms.check(directory).damaged[0].reason
    with pytest.raises(ms.StateError, match="format 99"):
        ms.upgrade(directory)
