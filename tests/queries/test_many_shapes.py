"""Queries that come one by one, with conditions of many shapes: told by their comparisons, under few entries."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pytest

import millstream as ms
from millstream.language.comparisons import comparisons_in
from millstream.language.statement_parser import parse_query
from millstream.plan.grouping import shape_of, split

STREAM = "CREATE STREAM s (a INT, b BIGINT, x DOUBLE, n DECIMAL(6,2), t STRING) TIMESTAMP BY ts"
FRAMES = [
    "SELECT * FROM s [RANGE 100] WHERE {}",
    "SELECT a, b FROM s AS z WHERE {}",
    "SELECT t, COUNT(*) AS n, SUM(a) AS m FROM s [ROWS 5] WHERE {} GROUP BY t",
    "ISTREAM (SELECT b FROM (SELECT a, b, x, n, t FROM s [RANGE 10]) WHERE {})",
]
OPERATORS = ["<", "<=", "=", "<>", ">=", ">"]


def comparison(choose: random.Random) -> str:
    column = choose.choice("abxnt")
    constant = {
        "n": choose.choice(["3", "2.25", "1.5"]),
        "t": choose.choice(["'u'", "'v'", "'it\\'s'"]),
        "x": choose.choice(["1", "2.5", "3e0"]),
    }.get(column, str(choose.randint(0, 9)))
    if choose.random() < 0.05:
        return f"{column} BETWEEN {constant} AND {constant}"
    if column not in "t" and choose.random() < 0.2:
        return f"{column} > -{constant}"
    return f"{column} {choose.choice(OPERATORS)} {constant}"


def texts(count: int, seed: int) -> list[str]:
    choose = random.Random(seed)
    found = []
    for _ in range(count):
        parts = [comparison(choose) for _ in range(choose.randint(1, 4))]
        condition = parts[0]
        for part in parts[1:]:
            condition += f" {choose.choice(['AND', 'and', 'AND', 'AND', 'OR'])} {part}"
        found.append(choose.choice(FRAMES).format(condition))
    return found


def rows(seed: int, first: int) -> list[tuple[object, ...]]:
    choose = random.Random(seed)
    return [
        (choose.randint(0, 9), choose.randint(0, 9), choose.choice([1.0, 2.5, 3.0]), Decimal("2.25"), "uv"[ts % 2], ts)
        for ts in range(first, first + 20)
    ]


@pytest.fixture
def alone() -> Iterator[ms.Database]:
    """Where every query has a plan of its own."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'off'")
        yield db


def check(db: ms.Database, alone: ms.Database) -> None:
    assert {query.name for query in db.queries()} == {query.name for query in alone.queries()}
    for query in db.queries():
        assert query.changes().equals(alone.query(query.name).changes()), query.cql


def entries(db: ms.Database) -> list[str]:
    return [entry["kind"] for entry in db.session.declared.entries]


@pytest.mark.parametrize("seed", [1, 2])
def test_queries_of_many_shapes_come_and_go(tmp_path: Path, alone: ms.Database, seed: int) -> None:
    db = ms.connect(str(tmp_path), engine="inprocess")
    db.execute(STREAM)

    def both(call: str, *arguments: object, **given: object) -> None:
        for each in (db, alone):
            getattr(each, call)(*arguments, **given)

    early, late, again = texts(40, seed), texts(15, seed + 10), texts(10, seed + 20)
    for number, text in enumerate(early):
        both("register", text, name=f"q{number}")
    both("insert", "s", rows(seed, 1))
    for number, text in enumerate(late):
        both("register", text, name=f"late{number}")
    assert entries(db).count("template") < 20
    both("insert", "s", rows(seed + 1, 30))
    both("advance", "s", to=50)
    check(db, alone)
    for number in range(0, 40, 2):
        both("drop_query", f"q{number}")
    kept = entries(db)
    db.close()
    db = ms.connect(str(tmp_path), engine="inprocess")
    assert entries(db) == kept  # all were found again
    for number, text in enumerate(again):
        both("register", text, name=f"Q{2 * number}")
    both("insert", "s", rows(seed + 2, 60))
    both("advance", "s", to=80)
    check(db, alone)
    for query in db.queries():
        query.drop()
    assert entries(db) == ["stream"]
    db.close()


