"""What a database holds: streams, tables and views, as their statements defined them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any
from typing import Literal as OneOf

from millstream.plan.nodes import ChangeSource, Node, TableNature
from millstream.types import BIGINT, STRING, TIMESTAMP, DataType, Field, Schema

HeartbeatKind = OneOf["ASCENDING", "DELAY", "CLOCK", "CLOCK DELAY", "EXPLICIT"]


_UNITS = (
    *(("WEEK", 604_800_000_000), ("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000)),
    *(("SECOND", 1_000_000), ("MILLISECOND", 1_000)),
)


def shown_duration(microseconds: int) -> str:
    """A duration as people write it: in the largest unit that it is a multiple of."""
    found = next((unit for unit in _UNITS if microseconds and microseconds % unit[1] == 0), ("MICROSECOND", 1))
    count = microseconds // found[1]
    return f"{count} {found[0]}{'' if count == 1 else 'S'}"


@dataclass(frozen=True)
class TimeDomain:
    """How instants are counted: microseconds per tick (None where ticks are bare numbers) and the type of `_ts`. Of a
    stream that RSTREAM .. EVERY makes, only multiples of `every` have elements."""

    tick: int | None
    type: DataType = BIGINT
    every: int = 1

    def __str__(self) -> str:
        return "plain ticks" if self.tick is None else f"ticks of {shown_duration(self.tick)}"

    def duration(self, ticks: int) -> str:
        """So many ticks as people write them."""
        return str(ticks) if self.tick is None else shown_duration(ticks * self.tick)

    @property
    def is_microseconds(self) -> bool:
        return self.tick == 1

    def shared_with(self, other: TimeDomain) -> TimeDomain | None:
        """The domain of a query over both, or None where their ticks differ."""
        if self.tick != other.tick:
            return None
        return self if self.type.is_temporal or not other.type.is_temporal else other


@dataclass(frozen=True)
class HeartbeatRule:
    """How a source's heartbeat rises; delay and idle time in ticks (idle in microseconds)."""

    kind: HeartbeatKind
    delay: int = 0
    idle_after: int | None = None

    def shown(self, domain: TimeDomain) -> str:
        delay = f" DELAY {domain.duration(self.delay)}" if self.delay else ""
        kind = self.kind.removesuffix("DELAY").strip()
        idle = "" if self.idle_after is None else f" IDLE AFTER {shown_duration(self.idle_after)}"
        return f"{kind}{delay}{idle}".strip()

    @property
    def is_raised_by_elements(self) -> bool:
        return self.kind not in ("EXPLICIT", "CLOCK DELAY")


FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
DIRECTORY = "directory"  # in entries: from which a relative path was said


@dataclass(frozen=True)
class ExternalData:
    """A Spark format and its options."""

    format: str
    options: tuple[tuple[str, str], ...]

    def option(self, name: str) -> str | None:
        return next((value for key, value in self.options if key.lower() == name.lower()), None)

    @property
    def is_relative(self) -> bool:
        """Whether it says where files are by a path that means another place in another directory."""
        path = self.option("path")
        is_path = path is not None and "://" not in path and not path.lower().startswith("file:")
        return self.format.lower() in FILE_FORMATS and is_path and not PurePath(path or "/").is_absolute()

    def seen_from(self, directory: str | None) -> ExternalData:
        """The same from another directory than the one in which it was said."""
        if directory is None or not self.is_relative:
            return self
        located = ((k, str(PurePath(directory, v)) if k.lower() == "path" else v) for k, v in self.options)
        return replace(self, options=tuple(located))


@dataclass(frozen=True)
class TimestampDefinition:
    """The timestamp column; `position` is its place among the declared columns, None where it is implicit."""

    name: str
    type: DataType
    position: int | None


@dataclass(frozen=True)
class ColumnRules:
    """What columns are asked beside their types, by their names in lower case: those that are never NULL, and the
    values of those that rows leave out."""

    required: frozenset[str] = frozenset()
    defaults: tuple[tuple[str, Any], ...] = ()

    def default(self, name: str) -> Any:
        """NULL where none was declared."""
        return dict(self.defaults).get(name.lower())

    def has_default(self, name: str) -> bool:
        return name.lower() in dict(self.defaults)

    def is_required(self, name: str) -> bool:
        return name.lower() in self.required


NO_RULES = ColumnRules()


@dataclass(frozen=True)
class StreamDefinition:
    name: str
    columns: Schema
    timestamp: TimestampDefinition
    domain: TimeDomain
    heartbeat: HeartbeatRule
    retain: int | None  # ticks; None keeps everything
    source: ExternalData | None = None
    rules: ColumnRules = NO_RULES
    identity: str = ""  # where it is not the name

    @property
    def edge(self) -> str:
        """The edge of its rows, whatever it is called."""
        return self.identity or self.name.lower()

    @property
    def input_columns(self) -> Schema:
        """The columns that rows are given in: those declared, then an implicit timestamp.

        Under HEARTBEAT CLOCK the arrival time is the timestamp, so rows come without one.
        """
        stamp = self.timestamp
        if self.heartbeat.kind == "CLOCK":
            return tuple(field for index, field in enumerate(self.columns) if index != stamp.position)
        return self.columns if stamp.position is not None else (*self.columns, Field(stamp.name, stamp.type))


@dataclass(frozen=True)
class TableDefinition:
    name: str
    columns: Schema
    key: tuple[int, ...]
    nature: TableNature
    operation: str | None = None  # the CHANGES BY column
    timestamp: TimestampDefinition | None = None
    domain: TimeDomain | None = None
    heartbeat: HeartbeatRule | None = None
    source: ExternalData | None = None
    log: ChangeSource | None = None
    rules: ColumnRules = NO_RULES
    enforced: bool = False  # whether the key is kept to
    identity: str = ""  # where it is not the name

    @property
    def edge(self) -> str:
        """The edge of its rows, whatever it is called."""
        return self.identity or self.name.lower()

    @property
    def feed(self) -> StreamDefinition:
        """The changes of a CHANGES BY table, as a stream of rows with their operation behind the columns."""
        if self.operation is None or self.timestamp is None or self.domain is None or self.heartbeat is None:
            raise AssertionError(f"table {self.name} is not declared CHANGES BY")
        columns = (*self.columns, Field(self.operation, STRING))
        timed = self.timestamp, self.domain, self.heartbeat, None
        return StreamDefinition(self.name, columns, *timed, rules=self.rules, identity=self.identity)


@dataclass(frozen=True)
class ViewDefinition:
    """A derived stream or relation; its plan is bound when it is made."""

    name: str
    columns: Schema
    plan: Node
    domain: TimeDomain | None
    text: str
    reads: frozenset[str]  # the edges of the streams and tables, and the views, that it names

    @property
    def edge(self) -> str:
        return self.name.lower()


Definition = StreamDefinition | TableDefinition | ViewDefinition


def timestamp_domain(kind: DataType, tick: int | None) -> TimeDomain:
    """A TIMESTAMP counts microseconds unless a TICK says otherwise; an integer counts ticks itself."""
    if kind.is_temporal:
        return TimeDomain(tick or 1, TIMESTAMP if kind == TIMESTAMP else kind)
    return TimeDomain(tick, BIGINT)
