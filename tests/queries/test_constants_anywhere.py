"""Queries that differ in constants wherever these stand: one plan, and each query its own columns and answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms

STREAM = "CREATE STREAM s (u INT, a BIGINT, i INT) TIMESTAMP BY ts"
ROWS = [(1, 5, 2, 1), (1, 4, 3, 2), (2, 7, 4, 3), (3, 1, 5, 9)]


def filled(db: ms.Database) -> None:
    db.insert("s", ROWS)
    db.advance("s", to=9)


def answers(query: ms.Query, at: int = 4) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in query.result(at).to_pylist())


def is_shared(queries: list[ms.Query]) -> bool:
    return len({query.edge for query in queries}) == 1 and all(query.number is not None for query in queries)


# Labels, and columns that are made with constants


@pytest.mark.parametrize("late", [False, True])
def test_labels(late: bool) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        if late:
            filled(db)
        queries = [db.register(f"SELECT i, 'l{n}' AS label FROM s [RANGE 5] WHERE i > {n}") for n in range(20)]
        if not late:
            filled(db)
        assert is_shared(queries[8:])
        for number, query in enumerate(queries):
            assert answers(query) == [(i, f"l{number}") for i in (2, 3, 4) if i > number]
        assert "computed when it is read: 'l9'" in str(queries[9].explain())


def test_labels_without_conditions() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = db.register_many("SELECT ? AS label FROM s [RANGE 5]", [("x",), ("y",)])
        filled(db)
        assert is_shared(queries)
        assert [answers(query) for query in queries] == [[("x",)] * 3, [("y",)] * 3]


@pytest.mark.parametrize("operator", ["ISTREAM", "DSTREAM", "RSTREAM"])
def test_labels_of_streams(operator: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = db.register_many(f"SELECT {operator}(u, ? AS label) FROM s [RANGE 1]", [("x",), ("y",)])
        (own,) = db.register_many(f"SELECT {operator}(u) FROM s [RANGE 1] WHERE i > ?", [(0,)])
        filled(db)
        assert is_shared(queries)
        expected = [(row["_ts"], row["u"]) for row in own.result().to_pylist()]
        for query, label in zip(queries, "xy", strict=True):
            assert [(r["_ts"], r["u"], r["label"]) for r in query.result().to_pylist()] == [
                (*row, label) for row in expected
            ]


def test_labels_of_distinct_rows() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = db.register_many("SELECT DISTINCT u, ? AS label FROM s [RANGE 5]", [("x",), ("y",)])
        filled(db)
        assert is_shared(queries)
        assert [answers(query) for query in queries] == [[(1, "x"), (2, "x")], [(1, "y"), (2, "y")]]


def test_constants_of_different_types_are_of_different_shapes() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'")
        number, text = (
            db.register("SELECT i, 1 AS c FROM s [RANGE 5]"),
            db.register("SELECT i, 'x' AS c FROM s [RANGE 5]"),
        )
        filled(db)
        assert is_shared([number, text])
        assert [str(query.schema[1].type) for query in (number, text)] == ["int32", "string"]
        assert [answers(number), answers(text)] == [[(2, 1), (3, 1), (4, 1)], [(2, "x"), (3, "x"), (4, "x")]]


def test_members_of_several_shapes_are_read_together() -> None:
    """Of one group: those whose rows are as they are kept, and those that make columns of them."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'")
        db.register("SELECT u, i FROM s [RANGE 5] WHERE i > 2", name="plain")
        db.register_many(
            "SELECT u, COALESCE(i, ?) AS i FROM s [RANGE 5] WHERE i > ?", [(7, 2), (8, 3)], names=["a", "b"]
        )
        filled(db)
        found = db.results([db.query(name) for name in ("plain", "a", "b")], at=4).to_pylist()
        assert [(row["_query"], row["u"], row["i"]) for row in found] == [
            ("plain", 1, 3),
            ("plain", 2, 4),
            ("a", 1, 3),
            ("a", 2, 4),
            ("b", 2, 4),
        ]


