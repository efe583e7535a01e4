"""Queries that come after some of the past was cut: exact from the first answerable instant on, or told not to be.

What is expected is computed here from all rows that ever came: which elements are in a window at an instant, and from
K = final - RETAIN the first instant from which no element before K is in it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import millstream as ms

MODES = ["eager", "lazy", "none"]
NEVER = 1 << 60
Element = tuple[int, int]  # value, instant


@dataclass(frozen=True)
class Window:
    """Its text (of stream and window), which elements (of all, in the order of time) are in it at an instant, and what
    comes of a K. Where it counts rows, that may be known later only."""

    text: str
    content: Callable[[list[Element], int], list[Element]]
    first: Callable[[list[Element], int], int]
    counts: bool = False


@dataclass(frozen=True)
class Past:
    """What there was when the query came: RETAIN, K, and the elements that were final."""

    retain: int
    kept: int
    elements: list[Element]


def of_range(size: int) -> Window:
    def content(elements: list[Element], at: int) -> list[Element]:
        return [e for e in elements if at - size <= e[1] <= at]

    return Window(f"s [RANGE {size}]", content, lambda _, kept: kept + size)


def of_tumble(size: int) -> Window:
    def content(elements: list[Element], at: int) -> list[Element]:
        return [e for e in elements if e[1] // size == at // size - 1]

    return Window(f"s [TUMBLE {size}]", content, lambda _, kept: ((kept - 1) // size + 2) * size)


def of_rows(count: int, slide: int = 1, stream: str = "s") -> Window:
    def content(elements: list[Element], at: int) -> list[Element]:
        there = sum(e[1] <= at for e in elements)
        if "RSTREAM" in stream:  # whose elements tie by value
            elements = sorted(elements, key=lambda e: (e[1], e[0]))

        def reached(number: int) -> bool:
            return -(-number // slide) * slide <= there

        return [e for i, e in enumerate(elements, 1) if reached(i) and not reached(i + count)]

    def first(elements: list[Element], kept: int) -> int:
        later = [instant for _, instant in elements if instant >= kept]
        return later[count + slide - 1] if len(later) >= count + slide else NEVER

    shown = f" SLIDE {slide}" if slide > 1 else ""
    return Window(f"{stream} [ROWS {count}{shown}]", content, first, counts=True)


def of_span(begin: int, end: int) -> Window:
    def content(elements: list[Element], at: int) -> list[Element]:
        return [e for e in elements if begin <= e[1] <= min(end, at)]

    return Window(f"s [BEGIN {begin} END {end}]", content, lambda _, kept: NEVER if kept > begin else 0)


def unbounded() -> Window:
    return Window(
        "s [RANGE UNBOUNDED]", lambda elements, at: [e for e in elements if e[1] <= at], lambda _, kept: NEVER
    )


def values(elements: list[Element]) -> Counter[int]:
    return Counter(value for value, _ in elements)


def shown(query: ms.Query, at: int | None = None) -> Counter[int]:
    return Counter(row["k"] for row in query.result(at).to_pylist())


def checked(query: ms.Query, window: Window, elements: list[Element], past: Past, final: int) -> None:
    """Every instant from the first answerable one on is exact, earlier ones raise, and changes sum to the relation."""
    kept, retain = past.kept, past.retain
    seen = [e for e in elements if e[1] <= final] if window.counts else past.elements
    due = window.first(seen, kept) if kept else 0
    if due == NEVER and window.counts:
        assert "once its windows have counted" in query.notices[0]
        for ask in (query.result, partial(query.result, at=final), partial(query.changes, since=final)):
            with pytest.raises(ms.TimeError, match=r"no longer kept[\s\S]*once its windows have counted"):
                ask()
        assert query.changes().num_rows == 0
        return
    if due == NEVER:
        assert query.notices
        seen = [e for e in elements if e[1] >= kept]
        first = max(kept, final - retain)
    else:
        seen, first = elements, max(due, final - retain, 0)
    assert query.instants.first == first
    if first > final:
        with pytest.raises(ms.TimeError, match="no longer kept"):
            query.result()
        assert query.changes().num_rows == 0
        return
    for at in range(first, final + 1):
        assert shown(query, at) == values(window.content(seen, at)), (window.text, at)
    if first:
        with pytest.raises(ms.TimeError, match="no longer kept"):
            query.result(at=first - 1)
    total: Counter[int] = Counter()
    for row in query.changes().to_pylist():
        assert row["_ts"] >= first
        total[row["k"]] += row["_weight"]
    assert +total == values(window.content(seen, final))
    assert min(total.values(), default=0) >= 0


def elements_of(dice: random.Random, count: int) -> list[Element]:
    instant, found = dice.choice([0, 5, 1000]), []
    for value in range(count):
        found.append((value % 7, instant))
        instant += dice.choice([0, 1, 1, 2, 3, 3, 30 if dice.random() < 0.1 else 1])
    return found


def fed(db: ms.Database, elements: list[Element], size: int) -> None:
    for start in range(0, len(elements), size):
        db.insert("s", elements[start : start + size])


def windows(dice: random.Random, kept: int) -> Iterator[Window]:
    yield of_range(dice.choice([0, 3, 8, 15, 40]))
    yield of_tumble(dice.choice([2, 5, 12]))
    yield of_rows(dice.choice([1, 4, 10, 30]))
    yield of_rows(dice.choice([1, 4, 10]), dice.choice([2, 3, 7]))
    derived = ["s SAMPLE (100 PERCENT)", "(SELECT RSTREAM(k) FROM s [NOW])"]
    yield of_rows(dice.choice([1, 4, 10, 30]), 1, dice.choice(derived))
    yield of_span(max(0, kept - dice.choice([0, 4, 12])), kept + 5)
    yield unbounded()


def one_case(seed: int, path: Path | None = None) -> None:
    dice = random.Random(seed)
    retain, mode, size = dice.choice([6, 16, 25]), dice.choice(MODES), dice.choice([1, 7, 50])
    early = elements_of(dice, 40)
    late = [(value, instant + early[-1][1]) for value, instant in elements_of(dice, 25)]
    final = early[-1][1] - 1
    kept = max(0, final - retain)
    kept = kept if early[0][1] < kept else 0
    past = Past(retain, kept, [e for e in early if e[1] <= final])
    with ms.connect(path, engine="inprocess") as db:
        db.execute(f"SET sharing = '{dice.choice(['auto', 'on', 'off'])}'")
        db.execute(f"CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN {retain}")
        if dice.random() < 0.5:
            for number, window in enumerate(windows(dice, kept)):
                db.register(f"SELECT k FROM {window.text} WHERE k >= 0", name=f"early{number}", mode=dice.choice(MODES))
        fed(db, early, size)
        asked = [*windows(dice, kept)]
        for number, window in enumerate(asked):
            where = " WHERE k >= 0" if dice.random() < 0.7 else ""
            text = f"SELECT k FROM {window.text}{where}"
            if mode != "none" and dice.random() < 0.3:
                db.register_many(f"SELECT k FROM {window.text} WHERE k >= ?", [0], [f"q{number}"], mode)
            elif window.text.startswith(("s [RANGE U", "s [BEGIN")):
                # Monotonic, and so a stream: as a relation.
                db.register(f"{text} UNION ALL SELECT k FROM s [RANGE 0] WHERE k < 0", name=f"q{number}", mode=mode)
            else:
                db.register(text, name=f"q{number}", mode=mode)
        queries = [db.query(f"q{number}") for number in range(len(asked))]
        for query, window in zip(queries, asked, strict=True):
            if query.kind == "relation":
                checked(query, window, early, past, final)
        fed(db, late, dice.choice([1, 7, 50]))
        everything, final = early + late, late[-1][1] - 1
        for query, window in zip(queries, asked, strict=True):
            if query.kind == "relation":
                checked(query, window, everything, past, final)
    if path is None:
        return
    with ms.connect(path, engine="inprocess") as db:
        for number, window in enumerate(asked):
            query = db.query(f"q{number}")
            if query.kind == "relation":
                checked(query, window, everything, past, final)


@pytest.mark.parametrize("seed", range(12))
def test_late_queries_are_exact_from_their_first_instant_on(seed: int) -> None:
    one_case(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 500))
def test_many_late_queries_are_exact_from_their_first_instant_on(seed: int) -> None:
    one_case(seed)


@pytest.mark.parametrize("seed", [1000, 1001])
def test_the_first_instant_lasts(tmp_path: Path, seed: int) -> None:
    one_case(seed, tmp_path)


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN 16")
        db.insert("s", [(tick, tick) for tick in range(50)])
        yield db


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("SELECT k FROM s [RANGE 8]", 40),
        ("SELECT ISTREAM(k) FROM s [RANGE 8]", 41),
        ("SELECT DSTREAM(k) FROM s [RANGE 8]", 41),
        ("SELECT RSTREAM(k) FROM s [RANGE 8]", 40),
        ("SELECT k FROM (SELECT ISTREAM(k) FROM s [RANGE 3]) [RANGE 4]", 32 + 3 + 1 + 4),
        ("SELECT a.k FROM s [RANGE 2] a, s [RANGE 8] b WHERE a.k = b.k", 40),
        ("SELECT count(*) AS n FROM s [BEGIN NOW - 5 END NOW - 2]", 37),
        ("SELECT count(*) AS n FROM s [BEGIN 32 END 40]", 0),
    ],
)
def test_where_exact_answers_begin(db: ms.Database, mode: str, text: str, first: int) -> None:
    query = db.register(text, mode=mode)
    assert query.instants.first == max(first, 48 - 16)
    assert not query.notices
    elements: list[Any] = query.result().to_pylist()
    if query.kind == "stream":
        assert min(row["_ts"] for row in elements) == query.instants.first


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n FROM s [RANGE UNBOUNDED]",
        "SELECT count(*) AS n FROM s [BEGIN 22 END 33]",
        "SELECT count(*) AS n FROM s [PARTITION BY k ROWS 2]",
    ],
)
def test_what_is_never_covered_says_so(db: ms.Database, text: str) -> None:
    notice = "the history of s begins at 32 (RETAIN)"
    told = db.execute(f"REGISTER QUERY q AS {text}")
    assert notice in told.message
    assert notice in told.notices[0]
    assert notice in db.query("q").stats()["notices"][0]
    found = db.execute(text)
    assert notice in found.notices[0]
    assert notice in found.message
    assert found.table is not None
    assert found.table.to_pylist() == db.query("q").result().to_pylist()
    assert not db.execute("SELECT count(*) AS n FROM s [RANGE 3]").notices
    with pytest.raises(ms.TimeError, match=r"at 48 needs history[\s\S]*from 132 on"):
        db.execute("SELECT k FROM s [RANGE 100]")
