"""Directories of versions that planned otherwise, or accepted what this one refuses: they open, and nothing is silent.

Another version is this one, changed: other names for what plans keep, or more type names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

import millstream as ms
from millstream import types
from millstream.language import type_names
from millstream.plan.fingerprint import Fingerprints
from millstream.plan.lowering import lower as physical
from millstream.plan.lowering import step_names
from millstream.plan.shapes import Shape
from millstream.queries.recovery import Recovery
from millstream.service.answers import described

RETAIN, LAST = 16, 60


class Otherwise(Fingerprints):
    def of(self, value: object) -> str:
        return super().of((value, "otherwise"))


@contextmanager
def planned_otherwise(*, shapes: bool = False) -> Iterator[None]:
    """What is kept for plans has other names, and perhaps conditions too."""

    def named(self: Shape) -> None:
        object.__setattr__(self, "name", Otherwise().of((self.condition, self.parameters)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_names, "Fingerprints", Otherwise)
        if shapes:
            patch.setattr(Shape, "__post_init__", named)
        yield


@contextmanager
def more_types() -> Iterator[None]:
    """INET is a type: another name of STRING."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(type_names._NAMES, exp.DType.INET, types.STRING)
        yield


def opened(directory: Path) -> ms.Database:
    return ms.connect(directory, engine="inprocess")


def shown(query: ms.Query, at: int | None = None) -> Counter[int]:
    return Counter(row["k"] for row in query.result(at).to_pylist())


def fed(db: ms.Database, first: int, last: int) -> None:
    db.insert("s", [(instant % 5, instant) for instant in range(first, last + 1)])


def right(at: int, size: int | None, since: int = 0) -> Counter[int]:
    if size is None:
        return Counter([at + 1 - since])  # how many there are
    return Counter(instant % 5 for instant in range(max(at - size, since), at + 1))


# Of each query its mode and text, the size of its window, and how far F lies after K.
OWN = {
    "eager": ("eager", "SELECT k FROM s [RANGE 30]", 30, 30),
    "short": ("eager", "SELECT k FROM s [RANGE 3]", 3, 3),
    "joined": ("eager", "SELECT a.k FROM s [RANGE 20] a, s [NOW] b WHERE b.k >= 0", 20, 20),
    "lazy": ("lazy", "SELECT k FROM s [RANGE 30] WHERE k < 7", 30, 30),
    "counted": ("eager", "SELECT k FROM s [ROWS 21]", 20, 21),
    "for_ever": ("eager", "SELECT count(*) AS k FROM s [RANGE UNBOUNDED]", None, None),
}
GROUPS = {"grouped": "eager", "lazily": "lazy"}
ASKED = (0, 1, 2, 3, 4, 2, 2, 3)  # of groups: by place, what queries ask for; some ask for the same
GONE = 2  # the first of those that ask for the same


def made(directory: Path) -> None:
    with opened(directory) as db:
        db.execute(f"CREATE STREAM s (k BIGINT) TIMESTAMP BY ts RETAIN {RETAIN}")
        for name, (mode, text, _, _) in OWN.items():
            db.register(text, name=name, mode=mode)
        for name, mode in GROUPS.items():
            names = [f"{name}_{place}" for place in range(len(ASKED))]
            db.register_many("SELECT k FROM s [RANGE 30] WHERE k = ?", ASKED, names=names, mode=mode)
        db.create_sink("out", "eager", lambda number, changes: None)
        db.create_sink("later", "short", lambda number, changes: None)
        for instant in range(0, LAST, 5):  # so that history is cut
            fed(db, instant, instant + 4)
        fed(db, LAST, LAST + 1)
        for name in GROUPS:
            db.drop_query(f"{name}_{GONE}")
        for name, (_, _, size, _) in OWN.items():
            assert shown(db.query(name), LAST - 3) == right(LAST - 3, size), name