def test_a_template_with_constants_in_its_columns() -> None:
    template = "SELECT i, CASE WHEN i > ? THEN 'more' ELSE ? END AS c FROM s [RANGE 5] WHERE i > ?"
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        found = db.register_many(template, [(2, "less", 0), (3, "few", 2)], template="t")
        filled(db)
        assert is_shared([query for query in db.queries() if query.member_of is found])
        rows = [(row["_p2"], row["i"], row["c"]) for row in found.result(4).to_pylist()]
        assert rows == [
            ("less", 2, "less"),
            ("less", 3, "more"),
            ("less", 4, "more"),
            ("few", 3, "few"),
            ("few", 4, "more"),
        ]


# HAVING


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("value", ["count(*)", "sum(a)", "sum(i)"])
def test_thresholds_of_groups(late: bool, value: str) -> None:
    """A sum of BIGINT can fail, and is found by an index nevertheless."""
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        if late:
            filled(db)
        text = f"SELECT u, {value} AS v FROM s [RANGE 5] GROUP BY u HAVING {value} > "
        queries = [db.register(f"{text}{n}") for n in range(12)]
        alone = db.register(f"SELECT u, {value} AS v FROM s [RANGE 5] GROUP BY u")
        if not late:
            filled(db)
        assert is_shared(queries[8:])
        for number, query in enumerate(queries):
            assert answers(query) == [row for row in answers(alone) if row[1] > number]  # type: ignore[operator]
        assert "filtered by the indexes on" in str(queries[9].explain())
        # What is summed is summed once.
        steps = [step for step in db.engine.pipeline.steps if step.name.startswith("aggregate")]
        assert len([step for step in steps if step.name in db.engine.groups[queries[9].edge].steps]) == 1


def test_a_threshold_of_a_sum_that_does_not_fit() -> None:
    """All fail that come to the sum, those too whose thresholds it would not reach; others go on."""
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        template = "SELECT u FROM s [RANGE 5] GROUP BY u HAVING sum(a) > ? AND max(i) < ?"
        queries = db.register_many(template, [(0, 9), (5, 9), (0, 3)])
        db.execute("SET sharing = 'off'")
        single = db.register(template.replace("?", "0", 1).replace("?", "9"))
        filled(db)
        db.insert("s", [(4, 2**62, 3, 10), (4, 2**62, 3, 10)])
        db.advance("s", to=10)
        assert [query.error is None for query in queries] == [False, False, True]
        assert is_shared(queries)
        assert str(queries[0].error) == str(single.error)


def test_a_threshold_without_groups() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = db.register_many("SELECT count(*) AS n FROM s [RANGE 5] HAVING count(*) < ?", [(1,), (3,), (4,)])
        filled(db)
        assert is_shared(queries)
        assert [[answers(query, at) for at in (0, 1, 4)] for query in queries] == [
            [[(0,)], [], []],
            [[(0,)], [(1,)], []],
            [[(0,)], [(1,)], [(3,)]],
        ]


def test_what_groups_are_made_of_may_be_more_than_a_from_list() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        template = "SELECT n, ? AS l FROM (SELECT i, count(*) AS n FROM s [RANGE 9] WHERE a > 1 GROUP BY i) WHERE n > ?"
        queries = db.register_many(template, [("x", 0), ("y", 1)])
        filled(db)
        assert is_shared(queries)
        assert [answers(query) for query in queries] == [[(1, "x")] * 3, []]


# Rows that are looked for in what all queries have in common


