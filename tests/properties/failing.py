"""Random queries whose expressions may fail."""

from __future__ import annotations

from hypothesis import strategies as st
from tests.oracle.failing import Exists, Expression, Query, Source

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
