"""Queries that share a plan, through the public API: registering, asking, failing, dropping, coming back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

import millstream as ms
from millstream.language.statement_parser import parse_query
from millstream.state.files import read_whole, write_whole
from millstream.state.manifest import FORMAT

STREAM = "CREATE STREAM s (a INT, b INT, t STRING) TIMESTAMP BY ts"
ROWS = [(1, 0, "x", 1), (2, 3, "xy", 2), (5, 4, "z", 3)]

Open = Callable[[], ms.Database]


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        yield db


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Open]:
    """Opens the same database again, after closing it."""
    opened: list[ms.Database] = []

    def open_it() -> ms.Database:
        for db in opened:
            db.close()
        opened.append(ms.connect(str(tmp_path / "db"), engine="inprocess"))
        return opened[-1]

    yield open_it
    for db in opened:
        db.close()


def values(query: ms.Query, column: str = "a") -> list[object]:
    found: list[object] = query.result()[column].to_pylist()
    return found


def test_each_row_is_a_query(db: ms.Database) -> None:
    queries = db.register_many("SELECT a FROM s WHERE a > ? AND t LIKE 'x%'", [(0,), (1,), (9,)])
    assert [query.name for query in queries] == ["q1", "q2", "q3"]
    db.insert("s", ROWS)
    db.advance("s", to=10)
    assert [values(query) for query in queries] == [[1, 2], [2], []]
    assert queries[1].cql == "SELECT ISTREAM(a) FROM s [RANGE UNBOUNDED] WHERE a > 1 AND t LIKE 'x%'"
    assert "Filter ((a > 1) AND (t LIKE 'x%'))" in queries[1].explain()
    assert queries[1].kind == "stream"
    assert db.query("q2") is queries[1]


def test_parameters_come_in_all_forms(db: ms.Database) -> None:
    single = db.register_many("SELECT a FROM s WHERE b = ?", [3, 4])
    frame = db.register_many("SELECT a FROM s WHERE a > ? AND t = ?", pl.DataFrame({"x": [1, 4], "y": ["xy", "z"]}))
    named = db.register_many("SELECT a FROM s WHERE a < ?", [(2.5,), (1.5,)], names=["low", "lower"])
    assert [query.name for query in named] == ["low", "lower"]
    db.insert("s", ROWS)
    db.advance("s", to=10)
    assert [values(query) for query in [*single, *frame, *named]] == [[2], [5], [2], [5], [1, 2], [1]]


def test_values_of_many_types() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM v (d DATE, n DECIMAL(8,2), w TIMESTAMP, g BOOLEAN) TIMESTAMP BY ts BIGINT")
        day, moment = dt.date(2024, 5, 1), dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
        queries = [
            *db.register_many("SELECT COUNT(*) AS n FROM v WHERE d >= ?", [day, dt.date(2025, 1, 1)]),
            *db.register_many("SELECT COUNT(*) AS n FROM v WHERE n = ?", [Decimal("1.50"), Decimal("1.51")]),
            *db.register_many("SELECT COUNT(*) AS n FROM v WHERE w < ?", [moment, moment.replace(hour=13)]),
            *db.register_many("SELECT COUNT(*) AS n FROM v WHERE g = ?", [True, False]),
            *db.register_many("SELECT COUNT(*) AS n FROM v WHERE d = ?", ["2024-05-01", "2024-05-02"]),
            *db.register_many("SELECT COUNT(*) AS n FROM v WHERE n > ?", [None, 1]),
        ]
        db.insert("v", [(day, Decimal("1.50"), moment, True, 1)])
        db.advance("v", to=2)
        assert [values(query, "n") for query in queries] == [[n] for n in (1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1)]


def test_a_late_query_sees_the_past(db: ms.Database) -> None:
    early = db.register_many("SELECT t, COUNT(*) AS n FROM s [RANGE 100] WHERE a > ? GROUP BY t", [(0,)])
    db.insert("s", ROWS)
    late = db.register_many("SELECT t, COUNT(*) AS n FROM s [RANGE 100] WHERE a > ? GROUP BY t", [(0,), (1,)])
    db.insert("s", [(7, 7, "x", 4)])
    db.advance("s", to=10)
    assert early[0].changes().equals(late[0].changes())
    assert late[1].result().to_pylist() == [{"t": "x", "n": 1}, {"t": "xy", "n": 1}, {"t": "z", "n": 1}]
    assert db.stats()["operators"] == len({step.name for step in db.engine.pipeline.steps})


@pytest.mark.parametrize("seen", [False, True])
def test_single_queries_share_once_there_are_enough(db: ms.Database, *, seen: bool) -> None:
    """Those that were there before come along, if they have seen nothing yet."""
    queries = [db.register(f"SELECT a FROM s WHERE a > {n} AND b > 0") for n in range(5)]
    if seen:
        db.insert("s", ROWS[:1])
    queries += [db.register(f"SELECT a FROM s WHERE a > {n} AND b > 0") for n in range(5, 12)]
    assert (queries[0].number is None) == seen
    assert queries[-1].number is not None
    db.insert("s", ROWS[1:] if seen else ROWS)
    db.advance("s", to=10)
    assert [values(query) for query in queries] == [[a for a in (2, 5) if a > n] for n in range(12)]


def test_a_query_that_fails_is_stopped_alone(db: ms.Database) -> None:
    queries = db.register_many("SELECT a, 10 / (b - 3) AS d FROM s WHERE a > ?", [(n,) for n in range(8)])
    other = db.register("SELECT COUNT(*) AS n FROM s")
    db.insert("s", [(1, 0, "x", 1), (9, 9, "y", 2)])
    db.insert("s", [(4, 3, "x", 3)])  # divides by zero for those that want a = 4
    db.insert("s", [(8, 8, "x", 4)])
    db.advance("s", to=10)
    for query in queries[:4]:
        with pytest.raises(ms.EvaluationError, match="zero"):
            query.result()
    assert [values(query) for query in queries[4:]] == [[9, 8]] * 4
    assert values(other, "n") == [4]


def test_users_code_that_raises_stops_one_query(db: ms.Database) -> None:
    def picky(column: pl.Series) -> pl.Series:
        if (column == 5).any():
            raise ValueError("five")
        return column > 1

    db.create_function("picky", picky, returns="boolean")
    queries = db.register_many("SELECT a FROM s WHERE b < ? AND picky(a)", [(1,), (4,), (9,)])
    db.insert("s", ROWS)
    db.advance("s", to=10)
    assert [values(query) for query in queries[:2]] == [[], [2]]
    with pytest.raises(ms.EvaluationError, match="five"):
        queries[2].result()


def test_sums_that_overflow_stop_one_query(db: ms.Database) -> None:
    db.execute("CREATE STREAM big (k INT, n BIGINT) TIMESTAMP BY ts")
    queries = db.register_many("SELECT SUM(n) AS total FROM big [RANGE 50] WHERE k = ?", [1, 2, 3])
    db.insert("big", [(1, 2**62, 1), (2, 5, 1), (3, 6, 1)])
    db.insert("big", [(1, 2**62, 2), (2, 5, 2)])
    db.advance("big", to=5)
    with pytest.raises(ms.EvaluationError):
        queries[0].result()
    assert [values(query, "total") for query in queries[1:]] == [[10], [6]]


def test_queries_come_back(reopen: Open) -> None:
    db = reopen()
    db.execute(STREAM)
    db.register_many("SELECT a FROM s WHERE a > ? AND b >= 0", [(0,), (1,)], names=["one", "two"])
    db.register_many("SELECT COUNT(*) AS n FROM s [RANGE 5] WHERE b = ?", [0, 3])
    db.insert("s", ROWS)
    db = reopen()
    late = db.register_many("SELECT a FROM s WHERE a > ? AND b >= 0", [(4,)], names=["three"])
    db = reopen()
    db.insert("s", [(6, 3, "y", 4)])
    db.query("one").drop()
    db = reopen()
    db.advance("s", to=6)
    assert {query.name: query.cql for query in db.queries()} == {
        "two": "SELECT ISTREAM(a) FROM s [RANGE UNBOUNDED] WHERE a > 1 AND b >= 0",
        "three": "SELECT ISTREAM(a) FROM s [RANGE UNBOUNDED] WHERE a > 4 AND b >= 0",
        "q3": "SELECT COUNT(*) AS n FROM s [RANGE 5] WHERE b = 0",
        "q4": "SELECT COUNT(*) AS n FROM s [RANGE 5] WHERE b = 3",
    }
    assert values(db.query("two")) == [2, 5, 6]
    assert values(db.query(late[0].name)) == [5, 6]
    assert values(db.query("q3"), "n") == [1]
    assert values(db.query("q4"), "n") == [2]


def test_failed_queries_come_back_as_failed(reopen: Open) -> None:
    db = reopen()
    db.execute(STREAM)
    db.register_many("SELECT 1 / b AS d FROM s WHERE a > ?", [(0,), (1,)], names=["bad", "good"])
    db.insert("s", ROWS)
    db = reopen()
    db.advance("s", to=9)
    with pytest.raises(ms.EvaluationError, match="zero"):
        db.query("bad").result()
    assert values(db.query("good"), "d") == [0, 0]
    db.query("bad").drop()
    db = reopen()
    assert [query.name for query in db.queries()] == ["good"]


def test_dropping_all_leaves_nothing(db: ms.Database) -> None:
    queries = db.register_many("SELECT COUNT(*) AS n FROM s [RANGE 5] WHERE a > ?", [(0,), (1,)])
    db.insert("s", ROWS)
    for query in queries:
        query.drop()
    with pytest.raises(ms.ClosedError):
        queries[0].result()
    assert db.stats()["operators"] == 0
    assert not db.engine.snapshot.states
    assert not db.engine.snapshot.results
    assert not db.queries()
    again = db.register_many("SELECT COUNT(*) AS n FROM s [RANGE 5] WHERE a > ?", [(1,)])
    db.advance("s", to=4)
    assert values(again[0], "n") == [2]


def test_the_number_of_queries_is_limited(db: ms.Database) -> None:
    db.execute("SET max_queries = 3")
    db.register_many("SELECT a FROM s WHERE a > ?", [(0,), (1,)])
    with pytest.raises(ms.CatalogError, match="4 queries are more than the 3"):
        db.register_many("SELECT a FROM s WHERE a > ?", [(2,), (3,)])
    assert len(db.queries()) == 2
    db.register("SELECT a FROM s")
    with pytest.raises(ms.CatalogError, match="max_queries"):
        db.register("SELECT b FROM s")


@pytest.mark.parametrize(
    ("template", "rows", "message"),
    [
        ("SELECT a FROM s WHERE a > 1", [(1,)], "a template without parameters"),
        ("SELECT a FROM s WHERE a > ?", [(1, 2)], "row 1 has 2 values, and the template 1 parameters"),
        ("SELECT a FROM s WHERE a > ? AND b > ?", [{"a": 1}], "row 1 is a dict, not a tuple"),
        ("SELECT a FROM s WHERE a > ?", "abc", "the rows of a template"),
        ("SELECT a FROM s WHERE a > ?", [(1,), ("x",)], "parameter 1 has values of different types"),
        ("SELECT a FROM s WHERE a > ?", [([1],)], "takes two values of comparable types"),
        ("SELECT nope FROM s WHERE a > ?", [(1,)], "nope"),
        ("SELECT a FROM s WHERE a > ?", pl.DataFrame({"x": [1], "y": [2]}), "1 parameters, and the rows 2 columns"),
    ],
)
def test_mistakes_change_nothing(db: ms.Database, template: str, rows: object, message: str) -> None:
    before = db.engine.snapshot
    with pytest.raises(ms.Error, match=message):
        db.register_many(template, rows)
    assert not db.queries()
    assert db.engine.snapshot == before


def test_names_are_unique(db: ms.Database) -> None:
    with pytest.raises(ms.CatalogError, match="there is a query"):
        db.register_many("SELECT a FROM s WHERE a > ?", [1, 2], names=["x", "X"])
    with pytest.raises(ms.InputError, match="2 rows, and 1 names"):
        db.register_many("SELECT a FROM s WHERE a > ?", [1, 2], names=["x"])
    assert not db.queries()


def test_what_cannot_be_shared_is_registered_one_by_one(db: ms.Database) -> None:
    queries = db.register_many("SELECT a + ? AS c FROM s", [1, 10])
    db.insert("s", ROWS)
    db.advance("s", to=4)
    assert [values(query, "c") for query in queries] == [[2, 3, 6], [11, 12, 15]]


def test_explain_says_what_a_new_query_would_share(db: ms.Database) -> None:
    db.register_many("SELECT a FROM s WHERE a > ? AND (b < ? OR t = 'x')", [(1, 2), (3, 4)])
    indexed = db.explain("SELECT a FROM s WHERE a > 7 AND t LIKE 'z%' AND a + b > 3")
    assert "a row of the query table of a group with 2 others" in indexed
    assert "filtered by the indexes on a, t" in indexed
    assert "evaluated last, row by row: ((a + b) > 3)" in indexed
    assert "no index serves it" in db.explain("SELECT a FROM s WHERE a + b > 3")
    assert "sharing" not in db.explain("SELECT COUNT(*) FROM s")
    db.register("SELECT b, COUNT(*) FROM s GROUP BY b")
    assert "shares 1 of its 3 operators" in db.explain("SELECT COUNT(*) FROM s")


def test_statistics_say_what_serves_a_query(db: ms.Database) -> None:
    filtered = db.register_many("SELECT a FROM s WHERE a > ? AND a + b > ?", [(1, 2), (3, 4)])[0]
    looked_up = db.register_many("SELECT a FROM s WHERE a = ?", [1, 2, 3])[0]
    assert {key: filtered.stats()[key] for key in ("shared_by", "indexes", "unindexed")} == {
        "shared_by": 2,
        "indexes": ["a"],
        "unindexed": ["((a + b) > 2)"],
    }
    assert looked_up.stats()["indexes"] == ["a"]
    assert looked_up.stats()["shared_by"] == 3


def test_noted_queries_come_back(reopen: Open) -> None:
    """Those that came one by one into a group are in no commit yet, only in a log."""
    db = reopen()
    db.execute(f"{STREAM}; SET sharing = 'on'")
    for number in range(5):
        db.register(f"SELECT a FROM s WHERE a > {number}", name=f"more_than_{number}")
    db = reopen()
    assert [query.name for query in db.queries()] == [f"more_than_{number}" for number in range(5)]
    db.insert("s", ROWS)
    db.register("SELECT a FROM s WHERE a > 4", name="again")
    db.query("more_than_0").drop()
    db = reopen()
    db.advance("s", to=9)
    assert values(db.query("again")) == values(db.query("more_than_4")) == [5]
    assert values(db.query("more_than_1")) == [2, 5]
    assert len(db.queries()) == 5


def test_a_damaged_log_is_named(reopen: Open, tmp_path: Path) -> None:
    db = reopen()
    db.execute(f"{STREAM}; SET sharing = 'on'")
    for number in range(3):
        db.register(f"SELECT a FROM s WHERE a > {number}")
    db.close()
    (log,) = tmp_path.rglob("notes-*.log")
    content = bytearray(log.read_bytes())
    content[20] ^= 1
    log.write_bytes(content)
    with pytest.raises(ms.StateError, match=r"notes-\d+\.log is damaged"):
        reopen()
    log.write_bytes(content[:0])  # cut short before anybody was told
    assert not reopen().queries()


@pytest.mark.parametrize("kind", ["a", "COUNT(*) AS n"])
def test_a_query_that_holds_too_much_is_noticed_and_then_stopped(db: ms.Database, kind: str) -> None:
    db.execute("SET max_query_rows = 10")
    wide, narrow = db.register_many(f"SELECT {kind} FROM s WHERE a > ?", [(0,), (100,)])
    alone = db.register("SELECT a, b FROM s")
    db.insert("s", [(5, 0, "x", ts) for ts in range(8)])
    db.insert("s", [(5, 0, "x", 8)])
    assert "of 10 rows that max_query_rows allows" in wide.stats()["notice"]
    assert "notice" not in narrow.stats()
    db.insert("s", [(5, 0, "x", ts) for ts in range(9, 20)])
    db.insert("s", [(500, 0, "x", 21)])
    db.advance("s", to=30)
    for query in (wide, alone):
        with pytest.raises(ms.EvaluationError, match="the query was stopped: it holds"):
            query.result()
    assert narrow.result().num_rows == 1


def test_state_is_limited_too(db: ms.Database) -> None:
    db.execute("SET max_query_state = '20 KB'")
    large = db.register("SELECT x.a FROM s [RANGE 1000] x, s [RANGE 1000] y WHERE x.a = y.b")
    small = db.register("SELECT COUNT(*) AS n FROM s")
    for start in range(0, 1000, 100):
        db.insert("s", [(ts, -1, "x", ts) for ts in range(start, start + 100)])
    with pytest.raises(ms.EvaluationError, match="max_query_state"):
        large.result()
    assert small.result().num_rows == 1


def test_texts_that_differ_in_constants_are_not_parsed_again(db: ms.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    floats = "CREATE STREAM f (x DOUBLE, n DECIMAL(6,2), t STRING) TIMESTAMP BY ts"
    db.execute(f"SET sharing = 'on'; {floats}")
    parsed: list[str] = []

    def counted(text: str) -> object:
        parsed.append(text)
        return parse_query(text)

    monkeypatch.setattr("millstream.queries.registration.parse_query", counted)
    texts = [
        "SELECT a FROM s WHERE a > {} AND b <= {}",
        "SELECT x FROM f [RANGE 10] WHERE x >= {} AND n < {}.50",
        "SELECT COUNT(*) AS n FROM f WHERE n = {}.25 OR x < {}",
        "SELECT t FROM f WHERE t = 'no {}' AND x < {}",
    ]
    for text in texts:
        db.register(text.format(1, 2))
        db.register(text.format(2, 2))  # which comes again, and is learned
        before = len(parsed)
        for number in range(5):
            db.register(text.format(number + 1, 3), name=f"n{len(db.queries())}")
        assert len(parsed) == before, text
    db.insert("s", ROWS)
    db.insert("f", [(float(x), Decimal(x) + Decimal("0.25"), f"no {x}", x) for x in range(6)])
    db.advance(to=10)
    with ms.connect(engine="inprocess") as alone:
        alone.execute(f"{STREAM}; SET sharing = 'off'; {floats}")
        for query in db.queries():
            alone.register(query.cql, name=query.name)
        alone.insert("s", ROWS)
        alone.insert("f", [(float(x), Decimal(x) + Decimal("0.25"), f"no {x}", x) for x in range(6)])
        alone.advance(to=10)
        for query in db.queries():
            assert query.changes().equals(alone.query(query.name).changes()), query.cql
    assert len({query.cql for query in db.queries()}) >= 20


def test_texts_mean_what_is_declared_now(db: ms.Database) -> None:
    db.execute("SET sharing = 'on'")
    for number in range(3):
        db.register(f"SELECT a FROM s WHERE a > {number}").drop()
    db.execute("DROP STREAM s; CREATE STREAM s (b INT, a INT) TIMESTAMP BY ts")
    query = db.register("SELECT a FROM s WHERE a > 4")
    db.insert("s", [(9, 1, 1), (1, 9, 2)])
    db.advance("s", to=3)
    assert values(query) == [9]


def test_a_group_of_another_version_is_made_again_from_history(reopen: Open, tmp_path: Path) -> None:
    db = reopen()
    db.execute(STREAM)
    db.register_many("SELECT COUNT(*) AS n FROM s WHERE a > ?", [0, 1])
    db.insert("s", ROWS)
    db.close()
    (catalog,) = (tmp_path / "db" / "manifest").glob("catalog-*.json")
    (manifest,) = (tmp_path / "db" / "manifest").glob("manifest-*.json")
    for path, kind in ((catalog, "catalog"), (manifest, "manifest")):
        body = read_whole(path, kind, [FORMAT])
        write_whole(path, kind, FORMAT, body.replace(b"groupedselection-", b"olderselection--"))
    db = reopen()
    db.insert("s", [(8, 8, "y", 4)])
    db.advance("s", to=9)
    assert [values(query, "n") for query in db.queries()] == [[4], [3]]


def test_users_functions_are_asked_once_for_each_value(db: ms.Database) -> None:
    asked: list[int] = []

    def slow(column: pl.Series, least: pl.Series) -> pl.Series:
        asked.append(len(column))
        return column >= least

    db.create_function("slow", slow, returns="boolean")
    db.execute("CREATE STREAM u (a INT, w INT) TIMESTAMP BY ts")
    text = "SELECT s.b, u.w FROM s [RANGE 100], u [RANGE 100] WHERE s.a = u.a AND slow(s.b, ?)"
    queries = db.register_many(text, [3, 4, 9])
    db.insert("u", [(1, w, 1) for w in range(50)])
    db.insert("s", [(1, 3, "x", 2), (1, 5, "x", 3)])
    db.advance(to=4)
    assert [query.result().num_rows for query in queries] == [100, 50, 0]
    assert sum(asked) <= 2 * 3 * 2  # two values of b for three queries, and what is planned with


def test_the_answers_of_many_in_one_table(db: ms.Database) -> None:
    many = db.register_many("SELECT COUNT(*) AS n FROM s WHERE a > ?", [0, 1, 4], names=["x", "y", "z"])
    alone = db.register("SELECT COUNT(*) AS n FROM s", name="all")
    lists = db.register_many("SELECT a FROM s WHERE a > ? AND b > 0", [0, 4])
    db.insert("s", ROWS)
    db.advance("s", to=5)
    found = db.results([*many, alone])
    assert found.to_pylist() == [{"_query": name, "n": n} for name, n in (("x", 3), ("y", 2), ("z", 1), ("all", 3))]
    assert db.results(many, at=2).to_pylist() == [{"_query": n, "n": c} for n, c in (("x", 2), ("y", 1), ("z", 0))]
    assert db.results(lists)["a"].to_pylist() == [2, 5, 5]
    with pytest.raises(ms.InputError, match="different columns"):
        db.results()
    with pytest.raises(ms.InputError, match="no queries"):
        db.results([])


def test_a_refused_template_leaves_nothing_behind(reopen: Open) -> None:
    db = reopen()
    db.execute(f"{STREAM}; SET max_queries = 1")
    with pytest.raises(ms.CatalogError, match="max_queries"):
        db.register_many("SELECT a FROM s WHERE a > ?", [0, 1])
    db.execute("SET max_queries = 5")
    db = reopen()
    assert not db.queries()
    (query,) = db.register_many("SELECT a FROM s WHERE a > ?", [1])
    db.insert("s", ROWS)
    db.advance("s", to=5)
    assert values(query) == [2, 5]


JOINED = "SELECT s.k FROM s [RANGE 5] JOIN r [RANGE 5] ON s.k = r.k WHERE s.v > {}"


def with_two_streams(db: ms.Database) -> None:
    db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts; CREATE STREAM r (k INT) TIMESTAMP BY ts")


def answers_of_joined(queries: Sequence[ms.Query]) -> list[list[int]]:
    return [query.result(at=2)["k"].to_pylist() for query in queries]


def feed_joined(db: ms.Database) -> None:
    db.insert("r", [(k, 1) for k in range(5)])
    db.insert("s", [(k, k, 2) for k in range(5)])
    db.advance(to=3)


def test_the_second_query_of_a_join_takes_the_first_along(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        with_two_streams(db)
        queries = [db.register(JOINED.format(0), name="a")]
        assert "shared_by" not in queries[0].stats()
        queries += [db.register(JOINED.format(limit), name=name) for name, limit in (("b", 2), ("c", 3))]
        assert [query.stats()["shared_by"] for query in queries] == [3, 3, 3]
        feed_joined(db)
        assert answers_of_joined(queries) == [[1, 2, 3, 4], [3, 4], [4]]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert answers_of_joined([db.query(name) for name in "abc"]) == [[1, 2, 3, 4], [3, 4], [4]]
        db.query("a").drop()
        assert answers_of_joined([db.query(name) for name in "bc"]) == [[3, 4], [4]]


def test_a_query_of_a_join_that_has_seen_rows_stays_as_it_is() -> None:
    with ms.connect(engine="inprocess") as db:
        with_two_streams(db)
        first = db.register(JOINED.format(0))
        feed_joined(db)
        second = db.register(JOINED.format(2))
        assert "shared_by" not in first.stats()
        assert answers_of_joined([first, second]) == [[1, 2, 3, 4], [3, 4]]


@pytest.mark.parametrize("inputs", [2, 3])
def test_queries_that_want_little_of_a_join_share_one_that_makes_little(inputs: int) -> None:
    with ms.connect(engine="inprocess") as db:
        with_two_streams(db)
        limits = "s.v > {0} AND s.v < 10 AND r.k > {0} AND r.k < 10"
        text = JOINED.replace("s.v > {}", limits)
        if inputs == 3:
            text = text.replace(" WHERE ", " JOIN r [RANGE 9] AS o ON o.k = r.k WHERE ")
        queries = [db.register(text.format(limit)) for limit in range(3)]
        assert all("shared_by" in query.stats() for query in queries)
        feed_joined(db)
        assert answers_of_joined(queries) == [[1, 2, 3, 4], [2, 3, 4], [3, 4]]
