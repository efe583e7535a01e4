"""Windows of different sizes over one stream, with joins, aggregates and set operations above them: they keep the rows
of the stream once, and answer as the oracle does, whoever comes and goes, on one to three shards, after restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.cases import Action, Advance, Case, Drop, Insert, Register, Row
from tests.properties.driver import SideBySide

import millstream as ms
from millstream.engine.epochs import task

STREAMS = (
    "CREATE STREAM s (a INT, b INT, note STRING) TIMESTAMP BY ts",
    "CREATE STREAM t (a INT, d INT) TIMESTAMP BY ts",
)
WINDOWS = ("ROWS {n}", "ROWS {n}", "ROWS {n}", "PARTITION BY b ROWS {n}", "RANGE {n}", "ROWS {n} SLIDE 2")
QUERIES = (
    "SELECT * FROM s [{w}]",
    "SELECT a FROM s [{w}]",
    "SELECT ISTREAM(*) FROM s [{w}]",
    "SELECT note FROM s [{w}] WHERE b > 0",
    "SELECT x.b FROM (SELECT ISTREAM(b, MAX(note) AS note) FROM s [{w}] GROUP BY b) [ROWS {m}] x",
    "SELECT x.b, t.d FROM (SELECT ISTREAM(*) FROM s [{w}]) [ROWS {m}] x, t [RANGE {m}] WHERE x.a = t.a",
    "SELECT x.note, t.d FROM (SELECT ISTREAM(*) FROM s [RANGE {m}]) [{v}] x, t [RANGE {m}] WHERE x.a = t.a",
    "SELECT b, MAX(a) AS most, COUNT(*) AS n FROM s [{w}] GROUP BY b",
    "SELECT COUNT(*) AS n FROM s [{w}]",
    "SELECT MAX(note) AS last FROM s [{w}]",
    "SELECT ISTREAM(*) FROM s [{w}], t [RANGE {m}] WHERE s.a = t.a",
    "SELECT s.note, t.d FROM s [{w}], t [ROWS {m}] WHERE s.a = t.a AND s.b < t.d",
    "SELECT s.note, t.d FROM s [{w}], t [RANGE {m}] WHERE s.a + s.b = t.a AND s.note <> 'x'",
    "SELECT s.b, t.d FROM s [{w}], t [RANGE {m}] WHERE s.b <= t.d",
    "SELECT s.note, t.d FROM s [{w}], t [RANGE {m}] WHERE s.a = t.a AND s.b > {m}",
    "SELECT s.note, t.d FROM s [ROWS 3], t [RANGE 4] WHERE s.a = t.a AND s.note = 'x' AND t.d < {m}",
    "SELECT x.note, t.d FROM s [ROWS 3] x, s [ROWS 2] y, t [RANGE 4] WHERE x.a = y.a AND y.a = t.a AND x.b < {m} - 3",
    "SELECT s.b, t.d FROM s [RANGE {m}], t [NOW] WHERE s.a = t.a",
    "SELECT s.note, t.d FROM s [RANGE {m}], t [RANGE {m}] WHERE s.a = t.a AND s.b > 0",
    "SELECT x.d, y.d AS e FROM t [RANGE {m}] x, t [RANGE 3] y, s [{w}] WHERE x.a = y.a AND y.a = s.a",
    "SELECT x.note, y.note AS other FROM s [{w}] x, s [{v}] y WHERE x.a = y.a",
    "SELECT x.note, y.note AS other, t.d FROM s [{w}] x, s [{v}] y, t [RANGE {m}] WHERE x.a = y.a AND y.b = t.a",
    "SELECT s.note, t.d FROM s [{w}] LEFT JOIN t [RANGE {m}] ON s.a = t.a",
    "SELECT note FROM s [{w}] WHERE a IN (SELECT a FROM t [RANGE {m}])",
    "SELECT s.note, t.d FROM t [RANGE {m}] RIGHT JOIN s [{w}] ON s.a = t.a AND s.b < t.d",
    "SELECT x.note, t.d FROM s [{w}] x FULL JOIN t [ROWS {m}] ON x.a = t.a",
    "SELECT note FROM s [{w}] x WHERE NOT EXISTS (SELECT 1 FROM t [RANGE {m}] WHERE t.a = x.a)",
    "SELECT note FROM s [{w}] x WHERE EXISTS (SELECT 1 FROM t [ROWS {m}] WHERE t.a = x.a AND t.d > x.b)",
    "SELECT note FROM s [RANGE {m}] x WHERE a NOT IN (SELECT a FROM t [RANGE 2])",
    "SELECT note FROM s [{w}] EXCEPT SELECT note FROM s [{v}]",
    "SELECT DISTINCT note, a FROM s [{w}]",
    "SELECT note, 10 / (b + 1) AS x FROM s [{w}]",
)


@st.composite
def cases(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Case:
    def query() -> str:
        sizes = [draw(st.sampled_from(WINDOWS)).format(n=draw(st.integers(1, 7))) for _ in range(2)]
        return str(draw(st.sampled_from(QUERIES))).format(w=sizes[0], v=sizes[1], m=draw(st.integers(1, 7)))

    actions: list[Action] = [Register(f"q{number}", query()) for number in range(draw(st.integers(1, 3)))]
    registered, now = len(actions), 0
    for _ in range(draw(st.integers(3, 9))):
        match draw(st.sampled_from(("insert", "insert", "insert", "advance", "register", "drop"))):
            case "insert":
                stream = draw(st.sampled_from("sst"))
                rows: list[Row] = []
                for _ in range(draw(st.integers(1, 6))):
                    now += draw(st.sampled_from((0, 0, 1, 2)))
                    a, b = (draw(st.sampled_from((None, 0, 1, 1, 2))) for _ in range(2))
                    note = draw(st.sampled_from((None, "x", "y", "a longer note, of more than twelve characters")))
                    rows.append((a, b, note, now) if stream == "s" else (a, b, now))
                actions.append(Insert(stream, tuple(rows)))
            case "advance":
                now += draw(st.integers(0, 3))
                actions.append(Advance(None, now))
            case "register":
                actions.append(Register(f"q{registered}", query()))
                registered += 1
            case "drop":
                actions.append(Drop(f"q{draw(st.integers(0, registered - 1))}"))
    actions.append(Advance(None, now + 1))
    return Case(STREAMS, tuple(actions), (draw(st.integers(0, 20)), draw(st.integers(0, 20))))


def check(case: Case, shards: int, restarts: int, settings: str) -> None:
    """Step by step as the oracle, with a restart after every so many steps; windows that keep the same are found in
    every third epoch."""
    with TemporaryDirectory() as directory, mock.patch.object(task, "COMPARED_EVERY", 3):
        path = Path(directory) / "db"
        db = ms.connect(path, engine="inprocess")
        try:
            db.execute(f"SET shards = {shards}; {settings}")
            both = SideBySide(db, case.probes)
            both.define(case.definitions)
            for step, action in enumerate(case.actions):
                if restarts and step % restarts == restarts - 1:
                    db.close()
                    both.db = db = ms.connect(path, engine="inprocess")
                both.perform(action)
                both.check_step(step)
            both.check_end()
        finally:
            db.close()


SETTINGS = st.sampled_from(
    (
        "SET join_plan = 'tree'",
        "SET join_plan = 'auto'",
        "SET join_plan = 'auto'; SET jit = on",
        "SET join_plan = 'eddy'",
        "SET synopses = 'apart'; SET join_synopses = 'apart'",
        "SET stem_window = 5; SET join_plan = 'eddy'",
        "SET sharing = 'on'",
        "SET sharing = 'on'; SET join_plan = 'eddy'",
        "SET strategy = 'negative'",
    )
)


@settings(max_examples=40)
@given(cases(), st.integers(1, 3), st.sampled_from((0, 0, 3)), SETTINGS)
def test_the_engine_answers_as_the_oracle(case: Case, shards: int, restarts: int, plan: str) -> None:
    check(case, shards, restarts, plan)


@pytest.mark.slow
@settings(max_examples=1000)
@given(cases(), st.integers(1, 3), st.sampled_from((0, 0, 3)), SETTINGS)
def test_the_engine_answers_as_the_oracle_in_many_cases(case: Case, shards: int, restarts: int, plan: str) -> None:
    check(case, shards, restarts, plan)
