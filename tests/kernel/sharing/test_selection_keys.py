"""Keys of conditions: what has one key selects the same rows, and words do not matter."""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import product
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.sharing.conditions import SCHEMA, selected, templates, values_of
from tests.kernel.sharing.logic import both, compare, either, no

from millstream.kernel.batch import batch_schema
from millstream.kernel.scalar.expressions import Call, Cast, Column, Expression, InList, Literal, Parameter
from millstream.kernel.sharing.selection_keys import keys_of
from millstream.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING

A, D, S = Column(INT, 0, "a"), Column(DOUBLE, 2, "d"), Column(STRING, 6, "s")
KINDS = {A: (0, 1, 2, None), D: (-0.0, 0.0, 1.5, math.nan, None), S: ("", "a", "ab", None)}


def integer(value: int | None) -> Literal:
    return Literal(INT, value)


def key(condition: Expression, *constants: object) -> Hashable:
    return keys_of(condition).of(constants)


def among(attribute: Expression, *values: Expression) -> Expression:
    return InList(BOOLEAN, attribute, values)


MORE = compare(A, ">", integer(5))
DIVIDED = compare(Call(INT, "/", (integer(10), A)), ">", integer(2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MORE, compare(integer(5), "<", A)),
        (MORE, compare(A, ">=", integer(6))),
        (MORE, no(compare(A, "<=", integer(5)))),
        (MORE, both(MORE, MORE)),
        (MORE, both(compare(A, ">", integer(3)), MORE)),
        (MORE, compare(Cast(BIGINT, A), ">", Literal(BIGINT, 5))),
        (both(MORE, compare(S, "=", Literal(STRING, "a"))), both(compare(S, "=", Literal(STRING, "a")), MORE)),
        (compare(A, "=", integer(1)), both(compare(A, "<=", integer(1)), compare(A, ">=", integer(1)))),
        (compare(A, "=", integer(1)), among(A, integer(1), integer(1))),
        (among(A, integer(1), integer(2)), either(compare(A, "=", integer(2)), compare(A, "=", integer(1)))),
        (
            no(among(A, integer(1), integer(2))),
            both(compare(A, "<>", integer(2)), compare(A, "<>", integer(1))),
        ),
        (both(DIVIDED, MORE), both(MORE, DIVIDED)),
    ],
    ids=str,
)
def test_words_do_not_matter(one: Expression, other: Expression) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MORE, compare(A, ">", integer(4))),
        (MORE, compare(A, ">=", integer(5))),
        (compare(D, ">", Literal(DOUBLE, 5.0)), compare(D, ">=", Literal(DOUBLE, 6.0))),
        (MORE, compare(Column(INT, 1, "a"), ">", integer(5))),
        (MORE, both(MORE, DIVIDED)),
        (compare(A, "=", integer(None)), compare(A, "=", integer(0))),
        (compare(A, "=", integer(1)), compare(A, "<=>", integer(1))),
    ],
    ids=str,
)
def test_what_differs_has_keys_of_its_own(one: Expression, other: Expression) -> None:
    assert key(one) != key(other)


def test_constants_of_a_query_count_as_those_of_a_text() -> None:
    shape = both(compare(A, ">", Parameter(INT, 0)), compare(S, "=", Parameter(STRING, 1)))
    text = both(compare(Literal(STRING, "a"), "=", S), MORE)
    assert key(shape, 5, "a") == key(text) != key(shape, 6, "a")
    other = both(compare(S, "=", Parameter(STRING, 0)), compare(Parameter(INT, 1), "<", A))
    assert key(other, "a", 5) == key(text)


@pytest.mark.parametrize("operator", ["=", "<", "<=", ">", ">=", "<>"])
def test_the_keys_of_many_are_those_of_each(operator: str) -> None:
    shape = both(compare(S, "<", Parameter(STRING, 1)), compare(Parameter(INT, 0), operator, A))
    rows = [(n % 3 or None, "ab"[n % 2]) for n in range(10)]
    for found in (rows, [(n or 7, text) for n, text in rows]):
        table = pl.DataFrame(found, schema={"c0": pl.Int32(), "c1": pl.String()}, orient="row")
        assert keys_of(shape).of_rows(table, 2) == [key(shape, *row) for row in found]


# Of few attributes and constants, so that many are the same

ROWS = [*product(*KINDS.values())]


def batch() -> pl.DataFrame:
    width = len(SCHEMA)
    rows = []
    for place, (i, d, s) in enumerate(ROWS):
        values: list[Any] = [None] * width
        values[0], values[2], values[6] = i, d, s
        rows.append((*values, place, place + 1, 1))
    return pl.DataFrame(rows, schema=batch_schema(SCHEMA), orient="row")


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> Expression:
    form = draw(st.sampled_from(["and", "or", "not", "atom", "atom"])) if depth else "atom"
    if form == "not":
        return no(draw(conditions(depth - 1)))
    if form in ("and", "or"):
        return (both if form == "and" else either)(draw(conditions(depth - 1)), draw(conditions(depth - 1)))
    attribute = draw(st.sampled_from([*KINDS]))
    constants = st.sampled_from(KINDS[attribute]).map(lambda value: Literal(attribute.type, value))
    if draw(st.booleans()):
        return among(attribute, *draw(st.lists(constants, min_size=1, max_size=3)))
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
    return compare(attribute, operator, draw(constants))


@given(st.lists(conditions(), min_size=2, max_size=12))
@settings(max_examples=150)
def test_queries_with_one_key_select_the_same_rows(asked: list[Expression]) -> None:
    rows, by_key = batch(), dict[Hashable, object]()
    for condition in asked:
        found = selected(rows, condition)
        assert by_key.setdefault(key(condition), found) == found


@given(st.data())
@settings(max_examples=100)
def test_any_condition_has_a_key_that_its_constants_decide(data: st.DataObject) -> None:
    template = data.draw(templates())
    constants = tuple(data.draw(values_of(kind)) for kind in template.parameters)
    assert key(template.condition, *constants) == key(template.condition, *constants)
