"""Combinations of the inputs of a join, found by going from one input to the next, without making and keeping them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.blacklist import Flags
from millstream.kernel.join_graph import Access, Inputs, JoinGraph
from millstream.kernel.operator import Segment
from millstream.kernel.partners import Link
from millstream.kernel.tree_shape import Join

_ROW = "_asker"
Usual = Mapping[Join | int, Access]  # what the rows of each input and join are sorted by
Rows = Callable[[int], list[Segment]]  # of an input


@dataclass(frozen=True)
class _Step:
    """To another input by a link; of the columns known by then some are kept."""

    source: int
    link: Link
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Path:
    """From some inputs through others, each by what connects it with those before."""

    steps: tuple[_Step, ...]

    @classmethod
    def of(cls, graph: JoinGraph, origin: Inputs, through: Inputs, usual: Usual, wanted: Sequence[str] = ()) -> Path:
        joined, links = origin, list[tuple[int, Link]]()
        while through - joined:
            found = {t: Link.between(graph, frozenset({t}), joined, usual[t]) for t in sorted(through - joined)}
            # By as many equal columns as can be, since these leave the fewest combinations.
            source = max(found, key=lambda t: (len(found[t].access.probing), not found[t].says_nothing))
            links.append((source, found[source]))
            joined |= {source}
        steps = list[_Step]()
        later = list(wanted)
        for source, link in reversed(links):
            kept = [name for name in dict.fromkeys(later) if graph.places[name][0] in joined]
            steps.insert(0, _Step(source, link, tuple(kept)))
            later += link.read
            joined -= {source}
        return cls(tuple(steps))

    @property
    def is_connected(self) -> bool:
        return not any(step.link.says_nothing for step in self.steps)

    def follow(self, rows: pl.DataFrame, stored: Rows) -> pl.DataFrame:
        """All combinations with the rows."""
        for step in self.steps:
            rows = step.link.extended(
                rows, stored(step.source), [*step.kept, *([_ROW] if _ROW in rows.columns else [])]
            )
        return rows

    def exists(self, rows: pl.DataFrame, stored: Rows, *, bloom: bool) -> Flags:
        """For which of the rows there is a combination."""
        last = self.steps[-1]
        before = Path(self.steps[:-1])
        asked = rows.with_columns(pl.Series(_ROW, np.arange(rows.height)))
        combined = before.follow(asked, stored)
        ends = last.link.has_partner(combined, [(segment, None) for segment in stored(last.source)], bloom=bloom)
        found = np.zeros(rows.height, np.bool_)
        found[combined[_ROW].to_numpy()[ends]] = True
        return found


@dataclass(frozen=True)
class Foreseen:
    """The combinations of a join's inputs, as far as some other inputs look at them."""

    paths: tuple[tuple[int, Path], ...]  # from each of its inputs through the others
    kept: tuple[str, ...]

    @classmethod
    def of(cls, graph: JoinGraph, join: Join, askers: Inputs, usual: Usual) -> Foreseen | None:
        """None where that would be a cross product."""
        links = [Link.between(graph, frozenset({asker}), join.inputs, usual[asker]) for asker in sorted(askers)]
        read = dict.fromkeys(name for link in links for name in link.read)
        kept = tuple(name for name in read if graph.places[name][0] in join.inputs)
        paths = tuple(
            (origin, Path.of(graph, frozenset({origin}), join.inputs, usual, kept)) for origin in sorted(join.inputs)
        )
        return cls(paths, kept) if all(path.is_connected for _, path in paths) else None

    def changes(self, arrived: Sequence[Segment], stored: Rows) -> pl.DataFrame:
        """All combinations with a row that arrived, some of them more than once."""
        found = [path.follow(arrived[origin], stored).select(self.kept) for origin, path in self.paths]
        return pl.concat(found)
