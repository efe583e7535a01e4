"""Scalar expressions that must give what Spark gives, in a notation of calls that both sides are built from.

`+(i, 1)` is Spark's `(i + 1)` and our `call("+", [i, 1])`. Columns are those of ROWS; `cast(x, INT)` names a type.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal

import polars as pl

from millstream import types
from millstream.kernel.coercion import cast
from millstream.kernel.expressions import Column, Expression, Literal
from millstream.kernel.functions import call, case, in_list
from millstream.kernel.literals import number_literal
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
            "2020-02-29", "2020-2-3 10:20:30.5", "2021-02-29", None, "2020-01-02T03:04:05Z", "1969-12-31 23:59:59.999999",
            "2020", "2020-05-06 10:20:30+01:30", "x", "2020-05-06 10:20", "0001-01-01",
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
    "ts2": (types.TIMESTAMP, [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None, dt.datetime(1999, 9, 9, 9, 9, tzinfo=dt.UTC)]),
    "span": (
        types.INTERVAL,
        [dt.timedelta(days=1), dt.timedelta(hours=-26, seconds=-3.5), None, dt.timedelta(0), dt.timedelta(microseconds=7)],
    ),
}  # fmt: skip
HEIGHT = 60
COLUMNS = {name: Column(kind, index, name) for index, (name, (kind, _)) in enumerate(_VALUES.items())}


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
_TYPED = {"date": types.DATE, "timestamp": types.TIMESTAMP, "interval": types.INTERVAL, "timestamp_ntz": types.TIMESTAMP_NTZ}


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
    expression = cast(argument, kind, lenient=lenient)
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


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


ARITHMETIC = _lines("""
    +(t, t)
    +(t, h)
    +(h, i)
    +(i, j)
    +(i, 1)
    +(i, l)
    +(l, m)
    +(l, 1)
    +(f, f)
    +(f, i)
    +(x, y)
    +(x, i)
    +(d, d)
    +(d, e)
    +(e, e)
    +(e, g)
    +(d, 1)
    +(d, i)
    +(d, l)
    +(d, x)
    +(n, i)
    +(n, x)
    +(NULL, i)
    +(NULL, NULL)
    +(1.5, 2)
    +(9.9, 0.1)
    -(t, t)
    -(h, i)
    -(i, j)
    -(j, i)
    -(l, m)
    -(m, l)
    -(x, y)
    -(d, g)
    -(e, d)
    -(e, e)
    -(d, NULL)
    *(t, t)
    *(h, h)
    *(i, j)
    *(l, m)
    *(i, l)
    *(f, f)
    *(x, y)
    *(d, d)
    *(d, g)
    *(e, d)
    *(e, g)
    *(e, e)
    *(e, 2)
    *(d, 100)
    *(d, l)
    *(1.5, 1.5)
    *(99.9, i)
    /(x, y)
    /(f, f)
    /(i, y)
    /(x, j)
    /(d, d)
    /(d, g)
    /(d, 7)
    /(d, i)
    /(d, j)
    /(l, d)
    /(e, e)
    /(e, g)
    /(g, e)
    /(e, 3)
    /(1.0, 3)
    /(n, 2)
    /(d, x)
    /(1, d)
    %(i, j)
    %(l, m)
    %(t, t)
    %(x, y)
    %(x, 3)
    %(f, f)
    %(d, g)
    %(d, 7)
    %(e, d)
    %(e, g)
    %(g, e)
    %(1588760430123, 7)
    mod(i, 5)
    pmod(i, j)
    pmod(l, m)
    pmod(x, y)
    pmod(d, 7)
    pmod(d, g)
    pmod(e, 2.5)
    div(i, j)
    div(l, m)
    div(d, g)
    div(d, 2)
    div(g, d)
    div(span, span)
    negative(i)
    negative(t)
    negative(l)
    negative(x)
    negative(d)
    negative(span)
    positive(d)
    positive(n)
    abs(t)
    abs(i)
    abs(l)
    abs(x)
    abs(e)
    abs(span)
    sign(i)
    sign(x)
    signum(d)
    sign(span)
    &(i, j)
    |(i, l)
    ^(t, h)
    &(NULL, 3)
    ~(i)
    ~(l)
    ~(t)
    shiftleft(i, k)
    shiftleft(l, k)
    shiftleft(t, 4)
    shiftright(i, k)
    shiftright(l, k)
    shiftrightunsigned(i, k)
    shiftrightunsigned(l, k)
    bit_count(i)
    bit_count(l)
    bit_count(t)
    bit_count(z)
