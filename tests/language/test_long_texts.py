"""Long chains are bound and run however long they are; absurd nesting is refused, and never a RecursionError."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream as ms

TERMS = 1_000


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as database:
        database.execute("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 1), (5000, 2)")
        yield database


def _joined(word: str, term: str, count: int = TERMS) -> str:
    return f" {word} ".join(term.format(number) for number in range(count))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"SELECT a FROM t WHERE {_joined('AND', 'a <> {0}')}", [5000]),
        (f"SELECT a FROM t WHERE {_joined('OR', 'a = {0}')}", [1]),
        (f"SELECT a FROM t WHERE NOT ({_joined('OR', '(a = {0} AND b = {0})', 500)})", [5000]),
        (f"SELECT a FROM t WHERE a IN ({_joined(',', '{0}')})", [1]),
        (f"SELECT a FROM t GROUP BY a HAVING {_joined('AND', 'a <> {0}')}", [5000]),
        (f"SELECT t.a FROM t JOIN t AS u ON t.a = u.a AND {_joined('AND', 'u.a <> {0}', 500)}", [5000]),
        (f"SELECT a + {_joined('+', '{0}')} AS a FROM t", [499_501, 504_500]),
        (f"SELECT {_joined('+', 'a')} + 0.5e0 AS a FROM t", [1_000.5, 5_000_000.5]),
        (_joined("UNION", "SELECT a FROM t", 300), [1, 5000]),
        (_joined("UNION ALL", "SELECT a FROM t WHERE a = {0}", 300), [1]),
        (_joined("INTERSECT", "SELECT a FROM t", 100), [1, 5000]),
        (_joined("EXCEPT", "SELECT a FROM t WHERE b > {0}", 300), [1]),
        (_joined("EXCEPT ALL", "SELECT a FROM t WHERE b > {0}", 300), [1]),
        (f"SELECT a - {_joined('-', '{0}')} AS a FROM t", [-499_499, -494_500]),
        (f"SELECT a - {_joined('+', '{0} - a', 500)} AS a FROM t", [-2_370_250, 124_251]),
        (f"SELECT {_joined('*', 'b')} AS a FROM t WHERE b = 1", [1]),
        (f"SELECT {_joined('*', '(b + 0e0)', 1_000)} / {_joined('*', '2e0', 10)} AS a FROM t WHERE b = 2", [2.0**1008]),
        (f"SELECT length({_joined('||', 'a')}) AS a FROM t", [1_000, 4_000]),
        (f"SELECT count({_joined('||', '(CASE WHEN a <> 1 THEN a END)')}) AS a FROM t", [1]),
        (f"SELECT a FROM t WHERE {_joined('OR', 'a > {0} AND b <> {0}', 500)}", [1, 5000]),
        (f"SELECT a FROM t WHERE a NOT IN ({_joined(',', '-{0}')})", [1, 5000]),
        (
            f"SELECT a FROM t WHERE a IN ({_joined(',', '{0}.5e0')}) "
            f"OR 'x 5' IN ({_joined(',', chr(39) + 'x {0}' + chr(39))})",
            [1, 5000],
        ),
        (
            f"SELECT '(' AS x, a FROM t WHERE 'IN (1' <> 'it''''s' "
            f"AND a IN ({_joined(',', '{0}')}) AND a IN (1, {_joined(',', '2{0}L')})",
            [1],
        ),
        (f"SELECT CASE {' '.join(f'WHEN a = {n} THEN {n}' for n in range(TERMS))} ELSE 7 END AS a FROM t", [1, 7]),
        (f"SELECT CASE a {' '.join(f'WHEN {n} THEN {n + 7} / a' for n in range(400))} ELSE b END AS a FROM t", [2, 8]),
        ("SELECT 1.5e0 AS a UNION SELECT a FROM t UNION ALL SELECT b FROM t", [1, 1, 1.5, 2, 5000]),
        ("SELECT a FROM t UNION ALL SELECT b FROM t EXCEPT SELECT 1 EXCEPT SELECT 2", [5000]),
        ("SELECT a FROM t EXCEPT (SELECT b FROM t UNION SELECT 5000)", []),
    ],
)
def test_long_chains(db: ms.Database, text: str, answer: list[object]) -> None:
    found = db.execute(text).table
    assert found is not None
    assert sorted(found["a"].to_pylist()) == answer


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT a FROM t WHERE {'(' * 5_000}a = 1{')' * 5_000}",
        f"SELECT {'abs(' * 5_000}a{')' * 5_000} AS x FROM t",
        f"SELECT {'- ' * 5_000}a AS x FROM t",
        f"SELECT a FROM t WHERE {'NOT ' * 5_000}a = 1",
        f"SELECT a FROM {'(SELECT a FROM ' * 500}t{')' * 500}",
        f"SELECT a FROM t WHERE {_joined('AND', 'EXISTS (SELECT 1 FROM t AS u WHERE u.a = t.b)', 300)}",
        _joined("UNION", "SELECT a FROM t EXCEPT SELECT b FROM t", 500),
        f"SELECT {_joined('/', 'a', 200)} AS x FROM t",
        f"SELECT {_joined('+', 'cast(a AS DECIMAL(10,2))', 200)} AS x FROM t",
        f"SELECT t.a FROM t {' '.join(f'JOIN t AS t{number} ON t.a = t{number}.a' for number in range(300))}",
        f"WITH c0 AS (SELECT a FROM t) {' '.join(f', c{n + 1} AS (SELECT a FROM c{n})' for n in range(300))} "
        "SELECT a FROM c300",
        f"SELECT a{_joined('', '::int::string', 300)} AS x FROM t",
    ],
    ids=[
        "parentheses",
        "functions",
        "minus",
        "not",
        "subqueries",
        "exists",
        "mixed sets",
        "divisions",
        "decimals",
        "joins",
        "with",
        "casts",
    ],
)
def test_what_is_nested_too_deeply(db: ms.Database, text: str) -> None:
    with pytest.raises(ms.Error, match="nested too deeply"):
        db.execute(text)
    with pytest.raises(ms.Error, match="nested too deeply"):
        db.register(text)


def test_long_sums_overflow_where_a_part_of_them_does(db: ms.Database) -> None:
    text = f"SELECT a * 1000 + {_joined('+', 'a * 1000')} - {_joined('-', 'a * 1000', 1_0)} AS a FROM t WHERE b = 1"
    found = db.execute(text).table
    assert found is not None
    assert found["a"].to_pylist() == [1_001_000 - 10_000]
    with pytest.raises(ms.EvaluationError, match="INT overflow"):
        db.execute(f"SELECT {_joined('+', 'a * 1000')} + NULL AS a FROM t")


def test_conditions_of_statements() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (5000)")
        db.execute(f"DELETE FROM t WHERE {_joined('OR', 'a = {0}')}")
        found = db.execute("SELECT a FROM t").table
        assert found is not None
        assert found["a"].to_pylist() == [5000]
        with pytest.raises(ms.Error, match="nested too deeply"):
            db.execute(f"DELETE FROM t WHERE a = {_joined('%', 'a', 5_000)}")
        with pytest.raises(ms.Error, match="nested too deeply"):
            db.execute(f"INSERT INTO t VALUES ({_joined('%', '1', 5_000)})")


@pytest.mark.parametrize("term", ["a", "-a", "NULL", "2147483647", "2"])
@pytest.mark.parametrize("signs", ["+", "-", "*", "+-"])
def test_long_chains_are_computed_step_by_step(db: ms.Database, term: str, signs: str) -> None:
    """As if they were nested: with parentheses they are."""
    operators = [signs[place % len(signs)] for place in range(59)]
    flat = f"a {' '.join(f'{sign} {term}' for sign in operators)}"
    nested = "(" * len(operators) + "a" + "".join(f" {sign} {term})" for sign in operators)
    for where in ("b = 1", "b = 2"):
        assert _answer(db, f"SELECT {flat} AS x FROM t WHERE {where}") == _answer(
            db, f"SELECT {nested} AS x FROM t WHERE {where}"
        )


def _answer(db: ms.Database, text: str) -> object:
    try:
        found = db.execute(text).table
    except ms.EvaluationError as error:
        return error.primary.split(" in ")[0]
    assert found is not None
    return found.to_pylist()


def test_an_error_behind_a_long_list_has_its_place(db: ms.Database) -> None:
    text = f"SELECT a FROM t WHERE a IN ({_joined(',', '{0}')}) AND nowhere = 1"
    with pytest.raises(ms.Error, match="nowhere") as caught:
        db.execute(text)
    place = caught.value.place
    assert place is not None
    assert text[place.start : place.end] == "nowhere"


def test_long_queries_are_there_again(tmp_path: Path) -> None:
    texts = [f"SELECT a FROM t WHERE a IN ({_joined(',', '{0}')})", f"SELECT a FROM t WHERE {_joined('OR', 'a = {0}')}"]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (5000)")
        for mode in ("eager", "lazy", "none"):
            for number, text in enumerate(texts):
                db.register(text, name=f"{mode}{number}", mode=mode)
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert {query.name: query.result()["a"].to_pylist() for query in db.queries()} == {
            f"{mode}{number}": [1] for mode in ("eager", "lazy", "none") for number in (0, 1)
        }
        assert db.query("eager0").cql.count(",") == TERMS - 1
