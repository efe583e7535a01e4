"""Random schedules of many queries that come and go, written for Millstream and for DuckDB at once.

Nothing here knows Millstream: queries are texts, and what they mean is said by tests/text_oracle.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.properties.patterns import ORDERS, TYPES, Pattern, Shapes, both, constant, filled
from tests.properties.schedules import Ask, Check, Drop, Event, Register, RegisterMany, Reopen, Schedule
from tests.properties.skeletons import D, S, Skeleton, SkeletonMaker, U
from tests.text_oracle.cases import Advance, Change, Insert
from tests.text_oracle.evaluator import Query
from tests.text_oracle.kinds import VALUES, Column, Kind, Text, joined, same, written
from tests.text_oracle.queries import QueryMaker
from tests.text_oracle.windows import Row
from tests.text_oracle.world import Stream, Table

HORIZON = 12
_HEARTBEATS = (("", 0), ("HEARTBEAT DELAY 3", 3), ("HEARTBEAT EXPLICIT", None))
_CONSTANTS: dict[Kind, tuple[Any, ...]] = {
    Kind.INTEGER: (0, 1, 2, -1, 1, 0, 3, 5, None, 3_000_000_000),
    Kind.STRING: ("a", "b", "", "ab", "it's", "a%b", None),
    Kind.DOUBLE: (0.0, 1.0, 0.5, -1.5, 2.0, math.nan, math.inf, None),
    Kind.BOOLEAN: (True, False, None),
}
_PATTERNS = ("a%", "%b", "_", "%", "a_b", "", "%a%", "b")
# What modes queries of a schedule have.
_MODES = (("eager",) * 6 + ("lazy", "none"), ("eager",) * 6 + ("lazy", "none"), ("lazy",), ("eager", "lazy", "none"))


@dataclass
class ScheduleMaker(SkeletonMaker):
    most: int = 24  # queries at a time
    length: int = 14  # events
    _templates: dict[str, tuple[str, Skeleton, Pattern, Pattern]] = field(default_factory=dict)  # by name
    _shapes: dict[int, list[Pattern]] = field(default_factory=dict)
    _living: list[str] = field(default_factory=list)
    _free: list[str] = field(default_factory=list)
    _names: int = 0
    _asked: dict[str, tuple[Skeleton, Pattern, Sequence[Any]]] = field(default_factory=dict)  # by name, the last one
    _made_last: tuple[Skeleton, Pattern, Sequence[Any]] | None = None

    def schedule(self) -> Schedule:
        dice = self.dice
        self._streams = tuple(self._stream(name, columns) for name, columns in (("S", S), ("U", U)))
        self._table = Table("D", D, tuple(TYPES[c.kind] for c in D))
        self._modes = dice.pick(_MODES)
        self._skeletons = [self._skeleton() for _ in range(dice.number(1, 4))]
        if dice.chance(40):  # queries that differ in a window
            self._skeletons += [self._with_other_window(each) for each in self._skeletons for _ in range(2)]
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
        types = tuple(TYPES[column.kind] for column in columns)
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
        where = same(f" WHERE a {dice.pick(ORDERS)} {dice.number(-1, 3)}")
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
            said = [dice.pick((shape.text, shape.other)) for _ in others]
            text = same(before) + said[0] + others[0]
            text = text if len(others) == 1 else text + said[1] + others[1]
            named = self._named()
            queries.append((named, self._with(skeleton, skeleton.with_places(replace(shape, text=text)), values)))
            self._asked[named] = known
        return Register(tuple(queries), dice.pick(self._tail), dice.pick(self._modes))

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
        mode = dice.pick(self._modes)
        return Register(tuple(zip(chosen, queries, strict=True)), dice.pick(self._tail), mode)

    def _query(self) -> Query:
        dice = self.dice
        if dice.chance(10):
            return self._maker.query()
        skeleton = dice.pick(self._skeletons) if dice.chance(85) else self._skeleton()
        return self._made(skeleton, self._shape(skeleton))

    def _register_many(self) -> RegisterMany:
        dice = self.dice
        name, mode = None, dice.pick(self._modes)
        if self._templates and dice.chance(40):
            name = dice.pick([*self._templates])
            mode, skeleton, condition, shape = self._templates[name]
        else:
            skeleton = dice.pick(self._skeletons)
            condition = self._shape(skeleton)
            while not (shape := skeleton.with_places(condition)).kinds:
                condition = self._new_shape(skeleton)
            if dice.chance(40):
                name = f"t{len(self._templates)}"
                self._templates[name] = mode, skeleton, condition, shape
        most = None if name is None else 5  # of parameters that have got their types
        rows = [tuple(self._value(kind, most=most) for kind in shape.kinds) for _ in range(dice.number(1, 8))]
        # What a column of NULLs is of, no template can know.
        rows[0] = tuple(self._value(kind, nulls=False, most=most) for kind in shape.kinds)
        rows += [dice.pick(rows) for _ in range(dice.pick((0, 0, 1, 3)))]
        queries = [self._with(skeleton, shape, row) for row in rows]
        template = re.sub(r"§\d+§", "?", shape.text.cql)
        names = [self._named() for _ in queries]
        self._asked |= {name: (skeleton, condition, row) for name, row in zip(names, rows, strict=True)}
        return RegisterMany(template, tuple(rows), tuple(zip(names, queries, strict=True)), mode, name)

    def _value(self, kind: Kind | str, *, nulls: bool = True, most: int | None = None) -> Any:
        among = _PATTERNS if isinstance(kind, str) else _CONSTANTS[kind]
        options = [value for value in among if nulls or value is not None]
        return self.dice.pick([v for v in options if most is None or not isinstance(v, int) or v <= most])

    def _shape(self, skeleton: Skeleton) -> Pattern:
        """One that others have, mostly, so that they are of one group and of several shapes."""
        shapes = self._shapes.setdefault(id(skeleton), [])
        if not shapes or (len(shapes) < 4 and self.dice.chance(40)):
            shapes.append(self._new_shape(skeleton))
        return self.dice.pick(shapes)

    def _new_shape(self, skeleton: Skeleton) -> Pattern:
        dice = self.dice
        if skeleton.is_fixed:
            return both(f"{skeleton.scope[1].name} IS NOT NULL")
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
        failures = tuple(filled(same(text), constants).duck for text in shape.failures)
        whole = filled(shape.text, constants)
        return Query(whole, skeleton.columns, skeleton.leaves, skeleton.operator, failures)
