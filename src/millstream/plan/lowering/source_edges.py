"""Edges of sources, which may have more columns by now than a plan knows: others are added behind those."""

from __future__ import annotations

from collections.abc import Sequence


class SourceEdge(str):
    """The edge of a source, with how many of its columns a plan knows."""

    width: int

    @classmethod
    def of(cls, name: str, width: int) -> SourceEdge:
        made = cls(name)
        made.width = width
        return made


def widths_of(inputs: Sequence[str]) -> tuple[int, ...]:
    """How many columns the inputs of a step are to have; nothing where none is a source."""
    widths = tuple(edge.width if isinstance(edge, SourceEdge) else 0 for edge in inputs)
    return widths if any(widths) else ()
