"""What stands around the conditions of queries that differ in constants: joins, aggregates, set operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.properties.dice import Dice
from tests.properties.patterns import NOTHING, ORDERS, Pattern, Shapes, both
from tests.text_oracle.evaluator import Leaf
from tests.text_oracle.kinds import Column, Kind, Text
from tests.text_oracle.windows import Window
from tests.text_oracle.windows_random import window

S = (
    Column("a", Kind.INTEGER),
    Column("b", Kind.INTEGER),
    Column("c", Kind.STRING),
    Column("d", Kind.DOUBLE),
    Column("g", Kind.BOOLEAN),
)
U = (Column("a", Kind.INTEGER), Column("e", Kind.INTEGER))
D = (Column("a", Kind.INTEGER), Column("n", Kind.STRING))
_FORMS = (
    *("select", "select", "group", "group", "global", "distinct", "join", "self join", "table", "three"),
    *("set", "set", "beside", "beside", "left", "of groups", "labelled groups"),
)
_AGGREGATES = (
    *(("COUNT(*)", Kind.INTEGER), ("SUM(r.b)", Kind.INTEGER), ("MIN(r.a)", Kind.INTEGER), ("COUNT(r.c)", Kind.INTEGER)),
    *(("COUNT(DISTINCT r.a)", Kind.INTEGER), ("MAX(r.b)", Kind.INTEGER), ("AVG(r.b)", Kind.DOUBLE)),
    *(
        ("SUM(r.a)", Kind.INTEGER),
        ("COUNT(*)", Kind.INTEGER),
        ("COUNT(CASE WHEN r.g THEN 1 END)", Kind.INTEGER),
        ("MAX(r.c)", Kind.STRING),
    ),
)


@dataclass(frozen=True)
class Skeleton:
    """What stands around a condition. `cql` and `duck` have one place for it, {}; and perhaps places for a column of
    the answer that queries have constants of their own in, {own}, for the condition of an outer join, {on}, and for one
    that comes last, on groups or on another side, {having}."""

    cql: str
    duck: str
    scope: tuple[Column, ...]
    columns: tuple[Column, ...]
    leaves: tuple[Leaf, ...]
    operator: str | None = None
    fails: str | None = None  # over what rows are looked at, where a condition may fail
    own: Pattern = NOTHING
    on: Pattern = NOTHING
    having: Pattern = NOTHING
    is_fixed: bool = False  # whether queries differ in these only

    def with_places(self, condition: Pattern) -> Pattern:
        """The whole text, its slots numbered in the order in which they come."""
        placed, texts, kinds = list[Pattern](), (self.cql, self.duck), list[Kind | str]()
        for name, part in (("{own}", self.own), ("{on}", self.on), ("{}", condition), ("{having}", self.having)):
            placed.append(part.shifted(len(kinds)))
            kinds += part.kinds
            texts = texts[0].replace(name, placed[-1].text.cql), texts[1].replace(name, placed[-1].text.duck)
        return Pattern(Text(*texts), tuple(kinds), placed[2].failures)


@dataclass
class SkeletonMaker:
    """Leaves are the same for all that have the same window."""

    dice: Dice
    _leaves: dict[tuple[str, str], Leaf] = field(init=False, default_factory=dict)

    def _leaf(self, source: str, columns: tuple[Column, ...], over: Window | None) -> tuple[Leaf, str]:
        text = over.text if over is not None else ""
        key = source, text
        if key not in self._leaves:
            self._leaves[key] = Leaf(f"leaf_{len(self._leaves) + 1}", columns, source, over)
        return self._leaves[key], f"{source} {text}".strip()

    def _windowed(self, source: str, columns: tuple[Column, ...]) -> tuple[Leaf, str]:
        return self._leaf(source, columns, window(self.dice, columns))

    def _skeleton(self) -> Skeleton:
        dice = self.dice
        form = dice.pick(_FORMS)
        if form in ("join", "table", "self join"):
            return self._join(form)
        if form == "three":
            return self._three()
        leaf, cql = self._windowed("S", S)
        scope, origin = _under("r", S), Text(f"{cql} AS r", f"{leaf.name} AS r")
        word, tail, fails = "", "", f"{leaf.name} AS r"
        match form:
            case "select" | "distinct":
                items = dice.some(scope, 1, 3)
                listed, word = [(c.name, c.kind) for c in items], "DISTINCT " if form == "distinct" else ""
            case "group":
                key = dice.pick(scope[:3])
                listed, tail = [(key.name, key.kind), *self._aggregates()], f" GROUP BY {key.name}"
                tail += dice.pick(("", "", " HAVING COUNT(*) > 1", " HAVING {having}", " HAVING {having}"))
            case "global":
                listed, tail = self._aggregates(), dice.pick(("", "", " HAVING {having}"))
            case "beside":
                return self._with_partners(leaf, cql)
            case "left":
                return self._left(leaf, cql)
            case "of groups":
                return self._of_groups(leaf, cql)
            case "labelled groups":
                return self._labelled_groups(leaf, cql)
            case _:
                return self._nested(leaf, cql)
        return self._finished(word, listed, origin, scope, tail, (leaf,), fails)

    def _with_other_window(self, skeleton: Skeleton) -> Skeleton:
        """The same over another window of one of its streams."""
        chosen = [leaf for leaf in skeleton.leaves if leaf.window is not None and leaf.window.text]
        if not chosen or type(skeleton) is not Skeleton:  # others may name leaves elsewhere
            return skeleton
        leaf = self.dice.pick(chosen)
        if not isinstance(leaf.source, str) or leaf.window is None:
            raise AssertionError("a leaf of a stream")
        other, cql = self._windowed(leaf.source, leaf.columns)
        if other in skeleton.leaves:
            return skeleton
        return replace(
            skeleton,
            cql=skeleton.cql.replace(f"{leaf.source} {leaf.window.text}", cql),
            duck=skeleton.duck.replace(f"{leaf.name} AS", f"{other.name} AS"),
            fails=None if skeleton.fails is None else skeleton.fails.replace(f"{leaf.name} AS", f"{other.name} AS"),
            leaves=tuple(other if each is leaf else each for each in skeleton.leaves),
        )

    def _aggregates(self) -> list[tuple[str, Kind]]:
        return list(dict.fromkeys(self.dice.some(_AGGREGATES, 1, 3)))

    def _join(self, form: str) -> Skeleton:
        dice = self.dice
        leaf, cql = self._windowed("S", S)
        columns: tuple[Column, ...] = {"table": D, "join": U}.get(form, S)
        if form == "table":
            other, right = self._leaf("D", D, None)
        else:
            other, right = self._windowed("U" if form == "join" else "S", columns)
        scope = (*_under("r", S), *_under("o", columns))
        between = (", ", "JOIN")[dice.number(0, 1)]
        keys = "r.a = o.a"
        if between == ", ":
            origin = Text(f"{cql} AS r, {right} AS o", f"{leaf.name} AS r, {other.name} AS o")
            first = f"{keys} AND "
        else:
            origin = Text(
                f"{cql} AS r JOIN {right} AS o ON {keys}", f"{leaf.name} AS r JOIN {other.name} AS o ON {keys}"
            )
            first = ""
        listed, tail = [(c.name, c.kind) for c in dice.some(scope, 1, 3)], ""
        if dice.chance(25):
            key = dice.pick(scope[:3])
            listed, tail = [(key.name, key.kind), ("COUNT(*)", Kind.INTEGER)], f" GROUP BY {key.name}"
        leaves = tuple(dict.fromkeys((leaf, other)))
        return self._finished("", listed, origin, scope, tail, leaves, None, first)

    def _three(self) -> Skeleton:
        """A join of three inputs, of which two are the same stream, perhaps: a chain, a star or a triangle."""
        (one, cql), (two, other) = self._windowed("S", S), self._windowed("U", U)
        third, last = self._windowed(*self.dice.pick((("U", U), ("U", U), ("S", S))))
        scope = [*_under("r", S), *_under("o", U), *_under("x", third.columns)]
        texts = [f"{a} AS r, {b} AS o, {c} AS x" for a, b, c in ((cql, other, last), (one.name, two.name, third.name))]
        listed = [(c.name, c.kind) for c in self.dice.some(scope, 1, 3)]
        leaves = tuple(dict.fromkeys((one, two, third)))
        equal = self.dice.pick(("o.e = x.a", "o.e = x.a", "o.a = x.a", "o.e = x.a AND x.a = r.b"))
        return self._finished("", listed, Text(*texts), scope, "", leaves, None, f"r.a = o.a AND {equal} AND ")

    def _left(self, leaf: Leaf, cql: str) -> Skeleton:
        """An outer join whose condition queries differ in, or what is selected of its rows, of either side."""
        dice = self.dice
        other, right = self._windowed("U", U)
        on = self._of_other()
        condition = "r.a = o.a" + (" AND {on}" if on.kinds else "")
        word = dice.pick(("LEFT", "LEFT", "RIGHT", "FULL"))
        texts = [f"{a} AS r {word} JOIN {b} AS o ON {condition}" for a, b in ((cql, right), (leaf.name, other.name))]
        scope = [*_under("r", S), *_under("o", U)]
        listed = [(c.name, c.kind) for c in dice.some(scope, 1, 3)]
        leaves = tuple(dict.fromkeys((leaf, other)))
        return replace(self._finished("", listed, Text(*texts), scope, "", leaves, None), on=on)

    def _of_groups(self, leaf: Leaf, cql: str) -> Skeleton:
        """Selections of what is computed in a subquery that all have in common."""
        (text, kind), *_ = self._aggregates()
        scope = [Column("x.k", Kind.INTEGER), Column("x.n", kind)]
        texts = [f"(SELECT r.a AS k, {text} AS n FROM {name} AS r GROUP BY r.a) AS x" for name in (cql, leaf.name)]
        listed = [(c.name, c.kind) for c in self.dice.some(scope, 1, 2)]
        word = self.dice.pick(("", "", "DISTINCT "))
        return self._finished(word, listed, Text(*texts), scope, "", (leaf,), None)

    def _labelled_groups(self, leaf: Leaf, cql: str) -> Skeleton:
        """Groups by a label that is made with constants."""
        own = both("CASE WHEN r.b > §0§ THEN 'more' ELSE §1§ END", None, Kind.INTEGER, Kind.STRING)
        texts = [
            f"SELECT x.k AS c0, COUNT(*) AS c1 FROM (SELECT {{own}} AS k FROM {name} AS r WHERE {{}}) AS x GROUP BY x.k"
            for name in (cql, leaf.name)
        ]
        columns = Column("c0", Kind.STRING), Column("c1", Kind.INTEGER)
        return Skeleton(texts[0], texts[1], tuple(_under("r", S)), columns, (leaf,), own=own)

    def _of_other(self) -> Pattern:
        """A condition of the other side, with constants or the same for all."""
        dice = self.dice
        if dice.chance(35):
            return NOTHING
        if dice.chance(50):
            return both(f"o.e {dice.pick(ORDERS)} §0§", None, Kind.INTEGER)
        found = Shapes(dice, _under("o", U)).shape(1)
        return found if found.kinds else both("o.e <= §0§", None, Kind.INTEGER)

    def _with_partners(self, leaf: Leaf, cql: str) -> Skeleton:
        """Rows with partners, or without any, among others that are the same for all queries."""
        dice, scope = self.dice, _under("r", S)
        other, right = self._windowed("U", U)
        leaves, listed = tuple(dict.fromkeys((leaf, other))), [(c.name, c.kind) for c in dice.some(scope, 1, 2)]
        if dice.chance(40):
            texts = [
                f"{one} AS r LEFT JOIN {two} AS o ON r.a = o.a" for one, two in ((cql, right), (leaf.name, other.name))
            ]
            listed.append(("o.e", Kind.INTEGER))
            return self._finished("", listed, Text(*texts), scope, "", leaves, None)
        word = dice.pick(("EXISTS", "NOT EXISTS", "r.a IN", "r.a NOT IN"))
        having = self._of_other()
        where = "{having}" if having.kinds else "o.e > 0"
        where = f"o.a = r.a AND {where}" if "EXISTS" in word else where
        origin = Text(f"{cql} AS r", f"{leaf.name} AS r")
        found = self._finished("", listed, origin, scope, " AND {partners}", leaves, None, having=having)
        partners = [f"{word} (SELECT o.a FROM {name} AS o WHERE {where})" for name in (right, other.name)]
        return replace(
            found,
            cql=found.cql.replace("{partners}", partners[0]),
            duck=found.duck.replace("{partners}", partners[1]),
        )

    def _finished(
        self,
        word: str,
        listed: Sequence[tuple[str, Kind]],
        origin: Text,
        scope: Sequence[Column],
        tail: str,
        leaves: tuple[Leaf, ...],
        fails: str | None,
        first: str = "",
        having: Pattern = NOTHING,
    ) -> Skeleton:
        own, having = NOTHING, self._having() if "{having}" in tail else having
        is_aggregate = any(text.startswith(("COUNT(", "SUM(", "MIN(", "MAX(", "AVG(")) for text, _ in listed)
        if is_aggregate and "r." in listed[-1][0] and self.dice.chance(20):
            own = self._own_aggregate()
            listed = [*listed, ("{own}", Kind.INTEGER)]
        elif self.dice.chance(35):
            own, kind = self._own_column([text for text, kind in listed if kind is Kind.INTEGER])
            listed = [*listed, ("{own}", kind)]
        is_fixed = bool(own.kinds or having.kinds) and self.dice.chance(50)
        columns = tuple(Column(f"c{number}", kind) for number, (_, kind) in enumerate(listed))
        head = word + ", ".join(f"{text} AS c{number}" for number, (text, _) in enumerate(listed))
        operator = self.dice.pick(("ISTREAM", "RSTREAM", "DSTREAM")) if self.dice.chance(25) else None
        shown = f"{operator}({head})" if operator else head
        rest = [f" FROM {text} WHERE {first}{{}}{tail}" for text in origin]
        texts = f"SELECT {shown}{rest[0]}", f"SELECT {head}{rest[1]}"
        return Skeleton(*texts, tuple(scope), columns, leaves, operator, fails, own, NOTHING, having, is_fixed)

    def _having(self) -> Pattern:
        dice = self.dice
        found = both(f"{dice.pick(('COUNT(*)', 'SUM(r.b)', 'MIN(r.a)'))} {dice.pick(ORDERS)} §0§", None, Kind.INTEGER)
        if dice.chance(25):
            found = Pattern(found.text + " AND COUNT(*) < §1§", (Kind.INTEGER, Kind.INTEGER))
        return found

    def _own_aggregate(self) -> Pattern:
        """Of what queries have constants in."""
        return self.dice.pick(
            (
                both("SUM(CASE WHEN r.a > §0§ THEN r.b ELSE §1§ END)", None, Kind.INTEGER, Kind.INTEGER),
                both("COUNT_IF(r.b > §0§)", "COUNT(CASE WHEN r.b > §0§ THEN 1 END)", Kind.INTEGER),
                both("MAX(CASE WHEN r.b <> §0§ THEN r.a END)", None, Kind.INTEGER),
            )
        )

    def _own_column(self, numbers: Sequence[str]) -> tuple[Pattern, Kind]:
        """A label, or what is made of a column with constants."""
        dice = self.dice
        if not numbers or dice.chance(50):
            kind = dice.pick((Kind.STRING, Kind.INTEGER))
            return both("§0§", None, kind), kind
        return dice.pick(
            (
                (
                    both(f"CASE WHEN {numbers[0]} > §0§ THEN 'more' ELSE §1§ END", None, Kind.INTEGER, Kind.STRING),
                    Kind.STRING,
                ),
                (both(f"COALESCE({numbers[0]}, §0§)", None, Kind.INTEGER), Kind.INTEGER),
                (
                    both(
                        f"CONCAT(CAST({numbers[0]} AS STRING), §0§)",
                        f"CAST({numbers[0]} AS VARCHAR) || §0§",
                        Kind.STRING,
                    ),
                    Kind.STRING,
                ),
            )
        )

    def _nested(self, leaf: Leaf, cql: str) -> Skeleton:
        """A set operation on two selections, of which the first differs, and perhaps the second."""
        other, right = self._windowed("U", U)
        word = self.dice.pick(("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"))
        one = [f"SELECT r.a AS c0 FROM {name} AS r WHERE {{}}" for name in (cql, leaf.name)]
        having = self._of_other()
        where = "{having}" if having.kinds else "o.e > 0"
        two = [f"SELECT o.a AS c0 FROM {name} AS o WHERE {where}" for name in (right, other.name)]
        cql, duck = (f"{left} {word} {right}" for left, right in zip(one, two, strict=True))
        leaves = tuple(dict.fromkeys((leaf, other)))
        return Skeleton(cql, duck, tuple(_under("r", S)), (Column("c0", Kind.INTEGER),), leaves, having=having)


def _under(alias: str, columns: Sequence[Column]) -> list[Column]:
    return [Column(f"{alias}.{column.name}", column.kind) for column in columns]
