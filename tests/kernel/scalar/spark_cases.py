"""Scalar expressions that must give what Spark gives, in a notation of calls that both sides are built from.

`+(i, 1)` is Spark's `(i + 1)` and our `call("+", [i, 1])`. Columns are those of ROWS; `cast(x, INT)` names a type.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path

import polars as pl

from millstream import types
from millstream.kernel.scalar.coercion import cast
from millstream.kernel.scalar.expressions import Cast, Column, Expression, Literal
from millstream.kernel.scalar.functions import call, case, in_list
from millstream.kernel.scalar.literals import number_literal
from millstream.types import DataType

NAN, INF = float("nan"), float("inf")

# Each column repeats its values as often as rows are needed; lengths are coprime to 24 where it matters, so that the
# columns meet in many combinations.
_VALUES: dict[str, tuple[DataType, list[object]]] = {
    "t": (types.TINYINT, [0, 1, -1, 127, -128, None, 5]),
    "h": (types.SMALLINT, [0, 3, -3, 32767, -32768, None, 100]),
    "i": (types.INT, [7, -7, 0, None, 2147483647, -2147483648, 25, -1, 13]),
    "j": (types.INT, [2, -3, 0, 1, None, -1, 10]),
    "k": (types.INT, [1, 2, 0, -2, 3, None, -1, 5, 100]),
    "l": (types.BIGINT, [10, -10, None, 9223372036854775807, -9223372036854775808, 0, 1588760430]),
    "m": (types.BIGINT, [3, -1, 0, 2, None]),
    "f": (types.FLOAT, [1.5, -2.5, 0.1, NAN, None, 0.0, 16777216.0]),
    "x": (types.DOUBLE, [2.5, -2.5, 0.0, -0.0, NAN, INF, -INF, None, 1e300, 1.005, 0.00012, -1234.5678, 12345678.9]),
    "y": (types.DOUBLE, [2.0, -0.5, NAN, None, 0.0, 3.0, 1e-5]),
    "d": (types.decimal(10, 2), [Decimal("1.25"), Decimal("-99999999.99"), Decimal("0.00"), None, Decimal("7.50")]),
    "e": (
        types.decimal(38, 10),
        [
            Decimal("12345678901234567890.0123456789"),
            Decimal("-0.0000000001"),
            None,
            Decimal("2.5000000000"),
            Decimal("0E-10"),
            Decimal("9999999999999999999999999999.9999999999"),
            Decimal("-1234.5678901234"),
        ],
    ),
    "g": (types.decimal(5, 4), [Decimal("0.3333"), Decimal("-9.9999"), Decimal("2.1000"), None, Decimal("0.0000")]),
    "s": (types.STRING, ["abc", "", None, "Héllo wörld", " pad ", "a%b_c", "foo-bar baz", "x\ny", "😀a", "aXbXc"]),
    "u": (types.STRING, ["b", "", "a", None, "X", "%b%", "o"]),
    "n": (
        types.STRING,
        ["12", " -7 ", "1.5", "1e3", "abc", None, "", "NaN", "+0", "99999999999", "-inf", ".5", "1d", "true", "5."],
    ),
    "q": (
        types.STRING,
        [
            "2020-02-29", "2020-2-3 10:20:30.5", "2021-02-29", None, "2020-01-02T03:04:05Z",
            "1969-12-31 23:59:59.999999", "2020", "2020-05-06 10:20:30+01:30", "x", "2020-05-06 10:20", "0001-01-01",
        ],
    ),
    "z": (types.BOOLEAN, [True, False, None]),
    "b": (types.BINARY, [b"abc", b"", None, b"\x01\x7f"]),
    "day": (types.DATE, [dt.date(2020, 2, 29), dt.date(1969, 12, 31), None, dt.date(2021, 1, 1), dt.date(1, 1, 1)]),
    "day2": (types.DATE, [dt.date(2020, 1, 1), dt.date(2024, 12, 30), dt.date(1900, 3, 1), None]),
    "ts": (
        types.TIMESTAMP,
        [
            dt.datetime(2020, 5, 6, 10, 20, 30, 123456, dt.UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 500000, dt.UTC),
            None,
            dt.datetime(2021, 1, 3, 0, 0, 0, 0, dt.UTC),
            dt.datetime(1600, 2, 29, 12, 0, 1, 999999, dt.UTC),
        ],
    ),
    "ts2": (
        types.TIMESTAMP,
        [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None, dt.datetime(1999, 9, 9, 9, 9, tzinfo=dt.UTC)],
    ),
    "span": (
        types.INTERVAL,
        [
            dt.timedelta(days=1), dt.timedelta(hours=-26, seconds=-3.5), None, dt.timedelta(0),
            dt.timedelta(microseconds=7),
        ],
    ),
}  # fmt: skip
HEIGHT = 45
COLUMNS = {name: Column(kind, index, name) for index, (name, (kind, _)) in enumerate(_VALUES.items())}


@cache
def rows() -> pl.DataFrame:
    """The rows as a batch: columns c0, c1, ..."""
    return pl.DataFrame(
        {
            f"c{index}": pl.Series([values[row % len(values)] for row in range(HEIGHT)], dtype=types.to_polars(kind))
            for index, (kind, values) in enumerate(_VALUES.values())
        }
    )


_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^'\\]|\\.)*')|(?P<number>-?\d[\w.]*(?:(?<=[eE])-\d+)?)|(?P<name>[A-Za-z_]\w*|[^\s\w(),']+)|(?P<mark>[(),]))"
)
_INFIX = {"+", "-", "*", "/", "%", "div", "=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "||", "&", "|", "^"}
_PREFIX = {"negative": "-", "positive": "+", "not": "NOT ", "~": "~"}
_TYPED = {
    "date": types.DATE,
    "timestamp": types.TIMESTAMP,
    "interval": types.INTERVAL,
    "timestamp_ntz": types.TIMESTAMP_NTZ,
}


def parse(text: str) -> tuple[str, Expression]:
    """An expression as Spark's SQL and as ours."""
    tokens = list(_tokens(text))
    sql, expression, rest = _parse(tokens, 0)
    assert rest == len(tokens), text
    return sql, expression


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, text[at:]
        yield match[0].strip()
        at = match.end()


