"""Random queries that fail on some rows: blocks of inner joins, outer joins, EXISTS and IN, groups, subqueries in FROM,
set operations and derived streams. `Query.failures` are texts for DuckDB that give rows where the query fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.properties.dice import Dice
from tests.text_oracle.evaluator import Leaf, Query
from tests.text_oracle.kinds import Column, Kind, Text
from tests.text_oracle.queries import OPERATORS
from tests.text_oracle.risky import Risky, any_fails, condition, number, verdict
from tests.text_oracle.windows_random import window
from tests.text_oracle.world import Stream, Table


@dataclass(frozen=True)
class Origin:
    """FROM with the conditions of its inner joins, and what is in scope."""

    cql: str
    duck: str
    scope: tuple[Column, ...]
    conditions: tuple[Risky, ...] = ()


@dataclass
class RiskyMaker:
    dice: Dice
    sources: Sequence[Stream | Table]
    microseconds: bool = False
    scale: int = 1
    leaves: list[Leaf] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _aliases: int = 0
    _numbers: int = 0

    def query(self) -> Query:
        self.leaves, self.failures, self._aliases = [], [], 0
        dice = self.dice
        match dice.pick(("block", "block", "block", "group", "unread", "set", "derived")):
            case "group":
                cql, duck, columns = self._grouped()
            case "unread":
                cql, duck, columns = self._around_unread()
            case "set":
                cql, duck, columns = self._set_operation()
            case "derived":
                return self._over_derived()
            case _:
                cql, duck, columns = self._block(dice.number(1, 2))
        operator = None
        if dice.chance(25):
            operator = dice.pick(OPERATORS[:2] if self.microseconds else OPERATORS)
            cql = f"{operator}({cql})"
        return Query(Text(cql, duck), columns, tuple(self.leaves), operator, tuple(self.failures))

    # Blocks

    def _block(self, count: int, distinct: bool = True) -> tuple[str, str, tuple[Column, ...]]:
        origin, where, kept = self._rows()
        items = [number(self.dice, origin.scope, 2) for _ in range(count)]
        self.failures.append(f"SELECT 1 FROM {origin.duck} WHERE {kept} AND ({any_fails(items)})")
        head = "SELECT DISTINCT " if distinct and self.dice.chance(15) else "SELECT "
        cql = head + ", ".join(f"{item.cql} AS c{n}" for n, item in enumerate(items))
        duck = head + ", ".join(f"{item.value} AS c{n}" for n, item in enumerate(items))
        columns = tuple(Column(f"c{n}", Kind.INTEGER) for n in range(count))
        return f"{cql} FROM {origin.cql}{where}", f"{duck} FROM {origin.duck} WHERE {kept}", columns

    def _rows(self) -> tuple[Origin, str, str]:
        """FROM, WHERE as CQL, and for DuckDB which rows are kept; what fails is noted."""
        origin = self._from()
        where = [condition(self.dice, origin.scope) for _ in range(self.dice.number(0, 2))]
        if self.dice.chance(30):
            where.append(self._exists(origin.scope) if self.dice.chance(70) else self._in(origin.scope))
        kept, fails = verdict([*origin.conditions, *where])
        self.failures.append(f"SELECT 1 FROM {origin.duck} WHERE {fails}")
        return origin, f" WHERE {' AND '.join(c.cql for c in where)}" if where else "", kept

    def _from(self) -> Origin:
        left = self._item()
        for _ in range(self.dice.pick((0, 0, 1, 1, 2))):
            right = self._item()
            scope = (*left.scope, *right.scope)
            if not left.conditions and self.dice.chance(30):
                return self._outer(left, right, scope)
            duck = f"{left.duck} CROSS JOIN {right.duck}"
            if self.dice.chance(40):
                left = Origin(f"{left.cql}, {right.cql}", duck, scope, left.conditions)
                continue
            on = [condition(self.dice, scope) for _ in range(self.dice.number(1, 2))]
            cql = f"{left.cql} JOIN {right.cql} ON {' AND '.join(c.cql for c in on)}"
            left = Origin(cql, duck, scope, (*left.conditions, *on))
        return left

    def _outer(self, left: Origin, right: Origin, scope: tuple[Column, ...]) -> Origin:
        """ON of an outer join is an AND of its own, over the pairs of its inputs."""
        on = [condition(self.dice, scope) for _ in range(self.dice.number(1, 2))]
        holds, fails = verdict(on)
        self.failures.append(f"SELECT 1 FROM {left.duck} CROSS JOIN {right.duck} WHERE {fails}")
        word = self.dice.pick(("LEFT", "LEFT", "RIGHT", "FULL"))
        cql = f"{left.cql} {word} JOIN {right.cql} ON {' AND '.join(c.cql for c in on)}"
        return Origin(cql, f"{left.duck} {word} JOIN {right.duck} ON {holds}", scope)

    def _item(self) -> Origin:
        source = self.dice.pick(self.sources)
        over = None if isinstance(source, Table) else window(self.dice, source.columns, self.scale, bounded=True)
        leaf = self._leaf(Leaf("", source.columns, source.name, over))
        return self._named(f"{source.name} {over.text}".strip() if over else source.name, leaf)

    def _named(self, cql: str, leaf: Leaf) -> Origin:
        alias = f"r{self._aliases}"
        self._aliases += 1
        scope = tuple(Column(f"{alias}.{column.name}", column.kind) for column in leaf.columns)
        return Origin(f"{cql} AS {alias}", f"{leaf.name} AS {alias}", scope)

    def _leaf(self, leaf: Leaf) -> Leaf:
        self._numbers += 1
        leaf = replace(leaf, name=f"leaf_{self._numbers}")
        self.leaves.append(leaf)
        return leaf

    # Conditions on other rows

    def _exists(self, outer: Sequence[Column]) -> Risky:
        inner, negated = self._item(), self.dice.pick(("", "NOT "))
        conditions = [condition(self.dice, [*outer, *inner.scope]) for _ in range(self.dice.number(1, 2))]
        holds, fails = verdict(conditions)
        found, failing = (f"EXISTS (SELECT 1 FROM {inner.duck} WHERE {which})" for which in (holds, fails))
        where = " AND ".join(c.cql for c in conditions)
        cql = f"{negated}EXISTS (SELECT * FROM {inner.cql} WHERE {where})"
        return Risky(cql, f"({negated}{found})", f"(NOT {found} AND {failing})")

    def _in(self, outer: Sequence[Column]) -> Risky:
        """An OR over the rows of the subquery, whatever fails on others where one is equal."""
        inner, tested = self._item(), number(self.dice, outer, 0)
        item = number(self.dice, inner.scope, 1)
        hit = f"EXISTS (SELECT 1 FROM {inner.duck} WHERE NOT {item.fails} AND ({tested.value} = {item.value}) IS TRUE)"
        failing = f"EXISTS (SELECT 1 FROM {inner.duck} WHERE {item.fails} OR {tested.fails})"
        cql = f"{tested.cql} IN (SELECT {item.cql} AS c0 FROM {inner.cql})"
        return Risky(cql, f"({hit})", f"((NOT {hit} OR {tested.fails}) AND {failing})")

    # Shapes

    def _grouped(self) -> tuple[str, str, tuple[Column, ...]]:
        origin, where, kept = self._rows()
        key = self.dice.pick([c for c in origin.scope if c.kind is Kind.INTEGER]).name
        argument = number(self.dice, origin.scope, 2)
        rows = f"FROM {origin.duck} WHERE {kept}"
        self.failures.append(f"SELECT 1 {rows} AND {argument.fails}")
        groups = f"(SELECT {key} AS k, COUNT(*) AS n, SUM({argument.value}) AS s {rows} GROUP BY {key})"
        group = (Column("k", Kind.INTEGER), Column("n", Kind.INTEGER))
        having = condition(self.dice, group) if self.dice.chance(60) else Risky("TRUE", "TRUE")
        item = number(self.dice, group, 1)
        holds, fails = verdict([having])
        self.failures += [
            f"SELECT 1 FROM {groups} WHERE {fails}",
            f"SELECT 1 FROM {groups} WHERE {holds} AND {item.fails}",
        ]
        above = [_above_groups(text, key) for text in (item.cql, having.cql)]
        cql = f"SELECT {above[0]} AS c0, SUM({argument.cql}) AS c1 FROM {origin.cql}{where} GROUP BY {key}"
        columns = (Column("c0", Kind.INTEGER), Column("c1", Kind.INTEGER))
        having_cql = f" HAVING {above[1]}" if having.cql != "TRUE" else ""
        return cql + having_cql, f"SELECT {item.value} AS c0, s AS c1 FROM {groups} WHERE {holds}", columns

    def _around_unread(self) -> tuple[str, str, tuple[Column, ...]]:
        """A subquery in FROM is a block of its own, of which only columns that are read are computed."""
        origin, where, kept = self._rows()
        items = [number(self.dice, origin.scope, 2) for _ in range(2)]
        alias = f"r{self._aliases}"
        self._aliases += 1
        scope = (Column(f"{alias}.c0", Kind.INTEGER),)
        conditions = [condition(self.dice, scope)] if self.dice.chance(50) else []
        outer = number(self.dice, scope, 1)
        reads = any(f"{alias}.c0" in part.cql for part in (outer, *conditions))
        listed = [
            ", ".join(f"{text} AS c{n}" for n, text in enumerate(texts))
            for texts in ([i.cql for i in items], [i.value for i in items])
        ]
        inner = f"SELECT {listed[1]} FROM {origin.duck} WHERE {kept}"
        if reads:
            self.failures.append(f"SELECT 1 FROM {origin.duck} WHERE {kept} AND {items[0].fails}")
        holds, fails = verdict(conditions)
        around = f"FROM ({inner}) AS {alias}"
        self.failures += [f"SELECT 1 {around} WHERE {fails}", f"SELECT 1 {around} WHERE {holds} AND {outer.fails}"]
        condition_cql = f" WHERE {conditions[0].cql}" if conditions else ""
        cql = f"SELECT {outer.cql} AS c0 FROM (SELECT {listed[0]} FROM {origin.cql}{where}) AS {alias}{condition_cql}"
        return cql, f"SELECT {outer.value} AS c0 {around} WHERE {holds}", (Column("c0", Kind.INTEGER),)

    def _set_operation(self) -> tuple[str, str, tuple[Column, ...]]:
        """Branches are blocks of their own."""
        word = self.dice.pick(("UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT ALL"))
        sides = [self._block(1, distinct=False) for _ in range(2)]
        cql, duck = (f" {word} ".join(f"({side[index]})" for side in sides) for index in (0, 1))
        return cql, duck, sides[0][2]

    def _over_derived(self) -> Query:
        """A stream made by a block, under a window, in a block."""
        cql, duck, columns = self._block(2)
        operator = self.dice.pick(OPERATORS[:2])
        made = Query(Text(f"{operator}({cql})", duck), columns, tuple(self.leaves), operator, tuple(self.failures))
        self.failures = []
        over = window(self.dice, columns, self.scale, bounded=True)
        origin = self._named(f"({made.text.cql}) {over.text}".strip(), self._leaf(Leaf("", columns, made, over)))
        where = [condition(self.dice, origin.scope) for _ in range(self.dice.number(0, 1))]
        item = number(self.dice, origin.scope, 1)
        holds, fails = verdict(where)
        self.failures += [
            f"SELECT 1 FROM {origin.duck} WHERE {fails}",
            f"SELECT 1 FROM {origin.duck} WHERE {holds} AND {item.fails}",
        ]
        text = Text(
            f"SELECT {item.cql} AS c0 FROM {origin.cql}" + (f" WHERE {where[0].cql}" if where else ""),
            f"SELECT {item.value} AS c0 FROM {origin.duck} WHERE {holds}",
        )
        return Query(text, (Column("c0", Kind.INTEGER),), tuple(self.leaves), None, tuple(self.failures))


def _above_groups(cql: str, key: str) -> str:
    """The columns of a group as a query writes them."""
    words = {"k": key, "n": "COUNT(*)"}
    return re.sub(r"\b(k|n)\b", lambda found: words[found[0]], cql)