""")

LOGIC = _lines("""
    =(i, j)
    =(i, l)
    =(x, y)
    =(x, x)
    =(x, 0.0)
    =(f, x)
    =(d, e)
    =(d, 1.25)
    =(s, u)
    =(i, n)
    =(d, n)
    =(x, n)
    =(z, TRUE)
    =(z, 'true')
    =(day, '2020-02-29')
    =(day, ts)
    =(ts, '2020-05-06 10:20:30.123456')
    =(ts, cast(ts, TIMESTAMP_NTZ))
    =(b, 'abc')
    =(span, interval '1 00:00:00')
    =(NULL, NULL)
    =(i, NULL)
    <>(i, j)
    <>(x, x)
    <>(s, 'abc')
    <(i, j)
    <(x, y)
    <(s, u)
    <(b, b)
    <(z, TRUE)
    <(day, day2)
    <(ts, ts2)
    <(ts, day)
    <(span, interval '0 00:00:01')
    <=(x, y)
    <=(d, g)
    <=(e, 2.5)
    >(x, y)
    >(x, 1000000)
    >(s, '')
    >(l, 2147483647)
    >=(x, y)
    >=(f, 0.1)
    >=(i, 25.0)
    <=>(i, j)
    <=>(x, y)
    <=>(s, u)
    <=>(i, NULL)
    <=>(NULL, NULL)
    and(z, >(i, 0))
    and(>(i, 0), NULL)
    and(NULL, z)
    and('true', z)
    or(z, >(i, 0))
    or(NULL, z)
    or(=(s, 'abc'), =(u, 'a'))
    not(z)
    not(>(x, 0))
    isnull(i)
    isnull(NULL)
    isnotnull(x)
    isnan(x)
    isnan(i)
    nanvl(x, y)
    nanvl(f, 5)
    nanvl(f, f)
    coalesce(i, j, 5)
    coalesce(i, l)
    coalesce(d, 1)
    coalesce(d, x)
    coalesce(d, e)
    coalesce(NULL, s)
    coalesce(s, u, 'none')
    coalesce(day, ts)
    coalesce(NULL, NULL)
    coalesce(f, i)
    coalesce(t, h)
    coalesce(z, 'true')
    nvl(i, 0)
    nvl(i, '5')
    ifnull(NULL, d)
    nvl2(i, x, y)
    nvl2(s, 1, 2.5)
    nullif(i, 7)
    nullif(i, l)
    nullif(s, 'abc')
    nullif(x, 0)
    nullif(d, 1.25)
    if(z, i, j)
    if(>(i, 0), 'pos', 'neg')
    if(NULL, 1, 2)
    if(z, 1, 2.5)
    if(z, d, i)
    case(>(i, 0), 'a', =(i, 0), 'b', 'c')
    case(z, i, l)
    case(isnull(i), x, 1)
    case(<>(j, 0), %(i, j), -1)
    case(z, NULL, 5)
    case(NULL, 1, NULL)
    greatest(i, j)
    greatest(i, l, 5)
    greatest(x, y)
    greatest(x, y, 1)
    greatest(f, f)
    greatest(d, g)
    greatest(s, u)
    greatest(day, day2)
    greatest(z, FALSE)
    greatest(ts, day)
    least(i, j)
    least(x, y)
    least(x, 0)
    least(d, 1)
    least(s, u, 'm')
    least(NULL, NULL)
    in(i, 7, 25)
    in(i, 7, NULL)
    in(i, j, 25)
    in(i, 7.0, 2.5)
    in(x, 2.5, 0)
    in(x, y, 0)
    in(s, 'abc', '')
    in(s, u, 'abc')
    in(d, 1.25, 7)
    in(day, date'2020-02-29')
    in(ts, '2020-05-06 10:20:30.123456', ts2)
    in(NULL, 1)
    in(l, 10, 9223372036854775807)