def _parse(tokens: list[str], at: int) -> tuple[str, Expression, int]:
    token = tokens[at]
    if token[0] == "'":
        return token, Literal(types.STRING, _unquote(token)), at + 1
    if re.match(r"-?\d", token):
        return token, number_literal(token), at + 1
    if token == "NULL":
        return token, Literal(types.NULL, None), at + 1
    if token in ("TRUE", "FALSE"):
        return token, Literal(types.BOOLEAN, token == "TRUE"), at + 1
    if at + 1 < len(tokens) and tokens[at + 1][0] == "'":
        return _typed(token, tokens[at + 1], at + 2)
    if at + 1 == len(tokens) or tokens[at + 1] != "(":
        return f"`{token}`", COLUMNS[token], at + 1
    if token in ("cast", "try_cast"):
        return _cast(tokens, at)
    sqls: list[str] = []
    arguments: list[Expression] = []
    at += 2
    while tokens[at] != ")":
        sql, argument, at = _parse(tokens, at)
        sqls.append(sql)
        arguments.append(argument)
        at += tokens[at] == ","
    return (*_build(token, sqls, arguments), at + 1)


def _unquote(token: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), token[1:-1])


def _typed(word: str, quoted: str, at: int) -> tuple[str, Expression, int]:
    kind, text = _TYPED[word], _unquote(quoted)
    if kind != types.INTERVAL:
        return f"{word}{quoted}", cast(Literal(types.STRING, text), kind), at
    sign, days, hours, minutes, seconds = re.fullmatch(r"(-?)(\d+) (\d+):(\d+):([\d.]+)", text).groups()  # type: ignore[union-attr]
    span = dt.timedelta(days=int(days), hours=int(hours), minutes=int(minutes), seconds=float(seconds))
    return f"interval {quoted} day to second", Literal(kind, -span if sign else span), at


def _cast(tokens: list[str], at: int) -> tuple[str, Expression, int]:
    lenient = tokens[at] == "try_cast"
    sql, argument, end = _parse(tokens, at + 2)
    name, end = tokens[end + 1], end + 2
    kind = DataType(name)
    shown = "INTERVAL DAY TO SECOND" if kind == types.INTERVAL else name
    if name == "DECIMAL":
        kind = types.decimal(int(tokens[end + 1]), int(tokens[end + 3]))
        shown, end = str(kind), end + 5
    # Intervals here are from DAY TO SECOND in Spark too, which `cast` cannot know of a column.
    known = argument.type == types.INTERVAL
    expression = Cast(kind, argument, lenient) if known else cast(argument, kind, lenient=lenient)
    return f"{tokens[at]}({sql} AS {shown})", expression, end + 1


def _build(name: str, sqls: list[str], arguments: list[Expression]) -> tuple[str, Expression]:
    if name in _INFIX and len(sqls) == 2:
        return f"({sqls[0]} {name} {sqls[1]})", call(name, arguments)
    if name in _PREFIX:
        return f"({_PREFIX[name]}({sqls[0]}))", call(name, arguments)
    if name == "case":
        branches = list(zip(arguments[:-1:2], arguments[1::2], strict=True))
        whens = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(sqls[:-1:2], sqls[1::2], strict=True))
        return f"CASE {whens} ELSE {sqls[-1]} END", case(branches, arguments[-1])
    if name == "in":
        return f"({sqls[0]} IN ({', '.join(sqls[1:])}))", in_list(arguments[0], arguments[1:])
    if name == "extract":
        return f"extract({_unquote(sqls[0])} FROM {sqls[1]})", call(name, arguments)
    if name in ("like", "rlike"):
        escape = f" ESCAPE {sqls[2]}" if len(sqls) > 2 else ""
        return f"({sqls[0]} {name} {sqls[1]}{escape})", call(name, arguments)
    return f"{name}({', '.join(sqls)})", call(name, arguments)


def _cases() -> dict[str, list[str]]:
    """The expressions of spark_expressions.txt by group."""
    groups: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("spark_expressions.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            group = groups.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            group.append(line)
    return groups


CASES = _cases()

# Where Millstream answers otherwise than Spark, on purpose.
DEPARTURES = {
    # `/` on two integers is the integer quotient in their common type; Spark's is a DOUBLE.
    "/(i, j)": types.INT,
    "/(l, m)": types.BIGINT,
    "/(t, h)": types.SMALLINT,
    # There is one INTERVAL type, days to microseconds; Spark has INTERVAL DAY for these.
    "-(day, day2)": types.INTERVAL,
    "-(day, '2019-01-01')": types.INTERVAL,
}
# A text divided by an integer is read as a DOUBLE; Spark reads it as a BIGINT first, and so cannot divide '1.5' by 2.
