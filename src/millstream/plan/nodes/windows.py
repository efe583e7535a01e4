"""From streams to relations, and back (CQL)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from millstream.kernel.windows.time import RangeOn, Sessions, WindowSpecification
from millstream.plan.nodes.node import Kind, Unary, check
from millstream.types import DataType, Field, Schema

BOUND_NAMES = ("window_start", "window_end")
GREATEST = "greatest"  # of elements that windows leave out: what the column had risen to
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

    @property
    def schema(self) -> Schema:
        if isinstance(self.window, RangeOn) and self.window.left_out:
            return (*self.input.schema, Field(GREATEST, self.input.schema[self.window.column].type))
        if not isinstance(self.window, Sessions) or self.window.bounds is None:
            return self.input.schema
        kind, _ = self.window.bounds
        return (*self.input.schema, *(Field(name, kind) for name in BOUND_NAMES))


@dataclass(frozen=True)
class Bounds(Unary):
    """The rows of a window that slides, with its bounds at each instant as further columns; `unit` is how many of what
    their type counts a tick has."""

    size: int
    slide: int
    type: DataType
    unit: int = 1

    def __post_init__(self) -> None:
        check(self.input.kind == "relation", "bounds of a stream")

    @property
    def schema(self) -> Schema:
        return (*self.input.schema, *(Field(name, self.type) for name in BOUND_NAMES))


@dataclass(frozen=True)
class RelationToStream(Unary):
    """ISTREAM, DSTREAM or RSTREAM; of RSTREAM only the instants that are multiples of `every`, in which runs go on."""

    operator: StreamKind
    every: int = field(default=1, metadata={"fingerprint": "where given"})

    def __post_init__(self) -> None:
        check(self.input.kind == "relation", f"{self.operator} of a stream")
        check(self.every == 1 or self.operator == "rstream", f"EVERY of {self.operator}")

    @property
    def kind(self) -> Kind:
        return "stream"