""")

MATH = _lines("""
    round(x)
    round(x, 2)
    round(x, -2)
    round(x, 0)
    round(x, 20)
    round(f, 1)
    round(f)
    round(i, -1)
    round(i, 2)
    round(t, -1)
    round(l, -3)
    round(d)
    round(d, 1)
    round(d, -1)
    round(d, 5)
    round(e, 3)
    round(e)
    round(g, 2)
    round(2.5)
    round(-2.5)
    round(n, 1)
    round(x, NULL)
    ceil(x)
    ceil(d)
    ceil(e)
    ceil(i)
    ceil(f)
    ceiling(g)
    floor(x)
    floor(d)
    floor(e)
    floor(l)
    floor(g)
    sqrt(x)
    sqrt(i)
    sqrt(d)
    cbrt(y)
    power(y, 2)
    pow(y, x)
    pow(x, 0)
    exp(y)
    ln(x)
    ln(i)
    log(x)
    log(2, i)
    log(y, x)
    log2(i)
    log10(i)
    log10(x)
    log10(1000)
    sin(y)
    cos(y)
    tan(y)
    atan2(y, x)
    degrees(y)
    radians(y)
    hypot(y, 2)
    pi()
    e()
""")

TEXT = _lines(r"""
    length(s)
    length(b)
    length(i)
    char_length(s)
    upper(s)
    ucase(u)
    lower(s)
    lcase(s)
    trim(s)
    ltrim(s)
    rtrim(s)
    trim('ac', s)
    ltrim(u, s)
    substring(s, 2)
    substring(s, k)
    substring(s, k, 2)
    substring(s, -2, 2)
    substring(s, 0, 2)
    substring(s, -20, 19)
    substr(s, 2, k)
    substring(i, 2, 2)
    substring(s, NULL, 2)
    left(s, 2)
    left(s, k)
    right(s, 2)
    right(s, k)
    concat(s, u)
    concat(s, i, z)
    concat(s, '-', d)
    concat(x, '|', f)
    concat(ts, ' ', day)
    concat(span, '')
    concat(b, b)
    concat()
    ||(s, u)
    ||(s, x)
    concat_ws(',', s, u)
    concat_ws(',', s, NULL, i)
    concat_ws(u, s, 'z')
    concat_ws(NULL, s)
    concat_ws('-')
    replace(s, 'a', 'XX')
    replace(s, 'X')
    replace(s, u, '_')
    replace(s, '', 'x')
    replace(s, u, NULL)
    contains(s, u)
    contains(s, '')
    startswith(s, 'a')
    startswith(s, u)
    endswith(s, u)
    endswith(i, '7')
    instr(s, u)
    instr(s, 'w')
    instr(s, '')
    instr(s, 'ö')
    locate(u, s)
    locate('b', s, 2)
    locate(u, s, k)
    locate('', s, 3)
    position('a', s)
    reverse(s)
    repeat(s, 2)
    repeat(s, k)
    repeat(u, 0)
    lpad(s, 5, 'xy')
    lpad(s, 2, 'xy')
    lpad(s, k, u)
    lpad(s, 6)
    rpad(s, 5, 'xy')
    rpad(s, k, u)
    rpad(s, 6)
    lpad(i, 12, 0)
    split_part(s, ' ', 1)
    split_part(s, ' ', -1)
    split_part(s, 'X', 3)
    split_part(s, '', 1)
    split_part(s, u, k)
    initcap(s)
    ascii(s)
    ascii(u)
    like(s, 'a%')
    like(s, '%c')
    like(s, '%b%')
    like(s, 'abc')
    like(s, '_b_')
    like(s, '%o%b%')
    like(s, 'x_y')
    like(s, 'a\\%b\\_c')
    like(s, 'a!%%', '!')
    like(s, '%')
    like(s, '')
    like(s, u)
    like(s, NULL)
    like(i, '%7')
    rlike(s, '^a.c$')
    rlike(s, '[a-z]+-[a-z]+')
    rlike(s, 'x.y')
    rlike(s, '(?i)HÉLLO|foo')
    rlike(s, '\\w\\s\\w')
    rlike(s, '\\d')
    rlike(s, '\\p{Upper}')
    rlike(s, NULL)
    regexp_extract(s, '([a-z]+)-([a-z]+)', 2)
    regexp_extract(s, '([a-z]+)')
    regexp_extract(s, 'o+', 0)
    regexp_extract(s, '(z)?o', 1)
    regexp_replace(s, '[aeo]', '<$0>')
    regexp_replace(s, '(\\w)(\\w)', '$2$1')
    regexp_replace(s, 'X', '\\$')
    regexp_replace(s, 'b', '')
