"""NON RETROACTIVE tables: a combination of stream tuples meets the table as of the instant at which it is generated."""

from __future__ import annotations

from typing import Any

import pytest

import millstream as ms

SCHEMA = """
CREATE STREAM S (k INT) TIMESTAMP BY ts;
CREATE STREAM T (k INT) TIMESTAMP BY ts;
CREATE TABLE Names (k INT, name STRING) NON RETROACTIVE;
CREATE TABLE Facts (k INT) ;
"""


def rows(table: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.fixture(params=["upa", "negative"])
def db(request: pytest.FixtureRequest) -> ms.Database:
    database = ms.connect(engine="inprocess")
    database.execute(SCHEMA)
    database.execute(f"SET strategy = '{request.param}'")
    return database


def test_a_stream_joined_with_the_table_is_monotonic(db: ms.Database) -> None:
    query = db.register("SELECT S.k, name FROM S, Names WHERE S.k = Names.k")
    assert query.kind == "stream"
    db.execute("INSERT INTO Names VALUES (1, 'one') AT 0; INSERT INTO S VALUES (1, 2)")
    db.execute("UPDATE Names SET name = 'uno' WHERE k = 1 AT 5; INSERT INTO S VALUES (1, 5), (1, 7); ADVANCE TO 9")
    # A change at the very instant of the element is visible; earlier elements keep what they met.
    assert rows(query.result()) == [(2, 1, "one"), (5, 1, "uno"), (7, 1, "uno")]


def test_changes_do_not_act_on_what_is_in_the_window(db: ms.Database) -> None:
    query = db.register("SELECT name FROM S [RANGE 10] JOIN Names ON S.k = Names.k")
    db.execute("INSERT INTO Names VALUES (1, 'one') AT 0; INSERT INTO S VALUES (1, 2)")
    db.execute("DELETE FROM Names AT 4; INSERT INTO Names VALUES (2, 'two') AT 6; INSERT INTO S VALUES (2, 3)")
    db.execute("ADVANCE TO 20")
    assert [rows(query.result(at=t)) for t in (1, 2, 5, 12, 13)] == [[], [("one",)], [("one",)], [("one",)], []]


def test_a_row_that_leaves_a_rows_window_takes_the_same_version_along(db: ms.Database) -> None:
    query = db.register("SELECT name FROM S [ROWS 1] JOIN Names ON S.k = Names.k")
    db.execute("INSERT INTO Names VALUES (1, 'one') AT 0; INSERT INTO S VALUES (1, 1)")
    db.execute("UPDATE Names SET name = 'uno' AT 3; INSERT INTO S VALUES (1, 4), (2, 6); ADVANCE TO 9")
    assert [rows(query.result(at=t)) for t in (1, 3, 4, 6)] == [[("one",)], [("one",)], [("uno",)], []]


def test_a_combination_is_generated_by_its_latest_stream_component(db: ms.Database) -> None:
    query = db.register(
        "SELECT name FROM S [RANGE 9] JOIN T [RANGE 9] ON S.k = T.k "
        "JOIN Names ON T.k = Names.k JOIN Facts ON S.k = Facts.k"
    )
    db.execute("INSERT INTO Names VALUES (1, 'one') AT 0; INSERT INTO S VALUES (1, 1)")
    db.execute("UPDATE Names SET name = 'uno' AT 3; INSERT INTO T VALUES (1, 4)")
    # The ordinary table joins at 6; the stream components were complete at 4, after the change at 3.
    db.execute("UPDATE Names SET name = 'eins' AT 5; INSERT INTO Facts VALUES (1) AT 6; ADVANCE TO 12")
    assert [rows(query.result(at=t)) for t in (5, 6, 10, 11)] == [[], [("uno",)], [("uno",)], []]


def test_another_table_may_connect_it_with_the_stream(db: ms.Database) -> None:
    query = db.register("SELECT name FROM S [RANGE 9], Facts, Names WHERE S.k = Facts.k AND Facts.k = Names.k")
    assert "key k = k" in query.explain()
    db.execute("INSERT INTO Names VALUES (1, 'one'), (2, 'two') AT 0; INSERT INTO S VALUES (1, 1)")
    db.execute("UPDATE Names SET name = 'uno' WHERE k = 1 AT 3; INSERT INTO Facts VALUES (1) AT 6; ADVANCE TO 12")
    assert [rows(query.result(at=t)) for t in (5, 6, 10, 11)] == [[], [("one",)], [("one",)], []]


def test_the_table_may_stand_first(db: ms.Database) -> None:
    query = db.register("SELECT name, S.k FROM Names, S [NOW] WHERE S.k = Names.k")
    db.execute("INSERT INTO Names VALUES (1, 'one') AT 0; INSERT INTO S VALUES (1, 2); ADVANCE TO 3")
    assert rows(query.result(at=2)) == [("one", 1)]


REFUSED = {
    "SELECT k, count(*) AS n FROM S [RANGE 5] GROUP BY k": "groups",
    "SELECT k FROM S [RANGE 5] EXCEPT SELECT k FROM T [RANGE 5]": "EXCEPT",
    "SELECT k FROM S [RANGE 5] INTERSECT ALL SELECT k FROM T [RANGE 5]": "INTERSECT ALL",
    "SELECT S.k FROM S [RANGE 5] LEFT JOIN T [RANGE 5] ON S.k = T.k": "an outer join",
    "SELECT k FROM S [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM T [RANGE 5] WHERE T.k = S.k)": "NOT EXISTS",
    "SELECT k FROM S [RANGE 5] WHERE k IN (SELECT k FROM Facts)": "rows of facts",
    "SELECT DISTINCT k FROM Facts": "rows of facts",
}


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
@pytest.mark.parametrize("below", REFUSED)
def test_what_is_not_generated_at_an_instant_is_refused(db: ms.Database, below: str, mode: str) -> None:
    text = f"SELECT c.k, name FROM ({below}) AS c JOIN Names ON c.k = Names.k"
    with pytest.raises(ms.NotSupportedError, match=f"cannot be joined with {REFUSED[below]}"):
        db.register(text, mode=mode)
    with pytest.raises(ms.NotSupportedError, match=f"cannot be joined with {REFUSED[below]}"):
        db.execute(text)
    # Elements of a derived stream have instants of their own, whatever they were made of.
    db.register(f"SELECT c.k, name FROM (ISTREAM({below})) [RANGE 3] AS c JOIN Names ON c.k = Names.k", mode=mode)


COMPARED = [
    "SELECT S.k, name FROM S [RANGE 5] LEFT JOIN Names ON S.k = Names.k",
    "SELECT S.k, name FROM S [RANGE 5] FULL JOIN Names ON S.k = Names.k",
    "SELECT k FROM S [RANGE 5] WHERE EXISTS (SELECT 1 FROM Names WHERE Names.k = S.k)",
    "SELECT k FROM S [RANGE 5] WHERE k NOT IN (SELECT k FROM Names)",
]


@pytest.mark.parametrize("text", COMPARED)
def test_only_inner_joins_keep_changes_from_the_past(db: ms.Database, text: str) -> None:
    with pytest.raises(ms.NotSupportedError, match="cannot meet a NON RETROACTIVE table"):
        db.register(text)


RUNS = "SELECT d.k, name FROM (SELECT DISTINCT k FROM S [RANGE 5]) AS d JOIN Names ON d.k = Names.k"


@pytest.mark.parametrize("batches", [[[1, 4, 8]], [[1], [4], [8]], [[1, 4], [8]]])
@pytest.mark.parametrize("late", [False, True])
def test_a_run_keeps_the_version_that_it_met_when_it_began(
    db: ms.Database, batches: list[list[int]], late: bool
) -> None:
    queries = [] if late else [db.register(RUNS)]
    db.execute("INSERT INTO Names VALUES (1, 'one') AT 0; UPDATE Names SET name = 'uno' AT 3")
    for batch in batches:
        db.insert("S", [(1, t) for t in batch])
    db.execute(
        "ADVANCE TO 12; INSERT INTO S VALUES (1, 14); ADVANCE TO 14; ADVANCE TO 15; INSERT INTO S VALUES (1, 25)"
    )
    db.execute("ADVANCE TO 30")
    queries += [db.register(RUNS), db.register(RUNS, mode="none")]
    for query in queries:
        # [1, 7), [4, 10), [8, 14) and [14, 20) are one run: what starts when the last one ends prolongs it.
        assert [rows(query.result(at=t)) for t in (1, 5, 9, 13, 14, 19)] == [[(1, "one")]] * 6
        assert [rows(query.result(at=t)) for t in (20, 24, 25)] == [[], [], [(1, "uno")]]


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_a_late_query_is_told_that_runs_may_have_begun_before_what_is_kept(mode: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{SCHEMA.replace('ts;', 'ts RETAIN 20;', 1)} INSERT INTO Names VALUES (1, 'one') AT 0")
        early = db.register(RUNS)
        for t in range(1, 60, 3):
            db.insert("S", [(1, t)])
            if t == 31:
                db.execute("UPDATE Names SET name = 'uno'")
        db.execute("ADVANCE TO 60")
        late = db.register(RUNS, mode=mode)
        assert not early.notices
        assert "begins at" in " ".join(late.notices)
        assert rows(early.result()) == [(1, "one")]
        assert rows(late.result()) == [(1, "uno")]  # as of the first instant that is kept
        plain = db.register("SELECT S.k, name FROM S [RANGE 5] JOIN Names ON S.k = Names.k", mode=mode)
        assert not plain.notices
