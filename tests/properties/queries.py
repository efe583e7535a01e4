"""Random queries as text, typed so that they bind: SELECT blocks, set operations and stream operators over sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.properties.aggregates import Grouping, grouping
from tests.properties.dice import Dice
from tests.properties.expressions import Scope, condition, expression, operand
from tests.properties.inputs import HORIZON, Source
from tests.properties.kinds import Column, Kind
from tests.properties.windows import window

_OPERATORS = ("ISTREAM", "RSTREAM", "ISTREAM", "DSTREAM", "RSTREAM")
_STREAM_TEXTS = tuple(f"{prefix}{operator}(" for operator in _OPERATORS for prefix in ("", "SELECT "))
_SET_OPERATIONS = ("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")
_JOINS = (
    *(",", ",", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"),
    *("LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN"),
)


@dataclass(frozen=True)
class Profile:
    """How far queries may go: leaves that they read, levels of SELECT; elements per stream, numbers of queries."""

    name: str
    relational: bool
    leaves: int
    levels: int
    elements: int
    queries: tuple[int, ...]
    horizon: int = HORIZON


LINEAR = Profile("linear", relational=False, leaves=4, levels=3, elements=9, queries=(1, 2, 3))
RELATIONAL = Profile("relational", relational=True, leaves=4, levels=4, elements=8, queries=(1, 1, 2))
LONG = Profile("long", relational=True, leaves=3, levels=2, elements=30, queries=(1,), horizon=30)


@dataclass(frozen=True)
class Query:
    text: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Item:
    """A FROM item; `columns` are written alias.name."""

    text: str
    columns: tuple[Column, ...]


class QueryMaker:
    """Makes one query at a time over the sources."""

    def __init__(self, dice: Dice, sources: Sequence[Source], profile: Profile) -> None:
        self.dice, self.sources, self.profile = dice, list(sources), profile
        self._leaves = 0
        self._aliases = 0

    def query(self) -> Query:
        """An outermost query: a relation, or a stream."""
        self._leaves, self._aliases = self.dice.number(2, self.profile.leaves), 0
        levels = self.dice.number(1, self.profile.levels)
        if levels > 1 and self.dice.chance(6):
            return self._with(levels)
        return self._outermost(levels)

    def relation(self, wanted: Sequence[Kind], levels: int = 2, leaves: int = 2) -> Query:
        """A relation with columns of these kinds, as a part of a larger query."""
        self._leaves = leaves
        return self._relation(levels, wanted)

    def inner_joins(self, inputs: int, *, plain: bool = False) -> Query:
        """Columns of so many inputs, joined by equalities, ranges and other conditions on any of them; `plain` are
        those columns, or else expressions."""
        self._aliases, self._leaves = 0, inputs
        items = [self._from_item(1) for _ in range(inputs)]
        scope = list(items[0].columns)
        conditions = []
        nested = self._of_any_shape(items) if inputs > 2 and self.dice.chance(40) else None
        for item in items[1:]:
            if nested is None and not self.dice.chance(8):
                conditions.append(self._connection(scope, item.columns))
            scope += item.columns
        if self.dice.chance(30):
            conditions.append(condition(self.dice, scope))
        kinds = [column.kind for column in scope] if plain else self._kinds(scope)
        chosen = [c.name for c in scope] if plain else [expression(self.dice, scope, kind) for kind in kinds]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        listed = nested or ", ".join(item.text for item in items)
        return self._assembled(Grouping(chosen, kinds, ""), listed, where, None)

    def asked_joins(self, inputs: int, form: str) -> Query:
        """Inner joins of so many inputs below something that asks for some of their rows only."""
        joined = self.inner_joins(inputs, plain=not self.dice.chance(20))
        return self._asking(self._aliased(joined), form)

    def joins_asked_by_many(self, inputs: int, forms: Sequence[str], view: str) -> tuple[str, list[str]]:
        """Inner joins, and queries that ask for different rows of them, each in its form and perhaps by a view."""
        joined = self.inner_joins(inputs, plain=True)
        item = self._named(view, joined.columns) if view else self._aliased(joined)
        return joined.text, [self._asking(item, form).text for form in forms]

    def _asking(self, item: Item, form: str) -> Query:
        other = self._from_item(1)
        asking = self._connection(item.columns, other.columns)
        shown = ", ".join(column.name for column in item.columns)
        match form:
            case "exists" | "not exists":
                tests = f"{form.upper()} (SELECT 1 AS one FROM {other.text} WHERE {asking})"
                if self.dice.chance(30):
                    more = self._from_item(1)
                    also = self._connection(item.columns, more.columns)
                    tests += (
                        f" AND {self.dice.pick(('', 'NOT '))}EXISTS (SELECT 1 AS one FROM {more.text} WHERE {also})"
                    )
                return Query(f"SELECT {shown} FROM {item.text} WHERE {tests}", item.columns)
            case "asking":
                test = f"{self.dice.pick(('', 'NOT '))}EXISTS (SELECT 1 AS one FROM {item.text} WHERE {asking})"
                names = ", ".join(f"{c.name} AS c{n}" for n, c in enumerate(other.columns))
                columns = tuple(Column(f"c{n}", c.kind) for n, c in enumerate(other.columns))
                return Query(f"SELECT {names} FROM {other.text} WHERE {test}", columns)
            case "left" | "right" | "full":
                sides = (other.text, item.text) if form == "left" else (item.text, other.text)
                return Query(f"SELECT {shown} FROM {sides[0]} {form.upper()} JOIN {sides[1]} ON {asking}", item.columns)
            case "joined":
                return Query(f"SELECT {shown} FROM {item.text}, {other.text} WHERE {asking}", item.columns)
            case "all":
                return Query(f"SELECT {shown} FROM {item.text}", item.columns)
            case _:
                raise AssertionError(form)

    def joins_read_twice(self, inputs: int) -> tuple[str, str]:
        """Two queries that ask for different rows of the same inner joins."""
        item, one, other = self._aliased(self.inner_joins(inputs, plain=True)), self._from_item(1), self._from_item(1)
        shown = ", ".join(column.name for column in item.columns)
        first, second = (self._connection(item.columns, asking.columns) for asking in (one, other))
        joined = [
            f"SELECT {shown} FROM {item.text}, {asking.text} WHERE {condition}"
            for asking, condition in ((one, first), (other, second))
        ]
        if self.dice.chance(50):
            test = f"{self.dice.pick(('', 'NOT '))}EXISTS (SELECT 1 AS one FROM {other.text} WHERE {second})"
            joined[1] = f"SELECT {shown} FROM {item.text} WHERE {test}"
        return joined[0], joined[1]

    def joins_as_of(self, inputs: int, table: Source) -> Query:
        """Inner joins with a NON RETROACTIVE table as the last one, which no DISTINCT may stand below."""
        joined = self.inner_joins(inputs, plain=True)
        joined = Query(joined.text.replace("SELECT DISTINCT", "SELECT"), joined.columns)
        item, other = self._aliased(joined), self._named(table.name, table.columns)
        asking = self._connection(item.columns, other.columns)
        names = ", ".join(f"{c.name} AS c{n}" for n, c in enumerate([*item.columns, *other.columns]))
        return Query(f"SELECT {names} FROM {item.text}, {other.text} WHERE {asking}", joined.columns)

    def _of_any_shape(self, items: list[Item]) -> str:
        """Joins of any shape, by parentheses; on the left side they are not needed."""
        if len(items) == 1:
            return items[0].text
        cut = self.dice.number(1, len(items) - 1)
        halves = items[:cut], items[cut:]
        left, right = (self._of_any_shape(half) for half in halves)
        scopes = [[column for item in half for column in item.columns] for half in halves]
        on = "1 = 1" if self.dice.chance(8) else self._connection(*scopes)
        return f"{left} JOIN {right if len(halves[1]) == 1 else f'({right})'} ON {on}"

    def _connection(self, left: Scope, right: Scope) -> str:
        """Mostly equalities of columns, sometimes of all that can be equal; else a range."""
        pairs = [(one.name, other.name) for one in left for other in right if one.kind is other.kind]
        integers = [[c.name for c in side if c.kind is Kind.INTEGER] for side in (left, right)]
        one, other = self.dice.pick(pairs) if pairs else ("1", "1")
        match self.dice.pick(("key", "key", "key", "keys", "range", "band")):
            case "keys" if pairs:
                another = self.dice.pick(pairs)
                return f"{one} = {other} AND {another[0]} {self.dice.pick(('=', '<=>'))} {another[1]}"
            case "range" if all(integers):
                one, other = (self.dice.pick(side) for side in integers)
                return f"{one} {self.dice.pick(('<', '<=', '>', '>='))} {other}"
            case "band" if all(integers):
                one, other = (self.dice.pick(side) for side in integers)
                return f"{one} BETWEEN {other} - {self.dice.number(0, 1)} AND {other} + {self.dice.number(0, 1)}"
            case _:
                return f"{one} {self.dice.pick(('=', '=', '=', '<=>'))} {other}"

    def _outermost(self, levels: int) -> Query:
        return self._stream(levels) if self.dice.chance(40) else self._relation(levels)

    def _with(self, levels: int) -> Query:
        """A query over a name that WITH gives, often used twice; everything may be shared."""
        named = self._outermost(levels - 1)
        is_stream = named.text.startswith(_STREAM_TEXTS)
        self._leaves = 2
        self.sources.append(Source("x", named.columns, is_stream))
        found = self._relation(levels - 1)
        self.sources.pop()
        return Query(f"WITH x AS ({named.text}) {found.text}", found.columns)

    def _stream(self, levels: int) -> Query:
        operator = self.dice.pick(_OPERATORS)
        if self.dice.chance(50):
            return self._select(levels, operator=operator)
        found = self._relation(levels)
        return Query(f"{operator}({found.text})", found.columns)

    def _relation(self, levels: int, wanted: Sequence[Kind] | None = None) -> Query:
        if levels > 1 and self._leaves > 1 and self.dice.chance(25):
            return self._set_operation(levels, wanted)
        return self._select(levels, wanted)

    def _set_operation(self, levels: int, wanted: Sequence[Kind] | None) -> Query:
        if wanted is None:  # few columns, so that rows of both sides are equal
            wanted = [self.dice.pick(self.dice.pick(self.sources).columns).kind for _ in range(self.dice.number(1, 2))]
        left = self._relation(levels - 1, wanted)
        right = self._relation(levels - 1, [column.kind for column in left.columns])
        operation = self.dice.pick(_SET_OPERATIONS) if self.profile.relational else "UNION ALL"
        return Query(f"({left.text}) {operation} ({right.text})", left.columns)

    # SELECT

    def _select(
        self, levels: int, wanted: Sequence[Kind] | None = None, outer: Scope = (), operator: str | None = None
    ) -> Query:
        """`outer` are the columns of the query around this one, if it may be correlated with it."""
        origin, scope = self._from(levels)
        where = self._where(levels, scope, outer)
        if self.profile.relational and self.dice.chance(30):
            grouped = grouping(self.dice, scope, wanted, outer=outer)
            return self._assembled(grouped, origin, where, operator)
        kinds = wanted if wanted is not None else self._kinds(scope)
        items = [self._item(levels, scope, kind) for kind in kinds]
        return self._assembled(Grouping(items, list(kinds), ""), origin, where, operator)

    def _assembled(self, grouped: Grouping, origin: str, where: str, operator: str | None) -> Query:
        names = [f"c{i}" for i in range(len(grouped.items))]
        distinct = "DISTINCT " if self.profile.relational and self.dice.chance(12) else ""
        listed = distinct + ", ".join(f"{item} AS {name}" for item, name in zip(grouped.items, names, strict=True))
        listed = f"{operator}({listed})" if operator else listed
        columns = tuple(Column(name, kind) for name, kind in zip(names, grouped.kinds, strict=True))
        return Query(f"SELECT {listed} FROM {origin}{where}{grouped.clause}", columns)

    def _kinds(self, scope: Scope) -> list[Kind]:
        return self.dice.some([column.kind for column in scope], 1, 3)

    def _item(self, levels: int, scope: Scope, kind: Kind) -> str:
        if self.profile.relational and levels > 1 and self._leaves > 0 and self.dice.chance(6):
            if kind is Kind.BOOLEAN:
                return self._subquery_test(levels, scope)
            return self._scalar(levels, scope, kind)
        return expression(self.dice, scope, kind)

    def _where(self, levels: int, scope: Scope, outer: Scope) -> str:
        parts = [self._correlation(scope, outer)] if outer else []
        if self.dice.chance(25):
            parts.append(condition(self.dice, scope))
        if self.profile.relational and levels > 1 and self._leaves > 0 and self.dice.chance(30):
            parts.append(self._subquery_test(levels, scope))
        if len(parts) == 2 and self.dice.chance(15):
            return f" WHERE ({parts[0]} OR {parts[1]})"
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _correlation(self, scope: Scope, outer: Scope) -> str:
        """Mostly an equality of an inner and an outer column."""
        pairs = [(one.name, other.name) for one in scope for other in outer if one.kind is other.kind]
        if not pairs or self.dice.chance(20):
            return condition(self.dice, [*scope, *outer])
        one, other = self.dice.pick(pairs)
        return f"{one} {self.dice.pick(('=', '=', '<=>', '<', '<>'))} {other}"

    # Subqueries in expressions

    def _subquery_test(self, levels: int, scope: Scope) -> str:
        outer = scope if self.dice.chance(60) else ()
        form = self.dice.pick(("EXISTS", "IN", "scalar"))
        if form == "EXISTS":
            inner = self._nested(levels, [Kind.INTEGER], outer)
            return f"{self.dice.pick(('', 'NOT '))}EXISTS ({inner.text})"
        kind = self.dice.pick([column.kind for column in scope])
        value = operand(self.dice, scope, kind)
        if form == "IN":
            inner = self._nested(levels, [kind], outer)
            if self._leaves > 0 and self.dice.chance(8):
                value = self._scalar(levels, scope, kind)
            return f"{value} {self.dice.pick(('', 'NOT '))}IN ({inner.text})"
        return f"{value} {self.dice.pick(('=', '<', '>=', '<>'))} {self._scalar(levels, scope, kind)}"

    def _nested(self, levels: int, wanted: Sequence[Kind], outer: Scope) -> Query:
        if outer:
            return self._select(levels - 1, wanted, outer)
        return self._relation(levels - 1, wanted)

    def _scalar(self, levels: int, scope: Scope, kind: Kind) -> str:
        """An aggregate without GROUP BY: one row, or none where HAVING says so."""
        outer = scope if self.dice.chance(50) else ()
        origin, inner = self._from(levels - 1)
        where = self._where(levels - 1, inner, outer)
        found = grouping(self.dice, inner, [kind], keys=(0,), outer=outer)
        return f"(SELECT {found.items[0]} AS c0 FROM {origin}{where}{found.clause})"

    # FROM

    def _from(self, levels: int) -> tuple[str, list[Column]]:
        first = self._from_item(levels)
        text, scope = first.text, list(first.columns)
        joins = self.profile.relational and self.dice.pick((0, 0, 1, 1, 2))
        for _ in range(min(int(joins), self._leaves)):
            text, scope = self._join(text, scope, self._from_item(levels))
        return text, scope

    def _join(self, text: str, scope: list[Column], right: Item) -> tuple[str, list[Column]]:
        join = self.dice.pick(_JOINS)
        both = [*scope, *right.columns]
        if join in (",", "CROSS JOIN"):
            return f"{text}{', ' if join == ',' else ' CROSS JOIN '}{right.text}", both
        kept = scope if join in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else both
        shared = _shared_names(scope, right.columns)
        if shared and self.dice.chance(15):
            return f"{text} {join} {right.text} USING ({self.dice.pick(shared)})", kept
        return f"{text} {join} {right.text} ON {self._join_condition(scope, right.columns)}", kept

    def _join_condition(self, left: Scope, right: Scope) -> str:
        pairs = [(one.name, other.name) for one in left for other in right if one.kind is other.kind]
        if not pairs or self.dice.chance(15):
            return condition(self.dice, [*left, *right])
        one, other = self.dice.pick(pairs)
        equal = f"{one} {self.dice.pick(('=', '=', '=', '<=>'))} {other}"
        return f"{equal} AND {condition(self.dice, [*left, *right])}" if self.dice.chance(25) else equal

    def _from_item(self, levels: int) -> Item:
        if levels > 1 and self._leaves > 1 and self.dice.chance(35):
            return self._derived(levels - 1) if self.dice.chance(50) else self._aliased(self._relation(levels - 1))
        self._leaves -= 1
        source = self.dice.pick(self.sources)
        sample = " SAMPLE (50 PERCENT)" if source.is_stream and self.dice.chance(2) else ""
        reading = window(self.dice, source.columns) if source.is_stream else ""
        return self._named(f"{source.name}{sample} {reading}".strip(), source.columns)

    def _derived(self, levels: int) -> Item:
        """A stream made by a subquery, under a window."""
        found = self._stream(levels)
        return self._named(f"({found.text}) {window(self.dice, found.columns)}".strip(), found.columns)

    def _aliased(self, found: Query) -> Item:
        return self._named(f"({found.text})", found.columns)

    def _named(self, text: str, columns: Sequence[Column]) -> Item:
        alias = f"r{self._aliases}"
        self._aliases += 1
        return Item(f"{text} AS {alias}", tuple(Column(f"{alias}.{c.name}", c.kind) for c in columns))


def _shared_names(left: Scope, right: Scope) -> list[str]:
    """Names without alias that mean one column of the same kind on each side."""
    names = [column.name.split(".")[1] for column in left]
    kinds = {column.name.split(".")[1]: column.kind for column in left}
    found = [(column.name.split(".")[1], column.kind) for column in right]
    return [name for name, kind in found if names.count(name) == 1 and kinds[name] is kind]
