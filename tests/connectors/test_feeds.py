"""Batches of sources: judged as if each element had come alone, whatever the parts."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.support.feeds import Fed

import millstream as ms
from millstream.connectors.feeds import Pace
from millstream.state.snapshot import SparkBatch

STREAM = "CREATE STREAM s (a INT) TIMESTAMP BY ts HEARTBEAT {}"
PARTS = some.lists(some.lists(some.tuples(some.integers(0, 3), some.integers(0, 12)), max_size=5), max_size=4)


def answers(db: ms.Database) -> list[object]:
    db.advance(to=50)
    texts = "SELECT a, count(*) AS n FROM s [RANGE 3] GROUP BY a", "SELECT * FROM s", "SELECT a, _ts AS t FROM s._late"
    found = [db.register(text).changes().to_pylist() for text in texts[:2]]
    late = db.execute(texts[2]).table
    assert late is not None
    return [*found, sorted((row["a"], row["t"]) for row in late.to_pylist())]


@pytest.mark.parametrize("heartbeat", ["ASCENDING", "DELAY 3", "EXPLICIT"])
@settings(max_examples=25)
@given(batches=some.lists(PARTS, max_size=3))
def test_parts_are_judged_element_by_element(heartbeat: str, batches: list[list[list[tuple[int, int]]]]) -> None:
    fed = Fed(f"{STREAM.format(heartbeat)} USING csv OPTIONS (path 'x')")
    with ms.connect(engine="inprocess") as one_by_one:
        one_by_one.execute(STREAM.format(heartbeat))
        for parts in batches:
            fed.take("s", parts)
            for row in (row for part in parts for row in part):
                one_by_one.insert("s", [row])
        for name in ("arrived", "late", "heartbeat"):
            assert fed.db.stats()["streams"]["s"][name] == one_by_one.stats()["streams"]["s"][name]
        assert answers(fed.db) == answers(one_by_one)


def test_inserts_and_batches_feed_one_stream() -> None:
    fed = Fed(f"{STREAM.format('ASCENDING')} USING csv OPTIONS (path 'x')")
    fed.take("s", [[(1, 5)]])
    assert fed.db.insert("s", [(2, 4), (2, 6)]).late == 1
    fed.take("s", [[(3, 6)], [(3, 8)]], [("x", "not a number")])
    fed.db.insert("s", [(4, 9)])
    counts = fed.db.stats()["streams"]["s"]
    assert (counts["arrived"], counts["late"], counts["malformed"]) == (6, 1, 1)
    assert fed.db.engine.snapshot.progress("s").batch == SparkBatch("query", 1)
    fed.db.advance(to=20)
    (row,) = fed.db.execute("SELECT * FROM s._malformed").table.to_pylist()  # type: ignore[union-attr]
    assert (row["raw"], row["reason"]) == ("x", "not a number")


def test_landed_segments_are_not_history() -> None:
    fed = Fed(f"{STREAM.format('ASCENDING')} USING csv OPTIONS (path 'x')")
    fed.take("s", [[(1, 5)]])
    assert all("landing" not in name for name in fed.db.engine.snapshot.names())


def test_a_replayed_batch_is_known_and_a_gap_or_another_query_refused() -> None:
    fed = Fed(f"{STREAM.format('ASCENDING')} USING csv OPTIONS (path 'x')")
    (feed,) = fed.feeds.all()
    fed.take("s", [[(1, 5)]])
    assert fed.feeds.is_taken(feed, SparkBatch("query", 0))
    with pytest.raises(ms.Error, match="ahead of the database"):
        fed.feeds.is_taken(feed, SparkBatch("query", 2))
    with pytest.raises(ms.Error, match=r"checkpoint of stream s was replaced[^$]*create it again"):
        fed.feeds.is_taken(feed, SparkBatch("another", 1))


class Watch:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def test_clock_streams_are_not_harmed_by_a_clock_that_goes_back() -> None:
    watch = Watch()
    fed = Fed("CREATE STREAM s (a INT) TIMESTAMP BY ts TIMESTAMP HEARTBEAT CLOCK USING text", watch)
    watch.time = 100.0
    fed.take("s", [[(1,)], [(2,)]])
    watch.time = 50.0
    fed.take("s", [[(3,)]])
    watch.time = 200.0
    query = fed.db.register("SELECT * FROM s")
    assert [row["a"] for row in query.result().to_pylist()] == [1, 2, 3]
    assert fed.db.stats()["streams"]["s"]["late"] == 0


def test_an_idle_stream_goes_on_with_the_others() -> None:
    watch = Watch()
    fed = Fed(
        """CREATE STREAM s (a INT) TIMESTAMP BY ts HEARTBEAT ASCENDING IDLE AFTER 10 SECONDS;
        CREATE STREAM t (a INT) TIMESTAMP BY ts; CREATE STREAM u (a INT) TIMESTAMP BY ts TIMESTAMP""",
        watch,
    )
    silences = fed.db._source_loop._silences
    fed.db.insert("s", [(1, 3)])
    fed.db.insert("t", [(1, 9)])
    for moment, heartbeat in ((0, 2), (9, 2), (-5, 2), (4, 2), (5, 8)):  # the clock goes back once
        watch.time = moment
        silences.end_those_that_last()
        assert fed.db.stats()["streams"]["s"]["heartbeat"] == heartbeat
    fed.db.insert("s", [(1, 9)])
    fed.db.insert("t", [(1, 20)])
    watch.time = 16
    silences.end_those_that_last()
    assert fed.db.stats()["streams"]["s"]["heartbeat"] == 8  # heard of at last, so silence starts again
    watch.time = 27
    silences.end_those_that_last()
    assert fed.db.stats()["streams"]["s"]["heartbeat"] == 19
    assert fed.db.stats()["streams"]["u"]["heartbeat"] == -1


def test_clocks_and_idle_streams_go_on_during_run() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(
            """CREATE STREAM s (a INT) TIMESTAMP BY ts TIMESTAMP TICK INTERVAL '1' SECOND HEARTBEAT CLOCK;
            CREATE STREAM t (a INT) TIMESTAMP BY ts TIMESTAMP TICK INTERVAL '1' SECOND
            HEARTBEAT ASCENDING IDLE AFTER 1 MILLISECOND"""
        )
        db.run(1.2)
        assert db.stats()["streams"]["t"]["heartbeat"] > 1_000_000
        with pytest.raises(ms.BindError, match="run is until"):
            db.run("forever")


def test_sources_need_spark() -> None:
    with ms.connect(engine="inprocess") as db:
        for what in ("STREAM s (a INT) TIMESTAMP BY ts", "TABLE s (a INT)"):
            with pytest.raises(ms.NotSupportedError, match="runs without it"):
                db.execute(f"CREATE {what} USING parquet OPTIONS (path '/tmp')")
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts")


def test_pace() -> None:
    pace = Pace()
    assert pace.begin(0.0, lag=10) == 1.0
    pace.end(40.0)
    assert pace.begin(40.0, lag=10) == 0.25
    pace.end(50.0)  # a quarter took 10 s, so all would have taken 40
    assert pace.begin(51.0, lag=10) == 0.25
    pace.end(53.0)  # it got quiet
    assert pace.begin(53.0, lag=10) == 1.0
    pace.end(93.0)
    assert pace.begin(110.0, lag=10) == 1.0, "nothing waited while the source paused"
    pace.end(100.0)  # the clock went back
    assert pace.begin(100.0, lag=10) == 1.0


def test_shedding_is_counted_and_answers_say_so_until_the_windows_are_past() -> None:
    watch = Watch()
    fed = Fed(
        f"{STREAM.format('ASCENDING')} USING csv OPTIONS (path 'x'); SET shedding = 'sample'; SET shedding_lag = 5",
        watch,
    )
    fed.feeds.begin_run(may_shed=True)
    recent = fed.db.register("SELECT a FROM s [RANGE 10]", name="recent")
    ever = fed.db.register("SELECT count(*) AS n FROM s", name="ever")
    other = fed.db.register("SELECT 1 AS one", name="other")
    fed.take("s", [[(1, t) for t in range(100)]])
    assert fed.db.stats()["streams"]["s"]["shed"] == 0
    assert not recent.stats()["approximate"]
    fed.feeds._pace(fed.feeds.all()[0]).needed = 10.0  # as if that epoch had taken so long
    fed.take("s", [[(1, t) for t in range(100, 200)]])
    shed = fed.db.stats()["streams"]["s"]["shed"]
    assert 20 < shed < 80
    assert "approximate: elements were shed" in str(fed.db.execute(f"EXPLAIN ANALYZE QUERY {ever.name}"))
    assert recent.stats()["approximate"]
    assert recent.stats()["approximate_until"] == 199 + 10
    assert not other.stats()["approximate"]
    fed.take("s", [[(1, 210), (1, 211)]])
    assert not recent.stats()["approximate"]
    assert ever.stats()["approximate"]
    assert ever.stats()["approximate_until"] is None
    assert ever.result().to_pylist() == [{"n": 201 - shed}]


def test_nothing_is_shed_by_default_or_when_a_backlog_is_read() -> None:
    for setting, may_shed in (("off", True), ("sample", False)):
        fed = Fed(
            f"{STREAM.format('ASCENDING')} USING csv OPTIONS (path 'x'); SET shedding = '{setting}'; "
            "SET shedding_lag = 0"
        )
        fed.feeds.begin_run(may_shed=may_shed)
        fed.feeds._pace(fed.feeds.all()[0]).needed = 1e6
        fed.take("s", [[(1, t) for t in range(100)]])
        assert fed.db.stats()["streams"]["s"]["shed"] == 0


def _once_it_runs(db: ms.Database, act: Callable[[], None]) -> None:
    """Do something a moment after a run has begun, however busy the machine is."""

    def wait() -> None:
        while not db._source_loop._running.locked():
            time.sleep(0.01)
        time.sleep(0.2)
        act()

    threading.Thread(target=wait, daemon=True).start()


def test_run_ends_when_it_is_interrupted_or_the_database_closed() -> None:
    db = ms.connect(engine="inprocess")
    _once_it_runs(db, _thread.interrupt_main)
    db.run(None)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        _once_it_runs(db, _thread.interrupt_main)
        db.run(600)
    _once_it_runs(db, db.close)
    db.run(600)
    with pytest.raises(ms.ClosedError):
        db.run()


def test_one_run_at_a_time() -> None:
    with ms.connect(engine="inprocess") as db:
        running = threading.Thread(target=db.run, args=(60,))
        running.start()
        while not db._source_loop._running.locked():
            time.sleep(0.01)
        with pytest.raises(ms.CatalogError, match="under way"):
            db.run()
        db.close()
        running.join()


def test_one_stream_sheds_and_the_others_do_not() -> None:
    declared = STREAM.format("ASCENDING")
    fed = Fed(
        f"{declared} USING csv OPTIONS (path 'x'); {declared.replace(' s ', ' r ')} USING csv OPTIONS (path 'y'); "
        "SET shedding = 'sample' FOR R; SET shedding_lag = 5 FOR r",
        Watch(),
    )
    fed.feeds.begin_run(may_shed=True)
    for feed in fed.feeds.all():
        fed.feeds._pace(feed).needed = 10.0  # as if its last epoch had taken so long
        fed.take(feed.key, [[(1, t) for t in range(100)]])
    assert fed.db.stats()["streams"]["s"]["shed"] == 0
    assert fed.db.stats()["streams"]["r"]["shed"] > 0
    with pytest.raises(ms.BindError, match="range_bounds is one for all streams"):
        fed.db.execute("SET range_bounds = 'closed' FOR r")
    with pytest.raises(ms.NameError, match='no stream called "q"'):
        fed.db.execute("SET shedding = 'off' FOR q")
    fed.db.execute("DROP STREAM r")
    assert not fed.db.settings.by_stream
