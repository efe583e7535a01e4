"""Laws of CQL and SQL: pairs of queries that mean the same, made of random parts.

Each function takes the maker of a random database's queries and gives two texts or more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.properties.dice import Dice
from tests.properties.expressions import condition, expression
from tests.properties.inputs import Source
from tests.properties.kinds import Column, Kind
from tests.properties.queries import QueryMaker
from tests.properties.windows import window

Law = Callable[[QueryMaker], tuple[str, ...]]

_PAIR = (Kind.INTEGER, Kind.INTEGER)
_TESTED = (Column("c0", Kind.INTEGER), Column("c1", Kind.INTEGER))


def window_reduction(maker: QueryMaker) -> tuple[str, ...]:
    """Istream-Unbounded = Rstream-Now (section 10.1 of the paper)."""
    source = _stream(maker)
    items, where = _items(maker.dice, source.columns), condition(maker.dice, source.columns)
    return (
        f"SELECT ISTREAM({items}) FROM {source.name} [RANGE UNBOUNDED] AS r WHERE {where}",
        f"SELECT RSTREAM({items}) FROM {source.name} [NOW] AS r WHERE {where}",
    )


def filters_commute_with_time_windows(maker: QueryMaker) -> tuple[str, ...]:
    """Section 10.2; not so for ROWS windows."""
    source = _stream(maker)
    where = condition(maker.dice, source.columns)
    over = window(maker.dice, source.columns, time_only=True)
    items, listed = _items(maker.dice, source.columns), ", ".join(column.name for column in source.columns)
    return (
        f"RSTREAM(SELECT {items} FROM (SELECT {listed} FROM {source.name} WHERE {where}) {over} AS r)",
        f"RSTREAM(SELECT {items} FROM {source.name} {over} AS r WHERE {where})",
    )


def joins_commute(maker: QueryMaker) -> tuple[str, ...]:
    a, b, on = _side(maker, "a"), _side(maker, "b"), _on(maker.dice, "a", "b")
    kind, mirrored = maker.dice.pick((("JOIN", "JOIN"), ("LEFT JOIN", "RIGHT JOIN"), ("FULL JOIN", "FULL JOIN")))
    listed = "SELECT a.c0, a.c1, b.c0 AS d0, b.c1 AS d1 FROM"
    return f"{listed} {a} {kind} {b} ON {on}", f"{listed} {b} {mirrored} {a} ON {on}"


def joins_associate(maker: QueryMaker) -> tuple[str, ...]:
    a, b, c = _side(maker, "a"), _side(maker, "b", leaves=1), _side(maker, "c", leaves=1)
    first, second = _on(maker.dice, "a", "b"), _on(maker.dice, "b", "c")
    listed = "SELECT a.c0, b.c1, c.c0 AS d0 FROM"
    return (
        f"{listed} {a} JOIN {b} ON {first} JOIN {c} ON {second}",
        f"{listed} {a} JOIN ({b} JOIN {c} ON {second}) ON {first}",
        f"{listed} {a}, {b}, {c} WHERE {second} AND {first}",
    )


def selections_move_below_joins(maker: QueryMaker) -> tuple[str, ...]:
    a, b, on = maker.relation(_PAIR).text, _side(maker, "b"), _on(maker.dice, "a", "b")
    where = condition(maker.dice, _TESTED)
    over_a = where.replace("c0", "a.c0").replace("c1", "a.c1")
    return (
        f"SELECT a.c0, b.c1 FROM ({a}) AS a JOIN {b} ON {on} WHERE {over_a}",
        f"SELECT a.c0, b.c1 FROM ({a}) AS a JOIN {b} ON {on} AND {over_a}",
        f"SELECT a.c0, b.c1 FROM (SELECT * FROM ({a}) AS x WHERE {where}) AS a JOIN {b} ON {on}",
    )


def selections_move_below_set_operations(maker: QueryMaker) -> tuple[str, ...]:
    a, b = maker.relation(_PAIR).text, maker.relation(_PAIR).text
    operation = maker.dice.pick(("UNION ALL", "EXCEPT ALL", "INTERSECT ALL", "UNION", "EXCEPT", "INTERSECT"))
    where = condition(maker.dice, _TESTED)
    return (
        f"SELECT c0, c1 FROM (({a}) {operation} ({b})) AS x WHERE {where}",
        f"(SELECT c0, c1 FROM ({a}) AS x WHERE {where}) {operation} (SELECT c0, c1 FROM ({b}) AS y WHERE {where})",
    )


def distinct_in_many_ways(maker: QueryMaker) -> tuple[str, ...]:
    a = maker.relation(_PAIR).text
    return (
        f"RSTREAM(SELECT DISTINCT c0, c1 FROM ({a}) AS x)",
        f"RSTREAM(SELECT DISTINCT c0, c1 FROM (SELECT DISTINCT c0, c1 FROM ({a}) AS x) AS y)",
        f"RSTREAM(SELECT c0, c1 FROM ({a}) AS x GROUP BY c0, c1)",
        f"RSTREAM(({a}) UNION ({a}))",
        f"RSTREAM(({a}) INTERSECT ({a}))",
    )


def union_is_distinct_of_union_all(maker: QueryMaker) -> tuple[str, ...]:
    a, b = maker.relation(_PAIR).text, maker.relation(_PAIR).text
    return f"({a}) UNION ({b})", f"SELECT DISTINCT c0, c1 FROM (({a}) UNION ALL ({b})) AS x"


def except_and_intersect_make_the_whole(maker: QueryMaker) -> tuple[str, ...]:
    """A = (A EXCEPT ALL B) UNION ALL (A INTERSECT ALL B)."""
    a, b = maker.relation(_PAIR).text, maker.relation(_PAIR).text
    return f"RSTREAM({a})", f"RSTREAM((({a}) EXCEPT ALL ({b})) UNION ALL (({a}) INTERSECT ALL ({b})))"


def intersect_by_except(maker: QueryMaker) -> tuple[str, ...]:
    a, b = maker.relation(_PAIR).text, maker.relation(_PAIR).text
    return f"RSTREAM(({a}) INTERSECT ALL ({b}))", f"RSTREAM(({a}) EXCEPT ALL (({a}) EXCEPT ALL ({b})))"


def semi_joins_by_subquery(maker: QueryMaker) -> tuple[str, ...]:
    a, b = _side(maker, "a"), _side(maker, "b")
    no, kind = maker.dice.pick((("", "SEMI"), ("NOT ", "ANTI")))
    return (
        f"RSTREAM(SELECT a.c0, a.c1 FROM {a} LEFT {kind} JOIN {b} ON a.c0 = b.c0)",
        f"RSTREAM(SELECT a.c0, a.c1 FROM {a} WHERE {no}EXISTS (SELECT 1 FROM {b} WHERE a.c0 = b.c0))",
        f"RSTREAM(SELECT a.c0, a.c1 FROM {a} WHERE {no}COALESCE(a.c0 IN (SELECT b.c0 FROM {b} WHERE b.c0 IS NOT NULL), "
        "FALSE))",
        f"RSTREAM(SELECT a.c0, a.c1 FROM {a} WHERE {no}(0 < (SELECT COUNT(*) FROM {b} WHERE a.c0 = b.c0)))",
    )


def outer_joins_by_anti_joins(maker: QueryMaker) -> tuple[str, ...]:
    a, b, on = _side(maker, "a"), _side(maker, "b"), _on(maker.dice, "a", "b")
    none = "CAST(NULL AS INT) AS d"
    inner = f"SELECT a.c0, b.c0 AS d FROM {a} JOIN {b} ON {on}"
    left = f"({inner}) UNION ALL (SELECT a.c0, {none} FROM {a} LEFT ANTI JOIN {b} ON {on})"
    right = f"SELECT CAST(NULL AS INT) AS c0, b.c0 AS d FROM {b} LEFT ANTI JOIN {a} ON {on}"
    if maker.dice.chance(50):
        return f"SELECT a.c0, b.c0 AS d FROM {a} LEFT JOIN {b} ON {on}", left
    return f"SELECT a.c0, b.c0 AS d FROM {a} FULL JOIN {b} ON {on}", f"({left}) UNION ALL ({right})"


def aggregates_of_aggregates(maker: QueryMaker) -> tuple[str, ...]:
    a = maker.relation(_PAIR).text
    grouped = f"SELECT c0, COUNT(*) AS n, SUM(c1) AS s, MIN(c1) AS l, MAX(c1) AS h FROM ({a}) AS x GROUP BY c0"
    return (
        f"SELECT COUNT(*) AS n, SUM(c1) AS s, MIN(c1) AS l, MAX(c1) AS h, COUNT(DISTINCT c0) AS d FROM ({a}) AS x",
        f"SELECT COALESCE(SUM(n), 0) AS n, SUM(s) AS s, MIN(l) AS l, MAX(h) AS h, COUNT(c0) AS d FROM ({grouped}) AS y",
    )


def having_is_where_above(maker: QueryMaker) -> tuple[str, ...]:
    a = maker.relation(_PAIR).text
    grouped = f"SELECT c0, COUNT(*) AS n, SUM(c1) AS s FROM ({a}) AS x GROUP BY c0"
    return f"{grouped} HAVING COUNT(*) > 1 OR c0 = 1", f"SELECT c0, n, s FROM ({grouped}) AS y WHERE n > 1 OR c0 = 1"


LAWS: tuple[Law, ...] = (
    window_reduction,
    filters_commute_with_time_windows,
    joins_commute,
    joins_associate,
    selections_move_below_joins,
    selections_move_below_set_operations,
    distinct_in_many_ways,
    union_is_distinct_of_union_all,
    except_and_intersect_make_the_whole,
    intersect_by_except,
    semi_joins_by_subquery,
    outer_joins_by_anti_joins,
    aggregates_of_aggregates,
    having_is_where_above,
)


def _stream(maker: QueryMaker) -> Source:
    """A stream as FROM may read it: declared, a view, or made by a subquery."""
    source = maker.dice.pick([source for source in maker.sources if source.is_stream])
    if maker.dice.chance(40):
        found, operator = maker.relation(_PAIR), maker.dice.pick(("ISTREAM", "DSTREAM", "RSTREAM"))
        return Source(f"({operator}({found.text}))", found.columns, True)
    return source


def _items(dice: Dice, columns: Sequence[Column]) -> str:
    kinds = dice.some([column.kind for column in columns], 1, 2)
    return ", ".join(f"{expression(dice, columns, kind)} AS c{i}" for i, kind in enumerate(kinds))


def _side(maker: QueryMaker, alias: str, leaves: int = 2) -> str:
    return f"({maker.relation(_PAIR, leaves=leaves).text}) AS {alias}"


def _on(dice: Dice, left: str, right: str) -> str:
    equal = f"{left}.{dice.pick(('c0', 'c1'))} {dice.pick(('=', '=', '<=>'))} {right}.c0"
    return f"{equal} AND {left}.c1 {dice.pick(('<>', '<='))} {right}.c1" if dice.chance(30) else equal
