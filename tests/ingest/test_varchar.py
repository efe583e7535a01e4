"""VARCHAR(n) is STRING with a length that is kept where it is written to, counted in characters."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import millstream as ms

LONG = r'column "name": 4 characters are more than the 3 of VARCHAR\(3\)'


def test_what_is_written_is_checked(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("CREATE STREAM S (name VARCHAR(3), note VARCHAR) TIMESTAMP BY ts")
        db.execute(
            "CREATE TABLE T (id INT, name VARCHAR(3)); CREATE TABLE C (name VARCHAR(3)) CHANGES BY op TIMESTAMP BY t"
        )
        db.register("SELECT name || name || note AS n FROM S", name="longer")
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("INSERT INTO S VALUES ('abc', 'any length', 1), ('äöü', NULL, 2), (NULL, '', 3)")
        for rows in (
            [("a", "b", 4), ("abcd", "b", 4)],
            [{"name": name, "note": "b", "ts": 4} for name in ("a", "abcd")],
            pl.DataFrame({"name": ["a", "abcd"], "note": "b", "ts": 4}),
        ):
            with pytest.raises(ms.InputError, match=f"row 2, {LONG}"):
                db.insert("S", rows)
        for statement in (
            "INSERT INTO S VALUES ('abcd', '', 4)",
            "INSERT INTO T VALUES (1, 'abc' || 'd')",
            "INSERT INTO C VALUES ('abcd', '+', 4)",
        ):
            with pytest.raises(ms.InputError, match=LONG):
                db.execute(statement)
        db.execute("INSERT INTO T VALUES (1, 'ab'), (2, 'x')")
        with pytest.raises(ms.InputError, match=LONG):
            db.execute("UPDATE T SET name = name || name")
        db.execute("UPDATE T SET name = name || name WHERE id = 2; ADVANCE TO 5")
        found = db.execute("SELECT name FROM T").table
        assert found is not None
        assert sorted(found["name"].to_pylist()) == ["ab", "xx"]
        assert db.query("longer").result()["n"].to_pylist() == ["abcabcany length", None, None]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT CAST(name AS VARCHAR(2)) AS n FROM S", r"VARCHAR\(2\) is not supported"),
        ("SELECT TRY_CAST(name AS CHAR(2)) AS n FROM S", r"CHAR\(2\) is not supported"),
        ("CREATE TABLE T (name CHAR(2))", r"CHAR\(2\) is not supported"),
        ("CREATE TABLE T (name STRING(2))", r"\(2\) is not supported"),
        ("CREATE TABLE T (name VARCHAR(0))", r"VARCHAR\(0\) is not possible"),
        ("CREATE TABLE T (name VARCHAR(1, 2))", r"VARCHAR\(1, 2\) is not possible"),
    ],
)
def test_lengths_that_nothing_would_keep_are_refused(statement: str, message: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (name STRING) TIMESTAMP BY ts")
        with pytest.raises(ms.TypeError, match=message) as refused:
            db.execute(statement)
        assert refused.value.place is not None
        db.execute("SELECT CAST(1 AS VARCHAR) AS a, CAST(2 AS STRING) AS b, CAST('x' AS CHAR) AS c")
