"""Many queries at once: their answers in one table, their texts and states in a listing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream as ms

STREAM = "CREATE STREAM s (k INT, v INT, t STRING) TIMESTAMP BY ts"


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        yield db


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT v FROM s [RANGE 3] WHERE k = ?",
        "SELECT v FROM s [RANGE 3] WHERE k > ?",
        "SELECT RSTREAM(v) FROM s [NOW] WHERE k = ?",
        "SELECT ISTREAM(v) FROM s [RANGE 3] WHERE k > ?",
        "SELECT v + ? AS w FROM s [RANGE 3]",
    ],
)
def test_results_are_those_of_each(db: ms.Database, text: str, mode: str) -> None:
    queries = db.register_many(text, range(8), mode=mode)
    db.insert("s", [(n % 7, n % 3, "x", n // 4) for n in range(60)])
    for at in (None, 5, 11):
        expected = [{"_query": query.name, **row} for query in queries for row in query.result(at).to_pylist()]
        assert db.results(queries, at).to_pylist() == expected
        assert db.results(queries[:0:-2], at).num_rows == sum(q.result(at).num_rows for q in queries[:0:-2])


def test_results_of_one_that_failed_are_its_error(db: ms.Database) -> None:
    queries = db.register_many("SELECT v FROM s [RANGE 3] WHERE 1 / (v - ?) >= 0", [1, 2, 9])
    db.insert("s", [(0, 1, "x", 1), (0, 5, "x", 2), (0, 5, "x", 3)])
    with pytest.raises(ms.EvaluationError, match="division"):
        db.results(queries)
    assert db.results(queries[1:]).num_rows == 3


def test_queries_of_different_streams_are_final_up_to_their_own_instants(db: ms.Database) -> None:
    db.execute("CREATE STREAM r (k INT, v INT) TIMESTAMP BY ts")
    queries = [db.register(f"SELECT v FROM {stream} [RANGE 100] WHERE k = 1") for stream in "sr"]
    db.insert("s", [(1, 10, "x", 1), (0, 0, "x", 50)])
    db.insert("r", [(1, 20, 1), (0, 0, 3)])
    assert db.results(queries)["v"].to_pylist() == [10, 20]


def test_the_listing_has_texts_and_states(db: ms.Database) -> None:
    db.execute("SET sharing = 'on'")
    for number in range(12):
        db.register(f"SELECT v FROM s WHERE k = {number} AND t <> 'it''s {number}' AND v * 2 > -{number}.5")
        db.execute(f"REGISTER QUERY r{number} AS SELECT k FROM s [RANGE 5] WHERE k IN ({number}, 1e1) AND v < {number}")
    values = [(1, "a", 0.5), (-2, "it's", 1e30), (3, None, float("inf")), (2**40, "\\x\n", -0.0)]
    db.register_many("SELECT v FROM s [RANGE 5] WHERE k > ? AND t = ? AND v < ?", values)
    db.register_many("SELECT v FROM s [RANGE 5] WHERE k > ? AND t = ? AND v < ?", values, mode="none")
    db.register_many("SELECT v + ? AS w FROM s [RANGE 5]", [1, 2])
    table = db.execute("SHOW QUERIES").table
    assert table is not None
    assert table["cql"].to_pylist() == [query.cql for query in db.queries()]
    assert set(table["state"].to_pylist()) == {"running"}


def test_states_are_told(db: ms.Database) -> None:
    db.register_many("SELECT v FROM s [RANGE 3] WHERE 1 / (v - ?) >= 0", [1, 2], names=["a", "b"])
    db.register("SELECT 1 / (v - 3) AS x FROM s [RANGE 3]", name="c")
    db.insert("s", [(0, 1, "x", 1), (0, 3, "x", 2), (0, 5, "x", 3)])
    table = db.execute("SHOW QUERIES").table
    assert table is not None
    shown = {row["name"]: (row["state"], row["error"]) for row in table.to_pylist()}
    assert {name: state for name, (state, _) in shown.items()} == {"a": "failed", "b": "running", "c": "failed"}
    assert shown["b"][1] == ""
    states = db.stats()["query_states"]
    assert (states["running"], states["filling"], {*states["failed"]}) == (1, [], {"a", "c"})
    assert states["failed"]["a"] == shown["a"][1] == db.query("a").stats()["error"]
