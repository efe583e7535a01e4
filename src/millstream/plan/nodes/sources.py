"""What a plan reads: streams and tables, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from millstream.kernel.scalar.expressions import Literal
from millstream.plan.nodes.node import Kind, Node, check
from millstream.types import Schema

TableNature = OneOf["", "NON RETROACTIVE", "APPEND ONLY", "STATIC"]


@dataclass(frozen=True)
class StreamScan(Node):
    """The elements of a base stream."""

    name: str
    columns: Schema = field(compare=False)
    title: str = field(compare=False)  # the name as it was declared
    width: int = field(
        default=0, metadata={"fingerprint": "where given"}
    )  # where columns were added: how many there are

    @property
    def kind(self) -> Kind:
        return "stream"

    @property
    def feed(self) -> str:
        """The source whose rows it is made of."""
        return self.name

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class ChangeSource:
    """The feed of a CHANGES BY table and its key; `malformed` stands for the changes that could not be applied. Where
    the key is enforced, changes that would give it a second row are among those."""

    feed: str
    key: tuple[int, ...]
    malformed: bool = False
    enforced: bool = field(default=False, metadata={"fingerprint": "where given"})


@dataclass(frozen=True)
class TableScan(Node):
    """A base relation; `log` says how one that is fed by changes is made from them."""

    name: str
    columns: Schema = field(compare=False)
    title: str = field(compare=False)
    nature: TableNature = ""
    log: ChangeSource | None = None
    width: int = field(default=0, metadata={"fingerprint": "where given"})

    @property
    def feed(self) -> str:
        """The source whose rows it is made of."""
        return self.name if self.log is None else self.log.feed

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class OneRow(Node):
    """The relation of one row without columns, at every instant: what a SELECT without FROM ranges over."""

    @property
    def schema(self) -> Schema:
        return ()


@dataclass(frozen=True)
class Values(Node):
    """Rows of constants, the same at every instant: VALUES in FROM."""

    columns: Schema = field(compare=False)
    rows: tuple[tuple[Literal, ...], ...]

    def __post_init__(self) -> None:
        kinds = [column.type for column in self.columns]
        check(all([value.type for value in row] == kinds for row in self.rows), "rows of different types")

    @property
    def schema(self) -> Schema:
        return self.columns


def sources(plan: Node) -> set[StreamScan | TableScan]:
    """The base streams and tables that a plan reads."""
    return {node for node in plan.walk() if isinstance(node, StreamScan | TableScan)}


def has_no_heartbeat(plan: Node) -> bool:
    """Whether only statements change what the plan reads, so that pending changes are all there is to wait for."""
    return all(isinstance(source, TableScan) and source.log is None for source in sources(plan))
