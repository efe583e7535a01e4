"""Batches: NULLs, guards, errors, shared parts, user functions. What SQL evaluates lazily must not fail eagerly."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import errors
from millstream.kernel.scalar.compiler import compile_expressions
from millstream.kernel.scalar.evaluate import evaluate, select_true
from millstream.kernel.scalar.expressions import TRUE, Cast, Column, Expression, Literal
from millstream.kernel.scalar.functions import call, case, in_list
from millstream.kernel.scalar.functions_user import UserFunction
from millstream.kernel.scalar.literals import number_literal as number
from millstream.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, SMALLINT, STRING, TINYINT, DataType, to_polars

A, B, S = Column(INT, 0, "a"), Column(INT, 1, "b"), Column(STRING, 2, "s")
FRAME = pl.DataFrame(
    {"c0": [7, 8, None, 9], "c1": [2, 0, 0, None], "c2": ["1", "x", "3", None]},
    schema={"c0": pl.Int32, "c1": pl.Int32, "c2": pl.String},
)
QUOTIENT = call("/", [A, B])


def column(expression: Expression, frame: pl.DataFrame = FRAME) -> list[object]:
    values = evaluate(frame, [expression], ["v"]).to_series()
    assert values.dtype == to_polars(expression.type)
    assert values.len() == frame.height
    return values.to_list()


def test_several_expressions_at_once() -> None:
    result = evaluate(FRAME, [call("+", [A, number("1")]), call("isnull", [B])], ["x", "y"])
    assert result.schema == {"x": pl.Int32, "y": pl.Boolean}
    assert result.rows() == [(8, False), (9, False), (None, False), (10, True)]


def test_nothing_but_constants_keeps_the_height() -> None:
    assert evaluate(FRAME, [number("1"), Literal(NULL, None)], ["x", "y"]).rows() == [(1, None)] * 4
    assert evaluate(FRAME, [], []).height == 4
    assert column(call("concat", [Literal(STRING, "a"), number("1")])) == ["a1"] * 4


@pytest.mark.parametrize("height", [0, 1, 4])
def test_functions_of_constants_have_the_height_of_the_others(height: int) -> None:
    day, no_day = Literal(DATE, dt.date(2020, 1, 2)), Cast(DATE, Literal(STRING, "a%b"), lenient=True)
    kept = case([(call("<=>", [day, no_day]), Literal(DATE, None))], day)  # NULLIF
    assert column(kept, FRAME.head(height)) == [day.value] * height
    pattern = call("concat", [call("replace", [Literal(STRING, "b"), Literal(STRING, "c"), S]), Literal(STRING, "%")])
    liked = call("like", [Literal(STRING, None), pattern])
    assert column(call("<=>", [liked, TRUE]), FRAME.head(height).with_columns(c2=pl.lit("d"))) == [False] * height


def test_what_polars_finds_to_be_constant_on_its_way_has_the_height_of_the_others() -> None:
    nothing = FRAME.with_columns(c2=pl.lit(None, dtype=pl.String))
    found = call("locate", [Literal(STRING, "b"), S])
    assert column(call("nullif", [number("0"), found]), nothing) == [0] * 4
    assert column(call("nullif", [number("0"), found])) == [None, None, None, 0]


def test_empty_batches_and_columns_of_nulls() -> None:
    assert column(QUOTIENT, FRAME.clear()) == []
    nothing = FRAME.with_columns(pl.lit(None, dtype=pl.Int32).alias("c0"))
    assert column(QUOTIENT, nothing) == [None] * 4
    unknown = Column(NULL, 0, "a")
    assert column(call("+", [unknown, B]), FRAME.with_columns(pl.lit(None).alias("c0"))) == [None] * 4


def test_errors_name_the_expression_and_the_row() -> None:
    with pytest.raises(errors.EvaluationError) as raised:
        evaluate(FRAME, [call("+", [QUOTIENT, number("1")])], ["v"])
    assert str(raised.value) == (
        "division by zero in (a / b)\ndetail: for a = 8, b = 0\nhint: use NULLIF(divisor, 0) to get NULL instead"
    )


def test_null_operands_do_not_fail() -> None:
    """Row 3 divides NULL by 0: NULL, as SQL evaluates it."""
    assert column(QUOTIENT, FRAME.filter(pl.col("c0").is_null())) == [None]


NOT_ZERO = call("<>", [B, number("0")])


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        (case([(NOT_ZERO, QUOTIENT)], number("-1")), [3, -1, -1, -1]),
        (case([(call("=", [B, number("0")]), number("-1"))], QUOTIENT), [3, -1, -1, None]),
        (call("if", [NOT_ZERO, QUOTIENT, number("0")]), [3, 0, 0, 0]),
        (call("and", [NOT_ZERO, call(">", [QUOTIENT, number("1")])]), [True, False, False, None]),
        (call("or", [call("=", [B, number("0")]), call(">", [QUOTIENT, number("1")])]), [True, True, True, None]),
        (call("coalesce", [call("nullif", [A, number("9")]), number("0")]), [7, 8, 0, 0]),
        (call("coalesce", [A, call("/", [number("1"), number("0")])]), None),
        (call("nvl2", [call("nullif", [B, number("0")]), QUOTIENT, number("5")]), [3, 5, 5, 5]),
        (call("/", [A, call("nullif", [B, number("0")])]), [3, None, None, None]),
        (in_list(A, [number("8"), QUOTIENT]), [False, True, None, None]),
        (call("and", [call(">", [QUOTIENT, number("1")]), NOT_ZERO]), [True, False, False, None]),
        (call("or", [call(">", [QUOTIENT, number("1")]), call("=", [B, number("0")])]), [True, True, True, None]),
        (call("and", [call(">", [QUOTIENT, number("1")]), call("isnull", [A])]), [False, False, None, False]),
        (in_list(A, [QUOTIENT, number("8"), number("9")]), [False, True, None, True]),
        (in_list(A, [QUOTIENT, number("7"), number("9")]), None),
    ],
)
def test_guards(expression: Expression, values: list[object] | None) -> None:
    """What a row does not evaluate cannot fail on it; `None` stands for a failure."""
    if values is None:
        with pytest.raises(errors.EvaluationError, match="division by zero"):
            column(expression)
    else:
        assert column(expression) == values


def test_nested_guards() -> None:
    """The inner branch counts only where both conditions hold."""
    inner = case([(call(">", [A, number("7")]), QUOTIENT)], number("0"))
    assert column(case([(NOT_ZERO, inner)], number("-1"))) == [0, -1, -1, -1]
    with pytest.raises(errors.EvaluationError):
        column(case([(call("isnotnull", [A]), inner)], number("-1")))


def test_the_same_expression_with_and_without_a_guard() -> None:
    guarded = case([(NOT_ZERO, QUOTIENT)], number("-1"))
    with pytest.raises(errors.EvaluationError):
        evaluate(FRAME, [guarded, QUOTIENT], ["x", "y"])
    with pytest.raises(errors.EvaluationError):
        evaluate(FRAME, [QUOTIENT, guarded], ["x", "y"])


def test_shared_parts_are_computed_once() -> None:
    total = call("+", [A, B])
    program = compile_expressions((call("*", [total, total]), total, call("=", [total, A])))
    sums = [stage for stages in program.stages for stage in stages if "+" in str(stage)]
    assert len(sums) == 1


def test_deep_expressions_stay_small() -> None:
    """Functions that read an argument often do not multiply it."""
    expression: Expression = Column(DOUBLE, 0, "x")
    for _ in range(30):
        expression = call("pmod", [call("round", [expression, number("1")]), number("3D")])
    assert column(expression, pl.DataFrame({"c0": [-5.5]})) == [0.5]


def test_select_true_keeps_neither_false_nor_null() -> None:
    assert select_true(FRAME, call("=", [B, number("0")]))["c0"].to_list() == [8, None]
    assert select_true(FRAME, TRUE).height == 4
    assert select_true(FRAME, Literal(BOOLEAN, None)).height == 0
    guarded = call("and", [NOT_ZERO, call("=", [QUOTIENT, number("3")])])
    assert select_true(FRAME, guarded)["c0"].to_list() == [7]
    with pytest.raises(errors.EvaluationError):
        select_true(FRAME, call("=", [QUOTIENT, number("3")]))


def test_dates_too_far_away_are_no_panic() -> None:
    far = pl.DataFrame({"c0": [2**31 - 1]}, schema={"c0": pl.Int32}).select(pl.col("c0").cast(pl.Date))
    month = call("trunc", [Column(DATE, 0, "day"), Literal(STRING, "month")])
    with pytest.raises(errors.EvaluationError, match="too far away"):
        evaluate(far, [month], ["v"])
    with pytest.raises(errors.EvaluationError, match="too far away"):
        select_true(far, call("=", [month, month]))


# Whole numbers against Python's own.

_TYPES = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}


def _near_the_edges(bits: int) -> st.SearchStrategy[int | None]:
    limit = 2 ** (bits - 1)
    edges = st.sampled_from([-limit, -limit + 1, -1, 0, 1, 2, limit - 2, limit - 1])
    return st.none() | edges | st.integers(-limit, limit - 1) | st.integers(-12, 12)


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _truncated,
    "%": lambda a, b: a - _truncated(a, b) * b,
}


@st.composite
def operands(draw: st.DrawFn) -> tuple[DataType, list[tuple[int | None, int | None]]]:
    kind = draw(st.sampled_from(list(_TYPES)))
    value = _near_the_edges(_TYPES[kind])
    return kind, draw(st.lists(st.tuples(value, value), min_size=1, max_size=6))


@given(st.sampled_from(list(_OPERATIONS)), operands())
def test_integers_never_wrap_around(
    operator: str, sample: tuple[DataType, list[tuple[int | None, int | None]]]
) -> None:
    kind, pairs = sample
    limit = 2 ** (_TYPES[kind] - 1)
    expected: list[int | None] = []
    fails = False
    for a, b in pairs:
        if a is None or b is None:
            expected.append(None)
        elif b == 0 and operator in ("/", "%"):
            fails = True
        else:
            expected.append(_OPERATIONS[operator](a, b))
            fails = fails or not -limit <= _OPERATIONS[operator](a, b) < limit
    frame = pl.DataFrame(pairs, schema={"c0": to_polars(kind), "c1": to_polars(kind)}, orient="row")
    expression = call(operator, [Column(kind, 0, "a"), Column(kind, 1, "b")])
    if fails:
        with pytest.raises(errors.EvaluationError, match=r"overflow|by zero"):
            column(expression, frame)
    else:
        assert column(expression, frame) == expected


# Random conditions and branches against a lazy interpreter that evaluates row by row, as the standard reads.


class Failed(Exception):
    """The interpreter's failure."""


