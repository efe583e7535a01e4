"""ORDER BY .. LIMIT and OVER in both languages: DuckDB is told how ties are decided, and where NULL stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.properties.dice import Dice
from tests.text_oracle.evaluator import Query
from tests.text_oracle.kinds import CONSTANTS, Column, Kind, Text, joined, same

# What may have been rounded is not ordered by, and what is no number of microseconds to DuckDB neither; in its lists
# NULL is the greatest element.
UNORDERED = (Kind.REAL, Kind.INTERVAL, Kind.LIST)

_OPEN_TIES = "/* ties */"  # which are known once all items are


@dataclass(frozen=True)
class Key:
    """A sort key by the texts that refer to it."""

    text: Text
    descending: bool
    nulls_first: bool
    says_nulls: bool

    @property
    def written(self) -> Text:
        direction = " DESC" if self.descending else ""
        nulls = " NULLS FIRST" if self.nulls_first else " NULLS LAST"
        return self.text + Text(direction + (nulls if self.says_nulls else ""), direction + nulls)


def _key(dice: Dice, text: Text) -> Key:
    descending = dice.chance(40)
    says = dice.chance(40)
    return Key(text, descending, dice.chance(50) if says else not descending, says)


def _ties(texts: Sequence[str]) -> list[str]:
    return [f"{text} NULLS FIRST" for text in texts]


def can_be_limited(query: Query) -> bool:
    """Not where a window stands at the end, nor where columns cannot be compared exactly."""
    kinds = {column.kind for column in query.columns}
    return not kinds.intersection(UNORDERED) and " END NOW" not in query.text.cql[-20:]


def limited(dice: Dice, query: Query, *, outermost: bool) -> Query:
    """The first rows of a query, by some of its columns."""
    columns = list(enumerate(query.columns, start=1))
    keys = [
        _key(dice, Text(column.name if column.name == f"c{n - 1}" and dice.chance(60) else str(n), str(n)))
        for n, column in dice.some(columns, 1, 2)
    ]
    names = ", ".join(column.name for column in query.columns)
    rows, skipped = dice.pick((1, 2, 3, 0, 2)), dice.pick((0, 0, 1, 2))
    order = joined(", ", [key.written for key in keys])
    if dice.chance(25):
        named = [Key(same(query.columns[int(key.text.duck) - 1].name), *_rest(key)) for key in keys]
        rank = f"rank() OVER (ORDER BY {', '.join(key.written.duck for key in named)}) AS _rank"
        cql = f"{query.text.cql} ORDER BY {order.cql} FETCH FIRST {rows} ROWS WITH TIES"
        duck = f"SELECT {names} FROM (SELECT *, {rank} FROM ({query.text.duck}) AS y) AS z WHERE _rank <= {rows}"
    else:
        ties = _ties([str(n) for n, _ in columns])
        clause = dice.pick(_LIMITS[bool(skipped)]).format(rows=rows, skipped=skipped)
        cql = f"{query.text.cql} ORDER BY {order.cql} {clause}"
        duck = f"{query.text.duck} ORDER BY {', '.join([order.duck, *ties])} LIMIT {rows} OFFSET {skipped}"
    if outermost:
        return Query(Text(cql, duck), query.columns)
    head = f"SELECT {names} FROM ("
    if not all(column.name.startswith("c") for column in query.columns):
        return Query(Text(f"SELECT * FROM ({cql}) AS z", f"SELECT * FROM ({duck}) AS z"), query.columns)
    return Query(Text(f"{head}{cql}) AS z", f"{head}{duck}) AS z"), query.columns)


_LIMITS = {
    False: ("LIMIT {rows}", "FETCH FIRST {rows} ROWS ONLY"),
    True: ("LIMIT {rows} OFFSET {skipped}", "OFFSET {skipped} ROWS FETCH NEXT {rows} ROWS ONLY"),
}


def _rest(key: Key) -> tuple[bool, bool, bool]:
    return key.descending, key.nulls_first, key.says_nulls


class Windows:
    """Functions over one window, for the rows of a FROM list."""

    def __init__(self, dice: Dice, scope: Sequence[Column]) -> None:
        self._dice = dice
        self._scope = scope
        ordered = [column for column in scope if column.kind not in UNORDERED]
        self.items = dice.some(ordered, 1, 2)
        self._partition = dice.some(ordered, 1, 1) if dice.chance(50) else []
        chosen = dice.some(ordered, 1, 2)
        self._keys = [_key(dice, column.text) for column in chosen]
        self._by_integer = len(chosen) == 1 and chosen[0].kind is Kind.INTEGER
        self._named = dice.chance(25)

    def decided(self, listed: Text, clause: Text) -> tuple[Text, Text]:
        """The select list, and WINDOW and QUALIFY, with the ties: the columns of FROM count that one of them reads."""
        written = f"{listed.cql} {clause.cql}"
        read = [column for column in self._scope if re.search(rf"(?<![\w.]){re.escape(column.name)}(?!\w)", written)]
        ties = "".join(f", {tie}" for tie in _ties([column.name for column in (*self.items, *read)]))
        one, other = (Text(text.cql, text.duck.replace(_OPEN_TIES, ties)) for text in (listed, clause))
        return one, other

    @property
    def clause(self) -> Text:
        """WINDOW, where the window has a name."""
        return Text(f" WINDOW w AS ({self._window(False).cql})", "") if self._named else same("")

    def condition(self) -> Text:
        """QUALIFY."""
        function, ties = self._dice.pick((("row_number()", True), ("rank()", False), ("dense_rank()", False)))
        how = self._dice.pick((" <= 1", " <= 2", " = 1", " < 3", " > 1", " = 2"))
        return same(f" QUALIFY {function} OVER ") + self._over(ties=ties) + how

    def item(self) -> tuple[Text, Kind]:
        match self._dice.pick(("rank", "rank", "shift", "frame", "aggregate", "aggregate")):
            case "rank":
                return self._rank()
            case "shift":
                return self._shift()
            case "frame":
                return self._of_frame()
            case _:
                return self._aggregate()

    def _rank(self) -> tuple[Text, Kind]:
        name, ties, kind = self._dice.pick(
            (
                ("row_number()", True, Kind.INTEGER),
                ("rank()", False, Kind.INTEGER),
                ("dense_rank()", False, Kind.INTEGER),
                ("ntile(2)", True, Kind.INTEGER),
                ("percent_rank()", False, Kind.REAL),
                ("cume_dist()", False, Kind.REAL),
            )
        )
        return same(f"{name} OVER ") + self._over(ties=ties), kind

    def _shift(self) -> tuple[Text, Kind]:
        column, name = self._dice.pick(self._scope), self._dice.pick(("lag", "lead"))
        arguments, ignores = column.text, self._dice.chance(30)
        if ignores or self._dice.chance(50):
            arguments = arguments + f", {self._dice.pick((1, 2))}"
            if column.kind in CONSTANTS and self._dice.chance(40):
                arguments = arguments + ", " + self._dice.pick(CONSTANTS[column.kind])
        return self._called(name, arguments, ignores) + self._over(ties=True), column.kind

    def _of_frame(self) -> tuple[Text, Kind]:
        column, name = self._dice.pick(self._scope), self._dice.pick(("first_value", "last_value", "nth_value"))
        arguments = column.text + (", 2" if name == "nth_value" else "")
        frame = same(f" {self._rows()}")
        return self._called(name, arguments, self._dice.chance(40)) + self._over(frame, ties=True), column.kind

    def _called(self, name: str, arguments: Text, ignores: bool) -> Text:
        """DuckDB has IGNORE NULLS inside of the parentheses."""
        words = (" IGNORE NULLS", "") if ignores else ("", "")
        return Text(f"{name}({arguments.cql}){words[0]} OVER ", f"{name}({arguments.duck}{words[0]}) OVER ")

    def _aggregate(self) -> tuple[Text, Kind]:
        dice = self._dice
        columns = [column for column in self._scope if column.kind in (Kind.INTEGER, Kind.STRING, Kind.DATE)]
        function, kind = same("COUNT(*)"), Kind.INTEGER
        if columns:
            column = dice.pick(columns)
            names = ("COUNT", "MIN", "MAX", *(("SUM",) if column.kind is Kind.INTEGER else ()))
            name = dice.pick(names)
            function = same(f"{name}({column.name})")
            kind = Kind.INTEGER if name == "COUNT" else column.kind
        match dice.pick(("rows", "rows", "default", "range", "all")):
            case "rows":
                return function + " OVER " + self._over(same(f" {self._rows()}"), ties=True), kind
            case "default":
                return function + " OVER " + self._over(ties=False), kind
            case "range":
                return function + " OVER " + self._over(same(f" {self._range()}"), ties=False), kind
            case _:
                partition = "PARTITION BY " + self._partition[0].name if self._partition else ""
                return function + f" OVER ({partition})", kind

    def _rows(self) -> str:
        dice = self._dice
        return dice.pick(
            (
                "ROWS UNBOUNDED PRECEDING",
                f"ROWS BETWEEN {dice.number(0, 2)} PRECEDING AND CURRENT ROW",
                f"ROWS BETWEEN {dice.number(0, 2)} PRECEDING AND {dice.number(0, 2)} FOLLOWING",
                "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
                "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
            )
        )

    def _range(self) -> str:
        whole = "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "RANGE BETWEEN CURRENT ROW AND CURRENT ROW"
        near = "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING", "RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING"
        return self._dice.pick((*whole, *near) if self._by_integer else whole)

    def _over(self, frame: Text | None = None, *, ties: bool) -> Text:
        window = self._window(ties)
        frame = frame or same("")
        if self._named:
            return Text("w" if not frame.cql else f"(w{frame.cql})", f"({window.duck}{frame.duck})")
        return same("(") + window + frame + ")"

    def _window(self, ties: bool) -> Text:
        """Ties go by the items of the select list without OVER, then by what else is read (`decided`)."""
        partition = "PARTITION BY " + self._partition[0].name + " " if self._partition else ""
        order = joined(", ", [key.written for key in self._keys])
        return Text(f"{partition}ORDER BY {order.cql}", f"{partition}ORDER BY {order.duck}{_OPEN_TIES if ties else ''}")
