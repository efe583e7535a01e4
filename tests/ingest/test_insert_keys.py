"""An insert with a key counts once, whenever and from wherever it is sent again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import millstream as ms
from millstream.ingest import insert_keys
from millstream.ingest.insert_keys import digest_of

STREAM = "CREATE STREAM s (k INT, v STRING) TIMESTAMP BY ts"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ms.Database]:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        yield db


def _count(db: ms.Database) -> int:
    db.advance(to=1_000)
    table = db.execute("SELECT count(*) AS n FROM s [RANGE UNBOUNDED]").table
    assert table is not None
    return int(table["n"][0].as_py())


def test_the_same_rows_count_once_however_they_are_written(db: ms.Database) -> None:
    first = db.insert("s", [(1, "a", 5), (2, None, 6), (3, "c", 1)], key="one")
    table = pa.table({"ts": [5, 6, 1], "k": pa.array([1, 2, 3], pa.int16()), "v": ["a", None, "c"]})
    for again in ([(1, "a", 5), (2, None, 6), (3, "c", 1)], table, table.to_pylist(), pl.DataFrame(table)):
        assert db.insert("S", again, key="one") == first
    assert (first.accepted, first.late) == (2, 1)
    db.insert("s", [(9, "z", 7)])
    assert db.insert("s", [(9, "z", 7)], key="two").accepted == 1
    assert _count(db) == 4


def test_other_rows_under_a_key_are_refused(db: ms.Database) -> None:
    db.execute("CREATE STREAM t (k INT, v STRING) TIMESTAMP BY ts")
    db.insert("s", [(1, "a", 1)], key="one")
    for name, rows in (("s", [(2, "a", 1)]), ("s", [(1, None, 1)]), ("s", []), ("t", [(1, "a", 1)])):
        with pytest.raises(ms.ConstraintError, match='the key "one" was used for other rows'):
            db.insert(name, rows, key="one")
    assert _count(db) == 1


def test_keys_that_count_replace_those_before(db: ms.Database) -> None:
    for number in range(1, 50):
        db.insert("s", [(number, "a", number)], key=f"producer#{number}")
    assert db.insert("s", [(49, "a", 49)], key="producer#49").accepted == 1
    with pytest.raises(ms.ConstraintError, match='"producer#48" comes after "producer#49"'):
        db.insert("s", [(48, "a", 48)], key="producer#48")
    assert sum(map(len, db.engine.snapshot.inserts.values())) == 1
    assert _count(db) == 49


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", "ü", 7, b"x"])
def test_what_cannot_be_a_key(db: ms.Database, key: Any) -> None:
    with pytest.raises(ms.InputError, match="cannot be the key of an insert"):
        db.insert("s", [(1, "a", 1)], key=key)


def test_an_insert_that_fails_leaves_its_key_free(db: ms.Database) -> None:
    with pytest.raises(ms.InputError):
        db.insert("s", [(1, "a", 1), ("x", "a", 1)], key="one")
    assert db.insert("s", [(1, "a", 1)], key="one").accepted == 1


def test_keys_survive_and_are_forgotten_after_a_day(tmp_path: Path) -> None:
    now = [1e9]
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAM)
        db.inputs.keys._now = lambda: now[0]
        for hour in range(30):
            now[0] = 1e9 + 3600 * hour
            db.insert("s", [(hour, "a", hour)], key=f"k{hour}")
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.inputs.keys._now = lambda: now[0]
        for hour in range(6, 30):
            assert db.insert("s", [(hour, "a", hour)], key=f"k{hour}").accepted == 1
        assert 24 <= sum(map(len, db.engine.snapshot.inserts.values())) <= 27
        assert _count(db) == 30
        # A clock that goes back forgets nothing.
        now[0] -= 1e6
        assert db.insert("s", [(29, "a", 29)], key="k29").accepted == 1


def test_there_are_only_so_many(db: ms.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insert_keys, "_MOST", 3)
    for number in range(3):
        db.insert("s", [(1, "a", number)], key=f"k{number}")
    with pytest.raises(ms.Error, match="3 keys of inserts of the last 24 hours"):
        db.insert("s", [(1, "a", 7)], key="k7")
    assert db.insert("s", [(1, "a", 2)], key="k2").accepted == 1
    assert db.insert("s", [(1, "a", 8)]).accepted == 1


def test_digests_are_of_values() -> None:
    whole = pa.table({"a": pa.array([1, None, 3]), "b": [True, False, None], "c": [[1], [], None]})
    parts = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    assert digest_of("s", whole) == digest_of("s", parts) == digest_of("s", pa.concat_tables([whole, whole]).slice(3))
    assert digest_of("s", whole) != digest_of("t", whole)
    assert digest_of("s", whole.slice(0, 2)) != digest_of("s", whole)
