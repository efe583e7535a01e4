"""The live plan as a document: what its nodes say, who shares them, and that it stays small."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import millstream as ms
from millstream.database import Database
from millstream.inspection.listing import Wanted

JOIN = "SELECT s.a, r.c FROM s [RANGE 10], r [RANGE {}] WHERE s.a = r.a"


@pytest.fixture
def db() -> Iterator[Database]:
    with ms.connect(engine="inprocess") as opened:
        opened.execute("CREATE STREAM s (a BIGINT, b BIGINT, ts BIGINT) TIMESTAMP BY ts")
        opened.execute("CREATE STREAM r (a BIGINT, c BIGINT, ts BIGINT) TIMESTAMP BY ts")
        yield opened


def nodes(document: dict[str, Any], kind: str | None = None) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for node in document["nodes"] if kind is None or node["kind"] == kind}


def check(document: dict[str, Any]) -> None:
    """Edges are between nodes, and it can be sent."""
    known = {node["id"] for node in document["nodes"]}
    assert len(known) == len(document["nodes"])
    for edge in document["edges"]:
        assert {edge["from"], edge["to"]} <= known
        assert edge["id"] == f"{edge['from']}>{edge['to']}"
    json.dumps(document)


def test_of_an_empty_database() -> None:
    with ms.connect(engine="inprocess") as db:
        document = db.inspection.plan()
        assert (document["nodes"], document["edges"], document["groups"]) == ([], [], [])


def test_rows_selectivity_and_queries(db: Database) -> None:
    db.register("SELECT a, COUNT(*) AS n FROM s [RANGE 10] WHERE b > 1 GROUP BY a", name="counts")
    db.insert("s", [(n % 3, n % 4, n) for n in range(100)])
    document = db.inspection.plan()
    check(document)
    (source,) = nodes(document, "source").values()
    assert (source["label"], source["rows_out"], source["queries"]) == ("s", 100, 1)
    (selecting,) = nodes(document, "filter").values()
    assert (selecting["rows_in"], selecting["rows_out"], selecting["selectivity"]) == (100, 50, 0.5)
    assert selecting["label"] == "Filter (b > 1)"
    (aggregate,) = nodes(document, "aggregate").values()
    assert (aggregate["pattern"], aggregate["structure"]) == ("WEAK", "by value")
    assert aggregate["state_bytes"] > 0
    (output,) = nodes(document, "output").values()
    assert (output["label"], output["queries"], output["state"]) == ("counts", 1, "running")
    assert sum(node["share"] for node in document["nodes"]) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("text", "kind", "structure", "pattern"),
    [
        ("SELECT DISTINCT a FROM s [RANGE 5]", "distinct", "delta*", "WEAK"),
        ("SELECT DISTINCT a FROM s [ROWS 5]", "distinct", "by value", "STRICT"),
        ("SELECT a, b FROM s [ROWS 5]", "window", "FIFO", "STRICT"),
        ("SELECT a FROM s [RANGE 5] EXCEPT SELECT a FROM r [RANGE 5]", "set", "by value", "STRICT"),
        ("SELECT a FROM s [RANGE 5] WHERE a IN (SELECT a FROM r [RANGE 5])", "join", "by value and delta*", "WEAK"),
    ],
)
def test_structures_and_patterns(db: Database, text: str, kind: str, structure: str, pattern: str) -> None:
    db.register(text)
    found = [node for node in db.inspection.plan()["nodes"] if node["kind"] == kind]
    assert [(node["structure"], node["pattern"]) for node in found] == [(structure, pattern)]


def test_expiry_groups_and_ranked_trees(db: Database) -> None:
    db.register("SELECT a, COUNT(*) AS n FROM s [RANGE 10] GROUP BY a", mode="lazy")
    db.execute("SET expiry_groups = 4")
    db.register(JOIN.format(20))
    document = db.inspection.plan()
    assert [node["structure"] for node in nodes(document, "aggregate").values()] == ["ranked tree"]
    assert [node["structure"] for node in nodes(document, "join").values()] == ["FIFO"]


def test_joins_that_keep_the_same_rows_have_one_stem(db: Database) -> None:
    for size in (20, 50):
        db.register(JOIN.format(size), name=f"j{size}")
    db.insert("s", [(1, n, n) for n in range(40)])
    db.insert("r", [(1, n, n) for n in range(40)])
    document = db.inspection.plan()
    check(document)
    stems = nodes(document, "stem")
    assert sorted(stem["label"] for stem in stems.values()) == [
        "SteM of r [RANGE 20], [RANGE 50]",
        "SteM of s [RANGE 10]",
    ]
    assert {stem["queries"] for stem in stems.values()} == {2}
    assert all(stem["state_bytes"] > 0 for stem in stems.values())
    joins = nodes(document, "join")
    assert [join["state_bytes"] for join in joins.values()] == [0, 0], "what they keep is the SteMs'"
    for name in "sr":
        db.insert(name, [(2, 500, 500)])
    expired = [join["expired"] for join in nodes(db.inspection.plan(), "join").values()]
    assert all(0 < count <= 80 for count in expired)
    queries, total = db.inspection.plans.sharers(next(iter(stems)), 0, 10)
    assert ([query.name for query in queries], total) == (["j20", "j50"], 2)


def test_a_querys_part_has_the_names_of_the_whole(db: Database) -> None:
    db.register(JOIN.format(20), name="joined")
    db.register("SELECT DISTINCT a FROM s [RANGE 5]", name="distinct")
    whole, part = db.inspection.plan(), db.inspection.plan_of("joined")
    check(part)
    assert nodes(part).keys() < nodes(whole).keys()
    assert {node["label"] for node in nodes(part, "output").values()} == {"joined"}
    assert not nodes(part, "distinct")
    with pytest.raises(ms.NameError, match='there is no query called "joint"'):
        db.inspection.plan_of("joint")
    with pytest.raises(ms.NameError, match="there is no operator"):
        db.inspection.plans.sharers("joint", 0, 10)


def test_many_queries_are_one_output_or_one_node_of_each_kind(db: Database) -> None:
    db.register_many("SELECT a, b FROM s WHERE a > ?", [(n,) for n in range(2_000)], template="alerts")
    document = db.inspection.plan()
    (output,) = nodes(document, "output").values()
    assert (output["label"], output["queries"]) == ("2,000 queries of alerts", 2_000)
    (group,) = document["groups"]
    assert (group["queries"], group["indexes"]) == (2_000, ["filtered by the indexes on a"])
    db.execute("SET sharing = 'off'")
    for n in range(200):
        db.register(f"SELECT a, COUNT(*) AS n FROM s [RANGE 10] WHERE b > {n} GROUP BY a", name=f"own{n}")
    db.insert("s", [(1, 100, 1)])
    document = db.inspection.plan()
    check(document)
    assert len(document["nodes"]) < 20
    assert len(json.dumps(document)) < 100_000
    (aggregate,) = nodes(document, "aggregate").values()
    assert (aggregate["operators"], aggregate["queries"]) == (200, 200)
    queries, total = db.inspection.plans.sharers(aggregate["id"], 190, 100)
    assert ([query.name for query in queries][:1], len(queries), total) == (["own190"], 10, 200)
    part = db.inspection.plan_of("own7")
    assert aggregate["id"] in nodes(part)
    check(part)


def test_failed_filling_and_unkept_queries(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.register("SELECT 1 / a AS x FROM s [RANGE 10]", name="fails")
    db.register("SELECT a FROM s [RANGE 10]", name="unkept", mode="none")
    db.insert("s", [(0, 0, 0), (1, 1, 5)])
    document = db.inspection.plan()
    check(document)
    assert {node["label"]: node["state"] for node in nodes(document, "output").values()} == {"fails": "failed"}
    assert "failed" in {node["state"] for node in nodes(document, "errors").values()}
    part = db.inspection.plan_of("unkept")
    check(part)
    assert [node["label"] for node in nodes(part, "output").values()] == ["unkept, when it is asked"]
    assert nodes(part, "window")


def test_jit_joins_count_what_they_hold_back(db: Database) -> None:
    db.execute("CREATE STREAM u (a BIGINT, ts BIGINT) TIMESTAMP BY ts; SET join_plan = 'tree'; SET jit = 'on'")
    db.register("SELECT s.a FROM s [RANGE 99], r [RANGE 99], u [RANGE 99] WHERE s.a = r.a AND r.c = u.a")
    db.insert("s", [(n, n, n) for n in range(9)])
    db.insert("r", [(n, n, n) for n in range(9)])
    db.advance(to=9)
    (join,) = nodes(db.inspection.plan(), "join").values()
    assert join["suspended"] > 0
    assert join["resumed"] == 0
    db.insert("u", [(n, 10) for n in range(9)])
    (join,) = nodes(db.inspection.plan(), "join").values()
    assert join["resumed"] > 0


def test_watching_tells_what_has_changed(db: Database) -> None:
    db.register("SELECT a FROM s [RANGE 10] WHERE b > 1", name="q")
    before = db.inspection.look()
    db.insert("s", [(1, 2, 3)])
    now = db.inspection.look()
    changed = now.since(before)
    assert changed["nodes"]["s"]["rows_out"] == 1
    assert all(edge.startswith("s>") or ">" in edge for edge in changed["edges"])
    assert "label" not in changed["nodes"]["s"]
    db.register("SELECT DISTINCT a FROM s [RANGE 10]")
    assert db.inspection.look().since(now) == {"structure": True, "version": db.inspection.look().version}


def test_who_looks_and_who_registers_do_not_disturb_each_other(db: Database) -> None:
    ended, failures = threading.Event(), list[BaseException]()

    def look() -> None:
        try:
            while not ended.is_set():
                check(db.inspection.plan())
                db.inspection.listing.page(Wanted(sort="cost"))
        except BaseException as error:  # of a thread: shown below
            failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for n in range(15):
        db.register(f"SELECT a FROM s [RANGE {n + 1}] WHERE b > {n}", name=f"q{n}")
        db.insert("s", [(n, n, n)])
        if n % 3 == 2:
            db.drop_query(f"q{n - 1}")
    ended.set()
    for thread in threads:
        thread.join()
    assert not failures
    outputs = nodes(db.inspection.plan(), "output").values()
    assert sum(node["queries"] for node in outputs) == len(db.queries())


def test_what_joins_count_of_their_keys_is_no_tally_of_rows_held_back(db: Database) -> None:
    db.execute("CREATE TABLE t (c STRING); CREATE STREAM w (c STRING) TIMESTAMP BY ts; INSERT INTO t VALUES ('x')")
    text = "SELECT c FROM w [ROWS 3] WHERE NOT EXISTS (SELECT * FROM t WHERE t.c = w.c)"
    query = db.register(text, name="anti")
    db.insert("w", [("x", 1), ("y", 2)])
    db.advance(to=3)
    check(db.inspection.plan())
    assert "Join anti" in query.explain()
    assert "suspended" not in str(db.execute("EXPLAIN ANALYZE QUERY anti"))
