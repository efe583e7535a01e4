"""The table of aggregates, in both languages. {order} is the column by which FIRST and LAST choose."""

from __future__ import annotations

from tests.text_oracle.scalars import DATE, TIME, B, Construct, D, I, M, R, S, V, X, _c

_NUMBERS = (I, D, M)
_ALL = (I, S, B, D, M, DATE, TIME, V, X)

_BOTH = "{0} IS NOT NULL AND {1} IS NOT NULL"
_KNOWN = "FILTER (WHERE {1} IS NOT NULL)"
# The most frequent value, and of several the first in the order of the lists; DuckDB's histograms are in order.
_HISTOGRAM = "histogram({0}) FILTER (WHERE {0} IS NOT NULL)"
_KEYS, _COUNTS = f"map_keys({_HISTOGRAM})", f"map_values({_HISTOGRAM})"
_MODE = f"{_KEYS}[list_position({_COUNTS}, list_max({_COUNTS}))]"
_LAST_MODE = f"list_reverse({_KEYS})[list_position(list_reverse({_COUNTS}), list_max({_COUNTS}))]"


def _any(text: str) -> str:
    """DuckDB refuses constants in ORDER BY."""
    return f"COALESCE({text}, {text})"


_KEPT = "FILTER (WHERE {1} IS NOT NULL AND {2})"
_MAX_BY = f"first({{0}} ORDER BY {_any('{1}')} DESC, {_any('{0}')} DESC NULLS LAST) {_KEPT}"
_PERCENTILE = "round(quantile_cont(DISTINCT CAST({0} AS DOUBLE), 0.5), 6)"

_DISCRETE = "CAST(quantile_disc({0}, %s) AS DOUBLE)"

