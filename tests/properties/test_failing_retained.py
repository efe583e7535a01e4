"""Late queries under RETAIN fail by what fails from their first answerable instant on, and by nothing before: alone and
in groups, in every mode, however rows come, and after a restart. Compared with the definition: `tests.oracle.failing`
says at which instants a query fails, and here it is computed from which instant on that counts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.failing import Elements, Exists, Expression, Query, Source
from tests.properties.failing import queries

import millstream as ms

NEVER = 1 << 60
Row = tuple[str, int | None, int, int]  # the stream, its columns, and how many ticks later than the one before
ROWS = st.lists(
    st.tuples(st.sampled_from("STU"), st.none() | st.integers(-1, 2), st.integers(-1, 2), st.integers(0, 3)), max_size=9
)


@dataclass(frozen=True)
class Case:
    query: Query
    before: list[Row]
    after: list[Row]
    gap: int  # ticks between the last row before it comes and that instant
    retain: int
    how: str  # mode, and when it is registered
    sharing: str
    copies: int  # that differ in a constant
    batch: int
    restarts: bool


CASES = st.builds(
    Case,
    queries(),
    ROWS,
    ROWS,
    st.integers(0, 9),
    st.sampled_from([1, 3, 6]),
    st.sampled_from(["eager late", "eager late", "lazy late", "none late", "eager early"]),
    st.sampled_from(["auto", "on", "off"]),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 4, 9]),
    st.booleans(),
)


def sources(query: Query) -> Iterator[Source]:
    """All that it reads."""
    yield from query.sources
    for exists in query.exists:
        yield exists.source
        for condition in exists.conditions:
            yield from _in(condition)
    for expression in (*query.where, *query.select, *(query.on or ())):
        yield from _in(expression)


def _in(e: Expression) -> Iterator[Source]:
    for part in e:
        if isinstance(part, Exists):
            yield part.source
        elif isinstance(part, tuple):
            yield from _in(part)


def first_answerable(query: Query, elements: dict[str, Elements], came: int, retain: int, final: int) -> int:
    """Of a query that came when `came` was final, by what is final now; NEVER as long as it is not known."""
    first = max(came - retain, 0)
    for source in sources(query):
        instants = sorted(e[2] for e in elements[source.stream])
        kept = came - retain
        if not any(instant < kept for instant in instants):
            continue  # nothing was cut
        kind, _, size = source.window.partition(" ")
        if kind != "ROWS":
            first = max(first, kept + int(size or 0))
            continue
        counted = [instant for instant in instants if kept <= instant <= final]
        first = max(first, counted[int(size)] if len(counted) > int(size) else NEVER)
    return first


def insert(db: ms.Database, rows: Sequence[Row], now: int, batch: int, elements: dict[str, Elements]) -> int:
    timed = [(name, (a, b, now := now + passed)) for name, a, b, passed in rows]
    for start in range(0, len(timed), batch):
        for name in "STU":
            some = [row for other, row in timed[start : start + batch] if other == name]
            if some:
                db.insert(name, some)
                elements[name] += some
    return now


def has_failed(query: ms.Query) -> bool:
    try:
        query.result()
        query.changes()
    except ms.TimeError:
        return False  # nothing can be asked yet
    except ms.EvaluationError as error:
        assert "division by zero" in str(error)  # noqa: PT017
        return True
    return False


def register(db: ms.Database, case: Case) -> None:
    """One that fails by what there is already may be refused."""
    for copy in range(case.copies):
        # True on all rows.
        also = (">", ("column", "s.b"), ("number", -5 - copy))
        text = replace(case.query, where=(*case.query.where, also)).text
        try:
            db.register(text, name=f"q{copy}", mode=case.how.partition(" ")[0])
        except ms.EvaluationError as error:
            assert "division by zero" in str(error)  # noqa: PT017


def check(case: Case) -> None:
    elements = {name: Elements() for name in "STU"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "db" if case.restarts else None
        with ms.connect(path, engine="inprocess") as db:
            db.execute(f"SET sharing = '{case.sharing}'")
            for name in "STU":
                db.execute(f"CREATE STREAM {name} (a INT, b INT) TIMESTAMP BY ts RETAIN {case.retain}")
            if case.how.endswith("early"):
                register(db, case)
            came = insert(db, case.before, 1, case.batch, elements) + case.gap
            db.advance(to=came)
            if case.how.endswith("late"):
                register(db, case)
            told(db, case, elements, came, came)
            if not case.restarts:
                now = went_on(db, case, elements, came)
                told(db, case, elements, came, now)
        if path is not None:
            with ms.connect(path, engine="inprocess") as db:
                now = went_on(db, case, elements, came)
                told(db, case, elements, came, now)


def went_on(db: ms.Database, case: Case, elements: dict[str, Elements], came: int) -> int:
    now = insert(db, case.after, came + 1, case.batch, elements) + 4
    db.advance(to=now)
    return now


def told(db: ms.Database, case: Case, elements: dict[str, Elements], came: int, final: int) -> None:
    first = first_answerable(case.query, elements, came, case.retain, final) if case.how.endswith("late") else 0
    fails = any(case.query.fails(elements, at) for at in range(first, final + 1)) if first <= final else False
    there = {query.name for query in db.queries()}
    found = [f"q{copy}" not in there or has_failed(db.query(f"q{copy}")) for copy in range(case.copies)]
    assert found == [fails] * case.copies, (case.query.text, elements, first, final)


@settings(max_examples=25)
@given(CASES)
def test_a_late_query_fails_from_its_first_instant_on(case: Case) -> None:
    check(case)


@pytest.mark.slow
@settings(max_examples=600)
@given(CASES)
def test_many_late_queries_fail_from_their_first_instants_on(case: Case) -> None:
    check(case)
