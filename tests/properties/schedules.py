"""Schedules of queries that come and go: what happens, one event after the other."""

from __future__ import annotations

from dataclasses import dataclass

from tests.text_oracle.cases import Advance, Change, Insert
from tests.text_oracle.evaluator import Query
from tests.text_oracle.kinds import joined, written
from tests.text_oracle.windows import Row
from tests.text_oracle.world import Stream, Table


@dataclass(frozen=True)
class Register:
    """Queries one by one, under a setting of sharing."""

    queries: tuple[tuple[str, Query], ...]
    sharing: str
    mode: str = "eager"


@dataclass(frozen=True)
class RegisterMany:
    template: str
    rows: tuple[Row, ...]
    queries: tuple[tuple[str, Query], ...]
    mode: str = "eager"
    name: str | None = None  # of the template


@dataclass(frozen=True)
class Drop:
    names: tuple[str, ...]


@dataclass(frozen=True)
class Ask:
    """Answers of some, which admits them and those of their groups."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Reopen:
    pass


@dataclass(frozen=True)
class Check:
    """Everything that all queries say."""


Event = Register | RegisterMany | Drop | Ask | Reopen | Check | Insert | Advance | Change


@dataclass(frozen=True)
class Schedule:
    settings: dict[str, str | int]
    streams: tuple[Stream, ...]
    tables: tuple[Table, ...]
    events: tuple[Event, ...]

    @property
    def definitions(self) -> list[str]:
        return [
            *(f"SET {name} = {value!r}" for name, value in self.settings.items()),
            *(f"CREATE STREAM {s.name} ({_declared(s)}) {s.clause}" for s in self.streams),
            *(f"CREATE TABLE {t.name} ({_declared(t)})" for t in self.tables),
        ]

    @property
    def needs_directory(self) -> bool:
        return any(isinstance(event, Reopen) for event in self.events)

    def __str__(self) -> str:
        return ";\n".join([*self.definitions, *map(_shown, self.events)]) + ";"


def single(schedule: Schedule) -> list[Event]:
    """Events of which each is one call, where there are calls for one; without those that only look."""
    found: list[Event] = []
    for event in schedule.events:
        match event:
            case Register():
                found += [Register((one,), event.sharing, event.mode) for one in event.queries]
            case Drop():
                found += [Drop((name,)) for name in event.names]
            case Reopen() | Check():
                pass
            case _:
                found.append(event)
    return found


def _declared(source: Stream | Table) -> str:
    return ", ".join(f"{c.name} {kind.cql}" for c, kind in zip(source.columns, source.types, strict=True))


def _shown(event: Event) -> str:
    match event:
        case Register():
            listed = [f"REGISTER QUERY {n} MODE {event.mode.upper()} AS {q.text.cql}" for n, q in event.queries]
            return ";\n".join([f"SET sharing = '{event.sharing}'", *listed])
        case RegisterMany():
            names = [name for name, _ in event.queries]
            rest = f"names={names}, mode={event.mode!r}, template={event.name!r}"
            return f"-- register_many({event.template!r}, {list(event.rows)}, {rest})"
        case Drop():
            return ";\n".join(f"DROP QUERY {name}" for name in event.names)
        case Insert():
            rows = [joined(", ", [written(v) for v in (*row, instant)]).cql for row, instant in event.rows]
            return f"INSERT INTO {event.stream} VALUES {', '.join(f'({row})' for row in rows)}"
        case Advance():
            return f"ADVANCE {event.stream or ''} TO {event.to}"
        case Change():
            return event.text.cql
        case Ask():
            return f"-- ask {', '.join(event.names)}"
        case other:
            return f"-- {type(other).__name__.lower()}"