@pytest.mark.parametrize(
    "text",
    [
        "SELECT s.u, t.a FROM s [RANGE 5] LEFT JOIN s [RANGE 2] AS t ON t.u = s.u AND t.i > 2 WHERE s.i > ?",
        "SELECT u, a FROM s [RANGE 5] WHERE i > ? AND EXISTS (SELECT * FROM s [RANGE 2] AS t WHERE t.u = s.u)",
        "SELECT u, a FROM s [RANGE 5] WHERE i > ? AND u NOT IN (SELECT u FROM s [RANGE 2] AS t WHERE t.i > 3)",
        "SELECT u, count(*) AS n FROM s [RANGE 5] WHERE i > ? AND a < (SELECT max(a) FROM s [RANGE 2] AS t) GROUP BY u",
    ],
)
def test_selections_beside_subqueries(text: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = db.register_many(text, [(0,), (2,), (3,)])
        db.execute("SET sharing = 'off'")
        own = alone(db, text, [(0,), (2,), (3,)])
        filled(db)
        assert is_shared(queries)
        for at in (1, 3, 4, 6, 9):
            assert [answers(query, at) for query in queries] == [answers(query, at) for query in own]


# Above the selection, where each query has rows of its own


ABOVE = [
    (
        "SELECT u, sum(a) AS t, ? AS l FROM s [RANGE 5] WHERE i > ? GROUP BY u HAVING sum(a) > ?",
        [("x", 1, 4), ("y", 2, 5)],
    ),
    ("SELECT u, count(*) AS n FROM s [RANGE 5] WHERE i > ? GROUP BY u HAVING count(*) < ?", [(1, 4), (2, 1), (0, 2)]),
    (
        "SELECT ISTREAM(u, CASE WHEN i > ? THEN ? ELSE 'no' END AS c) FROM s [RANGE 5] WHERE i > ?",
        [(2, "A", 0), (3, "B", 2)],
    ),
    ("SELECT sum(CASE WHEN i > ? THEN 1 ELSE 0 END) AS m FROM s [RANGE 5] WHERE a < ?", [(2, 9), (3, 1)]),
    ("SELECT CASE WHEN i > ? THEN 1 ELSE 0 END AS k, count(*) AS n FROM s [RANGE 5] GROUP BY 1", [(2,), (3,)]),
    ("SELECT DISTINCT i % ? AS d FROM s [RANGE 5] WHERE i > ?", [(2, 0), (3, 3), (0, 9)]),
    ("SELECT i / ? AS d FROM s [RANGE 5] WHERE i > ?", [(2, 0), (0, 5), (0, 9)]),
]


def alone(db: ms.Database, template: str, rows: list[tuple[object, ...]]) -> list[ms.Query]:
    texts = [template for _ in rows]
    for place, row in enumerate(rows):
        for value in row:
            texts[place] = texts[place].replace("?", repr(value), 1)
    return [db.register(text) for text in texts]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("template", "rows"), ABOVE)
def test_constants_above_the_selection(template: str, rows: list[tuple[object, ...]], late: bool) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        if late:
            filled(db)
        queries = db.register_many(template, rows)
        db.execute("SET sharing = 'on'")
        singles = alone(db, template, rows)
        db.execute("SET sharing = 'off'")
        own = alone(db, template, rows)
        if not late:
            filled(db)
        assert is_shared(queries)
        assert is_shared(singles) or "/" in template or "%" in template  # which fail only where a constant may be 0
        for query, single, other in zip(queries, singles, own, strict=True):
            assert str(query.error) == str(single.error) == str(other.error)
            if other.error is None:
                assert query.result().to_pylist() == single.result().to_pylist() == other.result().to_pylist()


def test_a_constant_by_which_a_column_fails() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = db.register_many("SELECT i / ? AS d FROM s [RANGE 5] WHERE i > ?", [(2, 0), (0, 4), (0, 9)])
        filled(db)
        assert is_shared(queries)
        assert [query.error and (query.error.primary, query.error.detail) for query in queries] == [
            None,
            ("division by zero in (i / 0)", "for i = 5"),
            None,
        ]


