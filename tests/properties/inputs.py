"""Random streams and tables, and what arrives in them: ties, gaps, disorder, late elements, heartbeats."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from tests.properties.cases import Action, Advance, Change, Insert, Row
from tests.properties.dice import Dice
from tests.properties.expressions import condition, expression
from tests.properties.kinds import DECLARED, TYPES, VALUES, Column, Kind, written

HORIZON = 9  # of most cases: timestamps are 0 to this
_EPOCH = dt.datetime(1970, 1, 1)

_HEARTBEATS = ("", "HEARTBEAT DELAY 3", "HEARTBEAT EXPLICIT", "HEARTBEAT ASCENDING", "HEARTBEAT DELAY 1")


@dataclass(frozen=True)
class Source:
    """Something that FROM may name: streams take windows, relations do not."""

    name: str
    columns: tuple[Column, ...]
    is_stream: bool
    definition: str = ""
    operations: tuple[str, ...] = ()  # what rows of a CHANGES BY table may say


@dataclass(frozen=True)
class TimeScale:
    """Ticks, or seconds of TIMESTAMPs, from 0 to the horizon: one for all streams of a case."""

    timestamps: bool
    horizon: int = HORIZON

    @property
    def end(self) -> int:
        """When all is over, and most windows are empty again."""
        return self.horizon + 5

    def value(self, tick: int) -> int | dt.datetime:
        return _EPOCH + dt.timedelta(seconds=tick) if self.timestamps else tick

    def clause(self, hidden: str) -> str:
        return f"TIMESTAMP BY {hidden}" + (" TIMESTAMP TICK INTERVAL '1' SECOND" if self.timestamps else "")


def columns(dice: Dice) -> tuple[Column, ...]:
    kinds = [Kind.INTEGER, *dice.some(DECLARED, 0, 2)]
    return tuple(Column(name, kind) for name, kind in zip("abc", kinds, strict=False))


def stream(dice: Dice, name: str, scale: TimeScale) -> Source:
    found = columns(dice)
    declared = [_declared(dice, column) for column in found]
    if not scale.timestamps and dice.chance(25):
        found = (*found, Column("ts", Kind.INTEGER))
        declared.append("ts BIGINT")
    clauses = f"{scale.clause('ts')} {dice.pick(_HEARTBEATS)}".strip()
    return Source(name, found, True, f"CREATE STREAM {name} ({', '.join(declared)}) {clauses}")


def table(dice: Dice, name: str) -> Source:
    found = columns(dice)
    declared = ", ".join(_declared(dice, column) for column in found)
    nature = " APPEND ONLY" if dice.chance(20) else ""
    return Source(name, found, False, f"CREATE TABLE {name} ({declared}){nature}")


def fed_table(dice: Dice, name: str) -> Source:
    """A table that changes by rows."""
    found = columns(dice)
    declared = ", ".join(_declared(dice, column) for column in found)
    key = " KEY (a)" if dice.chance(50) else ""
    operations = ("+", "+", "-", "update") if key else ("+", "+", "insert", "-", "delete")
    clauses = f"CHANGES BY op TIMESTAMP BY ts {dice.pick(_HEARTBEATS)}".strip()
    return Source(name, found, False, f"CREATE TABLE {name} ({declared}){key} {clauses}", operations)


def _declared(dice: Dice, column: Column) -> str:
    return f"{column.name} {dice.pick(TYPES[column.kind])}"


def values(dice: Dice, found: Sequence[Column]) -> Row:
    return tuple(dice.pick(VALUES[column.kind]) for column in found)


def elements(dice: Dice, source: Source, scale: TimeScale, most: int) -> list[Row]:
    """Rows in the order of their arrival: mostly of time, or nearly, or none at all."""
    count = 0 if dice.chance(4) else dice.number(3, most)
    instants = [dice.number(0, scale.horizon) for _ in range(count)]
    order = dice.pick(("sorted", "sorted", "nearly", "any"))
    if order == "sorted":
        instants.sort()
    elif order == "nearly":
        instants = [t for _, t in sorted((t + dice.number(0, 3), t) for t in instants)]
    visible = [column for column in source.columns if column.name != "ts"]
    rows = [values(dice, visible) for _ in instants]
    if source.operations:
        # Rows that go should have come.
        rows = [rows[dice.number(0, i)] for i in range(len(rows))]
        rows = [(*row, dice.pick(source.operations)) for row in rows]
    return [(*row, scale.value(t)) for row, t in zip(rows, instants, strict=True)]


def arrivals(dice: Dice, fed: Sequence[Source], scale: TimeScale, most: int) -> list[Action]:
    """Batches of all streams in a random order, with heartbeats in between and mostly one at the end."""
    queues = {source.name: _batches(dice, elements(dice, source, scale, most)) for source in fed}
    actions: list[Action] = []
    while any(queues.values()):
        name = dice.pick([name for name, batches in queues.items() if batches])
        actions.append(Insert(name, tuple(queues[name].pop(0))))
        if dice.chance(20):
            actions.append(Advance(dice.pick((None, name)), dice.number(0, scale.horizon)))
    if not dice.chance(8):
        actions.append(Advance(None, scale.end))
    return actions


def _batches(dice: Dice, rows: list[Row]) -> list[list[Row]]:
    found: list[list[Row]] = []
    while rows:
        size = dice.number(1, max(len(rows), 1))
        found.append(rows[:size])
        rows = rows[size:]
    return found


def changes(dice: Dice, tables: Sequence[Source], scale: TimeScale) -> list[Action]:
    return [_change(dice, dice.pick(tables), scale) for _ in range(dice.number(0, 3))] if tables else []


def inserted(dice: Dice, changed: Source, instant: str = "") -> Action:
    rows = [values(dice, changed.columns) for _ in range(dice.number(1, 3))]
    listed = ", ".join(f"({', '.join(written(value) for value in row)})" for row in rows)
    return Change(f"INSERT INTO {changed.name} VALUES {listed}{instant}")


def _change(dice: Dice, changed: Source, scale: TimeScale) -> Action:
    instant = f" AT {dice.number(0, scale.end)}" if dice.chance(50) else ""
    form = dice.pick(("insert", "insert", "delete", "update"))
    if form == "insert" or "APPEND ONLY" in changed.definition:
        return inserted(dice, changed, instant)
    where = "" if dice.chance(15) else f" WHERE {condition(dice, changed.columns)}"
    if form == "delete":
        return Change(f"DELETE FROM {changed.name}{where}{instant}")
    column = dice.pick(changed.columns)
    depth = 1 if column.kind in (Kind.INTEGER, Kind.STRING) else 0
    value = expression(dice, changed.columns, column.kind, depth)
    return Change(f"UPDATE {changed.name} SET {column.name} = {value}{where}{instant}")
