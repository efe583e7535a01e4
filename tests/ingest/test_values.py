"""Values that cannot be kept are refused on every way in, before native code sees them, and named."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.support.answers import table_of

import millstream as ms

COLUMNS = "k INT, s STRING, d DECIMAL(10,2), x DOUBLE, day DATE, at TIMESTAMP, ok BOOLEAN, b BINARY"
GOOD = (1, "a", Decimal("1.5"), 0.5, dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), True, b"a")
PLACES = {name.split()[0]: place for place, name in enumerate(COLUMNS.split(", "))}
HOSTILE: dict[str, list[Any]] = {
    "k": [2**31, 10**5000, 1.5, Decimal("1.5"), np.float32(1.5), float("nan"), True, "1", [1], {}, object()],
    "s": ["\ud800", 5, b"\xff", ["a"], object()],
    "d": [
        *(
            Decimal(text)
            for text in ("1e-999999999", "0e-999999999", "1e999999999", "1e-100", "NaN", "sNaN", "Infinity")
        ),
        *(1e-300, 1e300, float("inf"), float("nan"), 10**60, 10**6000, "1.5", True, Decimal("0.001")),
    ],
    "x": ["1", True, 10**400, [1.0]],
    "day": ["2026-01-32", 1.5, dt.datetime(2026, 1, 1, 5), 2**40, dt.time(1)],
    "at": [1.5, "2026-01-01 25:00", 10**30, dt.time(1), dt.date(2026, 1, 1)],
    "ok": [1, "true", 0.0],
    "b": [5, [1]],
}


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as database:
        database.execute(f"CREATE STREAM S ({COLUMNS}) TIMESTAMP BY t")
        yield database


def with_value(name: str, value: object) -> tuple[object, ...]:
    row: list[object] = [*GOOD, 1]
    row[PLACES[name]] = value
    return tuple(row)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("as_dict", [False, True])
def test_a_value_that_does_not_fit_is_named(db: ms.Database, name: str, as_dict: bool) -> None:
    names = [*PLACES, "t"]
    for value in HOSTILE[name]:
        rows = [(*GOOD, 1), with_value(name, value)]
        with pytest.raises(ms.InputError, match=f'row 2, column "{name}"'):
            db.insert("S", [dict(zip(names, row, strict=True)) for row in rows] if as_dict else rows)
    assert db.stats()["streams"]["S"]["arrived"] == 0


def test_values_that_fit_are_kept_as_they_are(db: ms.Database) -> None:
    rows = [
        (*GOOD, 1),
        (None,) * 8 + (2,),
        (3.0, "", 7, 2, dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1), False, b"", np.int64(3)),
        (Decimal("4"), "ä", 1.25, 1e300, dt.date.min, dt.datetime.min, None, b"\xff", 4),
    ]
    assert db.insert("S", rows).accepted == 4
    found = table_of(db, "SELECT * FROM S [RANGE UNBOUNDED]").to_pylist()
    assert len(found) == 3  # the instants before the last are final
    assert found[0]["d"] == Decimal("1.50")
    assert found[2]["k"] == 3


def test_a_column_that_comes_twice_is_refused(db: ms.Database) -> None:
    db.execute("CREATE STREAM T (a INT) TIMESTAMP BY t")
    for rows in ([{"a": 1, "A": 2, "t": 1}], pa.table({"a": [1], "A": [2], "t": [1]})):
        with pytest.raises(ms.InputError, match="comes twice"):
            db.insert("T", rows)


def test_tables_of_other_libraries_are_checked(db: ms.Database) -> None:
    db.execute("CREATE STREAM T (d DECIMAL(10,2), s STRING) TIMESTAMP BY t")
    broken = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe"))
    one = pa.array([1], pa.int64())
    text = pa.array(["a"])
    for table in (
        pa.table({"d": pa.array([float("inf")]), "s": text, "t": one}),
        pa.table({"d": pa.array([1e300]), "s": text, "t": one}),
        pa.table({"d": pa.array([Decimal("1e-70")], pa.decimal256(76, 70)), "s": text, "t": one}),
        pa.table({"d": one, "s": broken, "t": one}),
        pl.DataFrame({"d": [float("nan")], "s": ["a"], "t": [1]}),
        pd.DataFrame({"d": [Decimal("1e-999999999")], "s": ["a"], "t": [1]}),
        pd.DataFrame({"d": [1], "s": [["a"]], "t": [1]}),
        pd.DataFrame({"d": [1, "x"], "s": ["a", 5], "t": [1, 2]}),
    ):
        with pytest.raises(ms.InputError):
            db.insert("T", table)


def test_parameters_are_checked(db: ms.Database) -> None:
    for value in (Decimal("1e-999999999"), 10**100, object(), "\ud800"):
        with pytest.raises(ms.InputError):
            db.register_many("SELECT k FROM S WHERE d > ?", [(value,)])


HTTP = """
import sys
from millstream.ingest.typed_rows import typed_pieces
from millstream.errors import Error
from millstream.types import DATE, INT, TIMESTAMP, Field, decimal
from millstream.wire.media import RowFormat
from millstream.wire.arrow import NO_LIMITS
from millstream.wire.bodies import pieces_of
columns = (Field("d", decimal(10, 2)), Field("k", INT), Field("at", TIMESTAMP), Field("day", DATE))
texts = ["1e-999999999", "0e-999999999", "1e999999999", "1e-100", "NaN", "Infinity", "0." + "0" * 200 + "1", "9" * 400]
for text in texts:
    quoted = '"' + text + '"'
    numbers = [quoted] if text in ("NaN", "Infinity") else [quoted, text]
    bodies = [(RowFormat.JSON, f'[[{number}, 9, null, null]]') for number in numbers]
    bodies += [(RowFormat.NDJSON, f'{{"d": {number}, "k": 9, "at": null, "day": null}}') for number in numbers]
    bodies += [(RowFormat.CSV, f"d,k,at,day\\n{text},9,,\\n")]
    for form, body in bodies:
        try:
            typed_pieces(pieces_of(body.encode(), form, columns, "S", NO_LIMITS), columns, "S")
        except Error:
            continue
        sys.exit(f"{form}: {body[:80]} was taken")
