"""Queries in groups answer as if each were alone: whatever the others ask, whenever they come and go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.cases import Case
from tests.properties.driver import check_case
from tests.properties.generate import cases
from tests.properties.queries import LINEAR, RELATIONAL
from tests.properties.variants import shared

import millstream as ms
from millstream.database import Database
from millstream.engine.history.backfill import Backfills
from millstream.language.bind_parameters import with_constants

STREAMS = """
    CREATE STREAM s (a INT, b BIGINT, f DOUBLE, t STRING, g BOOLEAN) TIMESTAMP BY ts;
    CREATE STREAM u (a INT, w DOUBLE) TIMESTAMP BY ts;
    CREATE TABLE names (a INT, name STRING)
"""
NUMBERS, TEXTS = st.integers(-3, 6), st.sampled_from(["", "x", "xy", "xyz", "y"])
FLOATS = st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0, 6.0, float("nan")])

# Each template, and what its parameters are drawn from.
TEMPLATES: dict[str, tuple[st.SearchStrategy[object], ...]] = {
    "SELECT * FROM s WHERE a > ? AND b <= ?": (NUMBERS, NUMBERS),
    "SELECT a, f * 2 AS w FROM s WHERE a = ? OR f < ?": (NUMBERS, FLOATS),
    "SELECT t FROM s WHERE a = ? AND f >= ?": (NUMBERS, FLOATS),
    "SELECT a, b FROM s WHERE t LIKE 'x%' AND NOT (a < ? OR b IS NULL) AND a + b > ?": (NUMBERS, NUMBERS),
    "SELECT a FROM s WHERE t IN (?, ?) AND (g OR a <> ?)": (TEXTS, TEXTS, NUMBERS),
    "SELECT COUNT(*) AS n, SUM(b) AS b, MAX(f) AS f FROM s [RANGE 4] WHERE a BETWEEN ? AND ?": (NUMBERS, NUMBERS),
    "SELECT COUNT(*) AS n FROM s [TUMBLE 3] WHERE b = ?": (NUMBERS,),
    "SELECT t, AVG(f) AS m FROM s [RANGE 6 SLIDE 2] WHERE a >= ? GROUP BY t HAVING COUNT(*) > 1": (NUMBERS,),
    "SELECT ISTREAM(DISTINCT t) FROM s [RANGE 3] WHERE a < ?": (NUMBERS,),
    "SELECT DSTREAM(a, t) FROM s [ROWS 3] WHERE b > ?": (NUMBERS,),
    "SELECT DISTINCT a FROM s [RANGE 5] WHERE t > ?": (TEXTS,),
    "SELECT COUNT(*) AS n FROM (SELECT ISTREAM(DISTINCT a) FROM s [RANGE 2] WHERE f > ?) [ROWS 2]": (FLOATS,),
    "SELECT s.t, u.w FROM s [RANGE 4], u [RANGE 6] WHERE s.a = u.a AND s.b > ? AND u.w < ?": (NUMBERS, FLOATS),
    "SELECT COUNT(*) AS n FROM s [RANGE 4], names WHERE s.a = names.a AND names.name = ?": (TEXTS,),
}


@dataclass(frozen=True)
class Step:
    """What comes: elements of both streams, a row of the table, queries of a template, and one to go."""

    elements: list[tuple[object, ...]]
    others: list[tuple[object, ...]]
    named: tuple[int, str] | None
    template: str
    rows: list[tuple[object, ...]]
    dropped: int


@st.composite
def steps(draw: st.DrawFn, templates: tuple[str, ...] = tuple(sorted(TEMPLATES))) -> Step:
    template = draw(st.sampled_from(templates))
    optional = NUMBERS | st.none()
    gaps = st.integers(0, 2)
    return Step(
        draw(
            st.lists(
                st.tuples(optional, optional, FLOATS | st.none(), TEXTS, st.booleans() | st.none(), gaps), max_size=6
            )
        ),
        draw(st.lists(st.tuples(NUMBERS, FLOATS, gaps), max_size=4)),
        draw(st.none() | st.tuples(NUMBERS, TEXTS)),
        template,
        draw(st.lists(st.tuples(*TEMPLATES[template]), min_size=1, max_size=5)),
        draw(st.integers(0, 9)),
    )


def feed(dbs: list[Database], step: Step, clocks: dict[str, int]) -> None:
    for stream, rows in (("s", step.elements), ("u", step.others)):
        timed = []
        for *values, gap in rows:
            clocks[stream] += int(str(gap))
            timed.append((*values, clocks[stream]))
        for db in dbs:
            db.insert(stream, timed)
    if step.named is not None:
        at = max(db.stats()["clock"] for db in dbs) + 1
        for db in dbs:
            db.execute(f"INSERT INTO names VALUES ({step.named[0]}, '{step.named[1]}') AT {max(at, 0)}")


def check(played: list[Step], shards: int, slices: int | None = None, mode: str = "eager") -> None:
    """With `slices`, the past of queries is worked through in the background, so many slices after each step."""
    with ms.connect(engine="inprocess") as together, ms.connect(engine="inprocess") as alone:
        alone.execute(STREAMS + "; SET sharing = 'off'")
        together.execute(STREAMS + f"; SET sharing = 'on'; SET shards = {shards}")
        clocks = {"s": 0, "u": 0}
        backfills = together.engine.backfills
        work = backfills.slices()
        if slices is not None:
            together.execute("SET background_rows = 0")
            backfills.first_slice = backfills.most_left = 2
        for step in played:
            queries = together.register_many(step.template, step.rows, mode=mode)
            for query, row in zip(queries, step.rows, strict=True):
                alone.register(with_constants(step.template, row), name=query.name)
            feed([together, alone], step, clocks)
            present = together.queries()
            if step.dropped < len(present):
                alone.query(present[step.dropped].name).drop()
                present[step.dropped].drop()
            for _ in range(slices or 0):
                if next(work, work) is work:
                    work = backfills.slices()
        for _ in chain(work, backfills.slices()):
            pass
        end = max(clocks.values()) + 20
        for db in (together, alone):
            db.advance(to=end)
        for query in together.queries():
            expected = alone.query(query.name)
            assert changes(query) == changes(expected), query.cql
            assert Counter(map(repr, query.result().to_pylist())) == Counter(map(repr, expected.result().to_pylist()))


def changes(query: ms.Query) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in query.changes().to_pylist())


@settings(max_examples=20)
@given(st.lists(steps(), min_size=1, max_size=6), st.integers(1, 3))
def test_together_as_alone(played: list[Step], shards: int) -> None:
    check(played, shards)


# Of few templates, so that queries come to groups that hold something already.
FEW = st.tuples(*[st.sampled_from(sorted(TEMPLATES))] * 2)


@settings(max_examples=8)
@given(FEW.flatmap(lambda few: st.lists(steps(few), min_size=2, max_size=6)), st.integers(1, 3), st.integers(0, 8))
def test_together_as_alone_with_the_past_in_the_background(played: list[Step], shards: int, slices: int) -> None:
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(Backfills, "start", lambda _: None)  # the test itself does the work
        check(played, shards, slices=slices)


@pytest.mark.slow
@settings(max_examples=1000)
@given(FEW.flatmap(lambda few: st.lists(steps(few), min_size=2, max_size=9)), st.integers(1, 3), st.integers(0, 8))
def test_together_as_alone_with_the_past_in_the_background_in_many_cases(
    played: list[Step], shards: int, slices: int
) -> None:
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(Backfills, "start", lambda _: None)
        check(played, shards, slices=slices)


@settings(max_examples=20)
@given(st.lists(steps(), min_size=1, max_size=6), st.integers(1, 3))
def test_matches_of_many_queries_together_as_answers_alone(played: list[Step], shards: int) -> None:
    check(played, shards, mode="lazy")


@pytest.mark.slow
@settings(max_examples=2000)
@given(st.lists(steps(), min_size=1, max_size=10), st.integers(1, 3))
def test_together_as_alone_in_many_cases(played: list[Step], shards: int) -> None:
    check(played, shards)


@settings(max_examples=25)
@given(cases(LINEAR), st.integers(1, 2))
def test_shared_linear_queries_answer_as_the_oracle(case: Case, shards: int) -> None:
    check_case(case, partial(shared, shards))


@settings(max_examples=25)
@given(cases(RELATIONAL), st.integers(1, 2))
def test_shared_queries_answer_as_the_oracle(case: Case, shards: int) -> None:
    check_case(case, partial(shared, shards))