@pytest.mark.parametrize("shapes", [False, True], ids=["plans", "conditions"])
def test_what_is_planned_otherwise_is_exact_or_told(tmp_path: Path, shapes: bool) -> None:
    made(tmp_path)
    kept, final = LAST - RETAIN, LAST
    with planned_otherwise(shapes=shapes):
        with opened(tmp_path) as db:
            for step in (0, 30):
                now = final + step
                fed(db, final + 2, now + 1) if step else None
                for name, (_, _, size, after) in OWN.items():
                    query = db.query(name)
                    first = kept if after is None else kept + after
                    assert bool(query.notices) == (after is None or first > now), name
                    _check(query, size, kept if after is None else 0, max(first, now - RETAIN), now)
                for place, value in enumerate(ASKED):
                    for group in GROUPS if place != GONE else ():
                        query = db.query(f"{group}_{place}")
                        assert bool(query.notices) == (kept + 30 > now)
                        _check(query, 30, 0, kept + 30, now, value)
            delivered: list[dict[str, Any]] = []
            db.create_sink("out", "eager", lambda number, changes: delivered.extend(changes.to_pylist()))
            db.create_sink("later", "short", lambda number, changes: delivered.extend(changes.to_pylist()))
            assert {row["_ts"] for row in delivered} == {*range(LAST + 1, LAST + 31)}  # of the short window
            (sink,) = [sink for sink in db.sinks.shown() if sink["name"] == "out"]
            assert sink["state"] == "paused"
            assert "since 60 are no longer kept" in sink["error"]
        with opened(tmp_path) as db:  # what was made again is there, and stays
            _check(db.query("eager"), 30, 0, kept + 30, LAST + 30)
            _check(db.query("grouped_5"), 30, 0, kept + 30, LAST + 30, 2)
            _check(db.query("for_ever"), None, kept, LAST + 30 - RETAIN, LAST + 30)


def _check(query: ms.Query, size: int | None, since: int, first: int, now: int, only: int | None = None) -> None:
    """Exact from the first answerable instant on; earlier ones raise."""
    if first > now:
        with pytest.raises(ms.TimeError, match="no longer kept"):
            query.result()
        return
    assert query.instants.first == first, query.name
    with pytest.raises(ms.TimeError, match="no longer kept"):
        query.result(at=first - 1)
    for at in (first, now):
        expected = right(at, size, since)
        assert shown(query, at) == (expected if only is None else Counter({only: expected[only]})), (query.name, at)


def test_nothing_is_lost_where_all_is_kept_for_a_stream_that_is_behind(tmp_path: Path) -> None:
    """What one input has ahead of the other was not given yet, and is no past to the query that is made again."""
    with opened(tmp_path) as db:
        for stream in "st":
            db.execute(f"CREATE STREAM {stream} (k BIGINT) TIMESTAMP BY ts RETAIN 5")
        db.register("SELECT s.k FROM s [RANGE 3], t [RANGE 3] WHERE s.k = t.k", name="both")
        for instant in range(0, 50, 5):
            db.insert("s", [(each, each) for each in range(instant, instant + 5)])
    with planned_otherwise(), opened(tmp_path) as db:
        db.insert("t", [(each, each) for each in range(50)])
        assert db.query("both").result(at=46)["k"].to_pylist() == [43, 44, 45, 46]
        assert not db.query("both").notices


CAST = "SELECT k, CAST(k AS INET) AS c FROM s [RANGE 4]"


def test_queries_that_are_refused_by_now_are_there_as_failed(tmp_path: Path) -> None:
    with more_types(), opened(tmp_path) as db:
        db.execute(f"CREATE STREAM s (k BIGINT) TIMESTAMP BY ts RETAIN {RETAIN}")
        for mode in ("eager", "lazy", "none"):
            db.register(CAST, name=f"cast_{mode}", mode=mode)
            db.register_many(f"{CAST} WHERE k = ?", [1, 2], names=[f"{mode}_1", f"{mode}_2"], mode=mode)
        db.register("SELECT k FROM s [RANGE 4]", name="fine")
        db.create_sink("out", "cast_eager", lambda number, changes: None)
        fed(db, 0, 21)
        for place in range(9):  # the last ones are records, and not in the catalog
            db.register(f"SELECT k FROM s [RANGE 4] WHERE CAST(k AS INET) = '{place % 5}'", name=f"noted_{place}")
        cast = [query.name for query in db.queries() if query.name != "fine"]
    for time in range(2):
        with opened(tmp_path) as db:
            assert {query.name for query in db.queries()} == {"fine", *cast}
            assert shown(db.query("fine"), 20) == right(20, 4)
            for name in cast:
                _is_refused(db.query(name))
            db.execute("SHOW QUERIES")
            fed(db, 22 + time, 22 + time)
            (sink,) = db.sinks.shown()
            db.create_sink("out", "cast_eager", lambda number, changes: None)
            (sink,) = db.sinks.shown()
            assert sink["state"] == "paused"
            assert "cannot be opened by this version" in sink["error"]
    with opened(tmp_path) as db:
        db.query("lazy_1").drop()
        db.execute("DROP QUERY none_2")
        db.register("SELECT k FROM s [RANGE 2]", name="lazy_1")
        with pytest.raises(ms.CatalogError, match="already"):
            db.register("SELECT k FROM s [RANGE 2]", name="lazy_2")
    with more_types(), opened(tmp_path) as db:
        assert {query.name for query in db.queries()} == {"fine", *cast} - {"none_2"}
        for name in cast:
            if name not in ("lazy_1", "none_2"):
                query = db.query(name)
                assert query.error is None, name
                assert query.instants.first == 22 - RETAIN + 4, name
                assert query.result(at=22).num_rows == (5 if name.startswith("cast") else 1), name