for body in ('[[1, 9, "99999-01-01T00:00:00Z", null]]', '[[1, 9, null, "0000-00-00"]]', '[[1, 9, 1e400, null]]'):
    try:
        typed_pieces(pieces_of(body.encode(), RowFormat.JSON, columns, "S", NO_LIMITS), columns, "S")
    except Error:
        continue
    sys.exit(body)
"""


def test_bodies_with_hostile_numbers_end_no_process() -> None:
    """In a process of its own: Arrow's conversion was a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", HTTP], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


GROWING = {
    "repeat": "repeat(s, 2000000000)",
    "lpad": "lpad(s, 2000000000)",
    "rpad": "rpad(s, 2000000000, 'xy')",
    "concat": "concat(repeat(s, 16000000), repeat(s, 16000000))",
    "||": "repeat(s, 16000000) || repeat(s, 16000000)",
    "concat_ws": "concat_ws(repeat(s, 16000000), s, s, s)",
    "replace": "replace(repeat(s, 20000), 'a', repeat('xy', 20000))",
    "replace of constants": f"replace(repeat(s, 20000), 'a', '{'x' * 2000}')",
    "regexp_replace": f"regexp_replace(repeat(s, 20000), '[a-z]', '{'x' * 2000}')",
}


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_one_value_is_at_most_so_large(db: ms.Database, name: str, mode: str) -> None:
    db.execute("CREATE STREAM T (s STRING) TIMESTAMP BY t")
    query = db.register(f"SELECT length({GROWING[name]}) AS n FROM T [RANGE 5]", mode=mode)
    other = db.register("SELECT s FROM T [RANGE 5]")
    db.insert("T", [("a", 1)])
    db.advance("T", to=1)
    assert other.result().to_pylist() == [{"s": "a"}]
    with pytest.raises(ms.EvaluationError, match="a value of more than 16,777,216 bytes"):
        query.result()
    with pytest.raises(ms.EvaluationError, match="max_value_bytes"):
        db.execute(f"SELECT length({GROWING[name]}) AS n FROM T [RANGE 5]")


def test_values_up_to_the_limit_are_made(db: ms.Database) -> None:
    db.execute("SET max_value_bytes = 1024")
    db.execute("CREATE STREAM T (s STRING) TIMESTAMP BY t")
    for text, size in {
        "repeat(s, 1024)": 1024,
        "lpad(s, 1024, 'xyz')": 1024,
        "s || repeat('b', 1023)": 1024,
        "concat_ws('--', repeat(s, 511), repeat(s, 511))": 1024,
        "replace(repeat(s, 10), 'a', repeat('x', 102))": 1020,
        "regexp_replace(repeat(s, 64), '(a)', '$1$1$1$1')": 256,
        "CASE WHEN s = 'a' THEN s ELSE repeat(s, 2000000000) END": 1,
        "repeat(NULL, 2000000000)": None,
    }.items():
        query = db.register(f"SELECT length({text}) AS n FROM T [RANGE 5]")
        db.insert("T", [("a", (db.query(query.name).final or 0) + 1)])
        db.advance("T", to=(query.final or 0) + 1)
        assert [row["n"] for row in query.result().to_pylist()][-1:] == [size], text
    with pytest.raises(ms.InputError, match='row 2, column "s": a value of 1,025 bytes is more than the 1,024'):
        db.insert("T", [("a", 1000), ("b" * 1025, 1000)])
    with pytest.raises(ms.InputError, match="SET max_value_bytes"):
        db.execute(f"INSERT INTO T VALUES ('{'b' * 1025}', 1000)")


