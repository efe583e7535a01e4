"""Whatever a query asks for, one step takes no more than it may, and is refused in words that name the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import millstream as ms

ROWS = 2_000
CROSS = "SELECT a.k AS x, b.k AS y FROM s [RANGE UNBOUNDED] AS a, s [RANGE UNBOUNDED] AS b"


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT, v STRING) TIMESTAMP BY ts")
        db.insert("s", pa.table({"k": pa.array(range(ROWS), pa.int32()), "v": ["x"] * ROWS, "ts": [1] * ROWS}))
        db.advance(to=2)
        yield db


def _rows(db: ms.Database, text: str) -> int:
    table = db.execute(text).table
    assert table is not None
    return int(table.num_rows)


@pytest.mark.parametrize("plan", ["eddy", "tree", "mjoin", "auto"])
@pytest.mark.parametrize("limit", ["max_join_pairs", "max_join_rows", "max_join_bytes"])
def test_joins(db: ms.Database, plan: str, limit: str) -> None:
    db.execute(f"SET join_plan = '{plan}'; SET {limit} = {100_000 * (10 if limit != 'max_join_bytes' else 40)}")
    with pytest.raises(ms.EvaluationError, match=limit):
        db.execute(CROSS)
    assert _rows(db, f"{CROSS} WHERE a.k = b.k") == ROWS
    with pytest.raises(ms.EvaluationError, match="max_join"):
        db.execute(f"{CROSS}, s [RANGE UNBOUNDED] AS c")


def test_pairs_that_no_condition_keeps_are_counted_too(db: ms.Database) -> None:
    db.execute("SET max_join_rows = 100; SET max_join_pairs = 3999999")
    with pytest.raises(ms.EvaluationError, match="4,000,000 pairs of rows"):
        db.execute(f"{CROSS} WHERE a.k + b.k = 3")
    db.execute("SET max_join_pairs = 4000000")
    assert _rows(db, f"{CROSS} WHERE a.k + b.k = 3") == 4


@pytest.mark.parametrize(
    "text",
    [
        "repeat(v, 1000)",
        "rpad(v, 1000, 'ab')",
        "lpad(v, 1000, 'ab')",
        "concat(repeat(v, 500), repeat(v, 500))",
        "repeat(v, 500) || repeat(v, 500)",
        "concat_ws(',', repeat(v, 500), repeat(v, 500))",
        "replace(repeat(v, 100), 'x', '1234567890')",
        "regexp_replace(repeat(v, 100), 'x', '1234567890')",
    ],
)
def test_texts_of_many_rows(db: ms.Database, text: str) -> None:
    db.execute("SET max_column_bytes = 1000000")
    with pytest.raises(ms.EvaluationError, match="max_column_bytes"):
        db.execute(f"SELECT length({text}) AS n FROM s [RANGE UNBOUNDED]")
    assert _rows(db, f"SELECT length({text}) AS n FROM s [RANGE UNBOUNDED] WHERE k < 10") == 10


def test_long_lists_of_many_rows(db: ms.Database) -> None:
    unfolded = "SELECT count(*) AS n FROM UNNEST(sequence(1, {0})) AS a(x), UNNEST(sequence(1, {0})) AS b(y)"
    with pytest.raises(ms.EvaluationError, match="max_column_bytes"):
        db.execute(unfolded.format(60000))
    db.execute("SET max_join_rows = 100000")
    with pytest.raises(ms.EvaluationError, match=r"an UNNEST that makes 1,000,000 rows .*\n.*max_join_rows"):
        db.execute(unfolded.format(1000))
    assert db.execute(unfolded.format(100)).fetchall() == [(10000,)]


def test_lists_of_many_groups(db: ms.Database) -> None:
    db.execute("SET max_column_bytes = 100000")
    lists = "SELECT k, length(listagg(repeat(v, 100), ',')) AS n FROM s [RANGE UNBOUNDED]"
    with pytest.raises(ms.EvaluationError, match="max_column_bytes"):
        db.execute(f"{lists} GROUP BY k")
    assert _rows(db, f"{lists} WHERE k < 10 GROUP BY k") == 10


def test_answers_of_many_rows(db: ms.Database) -> None:
    query = db.register("SELECT k, v FROM s [RANGE UNBOUNDED]")
    stream = db.register("ISTREAM(SELECT k FROM s [RANGE UNBOUNDED])")
    unfolded = db.register("RSTREAM(SELECT k FROM s [RANGE UNBOUNDED])")
    asks: list[Callable[[], Any]] = [
        lambda: db.execute("SELECT k FROM s [RANGE UNBOUNDED]"),
        query.result,
        query.changes,
        stream.result,
        stream.changes,
        unfolded.result,
        lambda: db.results([query]),
        lambda: db.execute("SELECT 1 AS one FROM s [RANGE UNBOUNDED]"),
    ]
    for limit, value in (("max_answer_rows", ROWS - 1), ("max_answer_bytes", 4 * ROWS)):
        db.execute(f"SET {limit} = {value}")
        for ask in asks:
            with pytest.raises(ms.TooLargeError, match=limit):
                ask()
        db.execute(f"SET {limit} = 0")
        for ask in asks:
            ask()


def test_one_query_asks_for_too_much_and_the_others_go_on(db: ms.Database) -> None:
    db.execute("SET max_join_pairs = 5000000; SET sharing = 'on'")
    good = db.register("SELECT count(*) AS n FROM s [RANGE UNBOUNDED]", "good")
    bad = db.register(f"{CROSS} WHERE a.k + b.k = 3", "bad")
    assert bad.result().num_rows == 4
    db.insert("s", pa.table({"k": pa.array(range(ROWS), pa.int32()), "v": ["x"] * ROWS, "ts": [3] * ROWS}))
    db.advance(to=4)
    assert good.result().to_pylist() == [{"n": 2 * ROWS}]
    with pytest.raises(ms.EvaluationError, match="max_join_pairs"):
        bad.result()
