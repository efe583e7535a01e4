"""Who shares what: the queries whose answers are made from a step or a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from millstream.kernel.pipeline import Step


class Sharers:
    """By edge those of the shown ones that are made from it, as bits in their order.

    Steps stand after those that they read, and `shown` says how many queries show an edge.
    """

    def __init__(self, steps: Sequence[Step], shown: Mapping[str, int]) -> None:
        self._shown, self._counts = [*shown], shown
        self._above = above = {edge: 1 << place for place, edge in enumerate(shown)}
        for step in reversed(steps):
            bits = above.get(step.name, 0)
            if bits:
                for edge in step.needed:
                    above[edge] = above.get(edge, 0) | bits
        counts = [*shown.values()]
        self._single = sum(1 << place for place, count in enumerate(counts) if count == 1)
        self._others = [(1 << place, count) for place, count in enumerate(counts) if count > 1]

    def count(self, edges: Iterable[str]) -> int:
        """How many queries share one of these edges or several, each counted once."""
        bits = self._bits(edges)
        return (bits & self._single).bit_count() + sum(count for bit, count in self._others if bits & bit)

    def shown_by(self, edge: str) -> int:
        """How many queries show an edge itself."""
        return self._counts.get(edge, 0)

    def shown_from(self, edges: Iterable[str]) -> set[str]:
        """The shown edges that are made from some of these."""
        bits = self._bits(edges)
        return {edge for place, edge in enumerate(self._shown) if bits >> place & 1}

    def _bits(self, edges: Iterable[str]) -> int:
        bits = 0
        for edge in edges:
            bits |= self._above.get(edge, 0)
        return bits
