"""Random FROM clauses, written in both languages at once: windows, subqueries, joins of all kinds, lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.properties.dice import Dice
from tests.text_oracle.evaluator import Leaf, Query
from tests.text_oracle.expressions import Scope, condition, expression
from tests.text_oracle.kinds import LITERALS, Column, Kind, Text, joined, same
from tests.text_oracle.windows import BOUNDS, Window
from tests.text_oracle.windows_random import window
from tests.text_oracle.world import Stream, Table

# As CQL writes a join, as DuckDB does, and whether only the left side is seen above.
JOINS = (
    *(("JOIN", "JOIN", False), ("INNER JOIN", "INNER JOIN", False), ("LEFT JOIN", "LEFT JOIN", False)),
    *(("LEFT OUTER JOIN", "LEFT JOIN", False), ("RIGHT JOIN", "RIGHT JOIN", False)),
    *(("RIGHT OUTER JOIN", "RIGHT JOIN", False), ("FULL JOIN", "FULL JOIN", False)),
    *(("FULL OUTER JOIN", "FULL JOIN", False), ("LEFT SEMI JOIN", "SEMI JOIN", True), ("SEMI JOIN", "SEMI JOIN", True)),
    *(("LEFT ANTI JOIN", "ANTI JOIN", True), ("ANTI JOIN", "ANTI JOIN", True)),
)


@dataclass(frozen=True)
class View:
    """A view: relations are read by their text, streams as derived ones."""

    name: str
    query: Query
    columns: tuple[Column, ...]


@dataclass
class Item:
    """Something in FROM under its alias; `stream` says that its rows have an order."""

    text: Text
    columns: list[Column]
    is_stream: bool = False


@dataclass
class FromMaker(ABC):
    """Makes what stands in FROM, and notes what it reads; queries within it are somebody else's to make."""

    dice: Dice
    sources: Sequence[Stream | Table | View]
    microseconds: bool = False  # then RSTREAM is refused where rows live longer than one
    scale: int = 1  # how many ticks windows count as one
    bounded: bool = False  # mostly windows that elements leave again
    leaves: list[Leaf] = field(default_factory=list)
    _aliases: int = 0
    _numbers: int = 0
    _with: list[View] = field(default_factory=list)
    _budget: int = 4  # leaves that may still be read
    _trailing: Window | None = None  # of all streams of the FROM list

    @abstractmethod
    def _select(self, levels: int, wanted: Sequence[Kind] | None = None, outer: Scope = ()) -> Query: ...

    @abstractmethod
    def _relation(self, levels: int, wanted: Sequence[Kind] | None = None) -> Query: ...

    @abstractmethod
    def _stream(self, levels: int) -> Query: ...

    @abstractmethod
    def _test(self, levels: int, scope: Scope) -> Text: ...

    def _from(self, levels: int) -> tuple[Text, list[Column], bool]:
        first = self._from_item(levels)
        text, scope, is_stream = first.text, list(first.columns), first.is_stream
        for _ in range(min(self.dice.pick((0, 0, 1, 1, 2)), self._budget)):
            right, is_stream = self._from_item(levels), False
            if self._budget > 0 and self.dice.chance(12):
                inner, columns = self._join(right.text, right.columns, self._from_item(levels))
                right = Item(same("(") + inner + ")", columns)
            if self.dice.chance(12):  # from left to right, as in Spark; DuckDB would take joins before commas
                text, scope = text + Text(", ", " CROSS JOIN ") + right.text, [*scope, *right.columns]
            else:
                asof = self._asof(text, scope, right) if self.dice.chance(8) else None
                text, scope = asof or self._join(text, scope, right, levels)
        if levels > 1 and self._budget > 0 and self.dice.chance(8):
            text, scope = self._lateral(text, scope, levels)
            is_stream = False
        of_lists = any(column.kind is Kind.LIST for column in scope)
        if self.dice.chance(40 if of_lists else 4):
            text, scope = self._unnested(text, scope)
            is_stream = False
        return text, scope, is_stream

    def _join(self, text: Text, scope: list[Column], right: Item, levels: int = 1) -> tuple[Text, list[Column]]:
        both = [*scope, *right.columns]
        form = self.dice.number(0, 99)
        if form < 5:
            return text + " CROSS JOIN " + right.text, both
        cql, duck, only_left = self.dice.pick(JOINS)
        kept = scope if only_left else both
        join = Text(f" {cql} ", f" {duck} ")
        shared = _shared(scope, right.columns)
        if shared and form < 10 and set(shared) == names_of(scope) & names_of(right.columns):
            return text + Text(f" NATURAL {cql} ", f" NATURAL {duck} ") + right.text, kept
        if shared and form < 25:
            return text + join + right.text + f" USING ({self.dice.pick(shared)})", kept
        if form < 27:
            return text + join + right.text + " ON 1 = 1", kept
        on = self._on(scope, right.columns)
        if levels > 1 and self._budget > 0 and cql in ("JOIN", "INNER JOIN") and self.dice.chance(20):
            on = on + " AND " + self._test(levels, both)
        return text + join + right.text + " ON " + on, kept

    def _asof(self, text: Text, scope: list[Column], right: Item) -> tuple[Text, list[Column]] | None:
        """DuckDB is told which of several equally near rows is meant."""
        pairs = [(one.name, other.name) for one in scope for other in right.columns if one.kind is other.kind]
        owners = {column.name.split(".")[0] for column in right.columns}  # one, or a join in parentheses
        if not pairs or len(owners) > 1 or any(column.kind is Kind.LIST for column in (*scope, *right.columns)):
            return None
        own, other = self.dice.pick(pairs)
        operator = self.dice.pick((">=", ">", "<=", "<"))
        on = [f"{own} {operator} {other}"]
        if self.dice.chance(70):
            one, two = self.dice.pick(pairs)
            on.append(f"{one} = {two}")
        side = self.dice.pick(("", "LEFT "))
        ties = ", ".join(f"{column.name} NULLS FIRST" for column in right.columns)
        order = f"{other} {'DESC' if operator.startswith('>') else 'ASC'}, {ties}"
        alias = right.columns[0].name.split(".")[0]
        listed = ", ".join(column.name for column in right.columns)
        inner = f"(SELECT {listed} FROM {right.text.duck} WHERE {' AND '.join(on)} ORDER BY {order} LIMIT 1) AS {alias}"
        cql = f" ASOF {side}JOIN {right.text.cql} ON {' AND '.join(on)}"
        return text + Text(cql, f" {side}JOIN LATERAL {inner} ON TRUE"), [*scope, *right.columns]

    def _lateral(self, text: Text, scope: list[Column], levels: int) -> tuple[Text, list[Column]]:
        found = self._select(levels - 1, None, scope)
        item = self._named(same("LATERAL (") + found.text + ")", found.columns)
        form = self.dice.pick((Text(", ", " CROSS JOIN "), same(" JOIN "), same(" LEFT JOIN ")))
        return text + form + item.text + ("" if form.cql == ", " else " ON TRUE"), [*scope, *item.columns]

    def _unnested(self, text: Text, scope: list[Column]) -> tuple[Text, list[Column]]:
        """The elements of a list of each row, in one of the ways to write it."""
        alias = f"r{self._aliases}"
        self._aliases += 1
        if self.dice.chance(25):
            return self._zipped(text, scope, alias)
        value = expression(self.dice, scope, Kind.LIST, 1)
        element, place = Column(f"{alias}.x", Kind.INTEGER), Column(f"{alias}.i", Kind.INTEGER)
        counted = f"(SELECT x, i FROM UNNEST({value.duck}) WITH ORDINALITY AS z(x, i)) AS {alias}"
        forms = (
            (f", UNNEST({value.cql}) AS {alias}(x)", f" CROSS JOIN UNNEST({value.duck}) AS {alias}(x)", [element]),
            (
                f", LATERAL explode({value.cql}) AS {alias}(x)",
                f" CROSS JOIN UNNEST({value.duck}) AS {alias}(x)",
                [element],
            ),
            (
                f" LEFT JOIN UNNEST({value.cql}) AS {alias}(x) ON TRUE",
                f" LEFT JOIN UNNEST({value.duck}) AS {alias}(x) ON TRUE",
                [element],
            ),
            (
                f" CROSS JOIN UNNEST({value.cql}) WITH ORDINALITY AS {alias}(x, i)",
                f" CROSS JOIN LATERAL {counted}",
                [element, place],
            ),
            (
                f" JOIN UNNEST({value.cql}) AS {alias}(x) ON {alias}.x > 0",
                f" JOIN UNNEST({value.duck}) AS {alias}(x) ON {alias}.x > 0",
                [element],
            ),
        )
        cql, duck, columns = self.dice.pick(forms)
        return text + Text(cql, duck), [*scope, *columns]

    def _zipped(self, text: Text, scope: list[Column], alias: str) -> tuple[Text, list[Column]]:
        """The elements of two lists side by side."""
        one, two = expression(self.dice, scope, Kind.LIST, 1), expression(self.dice, scope, Kind.LIST, 1)
        columns, counted, numbers = ["x", "y"], "", ""
        if self.dice.chance(40):
            columns, counted = ["x", "y", "i"], " WITH ORDINALITY"
            longest = f"greatest(COALESCE(len({one.duck}), 0), COALESCE(len({two.duck}), 0))"
            numbers = f", UNNEST(range(1, {longest} + 1)) AS i"
        cql = f"UNNEST({one.cql}, {two.cql}){counted} AS {alias}({', '.join(columns)})"
        duck = f"LATERAL (SELECT UNNEST({one.duck}) AS x, UNNEST({two.duck}) AS y{numbers}) AS {alias}"
        before, behind = self.dice.pick(((" CROSS JOIN ", ""), (" LEFT JOIN ", " ON TRUE")))
        added = [Column(f"{alias}.{name}", Kind.INTEGER) for name in columns]
        return text + before + Text(cql, duck) + behind, [*scope, *added]

    def _on(self, left: Scope, right: Scope) -> Text:
        pairs = [(one.name, other.name) for one in left for other in right if one.kind is other.kind]
        if not pairs or self.dice.chance(15):
            return condition(self.dice, [*left, *right])
        one, other = self.dice.pick(pairs)
        operator = self.dice.pick(("=", "=", "=", "<=>"))
        on = Text(f"{one} {operator} {other}", f"{one} {operator.replace('<=>', 'IS NOT DISTINCT FROM')} {other}")
        return on + " AND " + condition(self.dice, [*left, *right]) if self.dice.chance(25) else on

    def _from_item(self, levels: int) -> Item:
        if levels > 1 and self._budget > 1 and self.dice.chance(35):
            return self._derived(levels - 1) if self.dice.chance(50) else self._subquery(levels - 1)
        if self.dice.chance(3):
            return self._values()
        self._budget -= 1
        options = [*self.sources, *self._with * 3]
        if self._trailing:  # which is also the window of a view that only grows, and no words say whether it does
            options = [o for o in options if not isinstance(o, View) or o.query.operator]
        source = self.dice.pick(options)
        if isinstance(source, Stream):
            return self._windowed(source)
        if isinstance(source, Table):
            leaf = self._leaf(Leaf("", source.columns, source.name))
            return self._named(Text(source.name, leaf.name), source.columns)
        if source.query.operator is not None:
            return self._over_stream(source.name, source.query, source.columns)
        self.leaves += [leaf for leaf in source.query.leaves if leaf not in self.leaves]
        outer = ", ".join(column.name for column in source.columns)
        duck = f"(SELECT * FROM ({source.query.text.duck}) AS v({outer}))"
        return self._named(Text(source.name, duck), source.columns)

    def _values(self) -> Item:
        kinds = [column.kind for column in self.dice.some(self.dice.pick(self.sources).columns, 1, 2)]
        rows = [joined(", ", [self.dice.pick(LITERALS[kind]) for kind in kinds]) for _ in range(self.dice.number(1, 3))]
        listed = joined(", ", [same("(") + row + ")" for row in rows])
        columns = [Column(f"v{n}", kind) for n, kind in enumerate(kinds)]
        return self._named(same("(VALUES ") + listed + ")", columns, f"({', '.join(c.name for c in columns)})")

    def _windowed(self, stream: Stream) -> Item:
        over, sample = self._trailing or self._window(stream.columns), ""
        percent: int | None = None
        if self.dice.chance(4):
            percent = self.dice.pick((100, 50, 0))
            sample = f" SAMPLE ({percent} PERCENT)"
        over, bounds = self._bounds(over)
        leaf = self._leaf(Leaf("", (*stream.columns, *bounds), stream.name, over, percent))
        item = self._named(Text(f"{stream.name}{sample} {over.text}".strip(), leaf.name), leaf.columns)
        return replace(item, is_stream=True)

    def _window(self, columns: Sequence[Column]) -> Window:
        return window(self.dice, columns, self.scale, bounded=self.bounded)

    def _bounds(self, over: Window) -> tuple[Window, tuple[Column, ...]]:
        """A window whose bounds may be read, and these."""
        if not over.has_bounds or not self.dice.chance(40):
            return over, ()
        tick, kind = (1_000_000 // self.scale, Kind.TIME) if self.microseconds else (0, Kind.INTEGER)
        return replace(over, tick=tick), tuple(Column(name, kind) for name in BOUNDS)

    def _derived(self, levels: int) -> Item:
        """A stream made by a subquery, under a window."""
        outside, self.leaves = self.leaves, []
        found = self._stream(levels)
        self.leaves = outside
        return self._over_stream(f"({found.text.cql})", found, found.columns)

    def _over_stream(self, cql: str, query: Query, columns: Sequence[Column]) -> Item:
        over = self._trailing or self._window(columns)
        self.leaves += [leaf for leaf in query.leaves if leaf not in self.leaves]
        over, bounds = self._bounds(over)
        leaf = self._leaf(Leaf("", (*columns, *bounds), query, over))
        return self._named(Text(f"{cql} {over.text}".strip(), leaf.name), leaf.columns)

    def _subquery(self, levels: int) -> Item:
        found = self._relation(levels)
        text = same("(") + found.text + ")"
        if self.dice.chance(20):
            renamed = [Column(f"n{n}", column.kind) for n, column in enumerate(found.columns)]
            return self._named(text, renamed, f"({', '.join(column.name for column in renamed)})")
        return self._named(text, found.columns)

    def _leaf(self, leaf: Leaf) -> Leaf:
        self._numbers += 1
        leaf = replace(leaf, name=f"leaf_{self._numbers}")
        self.leaves.append(leaf)
        return leaf

    def _named(self, text: Text, columns: Sequence[Column], listed: str = "") -> Item:
        alias = f"r{self._aliases}"
        self._aliases += 1
        return Item(text + f" AS {alias}{listed}", [Column(f"{alias}.{c.name}", c.kind) for c in columns])


def _shared(left: Scope, right: Scope) -> list[str]:
    """Names that mean one column of the same kind on each side."""
    names = [column.name.split(".")[1] for column in left]
    kinds = {column.name.split(".")[1]: column.kind for column in left}
    found = [(c.name.split(".")[1], c.kind) for c in right if c.name.split(".")[1] not in BOUNDS]
    others = [name for name, _ in found]
    return [name for name, kind in found if names.count(name) == others.count(name) == 1 and kinds[name] is kind]


def names_of(scope: Scope) -> set[str]:
    return {column.name.split(".")[-1] for column in scope}
