"""Random joins with NON RETROACTIVE tables, above all that may stand below them.

For DuckDB every relation below the join has a column more, `_born`: when its row was generated, by DESIGN's section 2a.
Rows of windows, selections, inner joins and UNION ALL have that from `_from` of what they are made of. Where the start
of a run of presence decides (DISTINCT, UNION, EXISTS, IN), the runs are a leaf of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.properties.dice import Dice
from tests.text_oracle.evaluator import Leaf, Query
from tests.text_oracle.expressions import Scope, condition, expression
from tests.text_oracle.kinds import Column, Kind, Text, joined, same
from tests.text_oracle.queries import OPERATORS
from tests.text_oracle.windows_random import window
from tests.text_oracle.world import Stream, Table

_PAIR = (Column("c0", Kind.INTEGER), Column("c1", Kind.INTEGER))


@dataclass(frozen=True)
class Below:
    """A relation of two columns; `ever` has, for DuckDB, at least all rows that it has at any time."""

    text: Text
    ever: str


@dataclass
class VersionedMaker:
    dice: Dice
    streams: Sequence[Stream]
    versioned: Table
    others: Sequence[Table] = ()
    microseconds: bool = False
    scale: int = 1
    leaves: list[Leaf] = field(default_factory=list)
    _numbers: int = 0

    def query(self) -> Query:
        self.leaves = []
        if self.dice.chance(40):
            origin, born, scope = self._streams()
        else:
            below = self._below(self.dice.number(1, 2))
            origin, born = same("(") + below.text + ") AS d", "d._born"
            scope = [Column(f"d.{column.name}", column.kind) for column in _PAIR]
        text, columns = self._joined(origin, born, scope)
        operator = None
        if self.dice.chance(30):
            operator = self.dice.pick(OPERATORS[:2] if self.microseconds else OPERATORS)
            text = Text(f"{operator}({text.cql})", text.duck)
        return Query(text, columns, tuple(self.leaves), operator, sees_past=True)

    # The join

    def _joined(self, origin: Text, born: str, scope: list[Column]) -> tuple[Text, tuple[Column, ...]]:
        dice, table = self.dice, self.versioned
        leaf = self._leaf(Leaf("", table.columns, table.name))
        cql, filtered = table.name, same("")
        if dice.chance(20):
            filtered = condition(dice, table.columns)
            cql = f"(SELECT * FROM {table.name} WHERE {filtered.cql})"
        columns = [Column(f"n.{column.name}", column.kind) for column in table.columns]
        on = self._on(scope, columns)
        commas = " JOIN " not in origin.cql and dice.chance(50)
        scope, between = [*scope, *columns], ", " if commas else " JOIN "
        where, ons = ([on], []) if commas else ([], [on.duck])
        written, beside = f"{between}{cql} AS n" + ("" if commas else f" ON {on.cql}"), ""
        for other in self.others if dice.chance(50) else ():
            its = self._leaf(Leaf("", other.columns, other.name))
            columns = [Column(f"o.{column.name}", column.kind) for column in other.columns]
            on = self._on(scope, columns)
            scope = [*scope, *columns]
            where, ons = ([*where, on], ons) if commas else (where, [*ons, on.duck])
            written += f"{between}{other.name} AS o" + ("" if commas else f" ON {on.cql}")
            beside = f" CROSS JOIN {its.name}_born AS o"
            if other.only_grows:
                born = f"greatest({born}, o._born)"
        kept = f" WHERE {filtered.duck}" if filtered.duck else ""
        met = f"(SELECT * FROM rows_of_{leaf.name}{kept}) AS n ON n._from <= {born} AND {born} < n._until"
        origin = origin + Text(written, f"{beside} JOIN {' AND '.join([met, *(f'({text})' for text in ons)])}")
        if dice.chance(30):
            where.append(condition(dice, scope, 2))
        tail = same(" FROM ") + origin + (same(" WHERE ") + joined(" AND ", where) if where else "")
        return self._shown(scope, tail)

    def _on(self, left: Scope, right: Scope) -> Text:
        pairs = [(one.name, other.name) for one in left for other in right if one.kind is other.kind]
        if not pairs or self.dice.chance(10):
            return condition(self.dice, [*left, *right])
        return same("{} = {}".format(*self.dice.pick(pairs)))

    def _shown(self, scope: Scope, tail: Text) -> tuple[Text, tuple[Column, ...]]:
        kinds = [column.kind for column in self.dice.some(scope, 1, 3)]
        if self.dice.chance(20):
            key = self.dice.pick(scope)
            items = [key.text, same("COUNT(*)")]
            kinds, tail = [key.kind, Kind.INTEGER], tail + f" GROUP BY {key.name}"
        else:
            items = [expression(self.dice, scope, kind, 1) for kind in kinds]
        head = "SELECT DISTINCT " if self.dice.chance(10) else "SELECT "
        listed = joined(", ", [item + f" AS c{n}" for n, item in enumerate(items)])
        return same(head) + listed + tail, tuple(Column(f"c{n}", kind) for n, kind in enumerate(kinds))

    # What stands below it

    def _streams(self) -> tuple[Text, str, list[Column]]:
        """A FROM list of streams."""
        origin, borns, scope = same(""), [], list[Column]()
        for number in range(self.dice.pick((1, 1, 2))):
            leaf, cql = self._windowed()
            columns = [Column(f"s{number}.{column.name}", column.kind) for column in leaf.columns]
            item = Text(f"{cql} AS s{number}", f"{leaf.name}_born AS s{number}")
            origin = origin + " JOIN " + item + " ON " + self._on(scope, columns) if number else item
            borns.append(f"s{number}._born")
            scope = [*scope, *columns]
        return origin, f"greatest({', '.join(borns)})", scope

    def _windowed(self) -> tuple[Leaf, str]:
        stream = self.dice.pick(self.streams)
        over = window(self.dice, stream.columns, self.scale)
        return self._leaf(Leaf("", stream.columns, stream.name, over)), f"{stream.name} {over.text}".strip()

    def _below(self, depth: int) -> Below:
        if depth == 0:
            return self._selection()
        one = self._below(self.dice.number(0, depth - 1))
        match self.dice.pick(("distinct", "distinct", "union", "union all", "exists", "in", "join")):
            case "distinct":
                return self._runs(same("SELECT DISTINCT c0, c1 FROM (") + one.text + ") AS u")
            case "exists" | "in" as form:
                return self._existing(one, self._below(0), form)
            case "join":
                return self._pairs(one, self._below(0))
            case form:
                other, word = self._below(0), f" {form.upper()} "
                sides = [same("SELECT c0, c1 FROM (") + side.text + ") AS u" for side in (one, other)]
                if form == "union":
                    return self._runs(sides[0] + word + sides[1])
                duck = word.join(f"SELECT c0, c1, _born FROM ({side.text.duck}) AS u" for side in (one, other))
                ever = word.join(f"SELECT c0, c1 FROM ({side.ever}) AS u" for side in (one, other))
                return Below(Text((sides[0] + word + sides[1]).cql, duck), ever)

    def _selection(self) -> Below:
        leaf, cql = self._windowed()
        numbers = [column for column in leaf.columns if column.kind is Kind.INTEGER]
        second = expression(self.dice, leaf.columns, Kind.INTEGER, 1)
        items = self.dice.pick(numbers).text + " AS c0, CAST(" + second + " AS BIGINT) AS c1"
        where = same(" WHERE ") + condition(self.dice, leaf.columns) if self.dice.chance(25) else same("")
        head = same("SELECT ") + items
        duck = f"{head.duck}, _born FROM {leaf.name}_born{where.duck}"
        return Below(
            Text(f"{head.cql} FROM {cql}{where.cql}", duck), f"{head.duck} FROM rows_of_{leaf.name}{where.duck}"
        )

    def _runs(self, text: Text) -> Below:
        leaf = self._runs_of(text.duck)
        return Below(
            Text(text.cql, f"SELECT c0, c1, _born FROM {leaf.name}_born"), f"SELECT c0, c1 FROM rows_of_{leaf.name}"
        )

    def _runs_of(self, duck: str) -> Leaf:
        """The runs of presence of different rows."""
        made = Query(Text("", duck), _PAIR, tuple(self.leaves), sees_past=True)
        return self._leaf(Leaf("", _PAIR, made, runs=True))

    def _pairs(self, one: Below, other: Below) -> Below:
        on = self._on([Column("l.c0", Kind.INTEGER)], [Column("r.c0", Kind.INTEGER)])
        sides = same("(") + one.text + ") AS l JOIN (" + other.text + ") AS r ON " + on
        head = "SELECT l.c0 AS c0, r.c1 AS c1"
        ever = f"{head} FROM ({one.ever}) AS l JOIN ({other.ever}) AS r ON {on.duck}"
        duck = f"{head}, greatest(l._born, r._born) AS _born FROM {sides.duck}"
        return Below(Text(f"{head} FROM {sides.cql}", duck), ever)

    def _existing(self, one: Below, other: Below, form: str) -> Below:
        """The later of a row's own instant, and of the start of the run during which it has had a partner."""
        more = " AND p.c1 <= e.c1" if form == "exists" and self.dice.chance(40) else ""
        partner = f"SELECT 1 FROM ({other.text.duck}) AS p WHERE p.c0 = e.c0{more}"
        leaf = self._runs_of(f"SELECT DISTINCT c0, c1 FROM ({one.ever}) AS e WHERE EXISTS ({partner})")
        equal = " AND ".join(f"e.{c.name} IS NOT DISTINCT FROM p.{c.name}" for c in _PAIR)
        born = "SELECT e.c0 AS c0, e.c1 AS c1, greatest(e._born, p._born) AS _born"
        duck = f"{born} FROM ({one.text.duck}) AS e JOIN {leaf.name}_born AS p ON {equal}"
        if form == "in":
            test = f"e.c0 IN (SELECT p.c0 AS c0 FROM ({other.text.cql}) AS p)"
        else:
            test = f"EXISTS (SELECT 1 AS one FROM ({other.text.cql}) AS p WHERE p.c0 = e.c0{more})"
        cql = f"SELECT e.c0 AS c0, e.c1 AS c1 FROM ({one.text.cql}) AS e WHERE {test}"
        return Below(Text(cql, duck), one.ever)

    def _leaf(self, leaf: Leaf) -> Leaf:
        self._numbers += 1
        leaf = replace(leaf, name=f"leaf_{self._numbers}")
        self.leaves.append(leaf)
        return leaf
