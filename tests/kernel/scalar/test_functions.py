"""How calls are bound, what is refused, and some values to learn from; test_against_spark has the rest."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import errors
from millstream.kernel.scalar.compiler import compile_expressions
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Call, Case, Cast, Column, Expression, Literal
from millstream.kernel.scalar.functions import call, case, function_names, in_list
from millstream.kernel.scalar.literals import number_literal as number
from millstream.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
    to_polars,
)

A, B = Column(INT, 0, "a"), Column(BIGINT, 1, "b")
TEXT, PRICE = Column(STRING, 2, "text"), Column(decimal(10, 2), 3, "price")


def text(value: str | None) -> Literal:
    return Literal(STRING, value)


def value_of(expression: Expression) -> object:
    return evaluate(pl.DataFrame(height=1), [expression], ["v"]).item()


def test_arguments_are_cast_to_what_the_function_takes() -> None:
    assert call("+", [A, B]) == Call(BIGINT, "+", (Cast(BIGINT, A), B))
    assert call("UPPER", [A]) == Call(STRING, "upper", (Cast(STRING, A),))
    assert call("=", [B, number("1")]) == Call(BOOLEAN, "=", (B, Literal(BIGINT, 1)))


def test_a_constant_beside_a_decimal_takes_only_its_digits() -> None:
    assert call("+", [PRICE, number("1")]).type == decimal(11, 2)
    assert call("+", [PRICE, A]).type == decimal(13, 2)


def test_integer_division_truncates() -> None:
    """The one departure from Spark, where / on integers gives a DOUBLE."""
    assert call("/", [A, B]).type == BIGINT
    assert value_of(call("/", [number("-7"), number("2")])) == -3
    assert call("div", [A, A]).type == BIGINT
    assert value_of(call("/", [number("-7"), number("2.0")])) == Decimal("-3.50000")


def test_ways_to_write_case_and_coalesce() -> None:
    assert isinstance(call("if", [Literal(BOOLEAN, True), A, B]), Case)
    assert call("nvl", [A, B]) == call("ifnull", [A, B]) == call("coalesce", [A, B])
    assert call("nullif", [A, B]).type == INT
    assert case([(Literal(NULL, None), A)], PRICE).type == decimal(12, 2)
    assert in_list(A, [number("1"), number("2.5")]).argument == Cast(decimal(11, 1), A)
    with pytest.raises(errors.TypeError, match="WHEN takes a condition, not a INT"):
        case([(A, A)])
    with pytest.raises(errors.TypeError, match="no common type"):
        case([(Literal(BOOLEAN, True), A)], Column(DATE, 4, "day"))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("substring", [TEXT], r"substring takes \(string, integer, \[integer\]\), not \(STRING\)"),
        ("+", [A, Literal(BOOLEAN, True)], r"\+ takes .*, not \(INT, BOOLEAN\)"),
        ("*", [Literal(INTERVAL, dt.timedelta(1))] * 2, r"\* takes .* \(interval, number\)"),
        ("year", [A], r"year takes \(date\), not \(INT\)"),
        ("coalesce", [], "coalesce takes"),
        ("round", [PRICE, A], "the number of digits must be a constant, not a"),
        ("date_trunc", [TEXT, TEXT], "the unit must be a constant"),
        ("rlike", [TEXT, TEXT], "the regular expression must be a constant"),
        ("rlike", [TEXT, text("a(?=b)")], "looking ahead or behind"),
        ("rlike", [TEXT, text("(")], "is not a regular expression"),
        ("regexp_extract", [TEXT, text("(a)"), number("2")], "group 2 of a pattern with 1 groups"),
        ("like", [TEXT, text(r"a\b")], "LIKE pattern"),
    ],
)
def test_wrong_arguments(name: str, arguments: list[Expression], message: str) -> None:
    with pytest.raises(errors.TypeError, match=message):
        call(name, arguments)


def test_unknown_functions() -> None:
    with pytest.raises(errors.NameError, match='unknown function "substrin"'):
        call("substrin", [TEXT])
    with pytest.raises(errors.NameError, match='unknown function "count"'):
        call("count", [A])


@pytest.mark.parametrize("name", ["rand", "RANDN", "uuid", "now", "current_timestamp", "monotonically_increasing_id"])
def test_functions_of_chance_and_time_are_refused(name: str) -> None:
    with pytest.raises(errors.BindError, match=f"{name} is refused: the answer would"):
        call(name, [])


def test_function_names_are_sorted_and_lower_case() -> None:
    names = function_names()
    assert names == sorted(names)
    assert {"+", "substring", "substr", "nvl", "extract"} <= set(names)
    assert all(name == name.lower() for name in names)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (call("round", [number("2.675D"), number("2")]), 2.68),
        (call("round", [number("-25"), number("-1")]), -30),
        (call("%", [number("-7"), number("3")]), -1),
        (call("pmod", [number("-7"), number("3")]), 2),
        (call("substring", [text("Héllo"), number("-3"), number("2")]), "ll"),
        (call("trim", [text("ac"), text("cabca")]), "b"),
        (call("instr", [text("wörld"), text("l")]), 4),
        (call("split_part", [text("a.b.c"), text("."), number("-1")]), "c"),
        (call("lpad", [text("7"), number("3"), text("0")]), "007"),
        (call("concat_ws", [text("-"), text("a"), text(None), number("1")]), "a-1"),
        (call("like", [text("50%"), text("__!%"), text("!")]), True),
        (call("regexp_replace", [text("ab12"), text(r"([a-z]+)(\d+)"), text("$2-$1")]), "12-ab"),
        (call("greatest", [number("1D"), Literal(DOUBLE, float("inf")), Literal(NULL, None)]), float("inf")),
        (call("<=>", [Literal(NULL, None), Literal(NULL, None)]), True),
        (in_list(number("1"), [number("2"), Literal(NULL, None)]), None),
        (call("extract", [text("week"), Literal(DATE, dt.date(2021, 1, 1))]), 53),
        (call("datediff", [text("2020-03-01"), text("2020-02-01")]), 29),
        (call("shiftleft", [number("1"), number("33")]), 2),
    ],
)
def test_values(expression: Expression, value: object) -> None:
    assert value_of(expression) == value


def test_time_arithmetic() -> None:
    day = Literal(DATE, dt.date(2020, 2, 28))
    stamp = Literal(TIMESTAMP, dt.datetime(2020, 2, 28, 23, tzinfo=dt.UTC))
    hours = Literal(INTERVAL, dt.timedelta(hours=2))
    assert value_of(call("+", [day, number("2")])) == dt.date(2020, 3, 1)
    assert value_of(call("+", [stamp, hours])) == dt.datetime(2020, 2, 29, 1, tzinfo=dt.UTC)
    assert value_of(call("-", [stamp, day])) == dt.timedelta(hours=23)
    assert value_of(call("*", [hours, number("1.5")])) == dt.timedelta(hours=3)
    # A constant of whole days keeps a date a date; any other interval makes it a timestamp.
    assert value_of(call("+", [day, Literal(INTERVAL, dt.timedelta(days=1))])) == dt.date(2020, 2, 29)
    assert call("+", [day, hours]).type == TIMESTAMP


def decimals() -> st.SearchStrategy[tuple[DataType, int]]:
    """A decimal type and the digits of a value of it, large ones often."""

    def of_type(kind: DataType) -> st.SearchStrategy[tuple[DataType, int]]:
        limit = 10**kind.precision - 1
        digits = st.integers(-limit, limit) | st.integers(-100, 100).filter(lambda n: abs(n) <= limit)
        return st.tuples(st.just(kind), digits)

    precision = st.integers(1, 38) | st.just(38)
    return precision.flatmap(lambda p: st.builds(decimal, st.just(p), st.integers(0, p))).flatmap(of_type)


@given(st.sampled_from(["+", "-", "*", "/", "%", "div"]), decimals(), decimals())
def test_decimal_arithmetic_is_exact(operator: str, left: tuple[DataType, int], right: tuple[DataType, int]) -> None:
    """Against fractions: rounded half up to the result's scale, and a failure where that does not fit."""
    (one, m), (other, n) = left, right
    frame = pl.DataFrame(
        {
            f"c{i}": pl.Series([d], dtype=pl.Int128).reinterpret(dtype=to_polars(k))
            for i, (k, d) in enumerate([left, right])
        }
    )
    expression = call(operator, [Column(one, 0, "x"), Column(other, 1, "y")])
    x, y = Fraction(m, 10**one.scale), Fraction(n, 10**other.scale)
    if y == 0 and operator in ("/", "%", "div"):
        with pytest.raises(errors.EvaluationError, match="by zero"):
            evaluate(frame, [expression], ["v"])
        return
    whole = _truncated(x / y) if y else 0
    exact = {"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else x, "%": x - whole * y, "div": Fraction(whole)}
    expected = _half_up(exact[operator] * 10**expression.type.scale)
    limit = 2**63 if operator == "div" else 10**expression.type.precision
    if abs(expected) >= limit:
        with pytest.raises(errors.EvaluationError, match="overflow"):
            evaluate(frame, [expression], ["v"])
    else:
        assert evaluate(frame, [expression], ["v"]).to_series().to_physical().item() == expected


def _truncated(value: Fraction) -> int:
    return abs(value).__floor__() * (1 if value >= 0 else -1)


def _half_up(value: Fraction) -> int:
    return (abs(value) + Fraction(1, 2)).__floor__() * (1 if value >= 0 else -1)


def test_expressions_that_cannot_fail_cost_a_single_select() -> None:
    condition = call("and", [call(">", [A, number("5")]), call("like", [TEXT, text("a%")])])
    program = compile_expressions((condition,))
    assert not program.stages
    assert not program.checks
