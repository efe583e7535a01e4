"""Random queries, written in both languages at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.text_oracle.evaluator import Query
from tests.text_oracle.expressions import Scope, aggregate, condition, expression, operand
from tests.text_oracle.from_clause import FromMaker, View, names_of
from tests.text_oracle.kinds import Column, Kind, Text, joined, same
from tests.text_oracle.ordering import UNORDERED, Windows, can_be_limited, limited
from tests.text_oracle.windows import BOUNDS, Window

SET_OPERATIONS = ("UNION ALL", "UNION", "UNION DISTINCT", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
OPERATORS = ("ISTREAM", "DSTREAM", "RSTREAM")


@dataclass
class QueryMaker(FromMaker):
    """Everything but FROM."""

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
        elif self.dice.chance(5) and items and "c0" not in names_of(scope):
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
            forms += ["position"] if f"c{number}" in names_of(scope) else ["position", "name"]
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
