"""Whether a query fails is decided by its rows at final instants, and by nothing else: whatever the settings, the mode,
the batches and the time of registration. Compared with the definition (`tests.oracle.failing`)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.failing import Elements, Exists, Expression, Query, Source
from tests.properties.driver import in_process

import millstream as ms
from millstream.database import Database

STREAMS = "; ".join(f"CREATE STREAM {name} (a INT, b INT) TIMESTAMP BY ts" for name in "STU")
SETTINGS = (
    "",
    "SET jit = on",
    "SET join_plan = 'eddy'; SET jit = on",
    "SET join_plan = 'mjoin'",
    "SET strategy = 'negative'",
    "SET shards = 3",
    "SET disabled_rules = 'push_selections, prune_columns, commute_windows, reduce_windows'",
    "SET disabled_rules = 'pull_up_negation, push_distinct, merge_projections'",
)
WINDOWS = st.sampled_from(["RANGE 2", "RANGE 5", "NOW", "ROWS 2"])


def numbers(aliases: str) -> st.SearchStrategy[Expression]:
    columns = st.sampled_from([("column", f"{alias}.{name}") for alias in aliases for name in "ab"])
    leaf = columns | st.integers(-1, 2).map(lambda n: ("number", n))
    return st.one_of(
        leaf,
        st.tuples(st.sampled_from(["+", "-", "/"]), columns, leaf),
        st.tuples(st.just("/"), st.just(("number", 6)), columns),
        st.tuples(st.just("coalesce"), columns, leaf),
    )


def conditions(aliases: str) -> st.SearchStrategy[Expression]:
    number = numbers(aliases)
    plain = st.tuples(st.sampled_from(["=", "<>", "<", ">"]), number, number)
    return st.one_of(
        plain,
        plain,
        st.tuples(st.sampled_from(["and", "or"]), plain, plain),
        st.tuples(st.just("not"), plain),
        st.tuples(st.just(">"), st.tuples(st.just("case"), plain, number, number), st.just(("number", 0))),
    )


@st.composite
def subqueries(draw: st.DrawFn, aliases: str) -> Exists:
    asked = tuple(draw(st.lists(conditions(aliases + "e"), min_size=1, max_size=2)))
    selected = draw(st.sampled_from(["*", "DISTINCT e.a", "DISTINCT 6 / e.b AS x"]))
    return Exists(Source("U", "e", draw(WINDOWS)), asked, draw(st.booleans()), selected)


def chosen(aliases: str) -> st.SearchStrategy[Expression]:
    """Numbers that may need a subquery."""
    most = st.tuples(st.just("max"), numbers("e"), subqueries(aliases))
    exists = st.tuples(st.just("exists"), subqueries(aliases))
    one = st.just(("number", 1))
    return st.one_of(
        st.tuples(st.just("case"), conditions(aliases), numbers(aliases), most),
        st.tuples(st.just("coalesce"), numbers(aliases), most),
        st.tuples(st.just("case"), st.tuples(st.just("or"), conditions(aliases), exists), one, numbers(aliases)),
    )


@st.composite
def queries(draw: st.DrawFn) -> Query:
    aliases = draw(st.sampled_from(["s", "st", "stu"]))
    sources = tuple(Source(alias.upper(), alias, draw(WINDOWS)) for alias in aliases)
    on = None
    if len(aliases) > 1 and draw(st.integers(0, 2)) == 0:
        on = tuple(draw(st.lists(conditions(aliases[-2:]), min_size=1, max_size=2)))
    where = tuple(draw(st.lists(conditions(aliases), max_size=3)))
    exists: tuple[Exists, ...] = ()
    if draw(st.integers(0, 2)) == 0:
        exists = (draw(subqueries(aliases)),)
    select = tuple(draw(st.lists(numbers(aliases), min_size=1, max_size=2)))
    place, shape = draw(st.integers(0, 5)), draw(st.integers(0, 3))
    if place == 0 and shape > 0:  # not inside an aggregate
        select = (draw(chosen(aliases)), *select[1:])
    elif place == 1:
        where = (*where, ("<", draw(chosen(aliases)), ("number", 2)))
    having = ("<", ("/", ("number", 6), ("column", "s.a")), ("number", 9)) if shape == 0 else None
    unread = draw(numbers(aliases)) if shape == 1 else None
    return Query(sources, where, select, on, exists, having, unread)


ROWS = st.lists(
    st.tuples(st.sampled_from("STU"), st.none() | st.integers(-1, 2), st.integers(-1, 2), st.integers(0, 2)),
    min_size=1,
    max_size=9,
)


def play(db: Database, rows: Sequence[tuple[str, int | None, int, int]], batch: int) -> dict[str, Elements]:
    """Insert rows, so many at a time, and let all streams be final up to the last instant."""
    now, elements = 1, {name: Elements() for name in "STU"}
    timed = [(name, (a, b, now := now + passed)) for name, a, b, passed in rows]
    for first in range(0, len(timed), batch):
        for name in "STU":
            some = [row for other, row in timed[first : first + batch] if other == name]
            if some:
                db.insert(name, some)
                elements[name] += some
    db.advance(to=now + 8)
    return elements


def has_failed(db: Database, text: str, mode: str, registered: ms.Query | None) -> bool:
    try:
        query = registered or db.register(text, mode=mode)
        query.result()
        query.changes()
    except ms.EvaluationError as error:
        assert "division by zero" in str(error)  # noqa: PT017
        return True
    return False


def check(query: Query, rows: Sequence[tuple[str, int | None, int, int]], setting: str, how: str, batch: int) -> None:
    mode, _, when = how.partition(" ")
    with in_process() as db:
        db.execute(STREAMS)
        if setting:
            db.execute(setting)
        early = db.register(query.text, mode=mode) if when == "early" else None
        elements = play(db, rows, batch)
        last = max(e[2] for each in elements.values() for e in each)
        fails = any(query.fails(elements, at) for at in range(last + 8))
        assert has_failed(db, query.text, mode, early) == fails, (query.text, elements)


HOW = ("eager early", "eager late", "lazy early", "lazy late", "none early", "none late")


@settings(max_examples=60)
@given(queries(), ROWS, st.sampled_from(SETTINGS), st.sampled_from(HOW), st.sampled_from([1, 3, 9]))
def test_a_query_fails_where_its_rows_do(
    query: Query, rows: list[tuple[str, int | None, int, int]], setting: str, how: str, batch: int
) -> None:
    check(query, rows, setting, how, batch)


@pytest.mark.slow
@settings(max_examples=1500)
@given(queries(), ROWS, st.sampled_from(SETTINGS), st.sampled_from(HOW), st.sampled_from([1, 3, 9]))
def test_many_queries_fail_where_their_rows_do(
    query: Query, rows: list[tuple[str, int | None, int, int]], setting: str, how: str, batch: int
) -> None:
    check(query, rows, setting, how, batch)
