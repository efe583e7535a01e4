"""Texts that differ from others in constants, wherever these stand, are not parsed, and mean what they say."""

from __future__ import annotations

import pytest

import millstream as ms
from millstream.language.statement_parser import parse_query

STREAM = "CREATE STREAM s (u INT, a BIGINT, i INT) TIMESTAMP BY ts"
ROWS = [(n % 3, n % 5 - 2, n, n) for n in range(20)]

# With {n} for a number from 1 on, and whether texts are known in the end.
TEXTS = [
    ("SELECT u, sum(i) AS t FROM s [RANGE 5] GROUP BY u HAVING sum(i) > {n}", True),
    ("SELECT u, sum(i) AS t FROM s [RANGE 5] GROUP BY u HAVING sum(i) > -{n}", True),
    ("SELECT i, 'l{n}' AS l FROM s [RANGE 5]", True),
    ("SELECT i, {n} AS l, {n}.5 AS m, '{n}' AS t FROM s [RANGE 5] WHERE a > 0", True),
    ("SELECT u, 'l{n}' AS l, count(*) AS c FROM s [RANGE 5] WHERE i > {n} GROUP BY u HAVING count(*) < {n}", True),
    ("SELECT CASE WHEN i > {n} THEN 'x{n}' ELSE 'y' END AS k FROM s [RANGE 5] WHERE a > 0", True),
    ("SELECT sum(CASE WHEN i > {n} THEN 2 ELSE 0 END) AS k FROM s [RANGE 5] WHERE a > 0", True),
    ("SELECT * FROM s [RANGE {n}] WHERE a = 1", True),
    ("SELECT * FROM s [RANGE {n} SLIDE 2] WHERE a = 1", True),
    ("SELECT * FROM s [RANGE 9 SLIDE {n}] WHERE a = 1", True),
    ("SELECT u, count(*) AS n FROM s [TUMBLE {n}] WHERE a < {n} GROUP BY u", True),
    ("SELECT u FROM s [RANGE 5] WHERE i > {n} UNION SELECT i FROM s [RANGE 3] WHERE a > {n}", True),
    # Constants that are the same in all of them may mean something else.
    ("SELECT i, count(*) AS n FROM s [RANGE 9] WHERE a > {n} - 3 GROUP BY 1", False),
    ("SELECT round(i * 1.5, 1) AS r, {n} AS l FROM s [RANGE 5] WHERE a > 0", True),
    ("SELECT i % 3 AS r, {n} AS l FROM s [RANGE 5] WHERE a > 0", True),
    # Those by which columns are called do.
    ("SELECT i + {n} FROM s [RANGE 5] WHERE a > 0", False),
    # Of these each has a plan of its own.
    ("SELECT i % {n} AS r FROM s [RANGE 5]", False),
]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def counted(text: str) -> object:
        found.append(text)
        return parse_query(text)

    monkeypatch.setattr("millstream.queries.registration.parse_query", counted)
    return found


@pytest.mark.parametrize(("text", "is_known"), TEXTS)
def test_constants_anywhere(text: str, is_known: bool, parsed: list[str]) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = [db.register(text.format(n=n)) for n in range(1, 18)]
        assert (len(parsed) < 13) is is_known
        db.execute("SET sharing = 'off'")
        alone = [db.register(text.format(n=n)) for n in range(1, 18)]
        db.insert("s", ROWS)
        db.advance("s", to=25)
        for query, other in zip(queries, alone, strict=True):
            assert query.cql == other.cql
            assert query.schema == other.schema
            for at in (3, 11, 19, 22):
                assert answers(query, at) == answers(other, at)


def answers(query: ms.Query, at: int) -> list[str]:
    return sorted(map(str, query.result(at).to_pylist()))


def test_sizes_of_windows_in_units(parsed: list[str]) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT, ts TIMESTAMP) TIMESTAMP BY ts")
        queries = [db.register(f"SELECT a FROM s [RANGE {n} MINUTES] WHERE a > 0") for n in range(1, 18)]
        assert len(parsed) < 13
        db.execute(
            "INSERT INTO s VALUES " + ", ".join(f"({n}, TIMESTAMP '2026-01-01 00:{n:02}:00')" for n in range(30))
        )
        db.advance("s", to="2026-01-01 00:29:00")
        assert [query.result().num_rows for query in queries] == [n + 1 for n in range(1, 18)]


def test_sizes_that_no_window_has(parsed: list[str]) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        for n in range(1, 18):
            db.register(f"SELECT * FROM s [RANGE {n} SLIDE {n}] WHERE a = 1")
        assert len(parsed) < 13
        with pytest.raises(ms.BindError, match="SLIDE must be greater than 0"):
            db.register("SELECT * FROM s [RANGE 3 SLIDE 0] WHERE a = 1")
        now = db.register("SELECT * FROM s [RANGE 0 SLIDE 1] WHERE a = 1")
        db.insert("s", ROWS)
        db.advance("s", to=20)
        assert [len(now.result(at).to_pylist()) for at in (7, 8, 9)] == [0, 1, 0]


def test_a_window_that_reaches_further_back_than_what_is_kept() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM} RETAIN 3")
        for n in range(1, 13):
            db.register(f"SELECT i FROM s [RANGE {n}] WHERE a > -5")
        for row in ROWS:
            db.insert("s", [row])
            db.advance("s", to=row[-1])
        short, long = (db.register(f"SELECT i FROM s [RANGE {n}] WHERE a > -5") for n in (2, 40))
        assert [row["i"] for row in short.result().to_pylist()] == [17, 18, 19]
        assert long.notices
        with pytest.raises(ms.TimeError):
            long.result()