def test_queries_that_no_commit_came_after_are_there(tmp_path: Path, alone: ms.Database) -> None:
    db = ms.connect(str(tmp_path / "db"), engine="inprocess")
    db.execute(f"{STREAM}; SET sharing = 'on'")
    for number, text in enumerate(texts(30, 7)):
        for each in (db, alone):
            if number % 2:
                each.execute(f"REGISTER QUERY q{number} AS {text};")
            else:
                each.register(text, name=f"q{number}")
    shutil.copytree(tmp_path / "db", tmp_path / "copy")  # as it would be found if the process ended now
    db.close()
    with ms.connect(str(tmp_path / "copy"), engine="inprocess") as db:
        for each in (db, alone):
            each.insert("s", rows(7, 1))
            each.advance("s", to=50)
        check(db, alone)


def test_what_they_have_of_the_past_is_noted_too(tmp_path: Path) -> None:
    db = ms.connect(str(tmp_path / "db"), engine="inprocess")
    db.execute("SET sharing = 'on'; CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts RETAIN 25")
    for tick in range(100):
        db.insert("s", [(tick % 4, tick % 7, tick)])
    for number, operator in enumerate(OPERATORS * 2):
        db.register(f"SELECT COUNT(*) AS n FROM s [RANGE UNBOUNDED] WHERE v >= {number} AND k {operator} 2")
    told = [entry["notices"] for entry in db.session.declared.entries if entry["kind"] == "template"]
    assert [len(notices) for notices in told] == [1] * len(told)
    shutil.copytree(tmp_path / "db", tmp_path / "copy")
    with ms.connect(str(tmp_path / "copy"), engine="inprocess") as copy:
        for query in db.queries():
            found = copy.query(query.name)
            assert found.past.kept == query.past.kept
            assert query.notices == found.notices != []
        for each in (db, copy):
            each.insert("s", [(tick % 4, tick % 7, tick) for tick in range(100, 130)])
        for query in db.queries():
            assert query.result().equals(copy.query(query.name).result()), query.cql
    db.close()


def combination(chance: random.Random, depth: int = 3) -> str:
    """Comparisons by AND, OR, NOT and parentheses; all constants are different, so that none takes another's place."""
    column, operator, low = (
        chance.choice("abx"),
        chance.choice(["<", "<=", "=", "<>", ">=", ">"]),
        chance.randint(0, 10**6),
    )
    kind = chance.randrange(7) if depth else 0
    if kind <= 1:
        return f"{column} {operator} {low}"
    if kind == 2:
        return f"{column} BETWEEN {low} AND {low + 10**6}"
    if kind == 3:
        return f"NOT ({combination(chance, depth - 1)})"
    if kind == 6:
        values = ", ".join(str(low + number) for number in range(chance.randint(1, 4)))
        return f"{column} {chance.choice(['', 'NOT '])}IN ({values})"
    parts = [combination(chance, depth - 1) for _ in range(chance.randint(2, 4))]
    joined = chance.choice([" AND ", " OR "]).join(parts)
    return f"({joined})" if kind == 4 else joined


def join_condition(chance: random.Random) -> str:
    parts = [combination(chance, 2) for _ in range(chance.randint(1, 4))]
    own = [re.sub(r"\b([abx])(?= )", rf"{chance.choice('xy')}.\1", f"({part})") for part in parts]
    own.insert(chance.randint(0, len(own)), "x.a = y.a")
    return " AND ".join(own)


