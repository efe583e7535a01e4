"""Conditions in normal form: what an index can answer, and what is left to evaluate."""

from __future__ import annotations

import pytest
from tests.kernel.sharing.logic import both, compare, either, no

from millstream.kernel.scalar.expressions import FALSE, TRUE, Call, Cast, Column, Expression, InList, Literal, Parameter
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing.normal_form import normal_form
from millstream.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, STRING, decimal

A, B, FLAG, S, F = (
    Column(INT, 0, "a"),
    Column(INT, 1, "b"),
    Column(BOOLEAN, 2, "flag"),
    Column(STRING, 3, "s"),
    Column(FLOAT, 4, "f"),
)
P, Q = Parameter(INT, 0), Parameter(INT, 1)
NO = Literal(INT, None)


def text(value: str | None) -> Literal:
    return Literal(STRING, value)


UNINDEXED = compare(A, "<", B)


def shown(condition: Expression, cap: int = 64) -> tuple[str, list[str]]:
    form = normal_form(condition, cap)
    clauses = " & ".join(f"({' | '.join(map(str, clause))})" for clause in form.clauses)
    return clauses, [str(part) for part in form.residual]


@pytest.mark.parametrize(
    ("condition", "clauses"),
    [
        (compare(A, ">", P), "(a > ?1)"),
        (compare(P, ">", A), "(a < ?1)"),
        (no(compare(A, ">", P)), "(a <= ?1)"),
        (no(no(compare(A, "=", P))), "(a = ?1)"),
        (both(compare(A, ">=", P), compare(A, "<=", Q)), "(a >= ?1) & (a <= ?2)"),
        (no(both(compare(A, ">=", P), compare(A, "<=", Q))), "(a < ?1 | a > ?2)"),
        (no(either(compare(A, "<", P), compare(B, "<", Q))), "(a >= ?1) & (b >= ?2)"),
        (
            either(both(compare(A, "=", P), compare(B, "=", P)), compare(A, "=", Q)),
            "(a = ?1 | a = ?2) & (b = ?1 | a = ?2)",
        ),
        (InList(BOOLEAN, A, (P, Q, NO)), "(a in ?1, ?2, NULL)"),
        (no(InList(BOOLEAN, A, (P, Q))), "(a not in ?1, ?2)"),
        (call("isnull", [A]), "(a isnull)"),
        (no(call("isnull", [A])), "(a isnotnull)"),
        (FLAG, "(flag = TRUE)"),
        (no(FLAG), "(flag <> TRUE)"),
        (compare(A, "<=>", P), "(a <=> ?1)"),
        (no(compare(A, "<=>", P)), "(a not <=> ?1)"),
        (call("like", [S, text("ab%")]), "(s prefix 'ab')"),
        (no(call("like", [S, text("ab%")])), "(s not prefix 'ab')"),
        (call("like", [S, text("ab")]), "(s = 'ab')"),
        (call("like", [S, text("%")]), "(s prefix '')"),
        (call("like", [S, text(None)]), "(s = NULL)"),
        (call("startswith", [S, Parameter(STRING, 0)]), "(s prefix ?1)"),
        # A comparison with a wider type is one with the column itself; other casts are attributes of their own.
        (compare(A, "<", Parameter(BIGINT, 0)), "(a < ?1)"),
        (compare(F, "<", Parameter(DOUBLE, 0)), "(f < ?1)"),
        (compare(A, "<", Parameter(DOUBLE, 0)), "(CAST(a AS DOUBLE) < ?1)"),
        (compare(A, "<", Parameter(decimal(4, 2), 0)), "(CAST(a AS DECIMAL(12,2)) < CAST(?1 AS DECIMAL(12,2)))"),
        (compare(Column(BIGINT, 0, "l"), "<", P), "(l < CAST(?1 AS BIGINT))"),
        (TRUE, ""),
        (either(TRUE, compare(A, "=", P)), ""),
        (either(FALSE, compare(A, "=", P)), "(a = ?1)"),
        (FALSE, "()"),
        (both(compare(A, "=", P), no(Literal(BOOLEAN, None))), "(a = ?1) & ()"),
    ],
    ids=str,
)
def test_what_an_index_answers(condition: Expression, clauses: str) -> None:
    assert shown(condition) == (clauses, [])


@pytest.mark.parametrize(
    ("condition", "clauses"),
    [
        (UNINDEXED, ""),
        (no(call("like", [S, Parameter(STRING, 0)])), ""),
        (call("like", [S, text("a_%")]), ""),
        (call("like", [S, text("a%b%")]), ""),
        (call("like", [S, text("a\\%%")]), ""),
        (compare(call("+", [A, Literal(INT, 1)]), "=", P), ""),
        (compare(P, "=", Q), ""),
        # What may fail is evaluated only for rows and queries that are left.
        (Call(BOOLEAN, "=", (Cast(INT, S), P)), ""),
        (compare(A, "=", Cast(INT, Parameter(STRING, 0))), ""),
        (either(UNINDEXED, compare(A, "=", P)), ""),
        (either(both(UNINDEXED, compare(A, ">", P)), compare(A, "=", Q)), "(a > ?1 | a = ?2)"),
    ],
    ids=str,
)
def test_what_is_left_to_evaluate(condition: Expression, clauses: str) -> None:
    found, residual = shown(condition)
    assert (found, len(residual)) == (clauses, 1)


def test_what_is_indexed_and_what_is_not_stand_side_by_side() -> None:
    condition = both(compare(A, ">", P), UNINDEXED, FLAG)
    assert shown(condition) == ("(a > ?1) & (flag = TRUE)", ["(a < b)"])


def test_a_conjunct_of_too_many_clauses_is_left_whole() -> None:
    pairs = [both(compare(A, "=", Literal(INT, i)), compare(B, "=", Literal(INT, i))) for i in range(4)]
    condition = both(FLAG, either(*pairs))
    assert len(normal_form(condition, 17).clauses) == 17
    assert shown(condition, 15) == ("(flag = TRUE)", [str(either(*pairs))])


def test_names_are_those_of_the_condition_that_was_asked() -> None:
    """Equal ones may have other names for the same columns."""
    for name in ("one", "other"):
        assert shown(compare(Column(INT, 77, name), ">", P))[0] == f"({name} > ?1)"