def _is_refused(query: ms.Query) -> None:
    assert query.error is not None
    assert "cannot be opened by this version" in str(query.error)
    assert "INET" in str(query.error)
    assert "INET" in query.cql
    assert (query.stats()["state"], query.final, query.notices, query.defaults) == ("failed", None, [], [])
    assert described(query)["error"]
    for ask in (query.result, query.changes, query.explain, lambda: next(query.follow(timeout=1))):
        with pytest.raises(ms.EvaluationError, match="cannot be opened by this version"):
            ask()


def test_a_stream_that_is_refused_by_now_is_named_and_nothing_is_touched(tmp_path: Path) -> None:
    with more_types(), opened(tmp_path) as db:
        db.execute("CREATE STREAM s (k BIGINT) TIMESTAMP BY ts; CREATE STREAM other (c INET) TIMESTAMP BY ts")
        db.register("SELECT k FROM s [RANGE 4]", name="q")
        fed(db, 0, 21)
        before = db.query("q").changes()
    with planned_otherwise(), pytest.raises(ms.CatalogError, match='stream "other" cannot be declared') as refused:
        opened(tmp_path)
    assert "INET" in str(refused.value)
    with more_types(), opened(tmp_path) as db:
        assert db.query("q").changes() == before
        assert db.query("q").instants.first == 0