AGGREGATES: tuple[Construct, ...] = (
    _c(I, (), "COUNT(*)"),
    *(_c(I, (kind,), "COUNT({0})") for kind in _ALL),
    *(_c(I, (kind,), "COUNT(DISTINCT {0})") for kind in _ALL),
    *(_c(kind, (kind,), "SUM({0})") for kind in _NUMBERS),
    *(_c(kind, (kind,), "SUM(DISTINCT {0})") for kind in _NUMBERS),
    _c(V, (V,), "SUM({0})", "to_microseconds(CAST(SUM(CAST(epoch({0}) * 1000000 AS BIGINT)) AS BIGINT))"),
    *(_c(R, (kind,), f"{name}({{0}})", "AVG({0})") for kind in (I, D) for name in ("AVG", "mean")),
    _c(
        R,
        (M,),
        "CAST(AVG(CAST({0} AS DECIMAL(8,1))) AS DOUBLE)",
        "round(CAST(SUM(CAST({0} AS DECIMAL(8,1))) AS DOUBLE) / COUNT({0}), 5)",
    ),
    _c(R, (I,), "AVG(DISTINCT {0})"),
    *(_c(kind, (kind,), f"{name}({{0}})") for kind in _ALL for name in ("MIN", "MAX")),
    *(_c(kind, (kind,), f"{name}(DISTINCT {{0}})") for kind in (I, S) for name in ("MIN", "MAX")),
    *(
        _c(R, (I,), f"round({name}({{0}}), 6)", f"round({other}({{0}}), 6)")
        for name, other in (
            ("stddev", "stddev_samp"),
            ("std", "stddev_samp"),
            ("stddev_samp", "stddev_samp"),
            ("stddev_pop", "stddev_pop"),
            ("variance", "var_samp"),
            ("var_samp", "var_samp"),
            ("var_pop", "var_pop"),
            ("stddev_pop", "stddev_pop"),
        )
    ),
    _c(R, (I,), "round(stddev(DISTINCT {0}), 6)", "round(stddev_samp(DISTINCT {0}), 6)"),
    *(_c(B, (B,), f"{name}({{0}})", "bool_or({0})") for name in ("any", "some", "bool_or")),
    *(_c(B, (B,), f"{name}({{0}})", "bool_and({0})") for name in ("every", "all", "bool_and")),
    _c(I, (B,), "count_if({0})", "COUNT(*) FILTER (WHERE {0})"),
    *(
        _c(I, (one, other), "COUNT(DISTINCT {0}, {1})", f"COUNT(DISTINCT ({{0}}, {{1}})) FILTER (WHERE {_BOTH})")
        for one, other in ((I, S), (D, DATE), (X, M))
    ),
    _c(I, (I, S), "COUNT({0}, {1})", f"COUNT(*) FILTER (WHERE {_BOTH})"),
    _c(I, (B,), "COUNT(*) FILTER (WHERE {0})"),
    *(
        _c(kind, (kind, B), f"{name}({{0}}) FILTER (WHERE {{1}})")
        for kind in (I, D, M)
        for name in ("SUM", "MAX", "MIN")
    ),
    _c(I, (S, B), "COUNT(DISTINCT {0}) FILTER (WHERE {1})"),
    _c(B, (B, B), "any({0}) FILTER (WHERE {1})", "bool_or({0}) FILTER (WHERE {1})"),
    _c(I, (S,), "approx_count_distinct({0})", "COUNT(DISTINCT {0})"),
    *(
        _c(R, (one, other), f"round({name}({{0}}, {{1}}), 6)", f"round({name}({{0}}, {{1}}), 6)")
        for one, other in ((I, I), (I, M))
        for name in ("covar_pop", "covar_samp")
    ),
    _c(
        R,
        (I, M),
        "round(corr({0}, {1}), 6)",
        f"CASE WHEN stddev_pop({{0}}) FILTER (WHERE {_BOTH}) * stddev_pop({{1}}) FILTER (WHERE {_BOTH}) > 0 "
        "THEN round(corr({0}, {1}), 6) END",
    ),
    *(
        _c(
            kind,
            (kind, other),
            f"{name}({{0}}, {{1}})",
            f"first({{0}} ORDER BY {order}) FILTER (WHERE {{1}} IS NOT NULL)",
        )
        for kind, other in ((I, S), (S, I), (D, M), (DATE, I))
        for name, order in (
            ("max_by", f"{_any('{1}')} DESC, {_any('{0}')} DESC NULLS LAST"),
            ("min_by", f"{_any('{1}')}, {_any('{0}')} NULLS FIRST"),
        )
    ),
    _c(I, (I, S, B), "max_by({0}, {1}) FILTER (WHERE {2})", _MAX_BY),
    *(
        _c(R, (kind,), f"round({text}, 6)", f"round(quantile_cont(CAST({{0}} AS DOUBLE), {share}), 6)")
        for kind in (I, M)
        for text, share in (
            ("median({0})", "0.5"),
            ("percentile({0}, 0.3)", "0.3"),
            ("percentile_cont(0.25) WITHIN GROUP (ORDER BY {0})", "0.25"),
            ("percentile_cont(0.25) WITHIN GROUP (ORDER BY {0} DESC)", "0.75"),
        )
    ),
    _c(
        R, (I,), "round(percentile(DISTINCT {0}, 0.5), 6)", "round(quantile_cont(DISTINCT CAST({0} AS DOUBLE), 0.5), 6)"
    ),
    _c(R, (I, B), "median({0}) FILTER (WHERE {1})", "quantile_cont(CAST({0} AS DOUBLE), 0.5) FILTER (WHERE {1})"),
    *(
        _c(
            R,
            (kind,),
            f"percentile_disc({p}) WITHIN GROUP (ORDER BY {{0}})",
            f"CAST(quantile_disc({{0}}, {p}) AS DOUBLE)",
        )
        for kind in (I, M)
        for p in ("0", "0.4", "1")
    ),
    *(_c(kind, (kind,), "mode({0})", _MODE) for kind in (I, S, DATE)),
    _c(I, (I,), "mode() WITHIN GROUP (ORDER BY {0} DESC)", _LAST_MODE),
    _c(S, (S,), "string_agg({0}, '; ')", f"string_agg({{0}}, '; ' ORDER BY {_any('{0}')})"),
    _c(S, (S,), "listagg(DISTINCT {0}, ',')", f"string_agg(DISTINCT {_any('{0}')}, ',' ORDER BY {_any('{0}')})"),
    _c(S, (I,), "listagg({0})", f"string_agg(CAST({{0}} AS VARCHAR), '' ORDER BY {_any('{0}')})"),
    _c(
        S,
        (S, I),
        "string_agg({0}, ',' ORDER BY {1} DESC)",
        f"string_agg({{0}}, ',' ORDER BY {_any('{1}')} DESC NULLS LAST, {_any('{0}')})",
    ),
    _c(
        S,
        (S, I, M),
        "listagg({0}, '') WITHIN GROUP (ORDER BY {1} NULLS LAST, {2} DESC NULLS FIRST)",
        f"string_agg({{0}}, '' ORDER BY {_any('{1}')} NULLS LAST, {_any('{2}')} DESC NULLS FIRST, {_any('{0}')})",
    ),
    _c(I, (B,), "count_if(DISTINCT {0})", "COUNT(DISTINCT CASE WHEN {0} THEN 1 END)"),
)
# Only where rows of one stream are grouped, since these have an order.
ORDERED: tuple[Construct, ...] = tuple(
    _c(kind, (kind,), f"{name}({{0}})", f"{other}({{0}} ORDER BY _order)")
    for kind in (I, S)
    for name, other in (
        ("first", "first"),
        ("first_value", "first"),
        ("any_value", "first"),
        ("last", "last"),
        ("last_value", "last"),
    )
) + tuple(
    _c(kind, (kind, B), text, f"{other}({{0}} ORDER BY _order) FILTER (WHERE {kept})")
    for kind in (I, S)
    for text, other, kept in (
        ("first({0}) IGNORE NULLS", "first", "{0} IS NOT NULL"),
        ("last({0} IGNORE NULLS)", "last", "{0} IS NOT NULL"),
        ("any_value({0}, true)", "first", "{0} IS NOT NULL"),
        ("last({0}) RESPECT NULLS", "last", "TRUE"),
        ("first({0}) FILTER (WHERE {1})", "first", "{1}"),
        ("last({0}) FILTER (WHERE {1}) IGNORE NULLS", "last", "{0} IS NOT NULL AND {1}"),
    )
)
