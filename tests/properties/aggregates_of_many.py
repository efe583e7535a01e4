"""Random schedules of queries that aggregate what they select of one stream, on one or two of its attributes: sums that
may not fit among them, over windows of all kinds, with HAVING, and as streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.properties.many_queries import HORIZON, ScheduleMaker
from tests.properties.patterns import Pattern
from tests.properties.schedules import Event
from tests.properties.skeletons import S, Skeleton
from tests.text_oracle.cases import Insert
from tests.text_oracle.evaluator import Query
from tests.text_oracle.kinds import Column, Kind, Text, same
from tests.text_oracle.windows import Row, Window
from tests.text_oracle.windows_random import window
from tests.text_oracle.world import Stream

_LEAST, _GREATEST = -(2**63), 2**63 - 1
_ROWS: dict[str, tuple[Any, ...]] = {
    "a": (0, 1, 2, 3, 4, 5, None),
    "b": (0, 1, 2, 3, 4, 5, None, -2),
    "c": ("a", "b", "ab", None),
    "d": (0.0, 0.5, -1.5, 2.0, 4.0, None, float("nan"), float("inf")),
    "g": (True, False, None),
}
_LARGE = (2**62, 2**62, -(2**62), _GREATEST, _LEAST, 1, -1, None, 2)
_CALLS = (
    *("COUNT(*)", "COUNT(*)", "SUM(r.a)", "AVG(r.a)", "SUM(r.b)", "SUM(r.b)", "COUNT(r.c)", "SUM(r.d)", "AVG(r.d)"),
    *("MIN(r.a)", "MAX(r.a)", "MIN(r.b)", "MAX(r.d)", "MIN(r.c)", "MAX(r.c)", "MIN(r.d)"),
)
# Of these a query has one, with its condition.
_IN_CASES = (
    *("COUNT(*) FILTER (WHERE {})", "SUM(r.a) FILTER (WHERE {})", "SUM(CASE WHEN {} THEN r.a ELSE 0 END)"),
    *("AVG(CASE WHEN {} THEN r.a ELSE 3 END)", "MIN(CASE WHEN {} THEN r.a END)", "MAX(r.c) FILTER (WHERE {})"),
    *("COUNT(CASE WHEN r.g THEN r.a WHEN {} THEN r.d END)", "SUM(2 * CASE WHEN NOT ({}) THEN r.a ELSE 1 END)"),
)
_KINDS = {"AVG(r.a)": Kind.REAL, "AVG(r.d)": Kind.REAL, "SUM(r.d)": Kind.DOUBLE, "MAX(r.d)": Kind.DOUBLE}
_KINDS |= {"AVG(CASE WHEN {} THEN r.a ELSE 3 END)": Kind.REAL, "MAX(r.c) FILTER (WHERE {})": Kind.STRING}
_ORDERS = (">", "<", ">=", "<=")


@dataclass(frozen=True)
class Aggregation(Skeleton):
    """Where a sum may not fit, `overflow` is a text for DuckDB that has rows then, with a place for the condition."""

    overflow: str = ""

    def with_places(self, condition: Pattern) -> Pattern:
        whole = super().with_places(condition)
        if not self.overflow:
            return whole
        return replace(whole, failures=(self.overflow.replace("{}", condition.text.duck),))


class AggregateMaker(ScheduleMaker):
    """With `large`, numbers whose sums need not fit into BIGINT."""

    large = False

    def _stream(self, name: str, columns: tuple[Column, ...]) -> Stream:
        found = super()._stream(name, columns)
        if name == "S":
            self.large = self.dice.chance(30)
        types = tuple(same("BIGINT") if c.name == "b" else kind for c, kind in zip(columns, found.types, strict=True))
        return replace(found, types=types)

    def _event(self, in_directory: bool) -> list[Event]:
        events = super()._event(in_directory)
        return [*events, self._insert("S", S)] if self.dice.chance(40) else events

    def _insert(self, name: str, columns: Sequence[Column]) -> Insert:
        if name != "S":
            return super()._insert(name, columns)
        dice, rows = self.dice, list[tuple[Row, int]]()
        for _ in range(dice.number(1, 8)):
            self._clock[name] = min(self._clock[name] + dice.pick((0, 0, 1, 1, 2)), HORIZON)
            instant = max(self._clock[name] - dice.pick((0, 0, 0, 1, 2, 3)), 0)
            own = {**_ROWS, "b": _LARGE} if self.large else _ROWS
            rows.append((tuple(dice.pick(own[column.name]) for column in columns), instant))
        return Insert(name, tuple(rows))

    def _query(self) -> Query:
        skeleton = self.dice.pick(self._skeletons)
        return self._made(skeleton, self._shape(skeleton))

    def _value(self, kind: Kind | str, *, nulls: bool = True, most: int | None = None) -> Any:
        if kind is Kind.INTEGER and self.dice.chance(90):
            return self.dice.number(-1, 5)
        return super()._value(kind, nulls=nulls, most=most)

    def _new_shape(self, skeleton: Skeleton) -> Pattern:
        """Comparisons of one or two attributes with constants; now and then something else."""
        dice = self.dice
        if dice.chance(12) and not skeleton.fails and not self.large:
            return super()._new_shape(skeleton)
        first, second = dice.pick((("r.a", "r.b"), ("r.b", "r.a"), ("r.a", "r.a")))
        text = f"{first} {dice.pick(_ORDERS)} §0§"
        if dice.chance(30):
            return Pattern(same(text), (Kind.INTEGER,))
        word = dice.pick(("AND", "AND", "OR"))
        return Pattern(same(f"({text} {word} {second} {dice.pick(_ORDERS)} §1§)"), (Kind.INTEGER, Kind.INTEGER))

    def _over(self) -> Window:
        dice = self.dice
        match dice.pick(("range", "range", "rows", "unbounded", "any")):
            case "range":
                return Window(f"[RANGE {(size := dice.number(1, 8))}]", "range", size)
            case "rows":
                return Window(f"[ROWS {(size := dice.number(1, 6))}]", "rows", size)
            case "unbounded":
                return Window("", "unbounded")
            case _:
                return window(dice, S)

    def _skeleton(self) -> Aggregation:
        dice = self.dice
        leaf, cql = self._leaf("S", S, self._over())
        keys = dice.pick(((), (), ("r.c",), ("r.a",), ("r.g", "r.a")))
        calls = list(dict.fromkeys(dice.some(_CALLS, 1, 3)))
        kinds = {f"r.{column.name}": column.kind for column in S}
        listed = [(key, kinds[key]) for key in keys] + [(call, _KINDS.get(call, Kind.INTEGER)) for call in calls]
        listed += [(f"COALESCE({calls[0]}, {calls[0]})", Kind.INTEGER)] if dice.chance(15) else []
        word = "DISTINCT " if dice.chance(10) else ""
        grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = dice.pick(("", "", "", " HAVING COUNT(*) > 1", " HAVING MAX(r.a) < 4", " HAVING SUM(r.a) > 2"))
        where = " WHERE {}"
        if dice.chance(30):
            where, call = dice.pick(("", "", " WHERE r.a < 4")), dice.pick(_IN_CASES)
            listed.append((call, _KINDS.get(call, Kind.INTEGER)))
        overflow = ""
        if "SUM(r.b)" in calls:
            within = f"SUM(r.b) NOT BETWEEN {_LEAST} AND {_GREATEST}"
            overflow = f"SELECT 1 FROM {leaf.name} AS r{where}{grouping}"
            overflow += f"{having} AND {within}" if having else f" HAVING {within}"
        head = word + ", ".join(f"{text} AS c{number}" for number, (text, _) in enumerate(listed))
        operator = dice.pick(("ISTREAM", "RSTREAM", "DSTREAM")) if dice.chance(25) else None
        shown = f"{operator}({head})" if operator else head
        rest = [f" FROM {name} AS r{where}{grouping}{having}" for name in (cql, leaf.name)]
        scope = tuple(Column(f"r.{column.name}", column.kind) for column in S)
        columns = tuple(Column(f"c{number}", kind) for number, (_, kind) in enumerate(listed))
        texts = Text(f"SELECT {shown}{rest[0]}", f"SELECT {head}{rest[1]}")
        return Aggregation(
            *texts, scope, columns, (leaf,), operator, leaf.name if overflow else None, overflow=overflow
        )
