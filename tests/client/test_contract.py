"""The Python contract: a database in the process and one over HTTP do the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from tests.support.serving import served

import millstream as ms

STREAM = "CREATE STREAM s (k INT, v STRING) TIMESTAMP BY ts"


def fill(db: Any) -> None:
    db.execute(STREAM)
    assert db.insert("s", [(1, "x", 1), (2, None, 3), (1, "y", 3), (3, "z", 6)]).accepted == 4


def test_statements(db: Any) -> None:
    assert db.execute("").message == "nothing to do"
    assert str(db.execute(STREAM)) == "stream s created"
    inserted = db.execute("INSERT INTO s VALUES (1, 'a', 5), (2, 'b', 6); INSERT INTO s VALUES (7, 'late', 1)")
    assert (inserted.insert.accepted, inserted.insert.late) == (0, 1)
    found = db.execute("ADVANCE TO 9; SELECT k, v FROM s [RANGE 50]")
    assert found.message == "2 rows"
    assert found.table.to_pylist() == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
    registered = db.execute("REGISTER QUERY big MODE LAZY AS SELECT k FROM s WHERE k > 1").query
    assert (registered.name, registered.mode, registered.kind) == ("big", "lazy", "stream")
    assert db.execute("SHOW QUERIES").table["name"].to_pylist() == ["big"]
    assert "Stream s" in db.execute("EXPLAIN SELECT k FROM s").message


def test_queries_and_what_they_say_of_themselves(db: Any) -> None:
    fill(db)
    query = db.register("SELECT k, COUNT(*) AS n FROM s [RANGE 2] GROUP BY k", name="Counts")
    assert (query.name, query.kind, query.mode) == ("Counts", "relation", "eager")
    assert query.schema == pa.schema([("k", pa.int32()), ("n", pa.int64())])
    assert query.defaults == []
    assert query.final == 5
    stream = db.register("SELECT v FROM s")
    assert stream.cql == "SELECT ISTREAM(v) FROM s [RANGE UNBOUNDED]"
    assert len(stream.defaults) == 2
    assert stream.explain() == db.query(stream.name).explain() != ""
    assert stream.stats()["final"] == 5
    assert [q.name for q in db.queries()] == ["Counts", stream.name]
    assert "default: " in db.explain("SELECT v FROM s")
    for form in ("json", "dot", "svg"):
        assert query.explain(format=form)
        assert db.explain("SELECT v FROM s", format=form)
    assert str(query.plan()) == query.explain()
    assert query.plan()._repr_svg_().startswith("<svg ")
    assert {node["id"] for node in query.plan().document["nodes"]} < {
        node["id"] for node in db.plan().document["nodes"]
    }
    assert str(db.plan("SELECT v FROM s")) == db.explain("SELECT v FROM s")
    assert "s  s" in str(db.plan()).split("\n")
    with pytest.raises(ms.BindError, match="format"):
        query.explain(format="gif")
    assert db.stats()["queries"] == 2
    assert db.stats()["streams"]["s"]["arrived"] == 4


def test_answers(db: Any) -> None:
    fill(db)
    query = db.register("SELECT k FROM s [RANGE 2]")
    assert query.result().to_pylist() == [{"k": 1}, {"k": 2}]
    assert query.result(at=1).to_pylist() == [{"k": 1}]
    assert query.changes(since=3).to_pylist() == [{"_ts": 4, "_weight": -1, "k": 1}]
    assert query.changes().num_rows == 4
    elements = db.register("SELECT v FROM s WHERE k = 1").result()
    assert elements.to_pylist() == [{"_ts": 1, "v": "x"}, {"_ts": 3, "v": "y"}]
    db.advance("s", to=100)
    assert query.result().to_pylist() == []
    assert query.result().schema == query.schema
    db.advance(to=200)
    assert query.final == 200


def test_templates(db: Any) -> None:
    fill(db)
    queries = db.register_many("SELECT v FROM s [RANGE 100] WHERE k = ?", [1, 2, 3], names=["a", "b", "c"])
    assert [query.name for query in queries] == ["a", "b", "c"]
    assert queries[1].cql == "SELECT v FROM s [RANGE 100] WHERE k = 2"
    assert queries[0].result().to_pylist() == [{"v": "x"}, {"v": "y"}]
    assert queries[1].result().to_pylist() == [{"v": None}]
    together = db.results(queries[:2])
    assert sorted(together["_query"].to_pylist()) == ["a", "a", "b"]
    assert db.results(queries, at=1).num_rows == 1
    pairs = db.register_many("SELECT v FROM s WHERE k > ? AND v < ?", pl.DataFrame({"k": [0, 1], "v": ["y", "z"]}))
    assert [query.result().num_rows for query in pairs] == [1, 0]
    assert db.register_many("SELECT v FROM s WHERE k = ?", []) == []


def test_rows_of_all_types(db: Any) -> None:
    db.execute(
        "CREATE STREAM all (a BOOLEAN, b TINYINT, c BIGINT, d FLOAT, e DOUBLE, f DECIMAL(38,10), g STRING, h BINARY,"
        " i DATE, j TIMESTAMP, k TIMESTAMP_NTZ) TIMESTAMP BY ts TIMESTAMP"
    )
    moment = datetime(2026, 1, 31, 10, 30, 0, 123456, UTC)
    rows = [
        (True, -128, 2**63 - 1, 0.1, float("nan"), Decimal("1234567890123456789012345678.0000000001"), 'ä"\n',
         b"\x00\xff", date(1969, 12, 31), moment, moment.replace(tzinfo=None), moment),
        (None,) * 11 + (moment,),
        (False, 127, -(2**63), -0.0, float("-inf"), Decimal("-0.5"), "", b"", date(9999, 12, 31), moment, None, moment),
        (False, 0, 2**53 + 1, 1e-45, 5e-324, 7, " ", b"a", date(1, 1, 1), moment, None, moment),
    ]  # fmt: skip
    query = db.register("SELECT * FROM all [RANGE 9 DAYS]")
    assert db.insert("all", rows).accepted == 4
    names = query.schema.names
    db.insert("all", [dict(zip([*names, "ts"], row, strict=True)) for row in rows])
    frame = db.execute("SELECT * FROM all [NOW]").table
    db.insert("all", frame.append_column("ts", pa.array([], pa.timestamp("us", "UTC")).cast(frame["j"].type)))
    db.advance("all", to=datetime(2026, 2, 1, tzinfo=UTC))
    found = query.result().to_pylist()
    assert len(found) == 8
    expected = [dict(zip(names, map(_shown, row), strict=False)) for row in rows for _ in range(2)]
    assert sorted(map(repr, [{n: _shown(v) for n, v in row.items()} for row in found])) == sorted(map(repr, expected))
    assert query.final == datetime(2026, 2, 1, tzinfo=UTC)
    assert query.changes(since=moment).num_rows == 0
    assert query.changes(since="2026-01-31T10:30:00.123455Z").num_rows == 4
    assert query.stats()["final"] == query.final


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return repr(pa.scalar(value, pa.float32()).as_py()) if value in (0.1, 1e-45) else repr(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value.normalize()) if isinstance(value, Decimal) else str(value) if isinstance(value, int) else value


def test_tables(db: Any) -> None:
    db.execute("CREATE TABLE prices (id INT, price INT) KEY (id) CHANGES BY op TIMESTAMP BY ts")
    query = db.register("SELECT * FROM prices")
    db.insert("prices", [{"id": 1, "price": 10, "op": "+", "ts": 1}, {"id": 1, "price": 11, "op": "update", "ts": 3}])
    db.advance(to=5)
    assert query.result().to_pylist() == [{"id": 1, "price": 11}]
    db.execute("CREATE TABLE names (id INT, name STRING); INSERT INTO names VALUES (1, 'one')")
    assert db.execute("SELECT name FROM names").table.to_pylist() == [{"name": "one"}]


def test_following(db: Any) -> None:
    fill(db)
    query = db.register("SELECT k FROM s [RANGE 2]")
    following = query.follow(timeout=60)
    first = next(following)
    assert first.equals(query.changes())
    db.insert("s", [(9, "w", 20)])
    rest = next(following)
    assert rest["_ts"].to_pylist() == [6, 6, 6, 9]
    assert pa.concat_tables([first, rest]).equals(query.changes())
    again = list(query.follow(since=first["_ts"][-1].as_py(), timeout=0.05))
    assert pa.concat_tables([first, *again]).equals(query.changes())


@pytest.mark.parametrize("dropped", [True, False])
def test_following_ends_when_the_query_goes_or_the_database(db: Any, dropped: bool) -> None:
    fill(db)
    query = db.register("SELECT k FROM s")
    seen: list[Any] = []
    begun = threading.Event()

    def read() -> None:
        for table in query.follow():
            seen.append(table)
            begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert begun.wait(60)
    if dropped:
        db.query(query.name).drop()
    else:
        db.close()
    reader.join(60)
    assert not reader.is_alive()
    assert len(seen) == 1


WRONG: list[tuple[Callable[[Any], Any], type[ms.Error]]] = [
    (lambda db: db.execute("SELEKT 1"), ms.SyntaxError),
    (lambda db: db.execute("SHOW STREAMS;\nSELECT kk FROM s"), ms.NameError),
    (lambda db: db.register("SELECT k FROM s WHERE k"), ms.TypeError),
    (lambda db: db.register("SELECT k FROM s", name="_x"), ms.BindError),
    (lambda db: db.register("SELECT k FROM s", mode="quick"), ms.BindError),
    (lambda db: db.register("SELECT k FROM s", name="taken"), ms.CatalogError),
    (lambda db: db.query("nobody"), ms.NameError),
    (lambda db: db.insert("nowhere", [(1,)]), ms.NameError),
    (lambda db: db.insert("s", [(1, "x")]), ms.InputError),
    (lambda db: db.insert("s", [("one", "x", 9)]), ms.InputError),
    (lambda db: db.insert("s", [(2**31, "x", 9)]), ms.InputError),
    (lambda db: db.insert("s", [{"k": 1, "w": 2, "ts": 9}]), ms.InputError),
    (lambda db: db.insert("s", "rows"), ms.InputError),
    (lambda db: db.insert("s", pa.table({"k": [1]})), ms.InputError),
    (lambda db: db.advance("nowhere", to=3), ms.NameError),
    (lambda db: db.advance(to="soon"), ms.InputError),
    (lambda db: db.advance(to=-1), ms.InputError),
    (lambda db: db.query("taken").result(at=1000), ms.TimeError),
    (lambda db: db.query("taken").result(at="noon"), ms.InputError),
    (lambda db: db.query("taken").changes(since=-2), ms.InputError),
    (lambda db: db.query("taken").follow(since="x"), ms.InputError),
    (lambda db: db.query("fails").result(), ms.EvaluationError),
    (lambda db: next(db.query("fails").follow()), ms.EvaluationError),
    (lambda db: db.register_many("SELECT k FROM s", [1]), ms.BindError),
    (lambda db: db.register_many("SELECT k FROM s WHERE k = ?", [(1, 2)]), ms.InputError),
    (lambda db: db.register_many("SELECT k FROM s WHERE k = ?", [1], names=["a", "b"]), ms.InputError),
    (lambda db: db.results([db.query("taken"), db.query("other")]), ms.InputError),
    (lambda db: db.explain("SELECT k FROM s WHERE"), ms.SyntaxError),
    (lambda db: db.run("soon"), ms.BindError),
    (lambda db: db.resume_sink("k"), ms.NameError),
]


def test_errors_are_the_same(db: Any) -> None:
    db.execute(STREAM)
    db.register("SELECT k FROM s", name="taken")
    db.register("SELECT v FROM s", name="other")
    db.register("SELECT 1 / (k - 3) AS x FROM s", name="fails")
    db.insert("s", [(3, "x", 1)])
    db.advance("s", to=9)
    for number, (wrong, error) in enumerate(WRONG):
        with pytest.raises(ms.Error) as raised:
            wrong(db)
        assert type(raised.value) is error, f"case {number}: {raised.value!r}"


def test_errors_point_into_the_text(db: Any) -> None:
    db.execute(STREAM)
    with pytest.raises(ms.NameError) as raised:
        db.register("SELECT k,\n  vv FROM s")
    assert raised.value.place is not None
    assert (raised.value.place.line, raised.value.place.column) == (2, 3)
    assert str(raised.value).endswith('line 2, column 3:\n    vv FROM s\n    ^^\nhint: did you mean "v"?')


def test_what_is_dropped_or_closed(db: Any) -> None:
    fill(db)
    query = db.register("SELECT k FROM s")
    query.drop()
    for ask in (query.result, query.changes, query.follow, query.stats, query.drop):
        with pytest.raises(ms.ClosedError):
            ask()
    assert not db.is_closed
    db.close()
    assert db.is_closed
    with pytest.raises(ms.ClosedError):
        db.queries()


def test_names_with_odd_characters(db: Any) -> None:
    fill(db)
    name = "a/b ?#%ä"
    query = db.register("SELECT k FROM s", name=name)
    assert db.query(name).result().num_rows == query.result().num_rows == 3
    query.drop()
    assert db.queries() == []


def test_python_is_never_sent() -> None:
    with ms.connect(engine="inprocess") as local, served(local) as url, ms.connect(url) as db:
        ways: tuple[Callable[[], object], ...] = (
            lambda: db.create_function("f", lambda x: x, "INT"),
            lambda: db.create_aggregate("f", object, "INT"),  # type: ignore[arg-type]  # it is refused whatever it is
            lambda: db.create_sink("k", "q", print),
        )
        for create in ways:
            with pytest.raises(ms.NotSupportedError, match="not sent over the network"):
                create()
        local.create_function("twice", lambda column: column * 2, "BIGINT")
        db.execute(STREAM)
        db.insert("s", [(4, "x", 0), (5, "x", 1)])
        assert db.register("SELECT twice(k) AS k2 FROM s").result().to_pylist() == [{"_ts": 0, "k2": 8}]


def test_a_connection_that_was_closed_meanwhile_is_made_again() -> None:
    with ms.connect(engine="inprocess") as local:
        with served(local) as url:
            remote = ms.connect(url, token=None)  # and keeps its connection, which ends with the service
        with served(local, port=int(url.rpartition(":")[2])), remote:
            assert str(remote.execute(STREAM)) == "stream s created"


def test_addresses() -> None:
    with pytest.raises(ms.ServiceError, match="cannot be reached"):
        ms.connect("http://127.0.0.1:9")
    with pytest.raises(ms.SetupError):
        ms.connect("http://127.0.0.1:9", engine="inprocess")
    with pytest.raises(ms.SetupError):
        ms.connect("somewhere", token="x")


def test_notices_are_told_wherever_a_query_is(db: Any) -> None:
    db.execute("CREATE STREAM r (k INT) TIMESTAMP BY t RETAIN 10")
    db.insert("r", [(tick, tick) for tick in range(50)])
    text, notice = "SELECT COUNT(*) AS n FROM r", "the history of r begins at 38 (RETAIN)"
    registered, asked = db.execute(f"REGISTER QUERY q AS {text}"), db.execute(text)
    many = db.register_many(f"{text} WHERE k > ?", [1, 2])
    for told in (registered, asked, registered.query, db.query("q"), db.register(text), *many):
        assert notice in told.notices[0]
    assert notice in registered.message
    assert notice in asked.message
    assert not db.execute(f"{text} [RANGE 2]").notices
    assert db.register(f"{text} [RANGE 2]").notices == []
    waiting = [db.register(f"{text} [RANGE 20]"), *db.register_many(f"{text} [RANGE 20] WHERE k > ?", [1, 2])]
    for query in waiting:
        assert "it is answerable from 58 on" in query.notices[0]
        assert query.stats()["notices"] == query.notices
    db.insert("r", [(tick, tick) for tick in range(50, 60)])
    for query in waiting:
        assert query.notices == []
        assert "notices" not in query.stats()
    assert notice in db.query("q").notices[0]  # for good


def test_what_is_no_longer_kept_is_not_answered(db: Any) -> None:
    db.execute("CREATE STREAM r (k INT) TIMESTAMP BY ts RETAIN 10")
    db.insert("r", [(tick, tick) for tick in range(50)])
    counting = db.register("SELECT k FROM r [ROWS 20]")
    assert "once its windows have counted 21 rows" in counting.notices[0]
    query = db.register("SELECT k FROM r [RANGE 2]")
    assert query.changes(since=40).num_rows == 16
    asked: list[Callable[[], object]] = [
        lambda: query.changes(since=39),
        lambda: list(query.follow(since=39, timeout=0.05)),
        lambda: counting.result(),
        lambda: counting.changes(since=48),
    ]
    for ask in asked:
        with pytest.raises(ms.TimeError, match="no longer kept"):
            ask()
