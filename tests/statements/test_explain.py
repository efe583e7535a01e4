"""EXPLAIN as a statement: how state is kept and with whom, what operators did, and formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

import millstream as ms

JOIN = "SELECT s.a, r.c FROM s [RANGE 10], r [RANGE {}] WHERE s.a = r.a"


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as opened:
        opened.execute("CREATE STREAM s (a BIGINT, b BIGINT, ts BIGINT) TIMESTAMP BY ts")
        opened.execute("CREATE STREAM r (a BIGINT, c BIGINT, ts BIGINT) TIMESTAMP BY ts")
        yield opened


def lines(db: ms.Database, statement: str, start: str) -> list[str]:
    return [line for line in str(db.execute(statement)).split("\n") if line.startswith(start)]


def test_state_is_told_with_those_who_share_it(db: ms.Database) -> None:
    db.execute("SET sharing = 'off'")  # of plans: as queries of one group they have one anyway
    db.register(JOIN.format(20), name="one")
    assert lines(db, "EXPLAIN QUERY one", "state") == [
        "state: SteM of s [RANGE 10]: by value",
        "state: SteM of r [RANGE 20]: by value",
    ]
    for n in range(5):
        db.register(JOIN.format(30 + n), name=f"q{n}")
    sizes = ", ".join(f"[RANGE {size}]" for size in (20, 30, 31, 32, 33, 34))
    assert lines(db, "EXPLAIN QUERY one", "state") == [
        "state: SteM of s [RANGE 10]: by value, kept for q0, q1, q2, ... (5) too",
        f"state: SteM of r {sizes}: by value, kept for q0, q1, q2, ... (5) too",
    ]
    assert lines(db, f"EXPLAIN {JOIN.format(99)}", "state")[0].endswith("kept for one, q0, q1, ... (6) too")


def test_analyze_tells_rows_selectivity_expiries_and_shares(db: ms.Database) -> None:
    db.register("SELECT a FROM s [RANGE 10] WHERE b > 1", name="some")
    db.register("SELECT a, COUNT(*) AS n FROM s [RANGE 10] WHERE b > 1 GROUP BY a", name="counts")
    db.insert("s", [(n % 3, n % 4, n) for n in range(100)])
    said = str(db.execute("EXPLAIN ANALYZE QUERY counts"))
    header, *rows = said.split("\n\n")[1].split("\n")
    columns = re.split(r"\s{2,}", header)
    assert columns[:5] == ["operator", "rows in", "rows out", "selectivity", "expired"]
    by_tag = {row.partition("-")[0]: dict(zip(columns, re.split(r"\s{2,}", row), strict=False)) for row in rows}
    assert (by_tag["filter"]["rows in"], by_tag["filter"]["rows out"], by_tag["filter"]["queries"]) == (
        "100",
        "50",
        "2",
    )
    assert by_tag["filter"]["selectivity"] == "0.5"
    assert by_tag["aggregate"]["queries"] == "1"
    share = re.search(r"share of the work: ([0-9.]+) of ([0-9.]+) seconds", said)
    assert share is not None
    assert float(share[1]) <= float(share[2])


def test_analyze_of_a_text_runs_it(db: ms.Database) -> None:
    db.insert("s", [(n % 3, n % 4, n) for n in range(100)])
    said = json.loads(str(db.execute("EXPLAIN (ANALYZE, FORMAT json) SELECT a FROM s [RANGE 10] WHERE b > 1")))
    (selecting,) = (node for node in said["nodes"] if node["kind"] == "filter")
    assert selecting["rows_out"] == 50
    assert 50 <= selecting["rows_in"] <= 100, "what cannot be wanted need not be read"
    assert selecting["selectivity"] == 50 / selecting["rows_in"]
    assert selecting["seconds"] > 0
    assert selecting["queries"] == 0, "nobody shares it"
    plain = json.loads(str(db.execute("EXPLAIN (FORMAT json) SELECT a FROM s [RANGE 10] WHERE b > 1")))
    assert [node["rows_out"] for node in plain["nodes"] if node["kind"] == "filter"] == [0]


def test_formats(db: ms.Database) -> None:
    db.register("SELECT DISTINCT a FROM s [RANGE 5]", name="q")
    assert str(db.execute("EXPLAIN (FORMAT text) QUERY q")) == str(db.execute("EXPLAIN QUERY q"))
    document = json.loads(str(db.execute("EXPLAIN (FORMAT json) QUERY q")))
    assert {node["id"] for node in document["nodes"]} == {node["id"] for node in db.inspection.plan()["nodes"]}
    assert str(db.execute("explain (format DOT) query q")).startswith("digraph plan {")
    result = db.execute("EXPLAIN (FORMAT svg, ANALYZE) QUERY q")
    assert str(result).startswith("<svg ")
    assert result.table is not None
    assert result.table["plan"].to_pylist() == [str(result)]
    assert str(db.execute("EXPLAIN (SELECT DISTINCT a FROM s [RANGE 5])")).startswith("Distinct")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EXPLAIN (FORMAT gif) SELECT 1", "a plan's format is one of text, json, dot, svg"),
        ("EXPLAIN (FORMAT json, COSTS) SELECT 1", "EXPLAIN takes FORMAT and ANALYZE"),
        ("EXPLAIN (FORMAT", "a plan's format is one of text, json, dot, svg"),
        ("EXPLAIN (FORMAT json) DROP QUERY q", "expected a query"),
    ],
)
def test_what_is_not_understood_is_refused(db: ms.Database, text: str, message: str) -> None:
    with pytest.raises(ms.SyntaxError, match=re.escape(message)) as caught:
        db.execute(text)
    assert caught.value.place is not None


def test_of_failed_and_unkept_queries(db: ms.Database) -> None:
    db.register("SELECT 1 / a AS x FROM s [RANGE 10]", name="fails")
    db.register("SELECT DISTINCT a FROM s [RANGE 10]", name="unkept", mode="none")
    db.register("SELECT a, COUNT(*) AS n FROM s [RANGE 10] GROUP BY a", name="lazy", mode="lazy")
    db.insert("s", [(0, 0, 0), (1, 1, 5)])
    for name in ("fails", "unkept", "lazy"):
        for form in ("text", "json", "dot", "svg"):
            assert db.query(name).explain(format=form)
            assert str(db.execute(f"EXPLAIN (FORMAT {form}, ANALYZE) QUERY {name}"))
    assert lines(db, "EXPLAIN QUERY lazy", "state") == ["state: Ranked tree computing count(*): ranked tree"]
