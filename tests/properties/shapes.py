"""Which operators a case has: what `--hypothesis-show-statistics` counts, so that we see what random tests reach."""

from __future__ import annotations

import re

from tests.properties.cases import Case

_SHAPES = {
    "now": r"\[NOW\]",
    "range": r"\[RANGE \d+\]",
    "range slide": r"\[RANGE \d+ SLIDE",
    "unbounded": r"\[(RANGE|ROWS) UNBOUNDED\]",
    "tumble": r"\[TUMBLE",
    "rows": r"\[ROWS \d+\]",
    "rows slide": r"\[ROWS \d+ SLIDE",
    "partition": r"\[PARTITION BY [^\]]*ROWS \d+\]",
    "partition slide": r"\[PARTITION BY [^\]]*SLIDE",
    "begin end": r"\[BEGIN",
    "sample": r"SAMPLE",
    "where": r" WHERE ",
    "distinct": r"(SELECT |STREAM\()DISTINCT",
    "group by": r" GROUP BY ",
    "having": r" HAVING ",
    "aggregate": r"\b(COUNT|SUM|MIN|MAX|AVG|COUNT_IF|BOOL_OR|BOOL_AND)\(",
    "distinct aggregate": r"\w\(DISTINCT",
    "comma join": r"AS r\d+, ",
    "inner join": r"AS r\d+ JOIN",
    "left join": r"LEFT JOIN",
    "right join": r"RIGHT JOIN",
    "full join": r"FULL JOIN",
    "semi join": r"SEMI JOIN",
    "anti join": r"ANTI JOIN",
    "cross join": r"CROSS JOIN",
    "union all": r"\) UNION ALL \(",
    "union": r"\) UNION \(",
    "except": r"\) EXCEPT \(",
    "except all": r"\) EXCEPT ALL \(",
    "intersect": r"\) INTERSECT \(",
    "intersect all": r"\) INTERSECT ALL \(",
    "exists": r"(?<!NOT )EXISTS \(SELECT",
    "not exists": r"NOT EXISTS \(SELECT",
    "in query": r"(?<!NOT )IN \(\(*SELECT",
    "not in query": r"NOT IN \(\(*SELECT",
    "scalar subquery": r"(?<!IN )(?<!EXISTS )(?<!FROM )(?<!JOIN )(?<!, )\(SELECT [^(]*\(.* AS c0 FROM",
    "istream": r"ISTREAM\(",
    "dstream": r"DSTREAM\(",
    "rstream": r"RSTREAM\(",
    "derived stream": r"\) \[(?!BEGIN \d)",
    "table": r"\bD AS r",
    "view": r"\b[VW]( \[[^]]*\])? AS r",
}


def shapes(text: str) -> set[str]:
    return {name for name, pattern in _SHAPES.items() if re.search(pattern, text)}


def shapes_of(case: Case) -> set[str]:
    """Of its queries, and of its views where a query reads them."""
    found = [shapes(text) for text in case.queries.values()]
    if any("view" in one for one in found):
        found += [shapes(text) for text in case.definitions if text.startswith("CREATE VIEW")]
    return set().union(*found)
