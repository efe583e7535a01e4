"""DB-API 2.0: the public suite, and what it does not ask."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Iterator
from typing import Any

import dbapi20  # type: ignore[import-untyped]
import pytest
from tests.support.serving import served

import millstream as ms
from millstream import dbapi


class TestCompliance(dbapi20.DatabaseAPI20Test):  # type: ignore[misc]
    """In a directory, since the suite connects again and again."""

    driver = dbapi

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.connect_args = (directory.name + "/db",)
        self.connect_kw_args = {"engine": "inprocess"}

    def _connect(self) -> dbapi.Connection:
        connection: dbapi.Connection = super()._connect()
        self.addCleanup(connection.__exit__, None, None, None)  # some of the tests leave it open
        return connection

    def test_nextset(self) -> None:
        """There are no procedures, and so no second set of rows."""

    def test_setoutputsize(self) -> None:
        """Sizes have no meaning here."""


@pytest.fixture
def connection() -> Iterator[dbapi.Connection]:
    with dbapi.connect(engine="inprocess") as opened:
        opened.cursor().execute("CREATE STREAM s (k STRING, v INT, at TIMESTAMP) TIMESTAMP BY at")
        yield opened


def test_values_by_order_and_by_name(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    moments = [dt.datetime(2026, 1, 1, 0, 0, second, tzinfo=dt.UTC) for second in range(3)]
    cursor.executemany("INSERT INTO s VALUES (?, ?, ?)", [(f"it's {n}", n, at) for n, at in enumerate(moments)])
    cursor.execute("ADVANCE s TO TIMESTAMP '2026-01-01 00:01:00'")
    with pytest.raises(dbapi.InterfaceError, match="gave no rows"):
        cursor.fetchall()
    assert cursor.description is None
    assert cursor.execute("SELECT k FROM s [RANGE 1 DAY] WHERE v = :v", {"v": 1}).fetchall() == [("it's 1",)]
    cursor.execute("SELECT v, k, at FROM s [RANGE 1 DAY] WHERE v > ?", [0])
    assert cursor.description is not None
    assert [column[:2] for column in cursor.description] == [
        ("v", dbapi.NUMBER), ("k", dbapi.STRING), ("at", dbapi.DATETIME),
    ]  # fmt: skip
    assert cursor.rowcount == 2
    assert sorted(cursor) == [(1, "it's 1", moments[1]), (2, "it's 2", moments[2])]
    assert cursor.fetchone() is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELEC 1", dbapi.ProgrammingError),
        ("SELECT x FROM s", dbapi.ProgrammingError),
        ("SELECT v FROM nothing", dbapi.ProgrammingError),
        ("SELECT rand() FROM s", dbapi.DatabaseError),
        ("INSERT INTO s VALUES ('a', 1, TIMESTAMP '1960-01-01')", dbapi.DataError),
    ],
)
def test_errors_have_the_kinds_of_the_standard(connection: dbapi.Connection, text: str, kind: type[Exception]) -> None:
    with pytest.raises(kind) as found:
        connection.cursor().execute(text)
    assert isinstance(found.value.__cause__, ms.Error)


def test_at_a_service() -> None:
    with ms.connect(engine="inprocess") as db, served(db) as url:
        db.execute("CREATE TABLE t (a INT)")
        with dbapi.connect(url, token=None) as connection:
            cursor: Any = connection.cursor()
            cursor.execute("INSERT INTO t VALUES (?)", [5])
            assert cursor.rowcount == 1
            assert cursor.execute("SELECT a FROM t").fetchall() == [(5,)]
            with pytest.raises(dbapi.ProgrammingError):
                cursor.execute("SELECT b FROM t")