def test_lengths_that_were_passed_over_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CHAR(n) was STRING, and the length in a CAST nothing: so it stays in what is declared; new ones are refused."""
    declared = """
        CREATE STREAM s (k BIGINT, c CHAR(3)) TIMESTAMP BY ts;
        CREATE TABLE t (c CHAR(3));
        CREATE VIEW v AS SELECT k, CAST(c AS VARCHAR(2)) AS c FROM s [RANGE 4];
    """
    texts = {
        "cast": "SELECT CAST(c AS CHAR(1)) AS c FROM s [RANGE 4]",
        "view": "SELECT c FROM v",
        "joined": "SELECT s.c FROM s [RANGE 4], t WHERE s.c = t.c",
        "group_1": "SELECT c FROM s [RANGE 4] WHERE CAST(k AS CHAR(1)) = '10'",
        "group_2": "SELECT c FROM s [RANGE 4] WHERE CAST(k AS CHAR(1)) = '20'",
    }
    expected = {name: [{"c": "abcde"}] for name in texts} | {"group_2": []}
    with monkeypatch.context() as patched, opened(tmp_path) as db:
        patched.setattr(type_names, "_is_stored", ContextVar("_is_stored", default=True))
        db.execute(declared)
        db.execute("INSERT INTO t VALUES ('abcde')")
        for name, text in texts.items():
            db.register(text, name=name, mode="lazy" if name == "joined" else "eager")
        db.insert("s", [(10, "abcde", 1)])
        db.advance("s", to=1)
    for time in range(2):
        with opened(tmp_path) as db:
            assert {query.name: query.result(at=1).to_pylist() for query in db.queries()} == expected
            assert [query.instants.first for query in db.queries()] == [0] * len(texts)
            assert "CHAR(1)" in db.query("group_1").cql
            assert db.query("group_1").explain()
            db.insert("s", [(10, "fghij", 2 + time)])
            db.advance("s", to=2 + time)
            assert db.query("cast").result().num_rows == 2 + time
            for text in ("CREATE STREAM other (c CHAR(3)) TIMESTAMP BY ts", texts["cast"]):
                with pytest.raises(ms.TypeError, match=r"CHAR\(\d\) is not supported"):
                    db.execute(text)


def test_a_query_that_fails_on_what_is_kept_does_not_keep_others_from_opening(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        db.execute("CREATE STREAM s (k BIGINT) TIMESTAMP BY ts")
        for mode in ("eager", "lazy", "none"):
            db.register("SELECT 10 DIV (k - 3) AS k FROM s [RANGE 4]", name=mode, mode=mode)
        db.register("SELECT k FROM s [RANGE 4]", name="fine")
        fed(db, 0, 21)
    with planned_otherwise(), opened(tmp_path) as db:
        assert shown(db.query("fine"), 20) == right(20, 4)
        for mode in ("eager", "lazy", "none"):
            with pytest.raises(ms.EvaluationError, match="division by zero"):
                db.query(mode).result()
        assert not db.engine.retention.recomputed  # it holds no history


def test_sinks_of_queries_that_were_made_again_get_all_that_is_there(tmp_path: Path) -> None:
    """Without RETAIN nothing is lost: a sink goes on as if nothing had happened."""
    delivered: list[pa.Table] = []
    with opened(tmp_path) as db:
        db.execute("CREATE STREAM s (k BIGINT) TIMESTAMP BY ts")
        db.register("SELECT k FROM s [RANGE 4]", name="q")
        db.create_sink("out", "q", lambda number, changes: delivered.append(changes))
        fed(db, 0, 21)
    with planned_otherwise(), opened(tmp_path) as db:
        db.create_sink("out", "q", lambda number, changes: delivered.append(changes))
        fed(db, 22, 40)
        assert pa.concat_tables(delivered) == db.query("q").changes()


def test_queries_that_were_noted_only_are_there_after_an_opening_that_did_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {f"q{place}": f"SELECT k FROM s [RANGE 4] WHERE k = {place}" for place in range(12)}
    with opened(tmp_path) as db:
        db.execute("CREATE STREAM s (k BIGINT) TIMESTAMP BY ts")
        db.register("SELECT k FROM s [RANGE 3]", name="other", mode="none")
        for name, text in texts.items():
            db.register(text, name=name)
    register = Recovery._register_recorded

    def stopped(self: Recovery, record: Any) -> None:
        if record["name"] == "q10":
            raise OSError("gone")
        register(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(Recovery, "_register_recorded", stopped)
        with planned_otherwise(), pytest.raises(ms.StateError, match="gone"):
            opened(tmp_path)
    with opened(tmp_path) as db:
        fed(db, 0, 9)
        assert {query.name for query in db.queries()} == {"other", *texts}
        assert [shown(db.query(name), 8) for name in ("q4", "q11")] == [Counter([4]), Counter()]


def test_what_is_kept_below_the_same_edge_under_other_names_is_made_again(tmp_path: Path) -> None:
    """A plan whose edge has the name that it had may keep what is below it by other steps."""
    text = "SELECT count(*) AS k FROM (SELECT DISTINCT k FROM s [RANGE 30]{})"
    with opened(tmp_path) as db:
        db.execute(f"CREATE STREAM s (k BIGINT) TIMESTAMP BY ts RETAIN {RETAIN}")
        db.register(text.format(""), name="own")
        db.register_many(text.format(" WHERE k >= ?"), [0, 1], names=["group_0", "group_1"])
        for instant in range(0, LAST, 5):
            fed(db, instant, instant + 4)
        fed(db, LAST, LAST + 1)
        names = [step.name for step in db.engine.pipeline.steps]
    named = physical.Lowering._named

    def otherwise(self: physical.Lowering, name: str, *given: Any, **more: Any) -> str:
        return named(self, name.replace("distinct", "different").replace("multiplicity", "counted"), *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physical.Lowering, "_named", otherwise)
        with opened(tmp_path) as db:
            edge = db.query("own").edge
            assert edge.partition("~")[0] in names  # it has the name that it had, but that it is kept apart
            for name in ("own", "group_0", "group_1"):
                with pytest.raises(ms.TimeError, match="no longer kept"):
                    db.query(name).result()
            for instant in range(LAST + 2, LAST + 26, 5):
                db.insert("s", [(7, each) for each in range(instant, instant + 5)])
            for name in ("own", "group_0", "group_1"):
                query = db.query(name)
                assert query.instants.first == LAST - RETAIN + 30
                for at in range(query.instants.first, query.final + 1):
                    held = {each % 5 if each <= LAST + 1 else 7 for each in range(at - 30, at + 1)}
                    right = sum(k >= int(name[-1]) for k in held) if name != "own" else len(held)
                    assert query.result(at).to_pylist() == [{"k": right}], (name, at)


@pytest.mark.parametrize(
    "joined", ["SELECT c, d FROM s [RANGE 5 SLIDE 4] ORDER BY c LIMIT 1", "SELECT c, d FROM s [RANGE 5]"]
)
def test_matches_of_one_stream_that_are_kept_for_different_times_are_found_again(joined: str, tmp_path: Path) -> None:
    text = f"SELECT COUNT(*) AS n FROM s [NOW] AS a RIGHT OUTER JOIN ({joined}) AS b ON a.d = b.d"
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute("CREATE STREAM s (c INT, d INT) TIMESTAMP BY ts HEARTBEAT EXPLICIT RETAIN 1")
        db.register(text, name="q", mode="lazy")
        for instant in (3, 20, 44, 45, 46):
            db.insert("s", [(instant, instant, instant)])
            db.advance(to=instant)
        db.advance(to=47)
        answer = db.query("q").result().to_pylist()
    with ms.connect(tmp_path, engine="inprocess") as db:
        query = db.query("q")
        assert (query.notices, query.result().to_pylist()) == ([], answer)
        assert query.changes(since=47).num_rows == 0
