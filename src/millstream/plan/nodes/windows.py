"""From streams to relations, and back (CQL)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from millstream.kernel.windows.time import WindowSpecification
from millstream.plan.nodes.node import Kind, Unary, check

StreamKind = OneOf["istream", "dstream", "rstream"]


@dataclass(frozen=True)
class Sample(Unary):
    """A coin toss per element."""

    percent: float
    seed: int

    def __post_init__(self) -> None:
        check(self.input.kind == "stream", "SAMPLE of a relation")

    @property
    def kind(self) -> Kind:
        return "stream"


@dataclass(frozen=True)
class Window(Unary):
    """Stream to relation. Of the columns that it has forgotten, rows that leave have NULL (`plan.lowering.forgotten`):
    steps are named by that apart from the plan."""

    window: WindowSpecification
    forgotten: tuple[int, ...] = field(default=(), metadata={"fingerprint": False})

    def __post_init__(self) -> None:
        check(self.input.kind == "stream", "a window on a relation")


@dataclass(frozen=True)
class RelationToStream(Unary):
    """ISTREAM, DSTREAM or RSTREAM."""

    operator: StreamKind

    def __post_init__(self) -> None:
        check(self.input.kind == "relation", f"{self.operator} of a stream")

    @property
    def kind(self) -> Kind:
        return "stream"