@dataclass(frozen=True)
class Lazy:
    """An expression, and what a row's values make of it."""

    expression: Expression
    run: Callable[[tuple[int | None, ...]], object]


def _integers() -> st.SearchStrategy[Lazy]:
    columns = st.sampled_from([(A, 0), (B, 1)]).map(lambda p: Lazy(p[0], lambda row, i=p[1]: row[i]))  # type: ignore[misc]
    constants = st.integers(-2, 2).map(lambda n: Lazy(number(str(n)), lambda row: n))
    return st.recursive(
        columns | constants,
        lambda inner: (
            st.tuples(inner, inner).map(lambda p: _divide(*p))
            | st.tuples(inner, inner).map(lambda p: _coalesce(*p))
            | st.tuples(_conditions(inner), inner, inner).map(lambda p: _case(*p))
        ),
        max_leaves=8,
    )


def _conditions(inner: st.SearchStrategy[Lazy]) -> st.SearchStrategy[Lazy]:
    comparison = st.tuples(inner, inner).map(lambda p: _equal(*p))
    pair = st.tuples(comparison, comparison)
    return comparison | pair.map(lambda p: _and(*p)) | pair.map(lambda p: _or(*p))


def _divide(left: Lazy, right: Lazy) -> Lazy:
    def run(row: tuple[int | None, ...]) -> object:
        a, b = left.run(row), right.run(row)
        if a is None or b is None:
            return None
        if b == 0:
            raise Failed
        return _truncated(int(str(a)), int(str(b)))

    return Lazy(call("/", [left.expression, right.expression]), run)