""")

TIME = _lines("""
    year(day)
    year(ts)
    year(q)
    month(day)
    day(ts)
    dayofmonth(day)
    hour(ts)
    hour(day)
    minute(ts)
    second(ts)
    second(q)
    dayofweek(day)
    dayofweek(day2)
    weekday(day)
    dayofyear(ts)
    weekofyear(day)
    weekofyear(day2)
    quarter(day)
    last_day(day)
    extract('YEAR', ts)
    extract('SECOND', ts)
    extract('DOW', day)
    extract('DOW_ISO', day)
    extract('DOY', day)
    extract('WEEK', day)
    extract('YEAROFWEEK', day)
    extract('HOUR', ts)
    extract('DAY', span)
    extract('HOUR', span)
    extract('MINUTE', span)
    extract('SECOND', span)
    date_part('month', ts)
    date_trunc('YEAR', ts)
    date_trunc('quarter', ts)
    date_trunc('MON', ts)
    date_trunc('week', ts)
    date_trunc('day', ts)
    date_trunc('hour', ts)
    date_trunc('minute', ts)
    date_trunc('second', ts)
    date_trunc('millisecond', ts)
    date_trunc('microsecond', ts)
    date_trunc('week', day)
    date_trunc('nothing', ts)
    date_trunc(NULL, ts)
    trunc(day, 'year')
    trunc(day, 'quarter')
    trunc(day, 'MM')
    trunc(ts, 'week')
    trunc(day, 'day')
    datediff(day, day2)
    datediff(ts, day)
    date_add(day, j)
    date_add(day, t)
    date_add(ts, 1)
    date_sub(day, k)
    unix_timestamp(ts)
    unix_timestamp(day)
    unix_timestamp('2020-05-06 10:20:30')
    unix_seconds(ts)
    unix_millis(ts)
    unix_micros(ts)
    unix_date(day)
    timestamp_seconds(j)
    timestamp_seconds(y)
    timestamp_seconds(d)
    timestamp_millis(m)
    timestamp_micros(m)
    timestamp_micros(1588760430123456)
    to_date(q)
    to_date(ts)
    to_timestamp(q)
    to_timestamp(day)
    to_timestamp(j)
    make_date(2020, 2, k)
    make_date(i, 1, 1)
    make_date(2000, k, 1)
    +(day, j)
    +(day, 1)
    +(t, day)
    -(day, j)
    -(ts, ts2)
    -(ts, day)
    -(ts, '2019-01-01')
    +(ts, span)
    +(span, ts)
    -(ts, span)
    +(ts, interval '1 02:03:04.5')
    +(day, span)
    -(day, span)
    +(span, span)
    -(span, span)
    +(ts, NULL)
    +(span, NULL)
    *(span, j)
    *(span, 1.5)
    *(j, span)
    *(span, 0.5)
    *(span, 2.5D)
    *(span, NULL)
    /(span, 7)
    /(span, j)
    /(span, 1.5)
    /(span, 3D)
