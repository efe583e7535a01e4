"""Random queries, written in both languages at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.properties.dice import Dice
from tests.text_oracle.evaluator import Leaf, Query
from tests.text_oracle.expressions import Scope, aggregate, condition, expression, operand
from tests.text_oracle.kinds import LITERALS, Column, Kind, Text, joined, same
from tests.text_oracle.ordering import UNORDERED, Windows, can_be_limited, limited
from tests.text_oracle.windows import BOUNDS, Window
from tests.text_oracle.windows_random import window
from tests.text_oracle.world import Stream, Table

SET_OPERATIONS = ("UNION ALL", "UNION", "UNION DISTINCT", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
OPERATORS = ("ISTREAM", "DSTREAM", "RSTREAM")
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
class QueryMaker:
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

    def query(self) -> Query:
        self.leaves, self._aliases, self._budget = [], 0, 4
        levels = self.dice.pick((1, 1, 2, 2, 3))
        if levels > 1 and self.dice.chance(15):
            return self._with_names(levels)
        if self.dice.chance(35):
            return self._stream(levels)
        found = self._relation(levels)
        if self.dice.chance(15) and can_be_limited(found):
            found = limited(self.dice, found, outermost=True)
        return Query(found.text, found.columns, tuple(self.leaves))

    # Queries

    def _with_names(self, levels: int) -> Query:
        named = self._relation(levels - 1)
        columns, listed = named.columns, ""
        if self.dice.chance(40):
            columns = tuple(Column(f"w{n}", c.kind) for n, c in enumerate(named.columns))
            listed = f"({', '.join(c.name for c in columns)})"
        self._with = [View("x", Query(named.text, named.columns, tuple(self.leaves)), columns)]
        self.leaves, self._budget = [], 2
        found = self._relation(levels - 1)
        self._with = []
        prefix = f"WITH x{listed} AS ({named.text.cql}) " if "x AS r" in found.text.cql else ""
        return Query(Text(prefix + found.text.cql, found.text.duck), found.columns, tuple(self.leaves))

    def _stream(self, levels: int) -> Query:
        operator = self._operator()
        every = self.dice.number(1, 4) if operator == "RSTREAM" and self.dice.chance(40) else 1
        said = f" EVERY {every}" if every > 1 else ""
        if self.dice.chance(50):
            found = self._select(levels)
            head, rest = _head(found.text.cql)
            cql = f"SELECT {operator}({head}){said}{rest}"
        else:
            found = self._relation(levels)
            cql = f"{operator}({found.text.cql}){said}"
        return Query(Text(cql, found.text.duck), found.columns, tuple(self.leaves), operator, every=every)

    def _operator(self) -> str:
        return self.dice.pick(OPERATORS[:2] if self.microseconds else OPERATORS)

    def _relation(self, levels: int, wanted: Sequence[Kind] | None = None) -> Query:
        if levels > 1 and self.dice.chance(10):
            found = self._relation(levels - 1, wanted)
            return limited(self.dice, found, outermost=False) if can_be_limited(found) else found
        if levels > 1 and self._budget > 1 and self.dice.chance(25):
            return self._set_operation(levels, wanted)
        return self._select(levels, wanted)

    def _set_operation(self, levels: int, wanted: Sequence[Kind] | None) -> Query:
        if wanted is None:  # few columns, so that rows of both sides are equal
            wanted = [self.dice.pick(self.dice.pick(self.sources).columns).kind for _ in range(self.dice.number(1, 2))]
        sides = [self._relation(levels - 1, wanted) for _ in range(2)]
        if self.dice.chance(10):
            return self._by_name(sides)
        if self._budget > 0 and self.dice.chance(25):  # which binds first is SQL's to say
            third = self._select(levels - 1, wanted)
            parts = [*(same("(") + side.text + ")" for side in sides), third.text]
            one, other = self.dice.pick(SET_OPERATIONS), self.dice.pick(SET_OPERATIONS)
            text = parts[0] + f" {one} " + parts[1] + f" {other} " + parts[2]
        elif self.dice.chance(20) and not any(_is_set(side) for side in sides):
            text = sides[0].text + f" {self.dice.pick(SET_OPERATIONS)} " + sides[1].text
        else:
            text = same("(") + sides[0].text + f") {self.dice.pick(SET_OPERATIONS)} (" + sides[1].text + ")"
        return Query(Text(text.cql, text.duck.replace(" UNION DISTINCT ", " UNION ")), sides[0].columns)

    def _by_name(self, sides: Sequence[Query]) -> Query:
        """The columns of the second side are in another order, which names undo."""
        names = [column.name for column in sides[1].columns]
        turned = same(f"(SELECT {', '.join(reversed(names))} FROM (") + sides[1].text + ") AS z)"
        text = same("(") + sides[0].text + f") {self.dice.pick(('UNION', 'UNION ALL'))} BY NAME " + turned
        return Query(text, sides[0].columns)

    # SELECT

    def _select(self, levels: int, wanted: Sequence[Kind] | None = None, outer: Scope = ()) -> Query:
        if self.dice.chance(3) and not outer:
            return self._without_from(wanted)
        if levels == 1 and not outer and self.dice.chance(4):
            return self._with_trailing_window(wanted)
        return self._with_from(levels, wanted, outer)

    def _with_trailing_window(self, wanted: Sequence[Kind] | None) -> Query:
        age = self.dice.number(0, 6) * self.scale
        text = f"NOW - {age // self.scale}{'' if self.scale == 1 else ' SECONDS'}" if age else "NOW"
        self._trailing = Window("", "begin end", begin_age=age)
        found = self._with_from(1, wanted, ())
        self._trailing = None
        return replace(found, text=found.text + Text(f" BEGIN {text} END NOW", ""))

    def _with_from(self, levels: int, wanted: Sequence[Kind] | None, outer: Scope) -> Query:
        origin, scope, is_stream = self._from(levels)
        where = self._where(levels, scope, outer)
        if self.dice.chance(30):
            return self._grouped(origin, scope, where, wanted, is_stream)
        merges = " USING (" in origin.cql or " NATURAL " in origin.cql  # which say themselves what * means
        if wanted is None and self.dice.chance(10) and not merges:
            return self._star(origin, scope, where)
        if wanted is None and self.dice.chance(12) and not merges and {c.kind for c in scope}.difference(UNORDERED):
            return self._with_windows(origin, scope, where)
        kinds = wanted if wanted is not None else [c.kind for c in self.dice.some(scope, 1, 3)]
        items = [self._item(levels, scope, kind) for kind in kinds]
        return self._assembled(items, kinds, origin, where, same(""))

    def _with_windows(self, origin: Text, scope: list[Column], where: Text) -> Query:
        windows = Windows(self.dice, scope)
        items = [(column.text, column.kind) for column in windows.items]
        items += [windows.item() for _ in range(self.dice.number(1, 2))]
        clause = windows.clause + (windows.condition() if self.dice.chance(25) else same(""))
        listed = joined(", ", [text + f" AS c{n}" for n, (text, _) in enumerate(items)])
        listed, clause = windows.decided(listed, clause)
        columns = tuple(Column(f"c{n}", kind) for n, (_, kind) in enumerate(items))
        return Query(same("SELECT ") + listed + " FROM " + origin + where + clause, columns)

    def _without_from(self, wanted: Sequence[Kind] | None) -> Query:
        kinds = wanted or [Kind.INTEGER]
        items = [expression(self.dice, (), kind) for kind in kinds]
        columns = tuple(Column(f"c{n}", kind) for n, kind in enumerate(kinds))
        listed = joined(", ", [item + f" AS c{n}" for n, item in enumerate(items)])
        return Query(same("SELECT ") + listed, columns)

    def _star(self, origin: Text, scope: list[Column], where: Text) -> Query:
        """All columns: DuckDB is told which, and under which names they are to be known."""
        scope = [column for column in scope if column.name.split(".")[-1] not in BOUNDS]
        plain = [column.name.split(".")[-1] for column in scope]
        excepted = ""
        if len(scope) > 1 and self.dice.chance(25):
            left_out = self.dice.pick(plain)
            left = [column for column, name in zip(scope, plain, strict=True) if name != left_out]
            if left:
                scope, excepted = left, f" EXCEPT ({left_out})"
        plain = [column.name.split(".")[-1] for column in scope]
        values = [column.text for column in scope]
        if self.dice.chance(20) and plain.count(plain[0]) == 1:
            values[0] = expression(self.dice, scope, scope[0].kind)
            excepted += f" REPLACE ({values[0].cql} AS {plain[0]})"
        if self.dice.chance(20) and plain.count(plain[-1]) == 1:
            excepted += f" RENAME ({plain[-1]} AS renamed)"
            plain[-1] = "renamed"
        names = _unique(plain)
        columns = tuple(Column(name, column.kind) for name, column in zip(names, scope, strict=True))
        listed = ", ".join(f"{value.duck} AS {name}" for value, name in zip(values, names, strict=True))
        aliases = list(dict.fromkeys(column.name.split(".")[0] for column in scope))
        star = ", ".join(f"{alias}.*" for alias in aliases) if not excepted and self.dice.chance(60) else f"*{excepted}"
        return Query(Text(f"SELECT {star} FROM ", f"SELECT {listed} FROM ") + origin + where, columns)

    def _assembled(
        self, items: Sequence[Text], kinds: Sequence[Kind], origin: Text, where: Text, clause: Text
    ) -> Query:
        distinct = "DISTINCT " if self.dice.chance(12) else "ALL " if self.dice.chance(2) else ""
        if items[0].cql.startswith("all("):  # which would say ALL of SELECT
            items = [Text(items[0].cql.replace("all(", "every(", 1), items[0].duck), *items[1:]]
        as_ = " AS " if self.dice.chance(85) else " "
        listed = joined(", ", [item + f"{as_}c{n}" for n, item in enumerate(items)])
        columns = tuple(Column(f"c{n}", kind) for n, kind in enumerate(kinds))
        head = Text(distinct.replace("ALL ", ""), distinct)
        return Query(same("SELECT ") + head + listed + " FROM " + origin + where + clause, columns)

    def _item(self, levels: int, scope: Scope, kind: Kind) -> Text:
        if levels > 1 and self._budget > 0 and self.dice.chance(6):
            return self._test(levels, scope) if kind is Kind.BOOLEAN else self._scalar(levels, scope, kind)
        return expression(self.dice, scope, kind, 2)

    def _grouped(
        self, origin: Text, scope: list[Column], where: Text, wanted: Sequence[Kind] | None, is_stream: bool
    ) -> Query:
        keys = [self._key(scope) for _ in range(self.dice.pick((1, 1, 0, 2)))]
        if is_stream:
            origin = Text(origin.cql, origin.duck.replace(" AS r", "_ordered AS r"))
        if wanted is None:
            kinds = [kind for _, kind in keys if not self.dice.chance(10)]
            items = [text for text, kind in keys][: len(kinds)]
            kinds = [kind for _, kind in keys][: len(kinds)]
            for _ in range(self.dice.number(1, 2)):
                kind = self.dice.pick((Kind.INTEGER, Kind.REAL, *(c.kind for c in scope)))
                items.append(self._aggregate(scope, kind, is_stream))
                kinds.append(kind)
        else:
            kinds = list(wanted)
            items = [self._aggregate(scope, kind, is_stream) for kind in kinds]
        clause = same("")
        if keys:
            by = [self._written_key(n, text, items, scope) for n, (text, _) in enumerate(keys)]
            clause = same(" GROUP BY ") + joined(", ", by)
            if self.dice.chance(15):
                clause = self._sets([text for text, _ in keys])
                if wanted is None and self.dice.chance(50):
                    items.append(Text("GROUPING(", "GROUPING(") + keys[0][0] + ")")
                    kinds.append(Kind.INTEGER)
            elif self.dice.chance(10) and items[: len(keys)] == [text for text, _ in keys]:
                clause = same(" GROUP BY ALL")
        if self.dice.chance(25):
            clause = clause + " HAVING " + self._having(scope, keys, is_stream)
        elif self.dice.chance(5) and items and "c0" not in _names(scope):
            clause = clause + " HAVING c0 IS NOT NULL"
        return self._assembled(items, kinds, origin, where, clause)

    def _sets(self, keys: Sequence[Text]) -> Text:
        """Several sets of keys to group by."""
        listed, first = joined(", ", list(keys)), keys[0]
        rollup, cube = same(" GROUP BY ROLLUP(") + listed + ")", same(" GROUP BY CUBE(") + listed + ")"
        sets = same(" GROUP BY GROUPING SETS ((") + listed + "), (), (" + first + "))"
        mixed = same(" GROUP BY ") + first + ", GROUPING SETS ((" + keys[-1] + "), ())"
        behind = Text((same(" GROUP BY ") + listed + " WITH ROLLUP").cql, rollup.duck)
        return self.dice.pick((rollup, cube, sets, mixed, behind))

    def _key(self, scope: Scope) -> tuple[Text, Kind]:
        """A column, or an expression with one in it: a constant alone would be a position."""
        column = self.dice.pick(scope)
        if self.dice.chance(25):
            text = expression(self.dice, scope, column.kind, 1)
            if any(other.name in text.cql for other in scope):
                return text, column.kind
        return column.text, column.kind

    def _written_key(self, number: int, text: Text, items: Sequence[Text], scope: Scope) -> Text:
        """As it is, by its position, or by its name where no column of FROM has that."""
        forms = ["text", "text"]
        if items[number : number + 1] == [text]:
            forms += ["position"] if f"c{number}" in _names(scope) else ["position", "name"]
        form = self.dice.pick(forms)
        return {"text": text, "position": same(str(number + 1)), "name": same(f"c{number}")}[form]

    def _aggregate(self, scope: Scope, kind: Kind, is_stream: bool) -> Text:
        found = aggregate(self.dice, scope, kind, ordered=is_stream)
        assert found is not None, kind
        return found

    def _having(self, scope: Scope, keys: Sequence[tuple[Text, Kind]], is_stream: bool) -> Text:
        count = self._aggregate(scope, Kind.INTEGER, is_stream)
        simple = count + f" {self.dice.pick(('>=', '>', '<>', '<'))} {self.dice.pick(('1', '0', '2'))}"
        if not self.dice.chance(30):
            return simple
        other = self._aggregate(scope, Kind.BOOLEAN, is_stream)
        return same("(") + simple + self.dice.pick((" OR ", " AND ", " AND NOT ")) + other + ")"

    # WHERE

    def _where(self, levels: int, scope: Scope, outer: Scope) -> Text:
        parts = [self._correlation(scope, outer)] if outer else []
        if self.dice.chance(40):
            parts.append(condition(self.dice, scope, 2))
        if levels > 1 and self._budget > 0 and self.dice.chance(30):
            parts.append(self._test(levels, [*scope, *outer] if self.dice.chance(30) else scope))
        if not parts:
            return same("")
        between = " OR " if len(parts) > 1 and self.dice.chance(15) else " AND "
        where = joined(between, parts)
        return same(" WHERE ") + (same("NOT (") + where + ")" if self.dice.chance(10) else where)

    def _correlation(self, scope: Scope, outer: Scope) -> Text:
        pairs = [(one.name, other.name) for one in scope for other in outer if one.kind is other.kind]
        if not pairs or self.dice.chance(15):
            return condition(self.dice, [*scope, *outer])
        one, other = self.dice.pick(pairs)
        operator = self.dice.pick(("=", "=", "=", "<=>", "<", "<>"))
        if operator == "<" and _is_list(one, scope):
            operator = "="
        return Text(f"{one} {operator} {other}", f"{one} {operator.replace('<=>', 'IS NOT DISTINCT FROM')} {other}")

    def _test(self, levels: int, scope: Scope) -> Text:
        outer = scope if self.dice.chance(60) else ()
        negated = self.dice.pick(("", "NOT "))
        match self.dice.pick(("EXISTS", "IN", "scalar", "EXISTS", "IN", "scalar", "ANY", "row")):
            case "EXISTS":
                return same(f"{negated}EXISTS (") + self._nested(levels, [Kind.INTEGER], outer).text + ")"
            case "IN":
                kind = self.dice.pick([column.kind for column in scope])
                value = operand(self.dice, scope, kind)
                return value + f" {negated}IN (" + self._nested(levels, [kind], outer).text + ")"
            case "ANY":
                kind = self.dice.pick([column.kind for column in scope])
                how = f" {self.dice.pick(_comparisons(kind))} {self.dice.pick(('ANY', 'SOME', 'ALL'))} ("
                value = operand(self.dice, scope, kind) + Text(how, how.replace("SOME", "ANY"))
                return value + self._nested(levels, [kind], outer).text + ")"
            case "row":
                kinds = [self.dice.pick([column.kind for column in scope]) for _ in range(2)]
                row = joined(", ", [operand(self.dice, scope, kind) for kind in kinds])
                # Uncorrelated: of two columns DuckDB takes no other.
                return same("(") + row + f") {negated}IN (" + self._nested(levels, kinds, ()).text + ")"
            case _:
                kind = self.dice.pick([column.kind for column in scope])
                value = operand(self.dice, scope, kind) + f" {self.dice.pick(_comparisons(kind))} "
                return value + self._scalar(levels, scope, kind)

    def _nested(self, levels: int, wanted: Sequence[Kind], outer: Scope) -> Query:
        if outer:
            return self._select(levels - 1, wanted, outer)
        return self._relation(levels - 1, wanted)

    def _scalar(self, levels: int, scope: Scope, kind: Kind) -> Text:
        """An aggregate without GROUP BY, which has one row."""
        outer = scope if self.dice.chance(50) else ()
        origin, inner, _ = self._from(1)
        where = self._where(1, inner, outer)
        columns = [column for column in inner if column.kind is kind]
        if columns and kind not in UNORDERED and self.dice.chance(25):
            chosen, order = self.dice.pick(columns).name, self.dice.pick(("NULLS FIRST", "DESC NULLS LAST"))
            first = f" ORDER BY {chosen} {order} LIMIT 1)"
            return same(f"(SELECT {chosen} AS c0 FROM ") + origin + where + first
        item = self._aggregate(inner, kind, False)
        return same("(SELECT ") + item + " AS c0 FROM " + origin + where + ")"

    # FROM

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
        if shared and form < 10 and set(shared) == _names(scope) & _names(right.columns):
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
        value, alias = expression(self.dice, scope, Kind.LIST, 1), f"r{self._aliases}"
        self._aliases += 1
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


def _comparisons(kind: Kind) -> tuple[str, ...]:
    """Not by order where DuckDB has another."""
    return ("=", "<>") if kind is Kind.LIST else ("=", "<>", "<", ">=")


def _is_list(name: str, scope: Scope) -> bool:
    return any(column.name == name and column.kind is Kind.LIST for column in scope)


def _head(cql: str) -> tuple[str, str]:
    """The select list of a text (DISTINCT with it), and what stands behind FROM."""
    depth = 0
    quoted = False
    for index, character in enumerate(cql):
        quoted ^= character == "'"
        if not quoted:
            depth += (character == "(") - (character == ")")
            if depth == 0 and cql.startswith(" FROM ", index):
                return cql[len("SELECT ") : index], cql[index:]
    return cql[len("SELECT ") :], ""


def _is_set(query: Query) -> bool:
    return query.text.cql.startswith("(")


def _unique(names: Sequence[str]) -> list[str]:
    taken: list[str] = []
    for name in names:
        candidate, suffix = name, 0
        while candidate in taken:
            suffix += 1
            candidate = f"{name}_{suffix}"
        taken.append(candidate)
    return taken


def _shared(left: Scope, right: Scope) -> list[str]:
    """Names that mean one column of the same kind on each side."""
    names = [column.name.split(".")[1] for column in left]
    kinds = {column.name.split(".")[1]: column.kind for column in left}
    found = [(c.name.split(".")[1], c.kind) for c in right if c.name.split(".")[1] not in BOUNDS]
    others = [name for name, _ in found]
    return [name for name, kind in found if names.count(name) == others.count(name) == 1 and kinds[name] is kind]


def _names(scope: Scope) -> set[str]:
    return {column.name.split(".")[-1] for column in scope}