def _coalesce(left: Lazy, right: Lazy) -> Lazy:
    def run(row: tuple[int | None, ...]) -> object:
        value = left.run(row)
        return right.run(row) if value is None else value

    return Lazy(call("coalesce", [left.expression, right.expression]), run)


def _case(condition: Lazy, value: Lazy, otherwise: Lazy) -> Lazy:
    return Lazy(
        case([(condition.expression, value.expression)], otherwise.expression),
        lambda row: value.run(row) if condition.run(row) is True else otherwise.run(row),
    )


def _equal(left: Lazy, right: Lazy) -> Lazy:
    def run(row: tuple[int | None, ...]) -> object:
        a, b = left.run(row), right.run(row)
        return None if a is None or b is None else a == b

    return Lazy(call("=", [left.expression, right.expression]), run)


def _and(left: Lazy, right: Lazy) -> Lazy:
    def run(row: tuple[int | None, ...]) -> object:
        a = left.run(row)
        if a is False:
            return False
        b = right.run(row)
        return False if b is False else None if a is None or b is None else True

    return Lazy(call("and", [left.expression, right.expression]), run)


def _or(left: Lazy, right: Lazy) -> Lazy:
    def run(row: tuple[int | None, ...]) -> object:
        a = left.run(row)
        if a is True:
            return True
        b = right.run(row)
        return True if b is True else None if a is None or b is None else False

    return Lazy(call("or", [left.expression, right.expression]), run)


