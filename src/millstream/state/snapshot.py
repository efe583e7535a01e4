"""What an epoch commits: the names of all segments, and how far time has come. Immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Names = tuple[str, ...]


@dataclass(frozen=True)
class SourceProgress:
    """A stream or table: how far it is final, how many rows it was offered, and its last change."""

    heartbeat: int = -1
    arrived: int = 0
    late: int = 0
    last_change: int = -1


@dataclass(frozen=True)
class Snapshot:
    """The committed state after an epoch. A reader that holds one sees exactly that prefix of all inputs."""

    epoch: int = 0
    clock: int = -1
    sources: Mapping[str, SourceProgress] = field(default_factory=dict)
    history: Mapping[str, Names] = field(default_factory=dict)  # per source: its accepted rows
    states: Mapping[str, Mapping[str, Names]] = field(default_factory=dict)  # per step and synopsis
    results: Mapping[str, Names] = field(default_factory=dict)  # per edge that a query shows

    def progress(self, source: str) -> SourceProgress:
        return self.sources.get(source, SourceProgress())
