"""A batch of a Spark source, between the moment its rows lie ready and the epoch that takes them in.

The rows stay where they are. What the driver knows of each part, how many rows it has and their greatest tick, says
what all elements before a part did to the heartbeat: so each part can be judged alone, element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from millstream.engine.epochs.lateness import raised_by
from millstream.engine.epochs.parts import LatenessContext, Part
from millstream.plan.definitions import StreamDefinition
from millstream.state.snapshot import SourceProgress
from millstream.types import STRING, Field, Schema

RAW, REASON = "raw", "reason"
MALFORMED_COLUMNS: Schema = (Field(RAW, STRING), Field(REASON, STRING))
FILE_COLUMNS: Schema = (Field("file", STRING), Field(REASON, STRING))


_MOST_COLUMNS = 200  # of which drift is counted one by one


class Landed(NamedTuple):
    """A segment or Parquet file of rows in a source's input columns, and their greatest tick."""

    kind: Literal["segment", "parquet"]
    name: str
    rows: int
    greatest: int = -1


@dataclass(frozen=True)
class LandedBatch:
    """The parts of a batch in arrival order, the segments of what could not be read and of files that were passed
    over, with the reasons, and of how many files which column was missing or extra."""

    parts: tuple[Landed, ...] = ()
    malformed: tuple[Landed, ...] = ()
    skipped: tuple[Landed, ...] = ()
    drift: Mapping[str, int] = field(default_factory=dict)

    def segments(self) -> list[str]:
        """What is needed until the epoch has taken the batch in, and no longer."""
        return [part.name for part in (*self.parts, *self.malformed, *self.skipped) if part.kind == "segment"]

    @property
    def greatest(self) -> int:
        return max((part.greatest for part in self.parts), default=-1)


def judged(
    stream: StreamDefinition, parts: Sequence[Landed], progress: SourceProgress, now: int | None, shed: int
) -> tuple[Callable[[int], tuple[Part, ...]], SourceProgress]:
    """The parts as tasks take them, once it is known when late elements enter, and the progress after all of them."""
    before = []
    for part in parts:
        before.append(progress)
        progress = _after(stream, part, progress, now)

    def with_late_ones_at(late_at: int) -> tuple[Part, ...]:
        return tuple(
            Part(
                part.kind,
                part.name,
                part.rows,
                stream.columns,
                lateness=LatenessContext(stream, met, now, late_at, shed),
            )
            for part, met in zip(parts, before, strict=True)
        )

    return with_late_ones_at, progress


def _after(stream: StreamDefinition, part: Landed, progress: SourceProgress, now: int | None) -> SourceProgress:
    """What the elements of a part do: all that its greatest one does, and their number."""
    tick = part.greatest if now is None else max(now, progress.heartbeat + 1)
    raised = raised_by(stream.heartbeat, tick, progress.heartbeat)
    return replace(progress, heartbeat=raised, arrived=progress.arrived + part.rows)


def table_parts(parts: Sequence[Landed], schema: Schema, at: int) -> tuple[Part, ...]:
    """Rows of a table, from an instant on."""
    return tuple(Part(part.kind, part.name, part.rows, schema, at=at) for part in parts)


def with_drift(known: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """How many files had which column missing or extra, for so many columns and no more."""
    counts = dict(known)
    for name, files in more.items():
        kept = name if name in counts or len(counts) < _MOST_COLUMNS else f"{name.partition(' ')[0]} (others)"
        counts[kept] = counts.get(kept, 0) + files
    return counts
