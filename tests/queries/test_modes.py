"""Modes LAZY and NONE: what is kept, what is shared, and that it lasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from tests.support.answers import table_of
from tests.support.patching import count_calls

import millstream as ms
from millstream.database import Database
from millstream.kernel.lazy.postings import Postings
from millstream.language.binder import Binder

STREAMS = """
    CREATE STREAM S (a INT, b INT) TIMESTAMP BY ts;
    CREATE STREAM T (a INT, c INT) TIMESTAMP BY ts
"""
JOIN = "SELECT S.b, T.c FROM S [RANGE {0}], T [RANGE {1}] WHERE S.a = T.a"
QUERIES = {
    "selection": "SELECT b FROM S [RANGE 5] WHERE a > 1",
    "join": JOIN.format(6, 3),
    "groups": "SELECT a, COUNT(*) AS n, SUM(b) AS b FROM S [RANGE 7] GROUP BY a",
    "distinct": "SELECT ISTREAM(DISTINCT a) FROM S [RANGE 4]",
    "outer": "SELECT S.b, T.c FROM S [RANGE 5] LEFT JOIN T [TUMBLE 4] ON S.a = T.a",
    "rows": "SELECT a FROM S [ROWS 3]",
}


def feed(db: Database, first: int, last: int, at_once: int = 3) -> None:
    for begin in range(first, last, at_once):
        instants = range(begin, min(begin + at_once, last))
        db.insert("S", [row for at in instants for row in ((at % 4, at, at), (at % 3, -at, at))])
        db.insert("T", [(at % 3, 2 * at, at) for at in instants])


def same(db: Database, name: str, other: str) -> None:
    one, two = db.query(name), db.query(other)
    for at in (None, 3, 11):
        assert one.result(at).equals(two.result(at)), (name, at)
    for since in (None, 2, 11):
        assert one.changes(since).equals(two.changes(since)), (name, since)


def all_same(db: Database, templates: int, rows: int) -> None:
    """The queries of some templates, registered in both modes with some rows of values."""
    for n in range(templates):
        for at in range(rows):
            same(db, f"lazy{n}_{at}", f"eager{n}_{at}")


def register_all(db: Database) -> None:
    for name, text in QUERIES.items():
        for mode in ("eager", "lazy", "none"):
            db.register(text, name=f"{name}_{mode}", mode=mode)


def check_all(db: Database) -> None:
    for name in QUERIES:
        same(db, f"{name}_lazy", f"{name}_eager")
        same(db, f"{name}_none", f"{name}_eager")


def test_modes_last_over_a_restart(tmp_path: Path) -> None:
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAMS)
        register_all(db)
        feed(db, 0, 12)
        held = {query.name: query.stats()["rows"] for query in db.queries()}
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert {query.name: query.stats()["rows"] for query in db.queries()} == held
        feed(db, 12, 25)
        check_all(db)


def test_queries_that_come_late_answer_as_if_they_had_been_there() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        feed(db, 0, 20)
        register_all(db)
        check_all(db)


def test_a_long_past_is_matched_in_the_background() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        feed(db, 0, 30)
        db.engine.backfills.least_rows, db.engine.backfills.first_slice, db.engine.backfills.most_left = 1, 10, 0
        register_all(db)
        feed(db, 30, 40)
        for query in db.queries():
            assert query.wait()
        feed(db, 40, 50)
        check_all(db)


def test_windows_share_matches() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        db.register(JOIN.format(100, 60), name="long", mode="lazy")
        operators = db.stats()["operators"]
        db.register(JOIN.format(7, 3), name="short", mode="lazy")
        db.register("SELECT COUNT(*) AS n FROM S [TUMBLE 5], T [NOW] WHERE S.a = T.a", name="other", mode="lazy")
        assert db.stats()["operators"] == operators
        feed(db, 0, 20)
        assert db.query("long").stats()["rows"] == db.query("short").stats()["rows"]
        db.register(JOIN.format(7, 3), name="eager")
        same(db, "short", "eager")
        db.query("long").drop()
        same(db, "short", "eager")


def test_longer_windows_get_matches_of_their_own() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        db.register(JOIN.format(2, 2), name="short", mode="lazy")
        db.register(JOIN.format(9, 9), name="long", mode="lazy")
        feed(db, 0, 20)
        assert db.query("long").stats()["rows"] > db.query("short").stats()["rows"]
        for size in ("short", "long"):
            n = 2 if size == "short" else 9
            db.register(JOIN.format(n, n), name=f"{size}_eager")
            same(db, size, f"{size}_eager")


def test_aggregates_share_a_tree() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        text = "SELECT a, COUNT(*) AS n, MAX(b) AS w, MIN(b) AS v FROM S [{}] GROUP BY a HAVING COUNT(*) > 1"
        windows = ["RANGE 5", "TUMBLE 4", "RANGE 9 SLIDE 2", "BEGIN 3 END NOW - 2"]
        queries = [db.register(text.format(window), mode="lazy") for window in windows]
        assert all("ranked tree" in query.explain() for query in queries)
        assert len({query.edge for query in queries}) == 1
        feed(db, 0, 40)
        for query, window in zip(queries, windows, strict=True):
            db.register(text.format(window), name=f"{query.name}_eager")
            same(db, query.name, f"{query.name}_eager")


def test_aggregates_of_joins_have_trees() -> None:
    asked, joined = "COUNT(*) AS n, SUM(c) AS c, MIN(b) AS b", "S [RANGE {0}], T [RANGE {0}] WHERE S.a = T.a"
    text = f"SELECT S.a, {asked} FROM {joined} GROUP BY S.a"
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        for size in (9, 2, 0):
            db.register(text.format(size), name=f"lazy{size}", mode="lazy")
            db.register(text.format(size), name=f"eager{size}")
        assert len({db.query(f"lazy{size}").edge for size in (9, 2, 0)}) == 1
        assert "ranked tree" in db.query("lazy2").explain()
        feed(db, 0, 40, at_once=7)
        for size in (9, 2, 0):
            same(db, f"lazy{size}", f"eager{size}")


@pytest.mark.parametrize(
    ("one", "other", "is_tree"),
    [
        ("RANGE 2", "RANGE 9", True),
        ("RANGE 7", "NOW", True),
        ("RANGE UNBOUNDED", "RANGE 3", True),
        ("RANGE 8 SLIDE 3", "RANGE 4 SLIDE 3", True),
        ("RANGE 4", "TUMBLE 4", False),
        ("RANGE 4", "RANGE 4 SLIDE 2", False),
    ],
)
def test_trees_of_joins_whose_windows_differ(one: str, other: str, is_tree: bool) -> None:
    text = "SELECT T.a, COUNT(*) AS n, SUM(b) AS b, MAX(c) AS c FROM S [{}], T [{}] WHERE S.a = T.a GROUP BY T.a"
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        lazy = db.register(text.format(one, other), name="lazy", mode="lazy")
        assert ("ranked tree" in lazy.explain()) == is_tree
        feed(db, 0, 12)
        feed(db, 12, 60, at_once=11)
        db.register(text.format(one, other), name="eager")
        same(db, "lazy", "eager")


def test_windows_that_differ_by_as_much_share_a_tree() -> None:
    text = "SELECT COUNT(*) AS n FROM S [RANGE {}], T [RANGE {}] WHERE S.a = T.a"
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        sizes = [(12, 5), (9, 2), (7, 0), (9, 3)]
        queries = [db.register(text.format(*each), mode="lazy") for each in sizes]
        assert [queries[0].edge == query.edge for query in queries] == [True, True, True, False]
        feed(db, 0, 30)
        for query, each in zip(queries, sizes, strict=True):
            db.register(text.format(*each), name=f"{query.name}_eager")
            same(db, query.name, f"{query.name}_eager")


@pytest.mark.parametrize(
    "template",
    [
        "SELECT COUNT(*) AS n, SUM(b) AS b FROM S [{}] WHERE b > ?",
        "SELECT a, MIN(b) AS b, AVG(b) AS v FROM S [{}] WHERE b > ? GROUP BY a HAVING COUNT(*) > 1",
        "SELECT COUNT(*) AS n, MAX(b) AS b FROM S [{}] WHERE a = ?",
        "SELECT T.a, COUNT(*) AS n FROM S [{}], T [RANGE 4] WHERE S.a = T.a AND b > ? GROUP BY T.a",
    ],
)
def test_groups_have_trees(template: str, tmp_path: Path) -> None:
    """Of each query, over rows that are kept once, whatever the window is."""
    windows, values = ["RANGE 5", "RANGE 9"], [(0,), (-4,), (2,), (30,)]

    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAMS)
        feed(db, 0, 6)
        for n, window in enumerate(windows):
            for mode in ("lazy", "eager"):
                names = [f"{mode}{n}_{at}" for at in range(len(values))]
                db.register_many(template.format(window), values[:2], names[:2], mode)
        feed(db, 6, 14)
        for n, window in enumerate(windows):
            for mode in ("lazy", "eager"):
                names = [f"{mode}{n}_{at}" for at in range(len(values))]
                db.register_many(template.format(window), values[2:], names[2:], mode)
        query = db.query("lazy0_0")
        assert "ranked tree" in query.explain()
        assert query.number is not None
        all_same(db, len(windows), len(values))
        assert query.stats()["rows"] >= db.query("lazy0_3").stats()["rows"]
    with ms.connect(tmp_path, engine="inprocess") as db:
        feed(db, 14, 60, at_once=2)  # segments are merged
        all_same(db, len(windows), len(values))


def test_templates_of_mode_lazy_share_rows_and_last(tmp_path: Path) -> None:
    """Rows are kept once for all queries over a FROM list, whatever they select, compute, and in which window."""
    texts = (
        "SELECT b FROM S [RANGE 5] WHERE a > ? AND b < ?",
        "SELECT DISTINCT a FROM S [TUMBLE 4] WHERE a > ? AND b < ?",
    )
    values = [(low, high) for low in range(3) for high in (-5, 9)]
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAMS)
        feed(db, 0, 6)
        for mode in ("lazy", "eager"):
            for n, text in enumerate(texts):
                db.register_many(text, values, [f"{mode}{n}_{at}" for at in range(len(values))], mode)
        feed(db, 6, 14)
        assert db.query("lazy0_0").stats()["shared_by"] == len(texts) * len(values)
        all_same(db, len(texts), len(values))
    with ms.connect(tmp_path, engine="inprocess") as db:
        feed(db, 14, 25)
        all_same(db, len(texts), len(values))
        db.query("lazy0_1").drop()
        assert db.query("lazy0_0").stats()["shared_by"] == len(texts) * len(values) - 1
        same(db, "lazy0_2", "eager0_2")


TEMPLATES_OF_NONE: list[tuple[str, Sequence[tuple[object, ...]]]] = [
    ("SELECT b FROM S [RANGE 5] WHERE a > ? AND b < ?", [(0, 9), (1, -2), (0, None)]),
    ("SELECT a, SUM(b + ?) AS x FROM S [TUMBLE 4] GROUP BY a", [(1,), (20,)]),
    ("SELECT S.b, T.c FROM S [RANGE 4], T [RANGE 2] WHERE S.a = T.a AND S.b * ? > T.c", [(0.5,), (-1.0,)]),
    ("SELECT ISTREAM(b) FROM S [NOW] WHERE 10 / (a - ?) > 0", [(5,), (7,)]),
]
FRAGILE_TEMPLATES = (1, 3)


def test_templates_of_mode_none_are_bound_once_and_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = count_calls(monkeypatch, Binder, "bind")

    def check(db: Database) -> None:
        for n, (_, values) in enumerate(TEMPLATES_OF_NONE):
            for at in range(len(values)):
                same(db, f"none{n}_{at}", f"eager{n}_{at}")

    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAMS)
        feed(db, 0, 6)
        for n, (text, values) in enumerate(TEMPLATES_OF_NONE):
            bound.clear()
            db.register_many(text, values, [f"none{n}_{at}" for at in range(len(values))], mode="none")
            # What can fail is tried as rows come, for each query with its own constants.
            assert len(bound) == (1 + len(values) if n in FRAGILE_TEMPLATES else 1)
            db.register_many(text, values, [f"eager{n}_{at}" for at in range(len(values))])
        feed(db, 6, 14)
        check(db)
        assert "history" in db.query("none0_0").explain()
        assert db.query("none0_1").cql == db.query("eager0_1").cql
        with pytest.raises(ms.CatalogError, match="already"):
            db.register("SELECT a FROM S", name="none0_0")
        db.register_many("SELECT a FROM S WHERE b = ?", [(1,), (2,)], ["gone", "stays"], mode="none")
        db.query("gone").drop()
    with ms.connect(tmp_path, engine="inprocess") as db:
        feed(db, 14, 25)
        check(db)
        assert "gone" not in [query.name for query in db.queries()]
        assert db.query("stays").mode == "none"
        for query in db.queries():
            query.drop()
        assert not db.engine.retention.recomputed
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert not db.queries()


def test_templates_with_shorter_windows_read_the_matches_of_longer_ones() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        for size in (90, 5, 30):
            template = f"SELECT S.b, T.c FROM S [RANGE {size}], T [RANGE {size}] WHERE S.a = T.a AND S.b > ?"
            for mode in ("lazy", "eager"):
                db.register_many(template, [(1,), (7,)], [f"{mode}{size}_1", f"{mode}{size}_7"], mode)
        assert db.query("lazy5_1").stats()["shared_by"] == 6
        feed(db, 0, 20)
        for size in (90, 5, 30):
            same(db, f"lazy{size}_7", f"eager{size}_7")


def test_many_queries_share_rows() -> None:
    """More than there are bits in a word, and a few that come later."""
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        template, values = "SELECT b FROM S [RANGE 5] WHERE a >= ? AND b < ?", [(n % 4, n) for n in range(150)]
        for mode in ("lazy", "eager"):
            db.register_many(template, values[:40], [f"{mode}{n}" for n in range(40)], mode)
        feed(db, 0, 9)
        for mode in ("lazy", "eager"):
            db.register_many(template, values[40:], [f"{mode}{n}" for n in range(40, 150)], mode)
        feed(db, 9, 30)
        for n in (0, 39, 40, 63, 64, 100, 149):
            same(db, f"lazy{n}", f"eager{n}")
        held = db.engine.reader.segments(db.query("lazy0").edge, db.engine.snapshot)
        assert max(Postings(segment).queries.max() for segment in held) < 150


def test_single_queries_of_mode_lazy_join_groups() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        queries = [db.register(f"SELECT b FROM S [RANGE {n}] WHERE a > {n - 9}", mode="lazy") for n in range(12)]
        assert queries[0].number is None
        assert queries[-1].number is not None
        feed(db, 0, 15)
        for n, query in enumerate(queries):
            db.register(f"SELECT b FROM S [RANGE {n}] WHERE a > {n - 9}", name=f"eager{n}")
            same(db, query.name, f"eager{n}")


def test_dropped_queries_leave_nothing() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        register_all(db)
        feed(db, 0, 5)
        for query in db.queries():
            query.drop()
        assert db.stats()["operators"] == 0
        assert not db.engine.snapshot.results
        assert not db.engine.retention.recomputed


def test_none_keeps_nothing() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        query = db.register(JOIN.format(5, 5), mode="none")
        feed(db, 0, 10)
        assert db.stats()["operators"] == 0
        assert query.stats()["rows"] == 0
        assert "history" in query.explain()


@pytest.mark.parametrize("mode", ["lazy", "none"])
@pytest.mark.parametrize(
    "text", ["SELECT b FROM S [RANGE 5]", JOIN.format(5, 3), "SELECT COUNT(*) AS n FROM S [RANGE 9]"]
)
def test_retention_is_the_same_in_all_modes(mode: str, text: str) -> None:
    """History and matches are kept for as long as an instant that can be asked for needs them, and no longer."""
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS.replace("TIMESTAMP BY ts", "TIMESTAMP BY ts RETAIN 20"))
        kept = db.register(text, name="kept", mode=mode)
        eager = db.register(text, name="eager")
        feed(db, 0, 200, at_once=5)
        first = kept.instants.first
        assert first == eager.instants.first > 100
        for at in (first, first + 1, 190):
            assert kept.result(at).equals(eager.result(at)), at
        assert kept.changes(first).equals(eager.changes(first))
        with pytest.raises(ms.TimeError, match="no longer kept"):
            kept.result(first - 1)
        assert kept.stats()["rows"] < 400
        assert sum(file.rows for file in db.engine.snapshot.history["s"]) < 200


def test_matches_and_trees_that_are_too_old_go_as_wholes() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS.replace("TIMESTAMP BY ts", "TIMESTAMP BY ts RETAIN 20"))
        texts = ["SELECT b FROM S [RANGE 3]", "SELECT COUNT(*) AS n FROM S [RANGE 3]", JOIN.format(3, 3)]
        queries = [db.register(text, mode="lazy") for text in texts]
        queries += db.register_many("SELECT b FROM S [RANGE 3] WHERE a >= ?", [(0,)], mode="lazy")
        for first in range(0, 400, 100):
            feed(db, first, first + 100, at_once=100)
        feed(db, 400, 402)
        for query in queries:
            segments = db.engine.reader.segments(query.edge, db.engine.snapshot)
            assert 1 <= len(segments) <= 4, query.cql  # of eight epochs that brought matches


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT a FROM S [ROWS 3]", "no time-based window"),
    ],
)
def test_what_cannot_be_lazy_says_why(text: str, reason: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        query = db.register(text, mode="lazy")
        assert any("EAGER" in note and reason in note for note in query.stats()["kept"])
        assert reason in query.explain()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT S.b FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a AND S.b / T.c > 1",
        "SELECT a FROM S [RANGE 4 SLIDE 2] WHERE b / a > 1",
        "SELECT COUNT(*) / SUM(a) AS x FROM S [RANGE 4]",
    ],
)
@pytest.mark.parametrize("mode", ["lazy", "none"])
def test_what_can_fail_is_tried_as_rows_come(text: str, mode: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        query = db.register(text, mode=mode)
        assert any("tried as rows come" in note for note in query.stats()["kept"])
        assert not any("EAGER" in note for note in query.stats()["kept"])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM S [ROWS 3]",
        "SELECT COUNT(*) AS n FROM S [RANGE UNBOUNDED]",
        "SELECT COUNT(*) AS n FROM (SELECT ISTREAM(a) FROM S [ROWS 2]) [RANGE 3]",
    ],
)
def test_none_keeps_the_answer_where_history_is_too_short(text: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY ts RETAIN 10")
        query = db.register(text, mode="none")
        assert any("EAGER" in note and "longer than its history" in note for note in query.stats()["kept"])


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_a_failing_query_fails_in_all_modes(mode: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        query = db.register("SELECT 10 / a AS x FROM S [RANGE 2]", mode=mode)
        db.insert("S", [(1, 1, 1), (0, 2, 2), (1, 3, 9)])
        db.advance(to=20)
        for ask in (query.result, partial(query.result, at=1), query.changes):
            with pytest.raises(ms.EvaluationError, match="division by zero"):
                ask()


FRAGILE = [
    "SELECT 100 / (S.b + T.c) AS x FROM S [RANGE 2], T [RANGE 5] WHERE S.a = T.a",
    "SELECT S.a, SUM(100 / (S.b + T.c)) AS x FROM S [RANGE 2], T [RANGE 5] WHERE S.a = T.a GROUP BY S.a",
    "SELECT DISTINCT 100 / (S.b + S.a) AS x FROM S [RANGE 4 SLIDE 9]",
    "SELECT ISTREAM(100 / (S.b + S.a)) FROM S [BEGIN 40 END NOW]",
]


@pytest.mark.parametrize("text", FRAGILE)
@pytest.mark.parametrize("late", [False, True])
def test_what_can_fail_is_tried_on_the_rows_that_windows_let_through(text: str, late: bool) -> None:
    """Rows that are matches, but never in all windows at once, do not make a query fail; others do in both modes."""
    quiet = [("S", (1, -7, 11)), ("S", (5, -5, 20)), ("T", (1, 7, 22)), ("S", (1, 6, 29))]
    fatal = [("T", (1, -6, 31)), ("S", (4, -4, 45)), ("S", (1, 1, 60))]

    def feed_each(rows: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        for stream, row in rows:
            db.insert(stream, [row])

    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        if late:
            feed_each(quiet)
        queries = [db.register(text, name=mode, mode=mode) for mode in ("lazy", "eager")]
        assert "tried as rows come" in queries[0].explain()
        if not late:
            feed_each(quiet)
        db.advance(to=30)
        same(db, "lazy", "eager")
        feed_each(fatal)
        db.advance(to=70)
        for query in queries:
            for ask in (query.result, query.changes, partial(query.result, at=12)):
                with pytest.raises(ms.EvaluationError, match="division by zero"):
                    ask()


def test_what_can_fail_lasts_over_a_restart(tmp_path: Path) -> None:
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAMS)
        db.register(FRAGILE[0], name="lazy", mode="lazy")
        db.insert("S", [(1, 6, 29)])
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.insert("T", [(1, -6, 31)])
        db.advance(to=40)
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            db.query("lazy").result()
    with ms.connect(tmp_path, engine="inprocess") as db, pytest.raises(ms.EvaluationError, match="division by zero"):
        db.query("lazy").result()


def test_followers_of_all_modes_see_the_same() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        queries = [db.register(JOIN.format(4, 2), mode=mode) for mode in ("eager", "lazy", "none")]
        followers = [query.follow(timeout=0) for query in queries]
        for at in range(10):
            feed(db, at, at + 1)
            if at > 3:
                tables = [next(follower) for follower in followers]
                assert tables[0].equals(tables[1])
                assert tables[0].equals(tables[2])


def test_nobody_who_asks_waits_for_an_epoch_that_runs() -> None:
    """Nor would an epoch for them: what an epoch holds while it runs is not asked for."""
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        register_all(db)
        feed(db, 0, 12)
        ad_hoc = "SELECT a, COUNT(*) AS n FROM S [RANGE 3] GROUP BY a"
        asks: list[Callable[[], object]] = [query.result for query in db.queries()]
        asks += [lambda: table_of(db, ad_hoc), lambda: db.execute(f"EXPLAIN ANALYZE {ad_hoc}").table]
        expected = [ask() for ask in asks[:-1]]
        with ThreadPoolExecutor(1) as thread, db.engine.lock:
            found = [thread.submit(ask).result(timeout=300) for ask in asks]
        assert found[:-1] == expected


def test_files_that_are_read_are_kept_until_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.state.store.SMALL", -1)  # every batch is a file of its own
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAMS)
        feed(db, 0, 6)
        pipeline = db.engine.plans.lowered(db.register("SELECT a FROM S [RANGE 5]").bound.plan, db.planner.options)[1]
        with db.engine.commits.reading(pipeline.sources) as snapshot:
            read = {file.name.partition("#")[0] for file in snapshot.history["s"]}
            feed(db, 6, 60)  # which merges them
            assert not read & {file.name.partition("#")[0] for file in db.engine.snapshot.history["s"]}
            assert all((tmp_path / name).exists() for name in read)
        feed(db, 60, 61)
        assert not any((tmp_path / name).exists() for name in read)


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        with pytest.raises(ms.BindError, match="eager, lazy or none"):
            db.register("SELECT a FROM S", mode="sometimes")


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
@pytest.mark.parametrize("is_late", [False, True])
def test_combinations_that_no_window_holds_together_do_not_fail(mode: str, is_late: bool) -> None:
    text = "SELECT S.a FROM U [RANGE 1], S [RANGE 1] WHERE U.a IN (CAST(S.c AS INT), 0)"
    with ms.connect(engine="inprocess") as db:
        db.execute("SET join_plan = 'eddy'; SET stem_window = 8")
        db.execute("CREATE STREAM S (a INT, c STRING) TIMESTAMP BY ts; CREATE STREAM U (a INT) TIMESTAMP BY ts")
        query = None if is_late else db.register(text, mode=mode)
        db.insert("U", [(5, 6), (5, 7)])
        db.insert("S", [(0, "1", 6), (1, "x", 9)])
        db.advance(to=14)
        query = query or db.register(text, mode=mode)
        assert query.result().num_rows == 0
        assert query.error is None


@pytest.mark.parametrize(("mode", "reason"), [("lazy", "time-based window"), ("none", "longer than its history")])
def test_queries_whose_answers_must_be_kept_share_them(mode: str, reason: str, tmp_path: Path) -> None:
    text = "SELECT u, max(v) AS m FROM s [ROWS 20] WHERE v < {} GROUP BY u"
    rows = [(n % 3, n * 7 % 31, n // 4) for n in range(100)]
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute("CREATE STREAM s (u INT, v INT) TIMESTAMP BY ts RETAIN 100")
        queries = [db.register(text.format(c), name=f"q{c}", mode=mode) for c in range(5, 20)]
        eager = db.register(text.format(7), name="eager")
        many = db.register_many(text.format("?"), [(c,) for c in range(3)], mode=mode)
        db.insert("s", rows[:60])
        late = db.register(text.format(30), name="late", mode=mode)
        assert len({query.edge for query in (*queries, eager, late, *many)}) == 1
        assert {query.mode for query in (*queries, late, *many)} == {mode}
        assert reason in late.explain()
        assert reason not in eager.explain()
        queries.pop(0).drop()
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert reason in db.query("late").explain()
        db.insert("s", rows[60:])
        db.advance(to=30)
        found = {query.name: query.result(at=22).to_pylist() for query in db.queries()}
        db.execute("SET sharing = 'off'")
        assert found == {query.name: db.register(query.cql).result(at=22).to_pylist() for query in [*db.queries()]}
