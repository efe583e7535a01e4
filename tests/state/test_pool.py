"""One pool of memory for mapped segments, what is beside them, and merges: short of it all is slower, never wrong."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from tests.properties.cases import Case
from tests.properties.driver import check_case
from tests.properties.generate import cases
from tests.properties.queries import LONG

import millstream as ms
from millstream.database import Database
from millstream.kernel.keys import KEY
from millstream.kernel.storage import memory
from millstream.kernel.storage.probing import equal_pairs
from millstream.state.pool import PROCESSES, Pool
from millstream.state.store import DirectoryStore

SIZE = 1000


def pool_of(segments: int) -> Pool:
    pool = Pool()
    pool.limit(segments * SIZE * PROCESSES)
    return pool


def frame(number: int = 0) -> pl.DataFrame:
    return pl.DataFrame({"a": [number]})


def put(pool: Pool, *names: str) -> None:
    for name in names:
        pool.segment(name, SIZE, frame)


def held(pool: Pool, name: str) -> bool:
    def missing() -> pl.DataFrame:
        raise LookupError(name)

    try:
        pool.segment(name, SIZE, missing)
    except LookupError:
        return False
    return True


def test_the_segment_that_was_not_used_for_the_longest_time_goes_first() -> None:
    pool = pool_of(3)
    put(pool, "a", "b", "c", "a", "d")
    assert [held(pool, name) for name in "abcd"] == [True, False, True, True]
    assert pool.bytes == 3 * SIZE


def test_merges_take_the_place_of_segments_while_they_last() -> None:
    pool = pool_of(3)
    put(pool, "a", "b", "c")
    with pool.merge(2 * SIZE) as fits:
        assert fits
        assert pool.bytes == 3 * SIZE
        assert [held(pool, name) for name in "abc"] == [False, False, True]
        put(pool, "d")  # in the place of c
        assert pool.bytes == 3 * SIZE
        with pool.merge(2 * SIZE) as another:
            assert not another
    put(pool, "e", "f")
    assert pool.bytes == 3 * SIZE


def test_what_cannot_fit_does_not_drive_out_what_is_there() -> None:
    pool = pool_of(3)
    put(pool, "a", "b", "c")
    with pool.merge(4 * SIZE) as fits:
        assert not fits
    assert all(held(pool, name) for name in "abc")
    assert pool.use.refused == 1
    assert pool.segment("huge", 4 * SIZE, frame).height == 1
    assert all(held(pool, name) for name in "abc")


def test_what_is_beside_a_segment_goes_with_it() -> None:
    pool = pool_of(3)
    put(pool, "a", "b")
    a = pool.segment("a", SIZE, frame)
    assert pool.keep_index(a, SIZE)
    assert pool.index_bytes(a) == SIZE
    assert pool.bytes == 3 * SIZE
    assert not pool.keep_index(a, 3 * SIZE)
    del a
    put(pool, "c", "d", "e")
    gc.collect()
    assert (pool.segments, pool.beside) == (3 * SIZE, 0)


def test_what_its_owner_has_no_more_goes_at_once() -> None:
    pool = pool_of(5)
    for names in ("ab", "bc"):
        pool.only("join", names)
        put(pool, *names)
    put(pool, "x")
    assert [held(pool, name) for name in "abcx"] == [False, True, True, True]
    pool.only("join", "")
    assert pool.bytes == SIZE


def test_a_lower_limit_holds_at_once() -> None:
    pool = pool_of(3)
    put(pool, "a", "b", "c")
    pool.limit(SIZE * PROCESSES)
    assert (pool.bytes, held(pool, "c")) == (SIZE, True)


def test_partners_are_found_without_room_for_a_directory() -> None:
    codes = np.sort(np.random.default_rng(1).integers(0, 2**63, 5000).astype(np.uint64))
    stored = pl.DataFrame({KEY: codes})
    probes = codes[::7]
    pool = pool_of(1)
    with memory.using(pool):
        searched = [np.concatenate(part) for part in zip(*equal_pairs(stored, probes), strict=True)]
    assert (pool.use.refused, pool.beside) == (1, 0)
    pool.limit(1 << 30)
    with memory.using(pool):
        looked_up = [np.concatenate(part) for part in zip(*equal_pairs(stored, probes), strict=True)]
    assert pool.beside == 4 << 13
    assert all((one == other).all() for one, other in zip(searched, looked_up, strict=True))
    del stored
    assert pool.beside == 0


@contextmanager
def without_room() -> Iterator[Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute("SET memory_budget = 1")
        yield db
        use = db.stats()["memory"]
        assert use["pools"][0]["beside"] == 0


@settings(max_examples=20)
@given(cases(LONG))
def test_without_any_room_the_engine_answers_as_the_oracle(case: Case) -> None:
    """No segments are ever merged, nothing is kept beside them."""
    check_case(case, without_room)


def feed(db: Database, batches: int) -> None:
    for batch in range(batches):
        rows = [(number % 200, number, batch * 10 + number // 100) for number in range(1000)]
        db.insert("l", rows)
        db.insert("r", rows[::2])


def declare(db: Database) -> None:
    db.execute("CREATE STREAM l (k INT, v INT) TIMESTAMP BY t; CREATE STREAM r (k INT, v INT) TIMESTAMP BY t")
    db.register("SELECT ISTREAM(l.k, l.v, r.v) FROM l [RANGE 30], r [RANGE 30] WHERE l.k = r.k", name="pairs")
    db.register("SELECT v, COUNT(*) AS n FROM l [RANGE 50] GROUP BY v", name="counts")


def test_short_of_memory_more_segments_are_kept_and_the_answers_are_the_same(tmp_path: Path) -> None:
    found, files = {}, {}
    for budget in ("600 KB", "1 GB"):
        path = tmp_path / budget.replace(" ", "")
        with ms.connect(path, engine="inprocess") as db:
            db.execute(f"SET memory_budget = '{budget}'")
            declare(db)
            feed(db, 12)
            found[budget] = {query.name: query.changes() for query in db.queries()}
            (pool,) = db.stats()["memory"]["pools"]
            assert pool["segments"] + pool["beside"] <= pool["peak"] <= pool["budget"]
            files[budget] = len(db.engine.snapshot.history["l"])
            assert (pool["refused"] > 0) == (budget == "600 KB")
            assert (pool["evicted"] > 0) == (budget == "600 KB")
    assert found["600 KB"] == found["1 GB"]
    assert files["600 KB"] > files["1 GB"]


def test_a_merge_that_is_too_large_is_split(tmp_path: Path) -> None:
    """A file of 1,000 rows is some 40 KB in memory, and a merge of it takes three times as much."""
    counts = {}
    for files in (1, 4, 100):
        with ms.connect(tmp_path / f"{files}", engine="inprocess") as db:
            db.execute(f"SET memory_budget = {files * 3 * 42_000 * PROCESSES}")
            declare(db)
            feed(db, 9)
            counts[files] = len(db.engine.snapshot.history["l"])
    assert counts == {1: 9, 4: 6, 100: 2}


def test_the_memory_of_each_operator_is_reported(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        declare(db)
        feed(db, 6)
        stats = db.stats()
        (join,) = (name for name in stats["memory"]["operators"] if name.startswith("innerjoin"))
        assert stats["memory"]["operators"][join] > stats["state_bytes"][join] / 2
        assert stats["memory"]["budget"] == pytest.approx(db.engine.store.pool.budget * PROCESSES)
        (pool,) = stats["memory"]["pools"]
        assert pool["beside"] > 0
        assert "memory" in str(db.execute("EXPLAIN ANALYZE QUERY pairs")).lower()
        db.query("pairs").drop()
        assert join not in db.stats()["memory"]["operators"]


def test_stores_of_one_directory_share_a_pool(tmp_path: Path) -> None:
    assert DirectoryStore(tmp_path).pool is DirectoryStore(tmp_path, 1000).pool
    assert DirectoryStore(tmp_path, 900).pool.budget == 900 // PROCESSES