_CELL = st.none() | st.integers(-2, 2)


@given(_integers(), st.lists(st.tuples(_CELL, _CELL), max_size=5))
def test_failures_are_those_of_lazy_evaluation(lazy: Lazy, pairs: list[tuple[int | None, int | None]]) -> None:
    frame = pl.DataFrame(pairs, schema={"c0": pl.Int32, "c1": pl.Int32}, orient="row")
    try:
        expected = [lazy.run(pair) for pair in pairs]
    except Failed:
        with pytest.raises(errors.EvaluationError, match="division by zero"):
            column(lazy.expression, frame)
        return
    assert column(lazy.expression, frame) == expected


# User-defined functions.


def _twice(values: pl.Series) -> pl.Series:
    if (values == 0).any():
        raise ValueError("zeros are not for me")
    return values * 2


TWICE = UserFunction("twice", _twice, BIGINT)


def test_user_functions_get_columns() -> None:
    assert column(call("twice", [A], {"twice": TWICE})) == [14, 16, None, 18]
    add = UserFunction("add", pc.add, INT, columns="arrow")
    assert column(add([A, number("1")])) == [8, 9, None, 10]
    constant = UserFunction("five", lambda a: [5] * a.len(), DOUBLE)
    assert column(constant([A])) == [5.0] * 4
    assert column(TWICE([A]), FRAME.clear()) == []


def test_user_functions_see_only_the_rows_that_need_them() -> None:
    expression = case([(NOT_ZERO, TWICE([B]))], number("-1"))
    assert column(expression) == [4, -1, -1, -1]
    with pytest.raises(errors.EvaluationError) as raised:
        column(TWICE([B]))
    assert raised.value.primary == "function twice raised ValueError: zeros are not for me"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda a: a.head(1), "function f gave 1 values for 4 rows"),
        (lambda a: pa.array(["x"] * len(a)), "function f gave .*, which is not a column of BIGINT"),
        (lambda a: 5, "function f gave int, which is not a column of BIGINT"),
    ],
)
def test_user_functions_that_give_no_column(body: Callable[..., object], message: str) -> None:
    with pytest.raises(errors.EvaluationError, match=message):
        column(UserFunction("f", body, BIGINT)([A]))


def test_expressions_travel() -> None:
    """Tasks get expressions, not programs; equal ones find the same program."""
    expression = case([(NOT_ZERO, TWICE([QUOTIENT]))], number("-1"))
    copy = pickle.loads(pickle.dumps(expression))
    assert copy == expression
    assert column(copy) == column(expression)


def test_a_column_that_polars_knows_as_one_value_has_all_its_rows() -> None:
    frame = FRAME.with_columns(pl.lit(1, pl.Int32).alias("c0"))
    assert column(call("nullif", [number("1"), A]), frame) == [None] * 4