def test_what_users_code_makes_is_limited(db: ms.Database) -> None:
    db.create_function("grow", lambda column: ["x" * 20_000_000], "string")
    db.execute("CREATE STREAM T (s STRING) TIMESTAMP BY t")
    query = db.register("SELECT grow(s) AS n FROM T [RANGE 5]")
    db.insert("T", [("a", 1)])
    db.advance("T", to=1)
    with pytest.raises(ms.EvaluationError, match="function grow: a value of 20,000,000 bytes is more"):
        query.result()


class Joined:
    """All texts of a group, one behind the other."""

    def initialize(self) -> str:
        return ""

    def iterate(self, state: str, batch: pl.Series) -> str:
        return state + "".join(batch)

    def terminate(self, state: str) -> str:
        return state


class JoinedAlong(Joined):
    """The same, carried along."""

    def retract(self, state: str, batch: pl.Series) -> str:
        return state[sum(map(len, batch)) :]


@pytest.mark.parametrize("kind", [Joined, JoinedAlong])
@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_what_users_aggregates_make_is_limited(db: ms.Database, mode: str, kind: type[Joined]) -> None:
    db.execute("SET max_value_bytes = 1024")
    db.create_aggregate("joined", kind, "string")
    db.execute("CREATE STREAM T (s STRING) TIMESTAMP BY t")
    query = db.register("SELECT joined(s) AS n FROM T [RANGE 5]", mode=mode)
    other = db.register("SELECT count(s) AS n FROM T [RANGE 5]", mode=mode)
    db.insert("T", [("a" * 1000, 1), ("b" * 24, 2)])
    db.advance("T", to=2)
    assert [len(row["n"]) for row in query.result().to_pylist()] == [1024]
    db.insert("T", [("c", 3)])
    db.advance("T", to=3)
    assert other.result().to_pylist() == [{"n": 3}]
    with pytest.raises(ms.EvaluationError, match=r"joined.*: a value of 1,025 bytes is more than the 1,024"):
        query.result()


def test_inserts_make_values_up_to_the_limit(db: ms.Database) -> None:
    db.execute("SET max_value_bytes = '32 MB'; CREATE STREAM T (s STRING) TIMESTAMP BY t")
    db.execute("INSERT INTO T VALUES (repeat('x', 20000000), 1)")
    with pytest.raises(ms.Error, match="a value of more than 33,554,432 bytes"):
        db.execute("INSERT INTO T VALUES (repeat('x', 2000000000), 1)")


FAR_AWAY = [
    "CAST(1e300 AS TIMESTAMP)",
    "CAST('-262144-01-01' AS DATE)",
    "CAST('99999-01-01' AS TIMESTAMP)",
    "timestamp_micros(9223372036854775807)",
    "last_day(make_date(262142, 12, 1))",
    "date_add(DATE '9999-12-31', 2147483647)",
    "make_date(2147483647, 1, 1)",
]


@pytest.mark.parametrize("expression", FAR_AWAY)
def test_constants_that_are_too_far_away(db: ms.Database, expression: str) -> None:
    """Errors of ours, in statements and in queries, and the database goes on."""
    db.execute("CREATE STREAM T (day DATE, at TIMESTAMP) TIMESTAMP BY t")
    with pytest.raises(ms.Error):
        db.execute(f"INSERT INTO T VALUES ({expression}, {expression}, 1)")
    for text in (f"SELECT {expression} AS a", f"SELECT day FROM T [NOW] WHERE {expression} IS NULL"):
        ways: tuple[Callable[[str], object], ...] = (db.execute, lambda text: db.register(text).result())
        for ask in ways:
            try:
                ask(text)
            except ms.Error:
                continue
    assert db.insert("T", [(None, None, 1)]).accepted == 1


def test_a_query_that_could_not_be_registered_leaves_nothing_behind(
    db: ms.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is another one's then, which must not be taken for it."""
    db.execute("CREATE STREAM T (a INT) TIMESTAMP BY t")

    def fails(*arguments: object, **options: object) -> None:
        raise ms.EvaluationError("it cannot be")

    for name in ("q0", "q1"):
        with monkeypatch.context() as patched:
            patched.setattr(db.engine, "show", fails)
            with pytest.raises(ms.EvaluationError):
                db.register("SELECT a FROM T [RANGE 5] WHERE a > 5", name)
    db.register("SELECT count(*) AS n FROM T [RANGE 5]", "q0")
    queries = [db.register(f"SELECT a FROM T [RANGE 5] WHERE a > {i}") for i in range(12)]
    db.insert("T", [(7, 1)])
    db.advance(to=1)
    assert [query.result().num_rows for query in queries] == [1] * 7 + [0] * 5
    assert db.query("q0").result().to_pylist() == [{"n": 1}]
