"""Following a query: nothing missed, nothing twice, from any thread, while rows come in."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import millstream as ms

STREAM = "CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts"


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        yield db


def test_changes_come_as_they_become_final(db: ms.Database) -> None:
    query = db.register("SELECT k, COUNT(*) AS n FROM s [RANGE 2] GROUP BY k")
    db.insert("s", [(1, 0, 1), (1, 0, 2)])
    following = query.follow(timeout=60)
    assert next(following).to_pylist() == [{"_ts": 1, "_weight": 1, "k": 1, "n": 1}]
    db.insert("s", [(2, 0, 4)])
    assert next(following).to_pylist() == [
        {"_ts": 2, "_weight": -1, "k": 1, "n": 1},
        {"_ts": 2, "_weight": 1, "k": 1, "n": 2},
    ]


def test_a_reader_comes_back_with_the_last_instant_it_saw(db: ms.Database) -> None:
    query = db.register("SELECT ISTREAM(v) FROM s [NOW] WHERE k = 1")
    db.insert("s", [(1, v, v) for v in range(10)])
    first = next(query.follow(timeout=60))
    last = first["_ts"][-1].as_py()
    db.insert("s", [(1, v, v) for v in range(10, 20)])
    db.advance("s", to=30)
    rest = next(query.follow(since=last, timeout=60))
    assert first["v"].to_pylist() + rest["v"].to_pylist() == list(range(20))


def test_it_ends_when_nothing_comes_or_the_query_goes(db: ms.Database) -> None:
    query = db.register("SELECT v FROM s")
    db.insert("s", [(1, 1, 1), (1, 2, 2)])
    assert len(list(query.follow(timeout=0.05))) == 1
    found: list[pa.Table] = []
    reader = threading.Thread(target=lambda: found.extend(query.follow()))
    reader.start()
    db.insert("s", [(1, 3, 3)])
    deadline = time.monotonic() + 60
    while sum(table.num_rows for table in found) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    query.drop()
    reader.join(timeout=60)
    assert not reader.is_alive()
    assert [v for table in found for v in table["v"].to_pylist()] == [1, 2]
    with pytest.raises(ms.ClosedError):
        query.follow()


def test_it_ends_with_the_database() -> None:
    db = ms.connect(engine="inprocess")
    db.execute(STREAM)
    query = db.register("SELECT v FROM s")
    reader = threading.Thread(target=lambda: list(query.follow()))
    reader.start()
    time.sleep(0.1)
    db.close()
    reader.join(timeout=60)
    assert not reader.is_alive()


@pytest.mark.parametrize("on_disk", [False, True])
def test_many_threads_follow_many_queries(tmp_path: Path, on_disk: bool) -> None:
    path = tmp_path / "db" if on_disk else None
    with ms.connect(path, engine="inprocess") as db:
        db.execute(STREAM)
        queries = db.register_many("SELECT v FROM s WHERE k = ?", list(range(6)))
        queries += [db.register("SELECT k, SUM(v) AS total FROM s [RANGE 7] GROUP BY k")]
        seen: dict[str, list[str]] = {query.name: [] for query in queries}
        failures: list[BaseException] = []

        def read(query: ms.Query) -> None:
            last = None
            try:
                while not db.is_closed:
                    # Comes back again and again, as a client that loses its connection does.
                    for number, table in enumerate(query.follow(since=last)):
                        seen[query.name] += map(repr, table.to_pylist())
                        last = table["_ts"][-1].as_py()
                        if number == 2:
                            break
            except ms.ClosedError:
                return  # between two readings
            except BaseException as error:  # of a thread: shown below
                failures.append(error)

        readers = [threading.Thread(target=read, args=(query,)) for query in queries]
        for reader in readers:
            reader.start()
        for start in range(0, 600, 10):
            db.insert("s", [(ts % 6, ts, ts) for ts in range(start, start + 10)])
        db.advance("s", to=700)
        expected = {query.name: [repr(row) for row in query.changes().to_pylist()] for query in queries}
        deadline = time.monotonic() + 60
        while seen != expected and time.monotonic() < deadline:
            time.sleep(0.05)
        db.close()
        for reader in readers:
            reader.join(timeout=60)
        assert not failures
        assert seen == expected
        assert min(map(len, expected.values())) >= 100


@pytest.mark.parametrize("on_disk", [False, True])
def test_many_threads_ask_for_instants_within_retention(tmp_path: Path, on_disk: bool) -> None:
    """Every answer is that of its instant, whatever comes in and goes meanwhile; outside the limits are named."""
    with ms.connect(tmp_path / "db" if on_disk else None, engine="inprocess") as db:
        db.execute("CREATE STREAM r (v INT) TIMESTAMP BY ts RETAIN 200")
        query = db.register("SELECT COUNT(*) AS n, MAX(v) AS last FROM r [RANGE 9]")
        db.insert("r", [(ts, ts) for ts in range(100)])
        failures: list[BaseException] = []
        asked = [0]
        stop = threading.Event()

        def ask(seed: int) -> None:
            dice = random.Random(seed)
            try:
                while not stop.is_set():
                    time.sleep(0.005)  # others want to run too
                    first, final = query.instants.first, query.final
                    at = dice.randint(max(first, 9), final)
                    with suppress(ms.TimeError):
                        assert query.result(at=at).to_pylist() == [{"n": 10, "last": at}]
                        asked[0] += 1
                        continue
                    assert at < query.instants.first  # it is forgotten by now
            except BaseException as error:  # of a thread: shown below
                failures.append(error)

        readers = [threading.Thread(target=ask, args=(seed,)) for seed in range(3)]
        for reader in readers:
            reader.start()
        for start in range(100, 700, 20):
            db.insert("r", [(ts, ts) for ts in range(start, start + 20)])
        deadline = time.monotonic() + 60
        while asked[0] < 100 and not failures and time.monotonic() < deadline:
            time.sleep(0.02)
        stop.set()
        for reader in readers:
            reader.join(timeout=60)
        assert not failures
        assert asked[0] >= 100
        attempts: tuple[Callable[[], object], ...] = (
            lambda: query.result(at=5),
            lambda: query.changes(since=5),
            lambda: next(query.follow(since=5)),
        )
        for outside in attempts:
            with pytest.raises(ms.TimeError, match=r"no longer kept[\s\S]*is 498"):
                outside()
        with pytest.raises(ms.TimeError, match=r"not final[\s\S]*698"):
            query.result(at=900)


@pytest.mark.parametrize("most", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, COUNT(*) AS n FROM s [RANGE 2] GROUP BY k",
        "SELECT RSTREAM(k, v) FROM s [RANGE 5]",
        "SELECT k, v FROM s [ROWS 3]",
        "SELECT v FROM s",
    ],
)
def test_changes_piece_by_piece_are_all_of_them(db: ms.Database, text: str, most: int) -> None:
    query = db.register(text)
    reader = query.reader
    pieces: list[pa.Table] = []
    place = reader.bookmark()
    for start in range(0, 60, 20):
        db.insert("s", [(ts % 3, ts // 2, ts // 2 * 2) for ts in range(start, start + 20)])
        while True:
            piece, until = reader.next_changes(place, most)
            if until == place.seen:
                break
            # More than was asked for only where a single instant has them.
            assert piece.num_rows <= most or len(set(piece["_ts"].to_pylist())) == 1
            pieces.append(piece)
            place.seen = until
    assert pa.concat_tables(pieces).to_pylist() == query.changes().to_pylist() != []
