"""Elements that windows [RANGE v ON c] leave out are in `s._malformed`: once for all windows that go by the same c,
whatever the batches, and whenever queries come and go."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent

import polars as pl
import pytest

import millstream as ms
from millstream.plan.definitions import TimeDomain
from millstream.queries.reasons import as_texts, reasons
from millstream.types import TIMESTAMP

Row = tuple[int, int | None, int]  # k, c, instant
STREAM = "CREATE STREAM S (k BIGINT, c BIGINT) TIMESTAMP BY t BIGINT HEARTBEAT DELAY 3"
ROWS: list[Row] = [(1, 10, 0), (1, 9, 1), (2, 12, 2), (1, 11, 3), (1, None, 4), (1, 11, 5), (2, 13, 6), (9, 99, 20)]
ON_C, BY_K = "[RANGE .. ON c]", "[PARTITION BY k RANGE .. ON c]"


def _told(db: ms.Database) -> Counter[str]:
    """What is told so far, by its reasons; the texts of rows must fit."""
    found = db.execute("SELECT raw, reason FROM S._malformed").fetchall()
    for row in found:
        given = "null" if " is NULL" in row[-1] else row[-1].split(" is ")[1].split(",")[0]
        assert f'"c":{given}}}' in row[-2]
    return Counter(row[-1] for row in found)


def _expected(rows: Sequence[Row], window: str, *, by_k: bool, until: int) -> Counter[str]:
    greatest, found = dict[int, int](), Counter[str]()
    for k, c, t in sorted(rows, key=lambda row: row[2]):
        part = k if by_k else 0
        if t > until:
            break
        if c is None:
            found[f"at {t}: c is NULL, which has no place in {window}"] += 1
        elif c < greatest.get(part, c):
            found[f"at {t}: c is {c}, after {greatest[part]}; in {window} it must not fall"] += 1
        else:
            greatest[part] = c
    return found


def test_it_is_told_once_for_windows_that_go_by_the_same(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        db.register("SELECT k FROM S [RANGE 2 ON c]", name="q")
        db.insert("S", ROWS[:4])
        assert _told(db) == Counter()  # nothing that fell is final
        db.register("SELECT c FROM S [RANGE 5 ON c]", mode="none")
        db.register_many("SELECT c FROM S [RANGE 1 ON c] WHERE k > ?", [(1,), (2,), (3,)])
        db.insert("S", ROWS[4:])
        by_c = _expected(ROWS, ON_C, by_k=False, until=16)
        assert _told(db) == by_c
        assert db.stats()["streams"]["S"]["malformed"] == by_c.total()  # counted as malformed
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert _told(db) == by_c
        # A late query is told of what its window left out of the past that it has.
        late = db.register("SELECT k FROM S [PARTITION BY k RANGE 7 ON c]", mode="lazy")
        by_k = _expected(ROWS, BY_K, by_k=True, until=16)
        assert _told(db) == by_c + by_k
        late.drop()
        db.insert("S", [(1, 1, 21), (1, 0, 40)])
        assert _told(db) == _expected([*ROWS, (1, 1, 21)], ON_C, by_k=False, until=36) + by_k
        # When a window of that kind comes again, it is told of what nobody was told of.
        db.register("SELECT k FROM S [PARTITION BY k RANGE 1 ON c]")
        whole = [*ROWS, (1, 1, 21)]
        everything = _expected(whole, ON_C, by_k=False, until=36) + _expected(whole, BY_K, by_k=True, until=36)
        assert _told(db) == everything
        for query in db.queries():
            query.drop()
        db.execute("DROP STREAM S")
        assert not [entry for entry in db.session.declared.entries if entry["kind"] == "left_out"]


@pytest.mark.parametrize("seed", range(3))
def test_it_does_not_depend_on_batches_and_who_comes_when(seed: int) -> None:
    chosen = random.Random(seed)
    instants = sorted(chosen.choices(range(40), k=60))
    rows: list[Row] = [(chosen.randrange(3), chosen.choice([None, *range(12)]), t) for t in instants]
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        texts = ["SELECT k FROM S [RANGE 2 ON c]", "SELECT k FROM S [PARTITION BY k RANGE 0 ON c]"]
        while rows_left := rows[db.stats()["streams"]["S"]["arrived"] :]:
            if texts and chosen.random() < 0.3:
                db.register(texts.pop())
            db.insert("S", rows_left[: chosen.randrange(1, 20)])
        for text in texts:
            db.register(text)
        db.advance("S", to=60)
        parts = (_expected(rows, window, by_k=window == BY_K, until=60) for window in (ON_C, BY_K))
        assert _told(db) == sum(parts, Counter[str]())


def test_it_survives_kill_9_between_the_epoch_and_its_telling(tmp_path: Path) -> None:
    script = f"""
        import millstream as ms
        db = ms.connect({str(tmp_path / "db")!r}, engine="inprocess")
        db.execute("{STREAM}")
        db.register("SELECT k FROM S [RANGE 2 ON c]")
        db.insert("S", {ROWS!r})
    """
    # The epoch of the elements is the first, that of what was left out would be the second.
    killed = subprocess.run(
        [sys.executable, "-c", dedent(script)], env={**os.environ, "MILLSTREAM_FAULT": "epoch-started:2"}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    for _ in range(2):
        with ms.connect(tmp_path / "db", engine="inprocess") as db:
            assert _told(db) == _expected(ROWS, ON_C, by_k=False, until=16)


def test_streams_are_altered_under_windows(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        first = db.register("SELECT k FROM S [RANGE 2 ON c]")
        db.insert("S", ROWS)
        db.execute("ALTER STREAM S ADD COLUMN note STRING; ALTER STREAM S RENAME COLUMN c TO number")
        db.execute("ALTER STREAM S RENAME TO P")
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.register("SELECT k FROM P [RANGE 7 ON number]")
        db.execute("INSERT INTO P VALUES (1, 1, 'x', 21); ADVANCE TO 30")
        told = db.execute("SELECT raw, reason FROM P._malformed").fetchall()
        assert len(told) == _expected(ROWS, ON_C, by_k=False, until=16).total() + 1
        assert told[-1][-1] == "at 21: number is 1, after 99; in [RANGE .. ON number] it must not fall"
        assert told[-1][-2].startswith('{"k":1,"number":1')
        db.query(first.name).drop()
        db.execute("INSERT INTO P VALUES (1, 1, 'y', 31); ADVANCE TO 40")
        assert len(db.execute("SELECT raw FROM P._malformed").fetchall()) == len(told) + 1


def test_values_of_all_types_are_shown() -> None:
    times = pl.Series([1_000_000, 1_500_000, None]).cast(pl.Datetime("us", "UTC"))
    said = reasons("c", times, times.shift(1), pl.Series([1, 2, 3]), TimeDomain(1_000_000, TIMESTAMP), "[w]")
    assert said.to_list() == [
        "at 1970-01-01 00:00:01: c is 1970-01-01 00:00:01, after NULL; in [w] it must not fall",
        "at 1970-01-01 00:00:02: c is 1970-01-01 00:00:01.5, after 1970-01-01 00:00:01; in [w] it must not fall",
        "at 1970-01-01 00:00:03: c is NULL, which has no place in [w]",
    ]
    floats = pl.Series([float("nan"), float("-inf"), None, 0.5])
    said = reasons("x", floats, floats.shift(1), pl.Series([1, 2, 3, 4]), TimeDomain(None), "[w]")
    assert [text.split(",")[0] for text in said] == [
        "at 1: x is NaN",
        "at 2: x is -inf",
        "at 3: x is NULL",
        "at 4: x is 0.5",
    ]
    rows = pl.DataFrame({"b": [b"\xff", None], "l": [[b"\x01"], None], "s": ['"', None]})
    assert as_texts(rows).to_list() == ['{"b":"ff","l":["01"],"s":"\\""}', '{"b":null,"l":null,"s":null}']
    assert as_texts(pl.DataFrame(height=2)).to_list() == ["{}", "{}"]


def test_queries_come_and_go_while_rows_come() -> None:
    rows = [(1, t * 7 % 5, t) for t in range(120)]
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)

        def come_and_go() -> None:
            for within in range(4):
                db.register(f"SELECT k FROM S [RANGE {within} ON c]").drop()
                db.execute("SELECT raw FROM S._malformed")

        def insert() -> None:
            for start in range(0, len(rows), 20):
                db.insert("S", rows[start : start + 20])

        threads = [threading.Thread(target=guarded, args=(work,)) for work in (come_and_go, come_and_go, insert)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        db.register("SELECT k FROM S [RANGE 1 ON c]")
        assert _told(db) == _expected(rows, ON_C, by_k=False, until=115)