def test_queries_above_the_selection_come_and_go() -> None:
    template, rows = ABOVE[1]
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        first, second, third = db.register_many(template, rows)
        db.insert("s", ROWS[:2])
        db.advance("s", to=2)
        second.drop()
        (fourth,) = db.register_many(template, [(2, 2)])
        db.insert("s", ROWS[2:])
        db.advance("s", to=9)
        found = [[answers(query, at) for at in (2, 4, 9)] for query in (first, third, fourth)]
        assert found == [
            [[(1, 2)], [(1, 2), (2, 1)], [(3, 1)]],
            [[], [(2, 1)], [(3, 1)]],
            [[(1, 1)], [(1, 1), (2, 1)], [(3, 1)]],
        ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT i, 'l{n}' AS l FROM s [RANGE 5]",
        "SELECT u FROM s [RANGE 5] GROUP BY u HAVING sum(a) > {n}",
        "SELECT u FROM s [RANGE 5] WHERE i > {n} GROUP BY u HAVING sum(a) > {n}",
    ],
)
def test_they_are_there_again_after_a_restart(text: str, tmp_path: Path) -> None:
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAM)
        for number in range(12):
            db.register(text.format(n=number), name=f"q{number}")
        db.insert("s", ROWS[:2])
        db.advance("s", to=2)
        before = {query.name: query.edge for query in db.queries()}
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert {query.name: query.edge for query in db.queries()} == before
        db.register(text.format(n=20), name="late")
        db.insert("s", ROWS[2:])
        db.advance("s", to=9)
        alone = {query.name: answers(query) for query in db.queries()}
        for query in db.queries():
            db.execute("SET sharing = 'off'")
            assert answers(db.register(query.cql)) == alone[query.name]
        assert db.query("late").edge == before["q11"]


# On several sides of set operations, joins and subqueries


SIDES = [
    (
        "SELECT u FROM s [RANGE 5] WHERE i > ? UNION SELECT i FROM s [RANGE 3] WHERE a > ?",
        [(2, 4), (3, 6), (0, 0)],
    ),
    (
        "SELECT u FROM s [RANGE 5] WHERE i > ? UNION ALL SELECT i FROM s [RANGE 3] WHERE a > ?",
        [(2, 4), (3, 6), (0, 0)],
    ),
    (
        "SELECT u FROM s [RANGE 5] WHERE i > ? EXCEPT SELECT i FROM s [RANGE 3] WHERE a > ?",
        [(2, 4), (3, 6), (0, 0)],
    ),
    ("SELECT u FROM s [RANGE 5] EXCEPT SELECT i FROM s [RANGE 3] WHERE a > ?", [(4,), (6,), (0,)]),
    (
        "SELECT u, i FROM s [RANGE 5] WHERE i > ? AND EXISTS (SELECT * FROM s [RANGE 3] AS t WHERE "
        "t.u = s.u AND t.i > ?)",
        [(2, 2), (1, 3), (0, 0)],
    ),
    (
        "SELECT u, i FROM s [RANGE 5] WHERE u NOT IN (SELECT u FROM s [RANGE 3] AS t WHERE t.i > ?)",
        [(2,), (3,), (9,)],
    ),
    (
        "SELECT u, ? AS l FROM s [RANGE 5] WHERE i > (SELECT avg(i) FROM s [RANGE 3] AS t WHERE t.u = ?)",
        [("x", 1), ("y", 2), ("z", 5)],
    ),
    (
        "SELECT s.u, t.i FROM s [RANGE 5] LEFT JOIN (SELECT u, i FROM s [RANGE 3] WHERE i > ?) AS t ON t.u = s.u",
        [(2,), (3,), (9,)],
    ),
    (
        "SELECT t.n, s.i FROM s [RANGE 5], (SELECT u, count(*) AS n FROM s [RANGE 3] WHERE i > ? "
        "GROUP BY u) AS t WHERE t.u = s.u AND s.i > ?",
        [(2, 1), (0, 0), (9, 1)],
    ),
    (
        "SELECT ISTREAM(x.u) FROM (SELECT u FROM s [RANGE 5] WHERE i > ? UNION SELECT i AS u FROM "
        "s [RANGE 3] WHERE a > ?) AS x WHERE x.u < ?",
        [(2, 4, 9), (3, 6, 3), (0, 0, 3)],
    ),
    (
        "SELECT count(*) AS n FROM (SELECT u FROM s [RANGE 5] WHERE i > ? UNION ALL SELECT i AS u "
        "FROM s [RANGE 3] WHERE a > ?) AS x",
        [(2, 4), (3, 6), (9, 9)],
    ),
]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("template", "rows"), SIDES)
def test_constants_on_several_sides(template: str, rows: list[tuple[object, ...]], late: bool) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        if late:
            filled(db)
        queries = db.register_many(template, rows)
        db.execute("SET sharing = 'on'")
        singles = alone(db, template, rows)
        db.execute("SET sharing = 'off'")
        own = alone(db, template, rows)
        if not late:
            filled(db)
        assert is_shared(queries)
        assert is_shared(singles)
        for query, single, other in zip(queries, singles, own, strict=True):
            assert _all_of(query) == _all_of(single) == _all_of(other)


