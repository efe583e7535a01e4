"""What would take longer to read or to plan than others can wait is refused, at its place and before it is planned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream as ms

SETUP = "CREATE STREAM s (k INT, v STRING) TIMESTAMP BY ts; CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)"
LONG = "9" * 5_000  # Python reads no number of more than 4,300 digits


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as database:
        database.execute(SETUP)
        yield database


def _list(item: str, count: int, between: str = ", ") -> str:
    return between.join(item.format(number) for number in range(count))


def _doubled(levels: int) -> str:
    """Each name of WITH reads the one before twice: few words, and 2 ** levels inputs."""
    parts = ["x0 AS (SELECT a FROM t)"]
    parts += [f"x{n + 1} AS (SELECT p.a FROM x{n} AS p JOIN x{n} AS q ON p.a = q.a)" for n in range(levels)]
    return f"WITH {', '.join(parts)} SELECT a FROM x{levels}"


TOO_LONG = {
    "items": f"SELECT {_list('k + {0} AS c{0}', 5_000)} FROM s [RANGE 5]",
    "branches": f"SELECT CASE {_list('WHEN k = {0} THEN {0}', 5_000, ' ')} END AS c FROM s [RANGE 5]",
    "terms": f"SELECT k FROM s [RANGE 5] WHERE {_list('k + {0} = 7', 5_000, ' OR ')}",
    "keys": f"SELECT count(*) AS n FROM s [RANGE 5] GROUP BY {_list('k + {0}', 8_000)}",
    "sides": _list("SELECT k + {0} AS c FROM s [RANGE 5]", 3_000, " UNION ALL "),
    "columns": f"CREATE STREAM wide ({_list('c{0} INT', 8_000)}) TIMESTAMP BY ts",
    "deletion": f"DELETE FROM t WHERE {_list('a = {0}', 6_000, ' OR ')}",
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_statements_that_are_too_long(db: ms.Database, name: str) -> None:
    text = f"SHOW STREAMS; {TOO_LONG[name]}"
    with pytest.raises(ms.NotSupportedError, match="words and signs") as caught:
        db.execute(text)
    assert caught.value.place is not None
    assert caught.value.place.start > len("SHOW STREAMS; ")
    assert len(str(caught.value)) < 4_000  # of one line of a hundred thousand characters a piece is shown
    assert not db.inspection.check(TOO_LONG[name])["ok"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"SELECT count(*) AS n FROM {_list('s [RANGE 5] AS a{0}', 1_000)}", "nested too deeply"),
        (
            f"SELECT k FROM s [RANGE 5] WHERE {_list('EXISTS (SELECT 1 FROM t WHERE a = {0})', 500, ' OR ')}",
            "nested too deeply",
        ),
        (f"SELECT {_list('(SELECT count(*) FROM t WHERE a = {0}) AS c{0}', 500)}", "nested too deeply"),
        (f"SELECT {_list('*', 2_001)} FROM s [RANGE 5]", "too many columns"),
        (_doubled(6), "a join of 64 inputs"),
        (_doubled(40), "reads too much"),
    ],
    ids=["inputs", "EXISTS", "subqueries", "stars", "joins that become one", "WITH that doubles"],
)
def test_queries_that_read_too_much(db: ms.Database, text: str, said: str) -> None:
    with pytest.raises(ms.NotSupportedError, match=said) as caught:
        db.execute(text)
    assert caught.value.place is not None
    assert said in db.inspection.check(text)["errors"][0]["message"]


def test_views_count_as_what_they_read() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(SETUP + "; CREATE VIEW v0 AS SELECT a FROM t")
        for level in range(9):
            db.execute(f"CREATE VIEW v{level + 1} AS SELECT a FROM v{level} UNION ALL SELECT a + 1 AS a FROM v{level}")
        with pytest.raises(ms.NotSupportedError, match="reads too much"):
            db.execute("CREATE VIEW v10 AS SELECT a FROM v9 UNION ALL SELECT a + 1 AS a FROM v9")


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {LONG} AS n FROM s [RANGE 5]",
        f"SELECT -{LONG} AS n FROM s [RANGE 5]",
        f"SELECT k FROM s [RANGE {LONG}]",
        f"SELECT k FROM s [ROWS {LONG}]",
        f"SELECT k FROM s [RANGE 5] WHERE k IN (1, {LONG})",
        f"SELECT k FROM s [RANGE 5] WHERE k IN ({'1, ' * 2_000}{LONG})",
        f"SELECT a FROM t ORDER BY {LONG}",
        f"SELECT a FROM t ORDER BY a LIMIT {LONG}",
        f"SELECT a FROM t GROUP BY {LONG}",
        f"SELECT CAST(a AS DECIMAL({LONG}, 2)) AS a FROM t",
        f"SELECT INTERVAL {LONG} DAY AS i FROM t",
        f"INSERT INTO t VALUES ({LONG})",
        f"INSERT INTO t VALUES (1), (-{LONG})",
        f"INSERT INTO t VALUES (1 + {LONG})",
        f"ADVANCE s TO {LONG}",
        f"SET max_lag = {LONG}",
        f"SET memory_budget = '{LONG}'",
        f"SELECT INTERVAL '{LONG}' DAY AS i FROM t",
        f"SELECT k FROM s [RANGE '{LONG}' SECONDS]",
        f"SELECT CAST('{LONG}' AS INT) AS n FROM t",
        f"SELECT CAST('{LONG}' AS DECIMAL(38, 0)) AS n FROM t",
        f"SELECT DATE '{LONG}-01-01' AS d FROM t",
        f"DELETE FROM t AT {LONG}",
        f"CREATE STREAM u (a INT) TIMESTAMP BY ts RETAIN {LONG}",
        f"CREATE TABLE u (a VARCHAR({LONG}))",
        f"CREATE TABLE u (a INT DEFAULT {LONG})",
    ],
)
def test_numbers_of_thousands_of_digits(db: ms.Database, text: str) -> None:
    """A clear error wherever one stands, and never one of Python's."""
    with pytest.raises(ms.Error) as caught:
        db.execute(text)
    assert "4300" not in str(caught.value)


def test_a_text_that_is_too_long(db: ms.Database) -> None:
    with pytest.raises(ms.NotSupportedError, match=r"a text of 1,[0-9,]+ characters"):
        db.execute("SHOW STREAMS; " * 80_000)
    rows = _list("({0})", 150_000)
    assert len(rows) > 1 << 20
    db.execute(f"CREATE TABLE many (a INT); INSERT INTO many VALUES {rows}")
    found = db.execute(f"SELECT count(*) AS n FROM many WHERE a IN ({rows[1:-1].replace('), (', ', ')})").table
    assert found is not None
    assert found.to_pylist() == [{"n": 150_000}]


def test_what_was_registered_before_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"SELECT a FROM t WHERE {_list('a <> {0}', 100, ' AND ')}"
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"{SETUP}; CREATE VIEW v AS SELECT a FROM t UNION ALL SELECT a FROM t")
        db.register(f"{text} AND a IN (SELECT a FROM v)", "q")
        before = db.query("q").result().to_pylist()
    for name in ("MAX_WORDS", "MAX_TEXT"):
        monkeypatch.setattr(f"millstream.language.lengths.{name}", 20)
    monkeypatch.setattr("millstream.language.binder.MAX_INPUTS", 1)
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert db.query("q").result().to_pylist() == before
        with pytest.raises(ms.NotSupportedError):
            db.execute("SELECT a FROM t WHERE a <> 1")
