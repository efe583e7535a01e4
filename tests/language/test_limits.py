"""Instants, spans and counts that 64 bits cannot carry are refused where they are written; the greatest ones work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream as ms
from millstream.bounds import MAX_SPAN, MAX_TICK

REFUSED = [
    ("ADVANCE TO 9223372036854775807", "after the end of time"),
    ("ADVANCE S TO 4611686018427387905", "after the end of time"),
    ("ADVANCE S TO 9223372036854775808", "after the end of time"),
    ("ADVANCE Moments TO 253402300800000000", "year 9999"),
    ("INSERT INTO T VALUES (1) AT 9223372036854775807", "after the end of time"),
    ("DELETE FROM T AT 9223372036854775807", "after the end of time"),
    ("UPDATE T SET a = 1 AT 9223372036854775807", "after the end of time"),
    ("INSERT INTO S VALUES (1, 9223372036854775807)", "absurd"),
    ("SELECT a FROM S [ROWS 9223372036854775808]", "too many"),
    ("SELECT a FROM S [ROWS 5 SLIDE 9223372036854775807]", "too many"),
    ("SELECT a FROM S [PARTITION BY a ROWS 9223372036854775807]", "too many"),
    ("SELECT a FROM S [RANGE 9223372036854775807]", "too long"),
    ("SELECT a FROM S [RANGE 5 SLIDE 9223372036854775807]", "too long"),
    ("SELECT a FROM S [TUMBLE 1152921504606846977]", "too long"),
    ("SELECT a FROM S [BEGIN NOW - 9223372036854775807 END NOW]", "too long"),
    ("SELECT a FROM S [BEGIN 5 END NOW - 9223372036854775807]", "too long"),
    ("SELECT a FROM S [BEGIN 9223372036854775807 END NOW]", "end of time"),
    ("SELECT a FROM S [BEGIN 5 END 9223372036854775807]", "end of time"),
    ("SELECT a FROM Moments [RANGE 99999999999 WEEKS]", "too long"),
    ("CREATE STREAM Wrong (a INT) TIMESTAMP BY ts RETAIN 9223372036854775807", "too long"),
    ("CREATE STREAM Wrong (a INT) TIMESTAMP BY ts HEARTBEAT DELAY 9223372036854775807", "too long"),
    ("CREATE STREAM Wrong (a INT) TIMESTAMP BY ts TICK INTERVAL '99999999999' WEEK", "too long"),
    ("CREATE STREAM Wrong (a INT) TIMESTAMP BY ts IDLE AFTER 99999999999 WEEKS", "too long"),
    ("CREATE STREAM Wrong (a INT) TIMESTAMP BY ts IDLE AFTER 9223372036854775807", "never"),
    ("SET stem_window = 9223372036854775807", "at most"),
]


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as database:
        database.execute(
            """CREATE STREAM S (a INT) TIMESTAMP BY ts;
               CREATE STREAM Moments (a INT) TIMESTAMP BY ts TIMESTAMP;
               CREATE TABLE T (a INT)"""
        )
        yield database


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused(db: ms.Database, text: str, message: str) -> None:
    with pytest.raises(ms.Error, match=message) as caught:
        db.execute(text)
    assert caught.value.place is not None
    assert caught.value.hint or "WEEK" in text or "SET" in text
    # Nothing of it is left behind.
    db.execute("INSERT INTO S VALUES (1, 3); ADVANCE TO 5")
    assert db.execute("SELECT count(*) AS n FROM S [RANGE 2]").table.to_pylist() == [{"n": 1}]  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (f"SELECT a FROM S [RANGE {MAX_SPAN}]", [3, 4]),
        (f"SELECT a FROM S [RANGE {MAX_SPAN} SLIDE {MAX_SPAN}]", [3, 4]),
        (f"SELECT count(*) AS a FROM S [TUMBLE {MAX_SPAN}]", [1]),
        (f"SELECT a FROM S [ROWS {MAX_SPAN} SLIDE 2]", [1, 2, 3, 4]),
        (f"SELECT a FROM S [ROWS 2 SLIDE {MAX_SPAN}]", []),
        (f"SELECT a FROM S [BEGIN NOW - {MAX_SPAN} END {MAX_TICK}]", [3, 4]),
        (f"SELECT a FROM S [BEGIN {MAX_TICK} END NOW]", [4]),
        (f"SELECT x.a FROM S [RANGE {MAX_SPAN}] x, S [RANGE {MAX_SPAN}] y WHERE x.a < y.a", [3]),
        (f"SELECT DISTINCT a FROM (SELECT ISTREAM(a) FROM S [RANGE {MAX_SPAN}]) [RANGE {MAX_SPAN}]", [3, 4]),
    ],
)
def test_the_greatest_ones(db: ms.Database, query: str, answer: list[int], mode: str, late: bool) -> None:
    found = None if late else db.register(query, mode=mode)
    db.execute(f"INSERT INTO S VALUES (1, 0), (2, 5), (3, {MAX_TICK - 1}), (4, {MAX_TICK}); ADVANCE S TO {MAX_TICK}")
    found = found or db.register(query, mode=mode)
    assert sorted(row["a"] for row in found.result().to_pylist()) == answer
    found.changes()
