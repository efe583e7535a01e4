"""Random schedules of many queries that come and go, written for Millstream and for DuckDB at once.

Nothing here knows Millstream: queries are texts, and what they mean is said by tests/text_oracle.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.properties.dice import Dice
from tests.properties.schedules import Ask, Check, Drop, Event, Register, RegisterMany, Reopen, Schedule
from tests.text_oracle.cases import Advance, Change, Insert
from tests.text_oracle.evaluator import Leaf, Query
from tests.text_oracle.expressions import condition
from tests.text_oracle.kinds import VALUES, Column, Kind, Text, joined, same, written
from tests.text_oracle.queries import QueryMaker
from tests.text_oracle.windows import Row, Window
from tests.text_oracle.windows_random import window
from tests.text_oracle.world import Stream, Table

HORIZON = 12
S = (
    Column("a", Kind.INTEGER),
    Column("b", Kind.INTEGER),
    Column("c", Kind.STRING),
    Column("d", Kind.DOUBLE),
    Column("g", Kind.BOOLEAN),
)
U = (Column("a", Kind.INTEGER), Column("e", Kind.INTEGER))
D = (Column("a", Kind.INTEGER), Column("n", Kind.STRING))
_TYPES = {Kind.INTEGER: same("INT"), Kind.STRING: Text("STRING", "VARCHAR"), Kind.BOOLEAN: same("BOOLEAN")}
_TYPES[Kind.DOUBLE] = same("DOUBLE")
_HEARTBEATS = (("", 0), ("HEARTBEAT DELAY 3", 3), ("HEARTBEAT EXPLICIT", None))
_CONSTANTS: dict[Kind, tuple[Any, ...]] = {
    Kind.INTEGER: (0, 1, 2, -1, 1, 0, 3, 5, None, 3_000_000_000),
    Kind.STRING: ("a", "b", "", "ab", "it's", "a%b", None),
    Kind.DOUBLE: (0.0, 1.0, 0.5, -1.5, 2.0, math.nan, math.inf, None),
    Kind.BOOLEAN: (True, False, None),
}
_PATTERNS = ("a%", "%b", "_", "%", "a_b", "", "%a%", "b")
_ORDERS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Pattern:
    """A text with slots (§0§, §1§, ...) for constants of some kinds."""

    text: Text
    kinds: tuple[Kind | str, ...] = ()
    failures: tuple[str, ...] = ()

    def shifted(self, by: int) -> Pattern:
        def moved(text: str) -> str:
            return re.sub(r"§(\d+)§", lambda found: f"§{int(found[1]) + by}§", text)

        return Pattern(Text(*map(moved, self.text)), self.kinds, tuple(map(moved, self.failures)))


NOTHING = Pattern(Text("", ""))


def _filled(pattern: Text, constants: Sequence[Text]) -> Text:
    return Text(
        re.sub(r"§(\d+)§", lambda found: constants[int(found[1])].cql, pattern.cql),
        re.sub(r"§(\d+)§", lambda found: constants[int(found[1])].duck, pattern.duck),
    )


def constant(value: Any, kind: Kind | str) -> Text:
    if value is None:
        name = "STRING" if isinstance(kind, str) else _TYPES[kind].cql
        return Text(f"CAST(NULL AS {name})", f"CAST(NULL AS {name.replace('STRING', 'VARCHAR')})")
    if isinstance(value, float):
        quoted = f"CAST('{value!r}' AS DOUBLE)"
        return same(quoted) if not math.isfinite(value) else Text(f"{value!r}E0", quoted)
    return written(value)


def _both(cql: str, duck: str | None = None, *kinds: Kind | str) -> Pattern:
    return Pattern(Text(cql, duck or cql), kinds)


@dataclass
class Shapes:
    """Conditions of any shape over columns: comparisons, IN, BETWEEN, LIKE, IS NULL, OR, NOT, arithmetic."""

    dice: Dice
    scope: Sequence[Column]

    def shape(self, depth: int = 2) -> Pattern:
        dice = self.dice
        if depth == 0 or dice.chance(35):
            return self._atom()
        if dice.chance(15):
            inner = self.shape(depth - 1)
            return replace(inner, text=same("NOT (") + inner.text + ")")
        found = self.shape(depth - 1)
        for _ in range(dice.pick((1, 1, 2))):
            other = self.shape(depth - 1).shifted(len(found.kinds))
            word = dice.pick((" AND ", " AND ", " OR "))
            found = Pattern(same("(") + found.text + word + other.text + ")", (*found.kinds, *other.kinds))
        return found

    def _of(self, kind: Kind) -> list[str]:
        return [column.name for column in self.scope if column.kind is kind]

    def _atom(self) -> Pattern:
        dice = self.dice
        if dice.chance(20):
            return Pattern(condition(dice, self.scope, 2))
        column = dice.pick(self.scope)
        name, kind = column.name, column.kind
        forms = ["compare"] * 3 + ["in", "between", "null", "not null", "distinct"]
        if kind is Kind.BOOLEAN:
            forms = ["self", "not self", "null", "compare"]
        if kind is Kind.STRING:
            forms += ["like", "like", "not like"]
        if kind is Kind.INTEGER:
            forms += ["sum", "modulo", "columns", "times"]
        negated = dice.pick(("", "", "NOT "))
        match dice.pick(forms):
            case "compare":
                return _both(f"{name} {dice.pick(_ORDERS)} §0§", None, kind)
            case "in":
                return _both(f"{name} {negated}IN (§0§, §1§, §2§)", None, kind, kind, kind)
            case "between":
                return _both(f"{name} {negated}BETWEEN §0§ AND §1§", None, kind, kind)
            case "null":
                return _both(f"{name} IS NULL")
            case "not null":
                return _both(f"{name} IS NOT NULL")
            case "distinct":
                return _both(f"{name} <=> §0§", f"{name} IS NOT DISTINCT FROM §0§", kind)
            case "self":
                return _both(name)
            case "not self":
                return _both(f"NOT {name}")
            case "like":
                return _both(f"{name} LIKE §0§", None, "pattern")
            case "not like":
                return _both(f"{name} NOT LIKE §0§", None, "pattern")
            case "sum":
                other = dice.pick(self._of(Kind.INTEGER))
                return _both(f"{name} + {other} {dice.pick(_ORDERS)} §0§", None, Kind.INTEGER)
            case "modulo":
                return _both(f"{name} % 3 = §0§", None, Kind.INTEGER)
            case "times":
                return _both(f"{name} * 2 - §0§ < §1§", None, Kind.INTEGER, Kind.INTEGER)
            case _:
                return _both(f"{name} {dice.pick(_ORDERS)} {dice.pick(self._of(Kind.INTEGER))}")


@dataclass(frozen=True)
class Skeleton:
    """What stands around a condition. `cql` and `duck` have one place for it, {}; and perhaps places for a column of
    the answer that queries have constants of their own in, {own}, and for a condition on groups, {having}."""

    cql: str
    duck: str
    scope: tuple[Column, ...]
    columns: tuple[Column, ...]
    leaves: tuple[Leaf, ...]
    operator: str | None = None
    fails: str | None = None  # over what rows are looked at, where a condition may fail
    own: Pattern = NOTHING
    having: Pattern = NOTHING
    is_fixed: bool = False  # whether queries differ in these only

    def with_places(self, condition: Pattern) -> Pattern:
        """The whole text, its slots numbered in the order in which they come."""
        shifted = condition.shifted(len(self.own.kinds))
        having = self.having.shifted(len(self.own.kinds) + len(condition.kinds))

        def placed(text: str, parts: tuple[str, str, str]) -> str:
            return text.replace("{own}", parts[0]).replace("{having}", parts[2]).replace("{}", parts[1])

        texts = self.own.text, shifted.text, having.text
        whole = Text(
            placed(self.cql, (texts[0].cql, texts[1].cql, texts[2].cql)),
            placed(self.duck, (texts[0].duck, texts[1].duck, texts[2].duck)),
        )
        return Pattern(whole, (*self.own.kinds, *condition.kinds, *self.having.kinds), shifted.failures)


@dataclass
class ScheduleMaker:
    dice: Dice
    most: int = 24  # queries at a time
    length: int = 14  # events
    _leaves: dict[tuple[str, str], Leaf] = field(default_factory=dict)
    _shapes: dict[int, list[Pattern]] = field(default_factory=dict)
    _living: list[str] = field(default_factory=list)
    _free: list[str] = field(default_factory=list)
    _names: int = 0
    _asked: dict[str, tuple[Skeleton, Pattern, Sequence[Any]]] = field(default_factory=dict)  # by name, the last one
    _made_last: tuple[Skeleton, Pattern, Sequence[Any]] | None = None

    def schedule(self) -> Schedule:
        dice = self.dice
        self._streams = tuple(self._stream(name, columns) for name, columns in (("S", S), ("U", U)))
        self._table = Table("D", D, tuple(_TYPES[c.kind] for c in D))
        self._skeletons = [self._skeleton() for _ in range(dice.number(1, 4))]
        self._maker = QueryMaker(dice, [*self._streams, self._table], _numbers=1000)  # of leaves, apart from ours
        self._clock = dict.fromkeys(("S", "U"), 0)
        in_directory = dice.chance(50)
        self._tail = dice.pick((("auto",), ("on",), ("auto", "on", "off")))
        settings: dict[str, str | int] = {"shards": dice.number(1, 3)}
        if dice.chance(50):
            settings["background_rows"] = dice.pick((0, 3, 8))
        if dice.chance(20):
            settings["join_plan"] = dice.pick(("eddy", "tree", "mjoin"))
        events: list[Event] = []
        for _ in range(self.length):
            events += self._event(in_directory)
        events += [Advance(None, HORIZON + dice.pick((0, 3, 8))), *([Reopen()] if in_directory else []), Check()]
        return Schedule(settings, self._streams, (self._table,), tuple(events))

    def _stream(self, name: str, columns: tuple[Column, ...]) -> Stream:
        words, delay = self.dice.pick(_HEARTBEATS)
        types = tuple(_TYPES[column.kind] for column in columns)
        return Stream(name, columns, types, f"TIMESTAMP BY ts {words}".strip(), delay)

    # What happens

    def _event(self, in_directory: bool) -> list[Event]:
        dice = self.dice
        full = len(self._living) >= self.most
        options = ["insert"] * 4 + ["insert u", "insert u", "advance", "change", "ask", "check", "drop"]
        options += [] if full else ["one", "one", "some", "some", "equal", "many", "many"]
        options += ["drop"] * 3 if full else []
        options += ["reopen"] if in_directory else []
        options += ["again"] if self._living and not full else []
        options += ["same", "same"] if self._known() and not full else []
        options += ["drop first"] if self._equal() else []
        match dice.pick(options):
            case "insert":
                return [self._insert("S", S)]
            case "insert u":
                return [self._insert("U", U)]
            case "advance":
                name = dice.pick((None, "S", "U"))
                to = max(self._clock[name] if name else min(self._clock.values()), 0) + dice.number(-2, 1)
                return [Advance(name, max(to, 0))]
            case "change":
                return [Change("D", self._statement())]
            case "ask":
                return [Ask(tuple({*dice.some(self._living, 1, 4)}))] if self._living else []
            case "check":
                return [Check()]
            case "drop":
                return [self._drop(dice.pick((1, 1, 2, 5, 100)))] if self._living else []
            case "again":
                dropped = self._drop(1)
                return [dropped, self._register(1, names=dropped.names)]
            case "same":
                return [self._register_same()]
            case "drop first":
                return [self._drop_named(dice.pick(self._equal())[: dice.pick((1, 1, 2))])]
            case "one":
                return [self._register(1)]
            case "some":
                return [self._register(dice.number(2, 10))]
            case "equal":
                return [self._register(1, copies=dice.number(2, 6))]
            case "many":
                return [self._register_many()]
            case _:
                return [Reopen()]

    def _insert(self, name: str, columns: Sequence[Column]) -> Insert:
        dice, rows = self.dice, list[tuple[Row, int]]()
        for _ in range(dice.number(1, 6)):
            self._clock[name] = min(self._clock[name] + dice.pick((0, 0, 1, 1, 2)), HORIZON)
            instant = max(self._clock[name] - dice.pick((0, 0, 0, 1, 2, 3)), 0)
            rows.append((tuple(dice.pick(VALUES[column.kind]) for column in columns), instant))
        return Insert(name, tuple(rows))

    def _statement(self) -> Text:
        dice = self.dice
        if dice.chance(65):
            rows = [[dice.pick(VALUES[c.kind]) for c in D] for _ in range(dice.number(1, 3))]
            listed = [same("(") + joined(", ", [written(v) for v in row]) + ")" for row in rows]
            return same("INSERT INTO D VALUES ") + joined(", ", listed)
        where = same(f" WHERE a {dice.pick(_ORDERS)} {dice.number(-1, 3)}")
        if dice.chance(50):
            return same("DELETE FROM D") + where
        return same(f"UPDATE D SET n = '{dice.pick(('a', 'b', 'ab'))}'") + where

    # Who comes and goes

    def _drop(self, count: int) -> Drop:
        chosen = [self.dice.pick(self._living) for _ in range(count)] if count < 100 else list(self._living)
        return self._drop_named(tuple(dict.fromkeys(chosen)))

    def _drop_named(self, names: Sequence[str]) -> Drop:
        self._living = [name for name in self._living if name not in names]
        self._free += names
        return Drop(tuple(names))

    def _known(self) -> list[str]:
        """Those that may come again under another name."""
        return [name for name in self._living if name in self._asked]

    def _equal(self) -> list[list[str]]:
        """Names of queries that ask for the same, in the order in which they came."""
        found: dict[str, list[str]] = {}
        for name in self._known():
            skeleton, shape, values = self._asked[name]
            found.setdefault(repr((id(skeleton), shape.kinds, shape.text, values)), []).append(name)
        return [names for names in found.values() if len(names) > 1]

    def _register_same(self) -> Register:
        """Queries that ask for what another one does, perhaps in other words."""
        dice, known = self.dice, self._asked[self.dice.pick(self._known())]
        skeleton, shape, values = known
        queries = []
        for _ in range(dice.number(1, 4)):
            words = dice.pick(("{}", "{}", "NOT (NOT ({}))", "({}) AND ({})", "TRUE AND ({})", "({}) OR FALSE"))
            before, *others = words.split("{}")
            text = same(before) + shape.text + others[0]
            text = text if len(others) == 1 else text + shape.text + others[1]
            named = self._named()
            queries.append((named, self._with(skeleton, skeleton.with_places(replace(shape, text=text)), values)))
            self._asked[named] = known
        return Register(tuple(queries), dice.pick(self._tail), dice.pick(("eager",) * 6 + ("lazy", "none")))

    def _named(self) -> str:
        if self._free and self.dice.chance(50):
            name = self._free.pop(self.dice.number(0, len(self._free) - 1))
        else:
            name, self._names = f"q{self._names}", self._names + 1
        self._living.append(name)
        return name

    def _register(self, count: int, copies: int = 1, names: Sequence[str] = ()) -> Register:
        dice = self.dice
        queries, asked = list[Query](), list[tuple[Skeleton, Pattern, Sequence[Any]] | None]()
        for _ in range(count):
            self._made_last = None
            queries += [self._query()] * copies
            asked += [self._made_last] * copies
        if names:
            self._free = [name for name in self._free if name not in names]
            self._living += names
        chosen = list(names) or [self._named() for _ in queries]
        for name, known in zip(chosen, asked, strict=True):
            self._asked.pop(name, None)
            if known is not None:
                self._asked[name] = known
        mode = dice.pick(("eager",) * 6 + ("lazy", "none"))
        return Register(tuple(zip(chosen, queries, strict=True)), dice.pick(self._tail), mode)

    def _query(self) -> Query:
        dice = self.dice
        if dice.chance(10):
            return self._maker.query()
        skeleton = dice.pick(self._skeletons) if dice.chance(85) else self._skeleton()
        return self._made(skeleton, self._shape(skeleton))

    def _register_many(self) -> RegisterMany:
        dice = self.dice
        skeleton = dice.pick(self._skeletons)
        condition = self._shape(skeleton)
        while not (shape := skeleton.with_places(condition)).kinds:
            condition = self._new_shape(skeleton)
        rows = [tuple(self._value(kind) for kind in shape.kinds) for _ in range(dice.number(1, 8))]
        # What a column of NULLs is of, no template can know.
        rows[0] = tuple(self._value(kind, nulls=False) for kind in shape.kinds)
        rows += [dice.pick(rows) for _ in range(dice.pick((0, 0, 1, 3)))]
        queries = [self._with(skeleton, shape, row) for row in rows]
        template = re.sub(r"§\d+§", "?", shape.text.cql)
        mode = dice.pick(("eager",) * 6 + ("lazy", "none"))
        names = [self._named() for _ in queries]
        self._asked |= {name: (skeleton, condition, row) for name, row in zip(names, rows, strict=True)}
        return RegisterMany(template, tuple(rows), tuple(zip(names, queries, strict=True)), mode)

    def _value(self, kind: Kind | str, *, nulls: bool = True) -> Any:
        options = _PATTERNS if isinstance(kind, str) else _CONSTANTS[kind]
        return self.dice.pick([value for value in options if nulls or value is not None])

    def _shape(self, skeleton: Skeleton) -> Pattern:
        """One that others have, mostly, so that they are of one group and of several shapes."""
        shapes = self._shapes.setdefault(id(skeleton), [])
        if not shapes or (len(shapes) < 4 and self.dice.chance(40)):
            shapes.append(self._new_shape(skeleton))
        return self.dice.pick(shapes)

    def _new_shape(self, skeleton: Skeleton) -> Pattern:
        dice = self.dice
        if skeleton.is_fixed:
            return _both(f"{skeleton.scope[1].name} IS NOT NULL")
        if skeleton.fails is not None and dice.chance(12):
            name = next(column.name for column in skeleton.scope if column.kind is Kind.INTEGER)
            text = Text(f"10 / ({name} - §0§) > §1§", f"10 // ({name} - §0§) > §1§")
            return Pattern(
                text, (Kind.INTEGER, Kind.INTEGER), (f"SELECT 1 FROM {skeleton.fails} WHERE {name} - §0§ = 0",)
            )
        return Shapes(dice, skeleton.scope).shape()

    def _made(self, skeleton: Skeleton, condition: Pattern) -> Query:
        shape = skeleton.with_places(condition)
        values = tuple(self._value(kind) for kind in shape.kinds)
        self._made_last = skeleton, condition, values
        return self._with(skeleton, shape, values)

    def _with(self, skeleton: Skeleton, shape: Pattern, values: Sequence[Any]) -> Query:
        constants = [constant(value, kind) for value, kind in zip(values, shape.kinds, strict=True)]
        failures = tuple(_filled(same(text), constants).duck for text in shape.failures)
        whole = _filled(shape.text, constants)
        return Query(whole, skeleton.columns, skeleton.leaves, skeleton.operator, failures)

    # What queries have in common

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
        form = dice.pick(
            ("select", "select", "group", "global", "distinct", "join", "self join", "table", "both", "beside")
        )
        if form in ("join", "table", "self join"):
            return self._join(form)
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
            case "beside":
                return self._with_partners(leaf, cql)
            case "global":
                listed, tail = self._aggregates(), dice.pick(("", "", " HAVING {having}"))
            case _:
                return self._nested(leaf, cql)
        return self._finished(word, listed, origin, scope, tail, (leaf,), fails)

    def _aggregates(self) -> list[tuple[str, Kind]]:
        options = ("COUNT(*)", "SUM(r.b)", "MIN(r.a)", "COUNT(r.c)", "COUNT(DISTINCT r.a)", "MAX(r.b)")
        return [(text, Kind.INTEGER) for text in dict.fromkeys(self.dice.some(options, 1, 2))]

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
        having = dice.pick((NOTHING, _both(f"o.e {dice.pick(_ORDERS)} §0§", None, Kind.INTEGER)))
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
        if self.dice.chance(35):
            own, kind = self._own_column([text for text, kind in listed if kind is Kind.INTEGER])
            listed = [*listed, ("{own}", kind)]
        is_fixed = bool(own.kinds or having.kinds) and self.dice.chance(50)
        columns = tuple(Column(f"c{number}", kind) for number, (_, kind) in enumerate(listed))
        head = word + ", ".join(f"{text} AS c{number}" for number, (text, _) in enumerate(listed))
        operator = self.dice.pick(("ISTREAM", "RSTREAM", "DSTREAM")) if self.dice.chance(25) else None
        shown = f"{operator}({head})" if operator else head
        rest = [f" FROM {text} WHERE {first}{{}}{tail}" for text in origin]
        texts = f"SELECT {shown}{rest[0]}", f"SELECT {head}{rest[1]}"
        return Skeleton(*texts, tuple(scope), columns, leaves, operator, fails, own, having, is_fixed)

    def _having(self) -> Pattern:
        dice = self.dice
        found = _both(f"{dice.pick(('COUNT(*)', 'SUM(r.b)', 'MIN(r.a)'))} {dice.pick(_ORDERS)} §0§", None, Kind.INTEGER)
        if dice.chance(25):
            found = Pattern(found.text + " AND COUNT(*) < §1§", (Kind.INTEGER, Kind.INTEGER))
        return found

    def _own_column(self, numbers: Sequence[str]) -> tuple[Pattern, Kind]:
        """A label, or what is made of a column with constants."""
        dice = self.dice
        if not numbers or dice.chance(50):
            kind = dice.pick((Kind.STRING, Kind.INTEGER))
            return _both("§0§", None, kind), kind
        return dice.pick(
            (
                (
                    _both(f"CASE WHEN {numbers[0]} > §0§ THEN 'more' ELSE §1§ END", None, Kind.INTEGER, Kind.STRING),
                    Kind.STRING,
                ),
                (_both(f"COALESCE({numbers[0]}, §0§)", None, Kind.INTEGER), Kind.INTEGER),
                (
                    _both(
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
        word = self.dice.pick(("UNION", "UNION ALL", "EXCEPT", "INTERSECT"))
        one = [f"SELECT r.a AS c0 FROM {name} AS r WHERE {{}}" for name in (cql, leaf.name)]
        having = self.dice.pick((NOTHING, _both(f"o.e {self.dice.pick(_ORDERS)} §0§", None, Kind.INTEGER)))
        where = "{having}" if having.kinds else "o.e > 0"
        two = [f"SELECT o.a AS c0 FROM {name} AS o WHERE {where}" for name in (right, other.name)]
        cql, duck = (f"{left} {word} {right}" for left, right in zip(one, two, strict=True))
        leaves = tuple(dict.fromkeys((leaf, other)))
        return Skeleton(cql, duck, tuple(_under("r", S)), (Column("c0", Kind.INTEGER),), leaves, having=having)


def _under(alias: str, columns: Sequence[Column]) -> list[Column]:
    return [Column(f"{alias}.{column.name}", column.kind) for column in columns]
