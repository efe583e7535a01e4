"""Constructs of lists, in both languages; DuckDB has NULL for a list where it is asked to work on one that is NULL."""

from __future__ import annotations

from tests.text_oracle.scalars import B, Construct, I, L, S, _c

_HAS_NULL = "len(list_filter({0}, lambda e: e IS NULL)) > 0"
_CONTAINS = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN list_contains({0}, {1}) THEN TRUE "
    f"WHEN {_HAS_NULL} THEN NULL ELSE FALSE END"
)
_OVERLAP = (
    "CASE WHEN {0} IS NULL THEN NULL WHEN list_has_any({0}, [1, 2]) THEN TRUE "
    f"WHEN {_HAS_NULL} THEN NULL ELSE FALSE END"
)
_KNOWN = "CASE WHEN {0} IS NOT NULL THEN %s END"
_BOTH = "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN %s END"


def _sorted(text: str) -> str:
    """What an order is not told of is compared in that of the values, without NULL."""
    return f"sort_array(array_compact({text}))"


LISTS: tuple[Construct, ...] = (
    _c(L, (I, I), "array({0}, {1})", "[CAST({0} AS INTEGER), CAST({1} AS INTEGER)]"),
    _c(L, (I,), "ARRAY[1, CAST({0} AS INT)]", "[1, CAST({0} AS INTEGER)]"),
    *(_c(B, (L, L), f"({{0}} {operator} {{1}})") for operator in ("=", "<>")),
    _c(B, (L, L), "({0} <=> {1})", "({0} IS NOT DISTINCT FROM {1})"),
    _c(B, (L,), "({0} IS NULL)"),
    _c(B, (L,), "({0} IN (array(1), array(1, 2)))", "({0} IN ([1], [1, 2]))"),
    _c(L, (L, L), "COALESCE({0}, {1})"),
    _c(L, (B, L, L), "IF({0}, {1}, {2})", "CASE WHEN {0} THEN {1} ELSE {2} END"),
    *(_c(I, (L,), f"{name}({{0}})", "len({0})") for name in ("size", "cardinality", "array_size")),
    _c(I, (L, I), "get({0}, CAST({1} AS INT))", "CASE WHEN {1} >= 0 THEN ({0})[{1} + 1] END"),
    _c(I, (L,), "CASE WHEN size({0}) > 1 THEN ({0})[1] END", "CASE WHEN len({0}) > 1 THEN ({0})[2] END"),
    _c(I, (L,), "element_at(array_append({0}, 7), -1)", _KNOWN % "7"),
    *(_c(I, (L,), f"try_element_at({{0}}, {n})", f"({{0}})[{n}]") for n in (1, -1)),
    _c(L, (L,), "slice({0}, 1, 2)", "({0})[1:2]"),
    _c(B, (L, I), "array_contains({0}, {1})", _CONTAINS),
    _c(I, (L, I), "array_position({0}, {1})", _BOTH % "COALESCE(list_position({0}, {1}), 0)"),
    _c(L, (L, I), "array_remove({0}, CAST({1} AS INT))", _BOTH % "list_filter({0}, lambda e: e IS NULL OR e <> {1})"),
    _c(B, (L,), "arrays_overlap({0}, array(1, 2))", _OVERLAP),
    _c(L, (L,), _sorted("array_distinct({0})"), "list_sort(list_distinct({0}))"),
    _c(L, (L, L), _sorted("array_union({0}, {1})"), _BOTH % "list_sort(list_distinct(list_concat({0}, {1})))"),
    _c(
        L,
        (L, L),
        _sorted("array_intersect({0}, {1})"),
        _BOTH % "list_sort(list_filter(list_distinct({0}), lambda e: list_contains({1}, e)))",
    ),
    _c(
        L,
        (L, L),
        _sorted("array_except({0}, {1})"),
        _BOTH % "list_sort(list_filter(list_distinct({0}), lambda e: NOT list_contains({1}, e)))",
    ),
    _c(L, (L,), "sort_array({0})", "list_sort({0}, 'ASC', 'NULLS FIRST')"),
    _c(L, (L,), "sort_array({0}, false)", "list_sort({0}, 'DESC', 'NULLS LAST')"),
    _c(L, (L,), "array_sort({0})", "list_sort({0}, 'ASC', 'NULLS LAST')"),
    _c(I, (L,), "array_min({0})", "list_min({0})"),
    _c(I, (L,), "array_max({0})", "list_max({0})"),
    _c(L, (L, I), "array_append({0}, CAST({1} AS INT))", _KNOWN % "list_append({0}, {1})"),
    _c(L, (L, I), "array_prepend({0}, CAST({1} AS INT))", _KNOWN % "list_prepend({1}, {0})"),
    _c(L, (L,), "array_compact({0})", "list_filter({0}, lambda e: e IS NOT NULL)"),
    _c(L, (I,), "array_repeat(CAST({0} AS INT), 2)", "[CAST({0} AS INTEGER), CAST({0} AS INTEGER)]"),
    _c(L, (I,), "sequence({0}, {0} + 2)", "CASE WHEN {0} IS NOT NULL THEN range({0}, {0} + 3) END"),
    _c(L, (L, L), "flatten(array({0}, {1}))", _BOTH % "list_concat({0}, {1})"),
    _c(L, (L, L), "concat({0}, {1})", _BOTH % "list_concat({0}, {1})"),
    _c(L, (L, L), "({0} || {1})", _BOTH % "list_concat({0}, {1})"),
    _c(L, (L,), "reverse({0})", "list_reverse({0})"),
    _c(S, (S,), "array_join(array('x', {0}), '-')", "concat_ws('-', 'x', {0})"),
    _c(I, (S,), "size(split({0}, 'b'))", "len(string_split({0}, 'b'))"),
    _c(S, (S,), "array_join(split({0}, '_'), '+', '')", "array_to_string(string_split({0}, '_'), '+')"),
    _c(S, (L,), "CAST({0} AS STRING)", "replace(CAST({0} AS VARCHAR), 'NULL', 'null')"),
    _c(L, (L,), "CAST(CAST({0} AS ARRAY<STRING>) AS ARRAY<INT>)", "{0}"),
)

_LIST = "COALESCE(list({0} ORDER BY COALESCE({0}, {0})) FILTER (WHERE {0} IS NOT NULL%s), [])"
LIST_AGGREGATES: tuple[Construct, ...] = (
    *(_c(L, (I,), f"{name}({{0}})", _LIST % "") for name in ("collect_list", "array_agg")),
    *(
        _c(L, (I,), text, "COALESCE(list_sort(list(DISTINCT {0}) FILTER (WHERE {0} IS NOT NULL)), [])")
        for text in ("collect_set({0})", "array_agg(DISTINCT {0})", "collect_list(DISTINCT {0} ORDER BY {0})")
    ),
    _c(
        L,
        (I, S),
        "collect_list({0} ORDER BY {1} DESC)",
        "COALESCE(list({0} ORDER BY COALESCE({1}, {1}) DESC NULLS LAST, COALESCE({0}, {0})) "
        "FILTER (WHERE {0} IS NOT NULL), [])",
    ),
    _c(L, (I, B), "array_agg({0}) FILTER (WHERE {1})", _LIST % " AND {1}"),
    _c(I, (L,), "COUNT({0})"),
    _c(I, (L,), "COUNT(DISTINCT {0})"),
    _c(
        I,
        (L, I),
        "COUNT(DISTINCT {0}, {1})",
        "COUNT(DISTINCT ({0}, {1})) FILTER (WHERE {0} IS NOT NULL AND {1} IS NOT NULL)",
    ),
)
