"""The table of aggregates, in both languages. {order} is the column by which FIRST and LAST choose."""

from __future__ import annotations

from tests.text_oracle.scalars import DATE, TIME, B, Construct, D, I, M, R, S, V, X, _c

_NUMBERS = (I, D, M)
_ALL = (I, S, B, D, M, DATE, TIME, V, X)

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
)