def test_what_is_told_by_comparisons_is_what_is_bound(alone: ms.Database) -> None:
    """However texts are known: the names of shapes are on disk, and are found again by binding texts."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'")
        joins = [
            f"SELECT x.a FROM s [RANGE 5] AS x, s [RANGE 5] AS y WHERE {condition}"
            for condition in [
                "y.a > 1 AND x.a < 5",
                "x.a < 3 AND y.a > 2",
                "y.a > 3",
                "x.a < 4 AND y.a > 2 AND y.b < 5",
            ]
        ]
        combined = [f"SELECT * FROM s WHERE {combination(random.Random(seed))}" for seed in range(200)]
        joins += [
            f"SELECT x.a, y.t FROM s [RANGE 5] x, s [RANGE 9] y WHERE {join_condition(random.Random(seed))}"
            for seed in range(120)
        ]
        for number, text in enumerate([*texts(120, 5), *combined, *joins]):
            query = db.register(text, name=f"q{number}")
            found = split(db.planner.plan(text, parse_query(text)).bound.plan)
            assert found is not None
            template = query.template
            assert template is not None
            shape, values = shape_of(found)
            assert shape == template.shape, text  # type: ignore[attr-defined]
            assert template.constants([query.number]).row(0) == values, text  # type: ignore[attr-defined]


def test_what_is_read_by_a_view_is_in_use() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'; CREATE VIEW w AS SELECT * FROM s [RANGE 5]")
        db.register("SELECT a FROM s [RANGE 5] WHERE a > 1", name="direct")
        query = db.register("SELECT a FROM w WHERE a > 2", name="by_view")
        assert query.edge == db.query("direct").edge
        assert query.reads == {"w"}
        with pytest.raises(ms.Error, match="in use"):
            db.execute("DROP VIEW w")
        query.drop()
        db.execute("DROP VIEW w")


def test_known_comparisons_are_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counted(text: str) -> object:
        parsed.append(text)
        return parse_query(text)

    monkeypatch.setattr("millstream.queries.registration.parse_query", counted)
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'")
        db.register("SELECT a FROM s WHERE a > 1 AND b <= 2 AND s.x < 3")
        db.register("SELECT a FROM s WHERE t <> 'x' AND n < 2.5")
        for condition in ["a > 5", "b <= 1 AND a > 4", "s.x < 1 AND n < 3.5 AND t <> 'y' AND a > 0", "a > 1 AND a > 2"]:
            db.register(f"SELECT a FROM s WHERE {condition}")
        assert len(parsed) == 2
        db.register("SELECT a FROM s WHERE a > 5 AND n < 2.25")  # a constant of another type
        db.register("SELECT b FROM s WHERE a > 5")
        assert len(parsed) == 4
        db.register("SELECT a FROM s WHERE a > 5 OR NOT (b <= 1 AND (s.x < 2 OR a > 3))")
        db.register("SELECT a FROM s WHERE a >= 5 AND b BETWEEN 1 AND 3")
        assert len(parsed) == 5
        join = "SELECT x.a FROM s [RANGE 5] x, s [RANGE 9] y WHERE x.b = y.b AND {}"
        for condition in ("x.a > 1 AND y.a > 1", "y.a > 2 AND x.a > 3", "x.a > 5 AND y.a > 7"):
            db.register(join.format(condition))
        assert len(parsed) == 7  # of the first it is not certain which comparison is which
        db.register(join.replace("x.b = y.b", "x.b < y.b").format("x.a > 3"))
        assert len(parsed) == 8
        del parsed[5:]
        db.register("SELECT a FROM s WHERE (b >= 5 OR b <= 3) AND NOT (a >= 2)")
        assert len(parsed) == 5


def test_what_stands_in_a_comment_or_a_constant_is_no_condition() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'")
        texts = [
            "SELECT a FROM s WHERE a > {} -- WHERE a > {}",
            "SELECT a, ' WHERE ' AS w FROM s WHERE a > {}",
            "SELECT a FROM (SELECT a FROM s [RANGE 3] WHERE a > {}) WHERE a < 9",
        ]
        for text in texts:
            for first in (1, 2):
                query = db.register(text.format(1, first), name=f"q{len(db.queries())}")
                assert "a > 1" in query.cql


def test_shapes_that_no_query_has_any_more_are_let_go(tmp_path: Path) -> None:
    conditions = ["a > 1", "a > 1 AND b < 4", "a <> 3", "b = 2 OR a < 4", "a > 5 AND a < 8"]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'")
        for number, condition in enumerate(conditions):
            db.register(f"SELECT a FROM s [RANGE 9] WHERE {condition}", name=f"q{number}")
        db.insert("s", rows(1, 0))
        group = db.engine.groups[db.query("q0").edge]
        assert len(group.shapes) == 5
        for number in range(1, 5):
            db.drop_query(f"q{number}")
        db.register("SELECT a FROM s [RANGE 9] WHERE a <> 7", name="again")
        db.insert("s", rows(1, 20))
        assert len(group.shapes) == 2
        assert sorted({row["a"] for row in db.query("again").result().to_pylist()}) == answer_of("a <> 7")
        db.drop_query("again")
        db.insert("s", rows(1, 40))
        assert set(group.shapes) == {db.query("q0").template.shape.name}  # type: ignore[union-attr]


def test_a_row_keeps_its_shape_until_it_has_the_words_of_another_query() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'")
        for name, condition in (("first", "a > 3"), ("second", "NOT (a <= 3)"), ("other", "a > 4 AND b > 100")):
            db.register(f"SELECT a FROM s [RANGE 9] WHERE {condition}", name=name)
        db.insert("s", rows(1, 0))
        assert db.query("first").row == db.query("second").row
        db.drop_query("first")
        db.insert("s", rows(1, 20))
        assert sorted({row["a"] for row in db.query("second").result().to_pylist()}) == answer_of("a > 3")
        assert len(db.engine.groups[db.query("second").edge].shapes) == 2


def answer_of(condition: str) -> list[int]:
    """By a plan of its own."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'off'")
        query = db.register(f"SELECT a FROM s [RANGE 9] WHERE {condition}")
        db.insert("s", [*rows(1, 0), *rows(1, 20)])
        return sorted({row["a"] for row in query.result().to_pylist()})