def _all_of(query: ms.Query) -> list[list[str]]:
    instants = (0, 1, 2, 3, 4, 6, 9) if query.kind == "relation" else (None,)
    return [sorted(map(str, query.result(at).to_pylist())) for at in instants]


def test_what_could_fail_on_one_of_several_sides_has_plans_of_its_own() -> None:
    template = "SELECT u FROM s [RANGE 5] WHERE 9 / i > ? UNION SELECT i FROM s [RANGE 3] WHERE a > ?"
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = db.register_many(template, [(1, 2), (2, 3)])
        filled(db)
        assert all(query.number is None for query in queries)
        assert [answers(query) for query in queries] == [[(1,), (2,), (3,), (4,)], [(1,), (2,), (3,), (4,)]]


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_unnamed_columns_have_the_constants_of_each_query(mode: str) -> None:
    """As if it had come alone; what all have in common is named as the template is written."""
    text = "SELECT s.a, 10 / (s.b - ?), concat('?', ?), ?, s.b AS z FROM s [RANGE 5] WHERE s.a > ?"
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT, b INT) TIMESTAMP BY ts")
        one, two = db.register_many(text, [(1, "x", "y", 0), (2, "it's", "it's", 0)], mode=mode)
        alone = db.register(
            "SELECT s.a, 10 / (s.b - 1), concat('?', 'x'), 'y', s.b AS z FROM s [RANGE 5] WHERE s.a > 0"
        )
        assert one.schema.names == ["a", "10 / (s.b - 1)", "concat('?', 'x')", "'y'", "z"] == alone.schema.names
        assert two.schema.names[1] == "10 / (s.b - 2)"
        db.insert("s", [(1, 7, 1)])
        db.advance(to=2)
        assert one.result().schema.names == alone.schema.names
        assert one.changes().schema.names[2:] == alone.schema.names
        assert one.result().to_pylist() == alone.result().to_pylist()
        assert "?)" not in one.explain()


@pytest.mark.parametrize(
    "computed",
    [
        "sum(greatest(a, {n}))",
        "max(least(i, {n}))",
        "count(nullif(i, {n}))",
        "sum(power(i, {n} % 3))",
        "min(pmod(i, {n} + 1))",
        "sum((i & {n}) + shiftleft(i, {n} % 4))",
        "max(concat_ws('-', CAST(i AS STRING), 'l{n}'))",
        "max(substring(concat('abcdefghijklmnopqrstuvwxyz', 'x'), i, {n}))",
        "max(replace('l1l2l3l4', 'l{n}', 'x'))",
        "count_if(contains(CAST(a AS STRING), '{n}'))",
        "sum(abs(i - {n}))",
    ],
)
def test_arguments_of_functions(computed: str) -> None:
    text = f"SELECT u, {computed} AS x FROM s [RANGE 5] GROUP BY u"
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = [db.register(text.format(n=n)) for n in range(10)]
        db.execute("SET sharing = 'off'")
        own = [db.register(text.format(n=n)) for n in range(10)]
        filled(db)
        assert [answers(query) for query in queries] == [answers(query) for query in own]
        assert is_shared(queries) == ("replace" not in computed and "power" not in computed)