""")

CASTS = _lines("""
    cast(n, INT)
    cast(n, BIGINT)
    cast(n, TINYINT)
    cast(n, DOUBLE)
    cast(n, FLOAT)
    cast(n, DECIMAL(10, 2))
    cast(n, DECIMAL(38, 18))
    cast(n, BOOLEAN)
    try_cast(n, INT)
    try_cast(n, DOUBLE)
    try_cast(n, DECIMAL(3, 1))
    try_cast(n, BOOLEAN)
    try_cast(q, DATE)
    try_cast(q, TIMESTAMP)
    cast(q, DATE)
    cast(q, TIMESTAMP)
    cast(q, TIMESTAMP_NTZ)
    cast(s, BINARY)
    cast(b, STRING)
    cast(i, TINYINT)
    cast(i, BIGINT)
    cast(i, DOUBLE)
    cast(l, INT)
    cast(l, FLOAT)
    cast(l, DOUBLE)
    cast(i, DECIMAL(10, 2))
    cast(l, DECIMAL(20, 0))
    cast(l, DECIMAL(38, 18))
    cast(j, DECIMAL(2, 1))
    cast(x, INT)
    cast(x, BIGINT)
    cast(x, TINYINT)
    cast(f, INT)
    cast(x, FLOAT)
    cast(f, DOUBLE)
    cast(x, DECIMAL(10, 2))
    cast(x, DECIMAL(38, 5))
    cast(f, DECIMAL(20, 10))
    cast(d, INT)
    cast(d, BIGINT)
    cast(e, BIGINT)
    cast(d, DOUBLE)
    cast(e, DOUBLE)
    cast(e, FLOAT)
    cast(d, DECIMAL(10, 1))
    cast(d, DECIMAL(12, 4))
    cast(e, DECIMAL(38, 2))
    cast(e, DECIMAL(20, 10))
    cast(g, DECIMAL(3, 2))
    try_cast(e, DECIMAL(20, 10))
    try_cast(x, INT)
    try_cast(i, TINYINT)
    cast(x, STRING)
    cast(y, STRING)
    cast(f, STRING)
    cast(d, STRING)
    cast(e, STRING)
    cast(i, STRING)
    cast(z, STRING)
    cast(day, STRING)
    cast(ts, STRING)
    cast(cast(ts, TIMESTAMP_NTZ), STRING)
    cast(span, STRING)
    cast(i, BOOLEAN)
    cast(x, BOOLEAN)
    cast(d, BOOLEAN)
    cast(z, INT)
    cast(z, DOUBLE)
    cast(z, DECIMAL(5, 2))
    cast(day, TIMESTAMP)
    cast(day, TIMESTAMP_NTZ)
    cast(ts, DATE)
    cast(ts, BIGINT)
    cast(ts, INT)
    cast(ts, DOUBLE)
    cast(ts, DECIMAL(20, 6))
    cast(ts, TIMESTAMP_NTZ)
    cast(cast(ts, TIMESTAMP_NTZ), TIMESTAMP)
    cast(j, TIMESTAMP)
    cast(y, TIMESTAMP)
    cast(d, TIMESTAMP)
    cast(j, INTERVAL)
    cast(span, BIGINT)
    cast(span, INT)
    cast(NULL, INT)
    cast(NULL, DECIMAL(5, 2))
    cast(NULL, TIMESTAMP)
    int(x)
    double(n)
    string(d)
    date(q)
    bigint(e)
""")

CASES = ARITHMETIC + LOGIC + MATH + TEXT + TIME + CASTS

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