@pytest.mark.parametrize(
    ("text", "comparisons"),
    [
        ("SELECT a FROM s WHERE a > 1 AND s.b = 'x'", [("a", ">", "INT"), ("s.b", "=", "STRING")]),
        ("SELECT a FROM s [RANGE 5] WHERE a > 1 GROUP BY a", [("a", ">", "INT")]),
        ("ISTREAM (SELECT a FROM s WHERE a <> 1.5)", [("a", "<>", "DECIMAL(2,1)")]),
        ("SELECT a FROM s WHERE a > -1 AND b < -1.25", [("a", ">", "INT"), ("b", "<", "DECIMAL(3,2)")]),
        ("SELECT a FROM s WHERE a > - 1", None),
        ("SELECT a FROM s", None),
        ("SELECT a FROM s WHERE a > 1 OR b = 2", [("a", ">", "INT"), ("b", "=", "INT")]),
        (
            "SELECT a FROM s WHERE (a > 1)AND(NOT(b = 2)OR a < 3)",
            [("a", ">", "INT"), ("b", "=", "INT"), ("a", "<", "INT")],
        ),
        ("SELECT a FROM s WHERE (a > 1 AND (b = 2)", None),
        ("SELECT a FROM s WHERE (a + 1) > 1", None),
        ("SELECT a FROM s WHERE a > 1 AND b = 2 + 3", None),
        ("SELECT a FROM s WHERE a > b", None),
        ("SELECT a FROM s WHERE a > 1 AND", None),
        ("SELECT a FROM s WHERE a BETWEEN 1 AND 2", [("a", ">=", "INT"), ("a", "<=", "INT")]),
        ("SELECT a FROM s WHERE a BETWEEN 1 AND b", None),
        ("SELECT a FROM s WHERE a NOT IN (1, 2) AND b in ('x')", [("a", "in 2", "INT"), ("b", "in 1", "STRING")]),
        ("SELECT a FROM s WHERE a IN (1, 'x')", None),
        ("SELECT a FROM s WHERE NOT a = 1", None),
        ("SELECT a FROM s WHERE a <=> 1", None),
        ("SELECT a FROM s WHERE a = 1L", None),
        ("SELECT a FROM s WHERE a = 'it\\'s'", None),
        ("SELECT a FROM s WHERE a = 1 -- AND b = 2", None),
    ],
)
def test_comparisons_of_a_text(text: str, comparisons: Sequence[tuple[str, ...]] | None) -> None:
    taken = comparisons_in(text)
    assert (None if taken is None else list(taken.comparisons)) == comparisons
