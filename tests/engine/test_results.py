"""Answers of now and of the past, beside DuckDB over the elements, and what of history is read for them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.support.patching import count_calls

import millstream as ms
from millstream.database import Database
from millstream.engine import results
from millstream.state.store import DirectoryStore

GROUPS = "SELECT k, COUNT(*) AS n, SUM(v) AS t, MAX(v) AS m FROM s [RANGE 30] GROUP BY k"
Row = tuple[int, int, int]


class Elements:
    """In DuckDB, which is asked what the answer is at an instant."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("CREATE TABLE s (k BIGINT, v BIGINT, ts BIGINT)")

    def take(self, rows: list[Row]) -> None:
        self.connection.execute(f"INSERT INTO s VALUES {', '.join(map(str, rows))}")

    def answer(self, at: int) -> list[dict[str, Any]]:
        said = """
            SELECT k, COUNT(*) AS n, CAST(SUM(v) AS BIGINT) AS t, MAX(v) AS m
            FROM s WHERE ts BETWEEN ? AND ? GROUP BY k ORDER BY k
        """
        answers = self.connection.execute(said, [at - 30, at]).fetchall()
        return [dict(zip("kntm", answer, strict=True)) for answer in answers]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of a few rows are put together as large ones are."""
    monkeypatch.setattr(results, "_FEW", 3)


def fed(db: Database, dice: random.Random, instant: int) -> list[Row]:
    rows = [(dice.randrange(6), dice.randrange(100), instant + n // 3) for n in range(dice.randrange(1, 9))]
    db.insert("s", rows)
    return rows


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.usefixtures("few")
def test_answers_are_those_of_the_elements_whenever_one_asks(seed: int, tmp_path: Path) -> None:
    dice, elements = random.Random(seed), Elements()
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("CREATE STREAM s (k BIGINT, v BIGINT) TIMESTAMP BY ts")
        queries = [db.register(GROUPS, name=mode, mode=mode) for mode in ("eager", "none")]
        for epoch in range(40):  # in which results and history are merged
            rows = fed(db, dice, 3 * epoch)
            elements.take(rows)
            final = rows[-1][2] - 1
            past = [dice.randrange(final + 1)] if final > 0 and dice.random() < 0.3 else []
            for at in (None, *past) if dice.random() < 0.7 and final >= 0 else ():
                wanted = elements.answer(final if at is None else at)
                assert [query.result(at).to_pylist() for query in queries] == [wanted, wanted], (epoch, at)
        assert db.engine.reader.currents._known, "nothing was put together"


def test_segments_that_were_merged_are_known_by_their_new_names(few: None) -> None:
    dice = random.Random(7)
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k BIGINT, v BIGINT) TIMESTAMP BY ts")
        query, currents = db.register(GROUPS), db.engine.reader.currents
        for epoch in range(30):
            fed(db, dice, 3 * epoch)
            for edge, known in currents._known.items():
                assert known.names <= {*db.engine.snapshot.results[edge]}, epoch
            query.result()
        assert currents._known


@pytest.mark.parametrize(
    "text", [GROUPS, "SELECT k, v FROM s [RANGE 30] WHERE v > 50", "SELECT RSTREAM(v) FROM s [NOW]"]
)
def test_of_history_only_files_about_the_instants_are_read(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("CREATE STREAM s (k BIGINT, v BIGINT) TIMESTAMP BY ts")
        none, eager = (db.register(text, name=mode, mode=mode) for mode in ("none", "eager"))
        for low in range(0, 600, 100):
            db.insert("s", [(n % 7, n * 37 % 100, n) for n in range(low, low + 100)])
        wanted, read = eager.result(250), list[str]()
        whole = DirectoryStore.read_history

        def noted(store: DirectoryStore, name: str, *condition: Any) -> Any:
            read.append(name)
            return whole(store, name, *condition)

        monkeypatch.setattr(DirectoryStore, "read_history", noted)
        files = {file.name: file for file in db.engine.snapshot.history["s"]}
        assert none.result(250).equals(wanted)
        assert read, "nothing was read"
        assert all(files[name].first <= 250 for name in read)
        if none.kind == "relation":
            assert len(read) < len(files) / 2
            now = db.execute(text).table
            assert now is not None
            assert now.equals(eager.result())


def test_stats_look_at_new_segments_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("CREATE STREAM s (k BIGINT, v BIGINT) TIMESTAMP BY ts")
        query = db.register(GROUPS)
        for low in range(0, 30, 10):
            db.insert("s", [(n % 7, n, n) for n in range(low, low + 10)])
        before = query.stats()["rows"]
        calls = count_calls(monkeypatch, DirectoryStore, "height")
        assert (query.stats()["rows"], calls) == (before, [])
        db.insert("s", [(1, 1, 50)])
        assert query.stats()["rows"] > before
        assert len(calls) == 1


def names_read(monkeypatch: pytest.MonkeyPatch, db: Database) -> set[str]:
    """The segments of results that are read from now on."""
    store, names = db.engine.store, set[str]()
    usual, shown = store.read, {name for found in db.engine.snapshot.results.values() for name in found}

    def read(name: str) -> Any:
        names.update({name} & shown)
        return usual(name)

    monkeypatch.setattr(store, "read", read)
    return names


TOLD = {
    "selections": ("eager", "SELECT k, v FROM s [RANGE 30] WHERE v > ?"),
    "sums": ("eager", "SELECT k, SUM(v) AS t FROM s [RANGE 30] WHERE v > ? GROUP BY k"),
    "lazy": ("lazy", "SELECT k, v FROM s [RANGE 30] WHERE v > ?"),
    "trees": ("lazy", "SELECT COUNT(*) AS n, MAX(v) AS m FROM s [RANGE 30] WHERE v > ?"),
}


@pytest.mark.parametrize("kind", TOLD)
def test_what_is_told_of_queries_reads_only_what_is_new(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dice, (mode, text) = random.Random(4), TOLD[kind]
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k BIGINT, v BIGINT) TIMESTAMP BY ts; SET sharing = 'on'")
        queries = db.register_many(text, [(limit,) for limit in (10, 50, 90)], mode=mode)
        for epoch in range(5):
            fed(db, dice, 10 * epoch)
            told = [query.stats()["rows"] for query in queries]
        fed(db, dice, 100)
        read = names_read(monkeypatch, db)
        again = [query.stats()["rows"] for query in queries]
        assert len(read) == 1
        assert all(before <= now for before, now in zip(told, again, strict=True))
        db.engine.reader._counts = results.Counts()
        assert again == [query.stats()["rows"] for query in queries]


def test_what_a_sink_was_given_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(5)
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k BIGINT, v BIGINT) TIMESTAMP BY ts")
        query = db.register("SELECT ISTREAM(k, v) FROM s WHERE v >= 0")
        for epoch in range(5):
            fed(db, dice, 10 * epoch)
        reader, snapshot = db.engine.reader, db.engine.snapshot
        whole = reader.held_in(query.edge, snapshot, -1, 1_000)[0]
        read = names_read(monkeypatch, db)
        newest = reader.held_in(query.edge, snapshot, 39, 1_000)[0]
        assert len(read) == 1
        assert reader.held_in(query.edge, snapshot, 49, 1_000) == (0, 0)
        assert len(read) == 1
        assert 0 < newest < whole
