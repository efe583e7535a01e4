"""The table of scalar constructs: every operator, form and function, as CQL and as DuckDB's SQL.

Nothing here fails on the values that columns hold: no division by what may be zero, no casts that may not fit. What is
rounded differently is rounded to six digits and is a REAL. A construct that another type of argument changes is there
for each. `test_completeness.py` fails when the binder takes something that no construct writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.text_oracle.kinds import Kind, Text

I, S, B, D, M, DATE, TIME, V, X, R, L = (  # noqa: E741
    Kind.INTEGER,
    Kind.STRING,
    Kind.BOOLEAN,
    Kind.DOUBLE,
    Kind.DECIMAL,
    Kind.DATE,
    Kind.TIME,
    Kind.INTERVAL,
    Kind.BINARY,
    Kind.REAL,
    Kind.LIST,
)


@dataclass(frozen=True)
class Construct:
    result: Kind
    arguments: tuple[Kind, ...]
    text: Text

    def __str__(self) -> str:
        return self.text.cql


def _c(result: Kind, arguments: tuple[Kind, ...], cql: str, duck: str | None = None) -> Construct:
    return Construct(result, arguments, Text(cql, cql if duck is None else duck))


def _each(
    kinds: tuple[Kind, ...], result: Kind | None, count: int, cql: str, duck: str | None = None
) -> list[Construct]:
    """The construct for each kind of its arguments; without a result it gives what it takes."""
    return [_c(result or kind, (kind,) * count, cql, duck) for kind in kinds]


_ALL = (I, S, B, D, M, DATE, TIME, V, X)
_ORDERED = (I, S, B, D, M, DATE, TIME, X, R)

_LOGIC = [
    _c(B, (B, B), "({0} AND {1})"),
    _c(B, (B, B), "({0} OR {1})"),
    _c(B, (B,), "(NOT {0})"),
    _c(B, (B,), "(! {0})", "(NOT {0})"),
    *(
        construct
        for operator in ("=", "<>", "<", "<=", ">", ">=")
        for construct in _each(_ORDERED, B, 2, f"({{0}} {operator} {{1}})")
    ),
    *_each((I, S), B, 2, "({0} == {1})", "({0} = {1})"),
    *_each((I, S), B, 2, "({0} != {1})", "({0} <> {1})"),
    _c(B, (V, V), "({0} < {1})"),
    _c(B, (V, V), "({0} = {1})"),
    *_each(_ALL, B, 2, "({0} <=> {1})", "({0} IS NOT DISTINCT FROM {1})"),
    *_each((I, S), B, 2, "(NOT {0} <=> {1})", "({0} IS DISTINCT FROM {1})"),
    _c(B, (I, I), "equal_null({0}, {1})", "({0} IS NOT DISTINCT FROM {1})"),
    *_each((I, S, D), B, 2, "({0} IS DISTINCT FROM {1})"),
    *_each((I, S, D), B, 2, "({0} IS NOT DISTINCT FROM {1})"),
    *_each(_ALL, B, 1, "({0} IS NULL)"),
    *_each(_ALL, B, 1, "({0} IS NOT NULL)"),
    _c(B, (S,), "isnull({0})", "({0} IS NULL)"),
    _c(B, (S,), "isnotnull({0})", "({0} IS NOT NULL)"),
    *(_c(B, (B,), f"({{0}} IS {negated}{value})") for negated in ("", "NOT ") for value in ("TRUE", "FALSE")),
    *_each((I, S, D, M, DATE, TIME), B, 3, "({0} BETWEEN {1} AND {2})"),
    *_each((I, S, D), B, 3, "({0} NOT BETWEEN {1} AND {2})"),
    *_each((I, S, D, M, DATE), B, 3, "({0} IN ({1}, {2}))"),
    *_each((I, S, D, M, DATE), B, 3, "({0} NOT IN ({1}, {2}))"),
    _c(B, (I,), "({0} IN (1, NULL))"),
    _c(B, (I,), "({0} NOT IN (1, NULL))"),
    _c(B, (S,), "({0} IN ('a', 'it''s'))"),
    _c(B, (I, D), "({0} < {1})"),
    _c(B, (I, M), "({0} >= {1})"),
    _c(B, (D, M), "({0} = {1})", "({0} = CAST({1} AS DOUBLE))"),
    _c(B, (DATE, TIME), "({0} <= {1})"),
]

_EQUAL = "({0} IS NOT DISTINCT FROM {2} AND {1} IS NOT DISTINCT FROM {3})"
# NULL comes first, and equals itself.
_LESS_FIRST, _LESS_SECOND = (
    f"({{{a}}} IS DISTINCT FROM {{{b}}} AND ({{{a}}} IS NULL OR COALESCE({{{a}}} < {{{b}}}, FALSE)))"
    for a, b in ((0, 2), (1, 3))
)
_LESS = f"({_LESS_FIRST} OR ({{0}} IS NOT DISTINCT FROM {{2}} AND {_LESS_SECOND}))"
_SWAPPED = _LESS.replace("{0}", "{x}").replace("{1}", "{y}").replace("{2}", "{0}").replace("{3}", "{1}")
_GREATER = _SWAPPED.replace("{x}", "{2}").replace("{y}", "{3}")
_WITHIN, _WITHIN_TURNED = "{0} BETWEEN {1} AND {2}", "{0} BETWEEN {2} AND {1}"
_ROWS = [
    *(
        _c(B, (I, S, I, S), f"(({{0}}, {{1}}) {operator} ({{2}}, {{3}}))", duck)
        for operator, duck in (
            *(("=", _EQUAL), ("<>", f"(NOT {_EQUAL})"), ("<=>", _EQUAL), ("<", _LESS), (">", _GREATER)),
            *((">=", f"(NOT {_LESS})"), ("<=", f"(NOT {_GREATER})")),
        )
    ),
    _c(B, (I, S, I, S), "(({0}, {1}) IN (({2}, {3}), (1, 'a')))", f"({_EQUAL} OR ({{0}}, {{1}}) = (1, 'a'))"),
    *_each((I, S, D), B, 3, "({0} BETWEEN SYMMETRIC {1} AND {2})", f"({_WITHIN} OR {_WITHIN_TURNED})"),
    *_each((I, S), B, 3, "({0} > ANY ({1}, {2}))", "({0} > {1} OR {0} > {2})"),
    *_each((I, S), B, 3, "({0} <= ALL ({1}, {2}))", "({0} <= {1} AND {0} <= {2})"),
    _c(B, (I, I, I), "({0} = SOME ({1}, {2}))", "({0} = {1} OR {0} = {2})"),
    _c(B, (S,), "({0} LIKE ANY ('a%', '%b'))", "({0} LIKE 'a%' OR {0} LIKE '%b')"),
    _c(B, (S,), "({0} NOT LIKE ALL ('a%', '%b'))", "({0} NOT LIKE 'a%' AND {0} NOT LIKE '%b')"),
]

_CHOICES = [
    *_each(_ALL, None, 2, "COALESCE({0}, {1})"),
    *_each((I, S), None, 3, "COALESCE({0}, {1}, {2})"),
    *_each((I, S), None, 1, "COALESCE({0})"),
    *_each((I, S), None, 2, "nvl({0}, {1})", "COALESCE({0}, {1})"),
    *_each((I, S), None, 2, "ifnull({0}, {1})", "COALESCE({0}, {1})"),
    _c(I, (S, I, I), "nvl2({0}, {1}, {2})", "CASE WHEN {0} IS NOT NULL THEN {1} ELSE {2} END"),
    *_each((I, S, D, DATE), None, 2, "NULLIF({0}, {1})"),
    *(_c(kind, (B, kind, kind), "if({0}, {1}, {2})", "CASE WHEN {0} THEN {1} ELSE {2} END") for kind in (I, S)),
    _c(I, (B, I, I), "iff({0}, {1}, {2})", "CASE WHEN {0} THEN {1} ELSE {2} END"),
    *(_c(kind, (B, kind, kind), "CASE WHEN {0} THEN {1} ELSE {2} END") for kind in _ALL),
    *(_c(kind, (B, kind), "CASE WHEN {0} THEN {1} END") for kind in (I, S, D, B)),
    *(_c(kind, (B, kind, B, kind, kind), "CASE WHEN {0} THEN {1} WHEN {2} THEN {3} ELSE {4} END") for kind in (I, S)),
    _c(S, (I, S, S), "CASE {0} WHEN 1 THEN {1} WHEN 2 THEN {2} END"),
    _c(I, (S, I, I), "CASE {0} WHEN 'a' THEN {1} ELSE {2} END"),
    *_each((I, S, D, M, DATE, TIME), None, 2, "GREATEST({0}, {1})"),
    *_each((I, S, D, M, DATE, TIME), None, 2, "LEAST({0}, {1})"),
    _c(I, (I, I, I), "GREATEST({0}, {1}, {2})"),
    _c(D, (D, D), "nanvl({0}, {1})", "CASE WHEN isnan({0}) THEN {1} ELSE {0} END"),
    _c(B, (D,), "isnan({0})", "COALESCE(isnan({0}), FALSE)"),
]

_NUMBERS = [
    *_each((I, M, D), None, 2, "({0} + {1})"),
    *_each((I, M, D), None, 2, "({0} - {1})"),
    *_each((I, D), None, 1, "({0} * 2)"),
    _c(M, (M,), "CAST({0} * 2 AS DECIMAL(10,1))"),
    _c(I, (I,), "({0} / 2)", "({0} // 2)"),
    _c(D, (D,), "({0} / 2)"),
    _c(R, (M,), "CAST({0} / 4 AS DOUBLE)", "(CAST({0} AS DOUBLE) / 4)"),
    _c(I, (I,), "({0} DIV 2)", "({0} // 2)"),
    _c(I, (I,), "div({0}, 2)", "({0} // 2)"),
    *_each((I, M), None, 1, "({0} % 3)"),
    _c(I, (I,), "mod({0}, 3)", "({0} % 3)"),
    _c(I, (I,), "pmod({0}, 3)", "((({0} % 3) + 3) % 3)"),
    *_each((I, D, M, V), None, 1, "(- {0})"),
    *_each((I, D), None, 1, "negative({0})", "(- {0})"),
    *_each((I, D), None, 1, "positive({0})", "({0})"),
    *_each((I, D), None, 1, "(+ {0})", "({0})"),
    *_each((I, D, M), None, 1, "abs({0})"),
    _c(D, (I,), "sign({0})", "CAST(sign({0}) AS DOUBLE)"),
    _c(D, (M,), "signum({0})", "CAST(sign({0}) AS DOUBLE)"),
    _c(I, (I, I), "({0} & {1})"),
    _c(I, (I, I), "({0} | {1})"),
    _c(I, (I, I), "({0} ^ {1})", "xor({0}, {1})"),
    _c(I, (I,), "(~ {0})"),
    _c(I, (I,), "({0} << 2)", "({0} * 4)"),
    _c(I, (I,), "({0} >> 1)"),
    _c(I, (I,), "shiftleft({0}, 2)", "({0} * 4)"),
    _c(I, (I,), "shiftright({0}, 1)", "({0} >> 1)"),
    _c(I, (I,), "shiftrightunsigned(abs({0}), 1)", "(abs({0}) >> 1)"),
    _c(I, (I,), "bit_count({0})", "CAST(bit_count(CAST({0} AS BIGINT)) AS BIGINT)"),
    _c(D, (D,), "round({0})"),
    _c(M, (M,), "round({0}, 0)"),
    _c(R, (D,), "round({0}, 1)"),
    _c(I, (I,), "round({0}, -1)", "CAST(round({0}, -1) AS BIGINT)"),
    *(
        construct
        for name, other in (("ceil", "ceil"), ("ceiling", "ceil"), ("floor", "floor"))
        for construct in (
            _c(I, (M,), f"CAST({name}({{0}}) AS BIGINT)", f"CAST({other}({{0}}) AS BIGINT)"),
            _c(
                I,
                (D,),
                f"CASE WHEN abs({{0}}) < 100 THEN {name}({{0}}) END",
                f"CASE WHEN abs({{0}}) < 100 THEN CAST({other}({{0}}) AS BIGINT) END",
            ),
        )
    ),
    *(_c(R, (I,), f"round({name}({{0}}), 6)") for name in ("sin", "cos", "atan", "cbrt", "degrees", "radians")),
    _c(R, (I,), "round(sqrt(abs({0})), 6)"),
    _c(R, (I,), "round(tan(sin({0})), 6)"),
    _c(R, (I,), "round(asin(sin({0})), 6)"),
    _c(R, (I,), "round(acos(sin({0})), 6)"),
    _c(R, (I,), "round(exp(({0} % 10) / 10E0), 6)"),
    *(_c(R, (I,), f"round({name}({{0}}, 2), 6)", "round(power({0}, 2), 6)") for name in ("power", "pow")),
    _c(R, (I, I), "round(atan2({0}, {1}), 6)"),
    _c(R, (I, I), "round(hypot({0}, {1}), 6)", "round(sqrt(({0}) * ({0}) + ({1}) * ({1})), 6)"),
    *(
        _c(R, (I,), f"round({name}({{0}}), 6)", f"CASE WHEN {{0}} > 0 THEN round({other}({{0}}), 6) END")
        for name, other in (("ln", "ln"), ("log", "ln"), ("log2", "log2"), ("log10", "log10"))
    ),
    _c(R, (I,), "round(log(3, {0}), 6)", "CASE WHEN {0} > 0 THEN round(ln({0}) / ln(3), 6) END"),
    _c(R, (), "round(pi(), 6)"),
    _c(R, (), "round(e(), 6)", "round(exp(1), 6)"),
]

_NAN = "CASE WHEN isnan({0}) THEN 'NaN' WHEN isinf({0}) THEN CASE WHEN {0} > 0 THEN '' ELSE '-' END || 'Infinity'"
_CASTS = [
    _c(I, (B,), "CAST({0} AS INT)"),
    _c(B, (I,), "CAST({0} AS BOOLEAN)"),
    _c(I, (I,), "CAST({0} AS BIGINT)"),
    _c(I, (I,), "CAST({0} AS SMALLINT)"),
    _c(I, (I,), "CAST({0} % 100 AS TINYINT)"),
    _c(I, (M,), "CAST({0} AS INT)", "CAST(trunc({0}) AS INT)"),
    _c(D, (I,), "CAST({0} AS DOUBLE)"),
    _c(D, (I,), "CAST({0} AS FLOAT)", "CAST({0} AS DOUBLE)"),
    _c(R, (M,), "CAST({0} AS DOUBLE)"),
    _c(M, (I,), "CAST({0} AS DECIMAL(8,1))"),
    _c(S, (I,), "CAST({0} AS STRING)", "CAST({0} AS VARCHAR)"),
    _c(S, (I,), "CAST({0} AS VARCHAR)", "CAST({0} AS VARCHAR)"),
    _c(S, (B,), "CAST({0} AS STRING)", "CAST({0} AS VARCHAR)"),
    _c(S, (M,), "CAST(CAST({0} AS DECIMAL(8,1)) AS STRING)", "CAST(CAST({0} AS DECIMAL(8,1)) AS VARCHAR)"),
    _c(S, (D,), "CAST({0} + 0E0 AS STRING)", f"{_NAN} ELSE CAST({{0}} + 0 AS VARCHAR) END"),
    _c(S, (DATE,), "CAST({0} AS STRING)", "CAST({0} AS VARCHAR)"),
    _c(S, (TIME,), "CAST({0} AS STRING)", "CAST({0} AS VARCHAR)"),
    _c(DATE, (TIME,), "CAST({0} AS DATE)"),
    _c(TIME, (DATE,), "CAST({0} AS TIMESTAMP)"),
    _c(TIME, (TIME,), "CAST(CAST({0} AS TIMESTAMP_NTZ) AS TIMESTAMP)", "({0})"),
    _c(DATE, (DATE,), "CAST(CAST({0} AS STRING) AS DATE)", "({0})"),
    _c(X, (S,), "CAST({0} AS BINARY)", "encode({0})"),
    _c(S, (S,), "CAST(CAST({0} AS BINARY) AS STRING)", "({0})"),
    _c(I, (S,), "TRY_CAST({0} AS INT)", "CASE WHEN {0} NOT LIKE '%.%' THEN TRY_CAST({0} AS INT) END"),
    _c(DATE, (S,), "TRY_CAST({0} AS DATE)"),
    _c(I, (D,), "TRY_CAST({0} AS INT)", "TRY_CAST(trunc({0}) AS INT)"),
    _c(B, (I,), "boolean({0})", "CAST({0} AS BOOLEAN)"),
    *(_c(I, (B,), f"{name}({{0}})", "CAST({0} AS INT)") for name in ("tinyint", "smallint", "int", "bigint")),
    *(_c(D, (I,), f"{name}({{0}})", "CAST({0} AS DOUBLE)") for name in ("float", "double")),
    _c(S, (I,), "string({0})", "CAST({0} AS VARCHAR)"),
    _c(X, (S,), "binary({0})", "encode({0})"),
    _c(DATE, (TIME,), "date({0})", "CAST({0} AS DATE)"),
    _c(TIME, (DATE,), "timestamp({0})", "CAST({0} AS TIMESTAMP)"),
]

_PATTERNS = [
    *(
        _c(B, (S,), f"({{0}} {negated}{operator} {pattern})")
        for negated in ("", "NOT ")
        for operator in ("LIKE", "ILIKE")
        for pattern in ("'a%'", "'%b'", "'_'", "'%'", "'%_B%'", "'ab'", "''", "'é%'")
    ),
    *(
        _c(
            B,
            (S, S),
            f"({{0}} {negated}LIKE (replace({{1}}, '\\\\', '') || '%'))",
            f"({{0}} {negated}LIKE (replace({{1}}, '\\', '') || '%'))",
        )
        for negated in ("", "NOT ")
    ),
    *(
        _c(B, (S,), f"({{0}} {negated}{operator} '{letter}!%%' ESCAPE '!')")
        for negated in ("", "NOT ")
        for operator, letter in (("LIKE", "a"), ("LIKE", "A"))
    ),
    *(
        _c(B, (S,), f"({{0}} {negated}LIKE 'a\\_%')", f"({{0}} {negated}LIKE 'a!_%' ESCAPE '!')")
        for negated in ("", "NOT ")
    ),
    _c(B, (S, S), "like({0}, '%b')", "({0} LIKE '%b')"),
    *(
        _c(B, (S,), f"({{0}} {negated}{operator} '{pattern}')", f"({negated}regexp_matches({{0}}, '{other}'))")
        for negated in ("", "NOT ")
        for operator, pattern, other in (
            ("RLIKE", "^a", "^a"),
            ("RLIKE", "^\\\\w+$", "^\\w+$"),
            ("REGEXP", "b|c$", "b|c$"),
        )
    ),
    _c(B, (S,), "rlike({0}, 'b')", "regexp_matches({0}, 'b')"),
    _c(B, (S,), "regexp({0}, 'b')", "regexp_matches({0}, 'b')"),
    _c(B, (S,), "regexp_like({0}, '[ab]')", "regexp_matches({0}, '[ab]')"),
    _c(S, (S,), "regexp_extract({0}, '(a)(b?)', 2)"),
    _c(S, (S,), "regexp_extract({0}, '(a)(b?)')", "regexp_extract({0}, '(a)(b?)', 1)"),
    _c(S, (S,), "regexp_extract({0}, 'ab?', 0)"),
    _c(S, (S,), "regexp_replace({0}, 'a+', 'x')", "regexp_replace({0}, 'a+', 'x', 'g')"),
]

_LOCATED = "instr(substring({0}, 2), 'b') + CAST(instr(substring({0}, 2), 'b') > 0 AS INT)"
_WORDS = "array_to_string(list_transform(string_split({0}, ' '), lambda w: upper(w[1:1]) || lower(w[2:])), ' ')"
_TEXTS = [
    _c(S, (S, S), "({0} || {1})"),
    _c(S, (S,), "({0} || 'x' 'y')", "({0} || 'xy')"),
    _c(S, (S, I), "({0} || {1})", "({0} || CAST({1} AS VARCHAR))"),
    _c(X, (X, X), "({0} || {1})"),
    _c(S, (S, S), "concat({0}, {1})", "({0} || {1})"),
    _c(S, (S, S, S), "concat({0}, {1}, {2})", "({0} || {1} || {2})"),
    _c(S, (S,), "concat({0})", "({0})"),
    _c(S, (S, S), "concat_ws('-', {0}, {1})"),
    *(_c(I, (S,), f"{name}({{0}})", "length({0})") for name in ("length", "char_length", "character_length", "len")),
    _c(I, (X,), "length({0})", "octet_length({0})"),
    *(_c(S, (S,), f"{name}({{0}})", "upper({0})") for name in ("upper", "ucase")),
    *(_c(S, (S,), f"{name}({{0}})", "lower({0})") for name in ("lower", "lcase")),
    *(
        _c(S, (S,), f"{name}({{0}} || ' ')", f"{other}({{0}} || ' ')")
        for name, other in (("trim", "trim"), ("btrim", "trim"))
    ),
    _c(S, (S,), "ltrim(' ' || {0})"),
    _c(S, (S,), "rtrim({0} || ' ')"),
    _c(S, (S,), "trim('a' FROM {0})", "trim({0}, 'a')"),
    _c(S, (S,), "trim(BOTH 'ab' FROM {0})", "trim({0}, 'ab')"),
    _c(S, (S,), "trim(BOTH FROM {0})", "trim({0})"),
    _c(S, (S,), "trim(LEADING 'a' FROM {0})", "ltrim({0}, 'a')"),
    _c(S, (S,), "trim(TRAILING 'b' FROM {0})", "rtrim({0}, 'b')"),
    _c(S, (S,), "btrim({0}, 'a')", "trim({0}, 'a')"),
    _c(S, (S,), "ltrim('a', {0})", "ltrim({0}, 'a')"),
    _c(S, (S,), "rtrim('b', {0})", "rtrim({0}, 'b')"),
    _c(S, (S,), "substring({0}, 2, 1)"),
    _c(S, (S,), "substring({0}, -1, 1)"),
    _c(S, (S,), "substring({0}, 0, 1)", "substring({0}, 1, 1)"),
    _c(S, (S,), "substring({0}, 2)"),
    _c(S, (S,), "substring({0} FROM 2)", "substring({0}, 2)"),
    _c(S, (S,), "substring({0} FROM 1 FOR 2)", "substring({0}, 1, 2)"),
    _c(S, (S,), "substr({0}, 2, 2)", "substring({0}, 2, 2)"),
    _c(S, (S,), "left({0}, 1)"),
    _c(S, (S,), "right({0}, 1)"),
    _c(S, (S, S), "replace({0}, 'a', {1})"),
    _c(S, (S,), "replace({0}, 'a')", "replace({0}, 'a', '')"),
    _c(B, (S, S), "contains({0}, {1})"),
    _c(B, (S, S), "startswith({0}, {1})", "starts_with({0}, {1})"),
    _c(B, (S, S), "endswith({0}, {1})", "ends_with({0}, {1})"),
    _c(I, (S,), "instr({0}, 'b')"),
    _c(I, (S,), "locate('b', {0})", "instr({0}, 'b')"),
    _c(I, (S,), "locate('b', {0}, 2)", _LOCATED),
    _c(I, (S,), "position('b' IN {0})", "instr({0}, 'b')"),
    _c(I, (S,), "position('b', {0})", "instr({0}, 'b')"),
    _c(I, (S,), "position('b', {0}, 2)", _LOCATED),
    _c(S, (S,), "reverse({0})"),
    _c(S, (S,), "repeat({0}, 2)"),
    _c(S, (S,), "lpad({0}, 3, 'xy')"),
    _c(S, (S,), "rpad({0}, 3, 'xy')"),
    _c(S, (S,), "lpad({0}, 3)", "lpad({0}, 3, ' ')"),
    _c(S, (S,), "rpad({0}, 3)", "rpad({0}, 3, ' ')"),
    _c(S, (S,), "split_part({0}, 'b', 1)"),
    _c(S, (S,), "split_part({0}, 'b', -1)"),
    _c(S, (S,), "split_index({0}, 'b', 1)", "string_split({0}, 'b')[2]"),
    _c(S, (S,), "initcap({0})", _WORDS),
    _c(I, (S,), "ascii({0})"),
]

_FIELDS = (
    ("year", "year"),
    ("quarter", "quarter"),
    ("month", "month"),
    ("week", "week"),
    ("day", "day"),
    ("doy", "doy"),
    ("dayofweek_iso", "isodow"),
    ("yearofweek", "isoyear"),
)
_CLOCK = (("hour", "hour"), ("minute", "minute"))
_SECONDS = "CAST(extract('microseconds' FROM {0}) / 1000000.0 AS DECIMAL(8,6))"
_PARTS = (
    ("year", "year({0})"),
    ("yearofweek", "isoyear({0})"),
    ("quarter", "quarter({0})"),
    ("month", "month({0})"),
    ("weekofyear", "weekofyear({0})"),
    ("day", "day({0})"),
    ("dayofmonth", "day({0})"),
    ("dayofweek", "(dayofweek({0}) + 1)"),
    ("dayofweek_iso", "isodow({0})"),
    ("weekday", "(isodow({0}) - 1)"),
    ("dayofyear", "dayofyear({0})"),
)
_DAYS_LATER = "CAST({0} + CAST(%s AS INTEGER) AS DATE)"
_WHOLE_SECONDS = "(CAST(floor(epoch({0})) AS BIGINT) % 1000)"
_OF_PARTS = "make_timestamp(2020, 2, CAST(abs({0}) % 28 + 1 AS BIGINT), 10, 11, 12.25)"
# What a clock elsewhere shows when one in UTC shows this, and the other way round.
_ELSEWHERE = "(({0} AT TIME ZONE 'UTC') AT TIME ZONE '%s')"
_BACK = "(({0} AT TIME ZONE '%s') AT TIME ZONE 'UTC')"
_MONTHS_APART = (
    "(12 * (year({0}) - year({1})) + month({0}) - month({1}) + CASE WHEN day({0}) = day({1}) OR "
    "(last_day({0}) = {0} AND last_day({1}) = {1}) THEN 0 ELSE (day({0}) - day({1})) / CAST(31 AS DOUBLE) END)"
)
_TIMES = [
    *(_c(I, (DATE,), f"{name}({{0}})", other) for name, other in _PARTS),
    *(_c(I, (TIME,), f"{name}({{0}})", other) for name, other in _PARTS[:4]),
    *(_c(I, (TIME,), f"{name}({{0}})") for name in ("hour", "minute", "second")),
    *(
        _c(I, (DATE,), f"EXTRACT({name} FROM {{0}})", f"CAST(extract('{other}' FROM {{0}}) AS BIGINT)")
        for name, other in _FIELDS
    ),
    *(
        _c(I, (TIME,), f"EXTRACT({name} FROM {{0}})", f"CAST(extract('{other}' FROM {{0}}) AS BIGINT)")
        for name, other in _CLOCK
    ),
    _c(I, (DATE,), "EXTRACT(DOW FROM {0})", "(dayofweek({0}) + 1)"),
    _c(I, (DATE,), "date_part('month', {0})", "month({0})"),
    _c(I, (DATE,), "datepart('year', {0})", "year({0})"),
    _c(I, (DATE,), "extract('day', {0})", "day({0})"),
    _c(M, (TIME,), "EXTRACT(SECOND FROM {0})", _SECONDS),
    _c(I, (V,), "EXTRACT(DAY FROM {0})", "CAST(trunc(epoch({0}) / 86400) AS INT)"),
    _c(I, (V,), "EXTRACT(HOUR FROM {0})", "CAST(trunc(epoch({0}) / 3600) AS INT) % 24"),
    _c(I, (V,), "EXTRACT(MINUTE FROM {0})", "CAST(trunc(epoch({0}) / 60) AS INT) % 60"),
    *(_c(TIME, (TIME,), f"date_trunc('{unit}', {{0}})") for unit in ("year", "week", "day", "hour", "minute")),
    _c(DATE, (DATE,), "trunc({0}, 'MM')", "CAST(date_trunc('month', {0}) AS DATE)"),
    _c(DATE, (DATE,), "trunc({0}, 'week')", "CAST(date_trunc('week', {0}) AS DATE)"),
    _c(DATE, (DATE,), "last_day({0})"),
    *(
        _c(DATE, (DATE, I), f"{name}({{0}}, CAST({{1}} AS INT))", _DAYS_LATER % "{1}")
        for name in ("date_add", "dateadd")
    ),
    _c(DATE, (DATE, I), "date_sub({0}, CAST({1} AS INT))", _DAYS_LATER % "-({1})"),
    _c(DATE, (DATE,), "({0} + 1)"),
    _c(DATE, (DATE,), "({0} - 2)"),
    _c(DATE, (DATE,), "({0} + INTERVAL '1' DAY)", "CAST({0} + INTERVAL '1' DAY AS DATE)"),
    *(_c(I, (DATE, DATE), f"{name}({{0}}, {{1}})", "({0} - {1})") for name in ("datediff", "date_diff")),
    *(
        _c(I, (TIME,), f"({name}({{0}}) % 1000)", "(CAST(floor(epoch({0})) AS BIGINT) % 1000)")
        for name in ("unix_timestamp", "to_unix_timestamp", "unix_seconds")
    ),
    _c(I, (TIME,), "(unix_millis({0}) % 1000)", "(epoch_ms({0}) % 1000)"),
    _c(I, (TIME,), "(unix_micros({0}) % 1000)", "(epoch_us({0}) % 1000)"),
    _c(I, (DATE,), "(unix_date({0}) % 1000)", "(({0} - DATE '1970-01-01') % 1000)"),
    _c(TIME, (I,), "timestamp_seconds({0})", "make_timestamp(CAST({0} AS BIGINT) * 1000000)"),
    _c(TIME, (I,), "timestamp_millis({0})", "make_timestamp(CAST({0} AS BIGINT) * 1000)"),
    _c(TIME, (I,), "timestamp_micros({0})", "make_timestamp(CAST({0} AS BIGINT))"),
    _c(DATE, (I,), "make_date(2020, 1, abs({0}) % 28 + 1)"),
    _c(DATE, (TIME,), "to_date({0})", "CAST({0} AS DATE)"),
    _c(TIME, (DATE,), "to_timestamp({0})", "CAST({0} AS TIMESTAMP)"),
    _c(V, (TIME, TIME), "({0} - {1})"),
    _c(V, (DATE, DATE), "({0} - {1})", "to_days(CAST({0} - {1} AS INTEGER))"),
    _c(TIME, (TIME, V), "({0} + {1})"),
    _c(TIME, (TIME, V), "({0} - {1})"),
    _c(TIME, (TIME,), "({0} - INTERVAL '36' HOURS)", "({0} - INTERVAL '36' HOURS)"),
    _c(V, (V, V), "({0} + {1})"),
    _c(V, (V, V), "({0} - {1})"),
    _c(V, (V,), "({0} * 2)"),
    *(
        _c(
            DATE,
            (DATE,),
            f"({{0}} {sign} INTERVAL '{size}' {unit})",
            f"CAST({{0}} {sign} INTERVAL '{size}' {unit} AS DATE)",
        )
        for sign, size, unit in (("+", "1", "MONTH"), ("-", "13", "MONTHS"), ("+", "1", "YEAR"), ("-", "4", "YEAR"))
    ),
    _c(TIME, (TIME,), "({0} + INTERVAL '1-1' YEAR TO MONTH)", "({0} + INTERVAL '13' MONTH)"),
    _c(TIME, (TIME,), "({0} - INTERVAL '1 02:03:04.5' DAY TO SECOND)", "({0} - INTERVAL '93784.5' SECOND)"),
    _c(DATE, (DATE, I), "({0} + {1} * INTERVAL '2' MONTH)", "CAST({0} + to_months(CAST(2 * {1} AS INTEGER)) AS DATE)"),
    *(
        _c(S, (TIME,), f"{name}({{0}}, '{pattern}')", f"strftime({{0}}, '{other}')")
        for name, pattern, other in (
            ("date_format", "yyyy-MM-dd HH:mm:ss.SSSSSS", "%Y-%m-%d %H:%M:%S.%f"),
            ("date_format", "EEE, d MMM yy h:mm a", "%a, %-d %b %y %-I:%M %p"),
            ("to_char", "EEEE dd MMMM yyyy HH", "%A %d %B %Y %H"),
            ("to_varchar", "D", "%-j"),
        )
    ),
    _c(S, (DATE,), "date_format({0}, 'Q/yyyy')", "(CAST(quarter({0}) AS VARCHAR) || '/' || strftime({0}, '%Y'))"),
    _c(S, (I,), "from_unixtime({0})", "strftime(make_timestamp(CAST({0} AS BIGINT) * 1000000), '%Y-%m-%d %H:%M:%S')"),
    _c(S, (I,), "from_unixtime({0}, 'ss')", "strftime(make_timestamp(CAST({0} AS BIGINT) * 1000000), '%S')"),
    *(
        _c(
            TIME,
            (TIME,),
            f"{name}(date_format({{0}}, 'yyyyMMdd HHmmss'), 'yyyyMMdd HHmmss')",
            "date_trunc('second', {0})",
        )
        for name in ("to_timestamp", "try_to_timestamp")
    ),
    _c(DATE, (DATE,), "to_date(date_format({0}, 'd MMM yyyy'), 'd MMM yyyy')", "({0})"),
    _c(DATE, (S,), "try_to_date({0}, 'yyyy-MM-dd')", "try_strptime({0}, '%Y-%m-%d')::DATE"),
    *(
        _c(I, (TIME,), f"({name}(date_format({{0}}, 'yyyyMMddHHmmss'), 'yyyyMMddHHmmss') % 1000)", _WHOLE_SECONDS)
        for name in ("unix_timestamp", "to_unix_timestamp")
    ),
    _c(R, (DATE, DATE), "months_between({0}, {1})", f"round({_MONTHS_APART}, 8)"),
    _c(R, (DATE, DATE), "round(months_between({0}, {1}, false), 9)", f"round({_MONTHS_APART}, 9)"),
    _c(DATE, (DATE,), "next_day({0}, 'Wed')", "CAST({0} + CAST(1 + (9 - isodow({0})) % 7 AS INTEGER) AS DATE)"),
    *(
        _c(TIME, (I,), f"{name}(2020, 2, abs({{0}}) % 28 + 1, 10, 11, 12.25)", _OF_PARTS)
        for name in ("make_timestamp", "make_timestamp_ltz")
    ),
    _c(TIME, (I,), "CAST(make_timestamp_ntz(2020, 2, abs({0}) % 28 + 1, 10, 11, 12.25) AS TIMESTAMP)", _OF_PARTS),
    _c(TIME, (TIME,), "CAST(({0} AT TIME ZONE 'Europe/Berlin') AS TIMESTAMP)", _ELSEWHERE % "Europe/Berlin"),
    _c(TIME, (TIME,), "CAST({0} AS TIMESTAMP_NTZ) AT TIME ZONE 'Asia/Kolkata'", _BACK % "Asia/Kolkata"),
    _c(TIME, (TIME,), "from_utc_timestamp({0}, 'America/New_York')", _ELSEWHERE % "America/New_York"),
    _c(TIME, (TIME,), "to_utc_timestamp({0}, 'Asia/Tokyo')", _BACK % "Asia/Tokyo"),
    _c(TIME, (TIME,), "to_utc_timestamp({0}, '-03:30')", "({0} + INTERVAL '210' MINUTES)"),
    _c(
        TIME,
        (TIME,),
        "CAST(convert_timezone('Asia/Tokyo', 'Asia/Kolkata', {0}) AS TIMESTAMP)",
        _ELSEWHERE.replace("{0}", f"({_BACK})") % ("Asia/Tokyo", "Asia/Kolkata"),
    ),
    _c(DATE, (DATE, I), "add_months({0}, CAST({1} AS INT))", "CAST({0} + to_months(CAST({1} AS INTEGER)) AS DATE)"),
]

CONSTRUCTS: tuple[Construct, ...] = tuple(
    construct for part in (_LOGIC, _ROWS, _CHOICES, _NUMBERS, _CASTS, _PATTERNS, _TEXTS, _TIMES) for construct in part
)
