"""Combinations of the inputs of a join, found by going from one input to the next, without making and keeping them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from millstream.kernel.joins.graph import Access, InputSet, JoinGraph
from millstream.kernel.just_in_time.blacklist import Flags
from millstream.kernel.just_in_time.partners import Link, RowValues, number_of, words_of
from millstream.kernel.just_in_time.tree_shape import TreeJoin
from millstream.kernel.operator import Segment

_ORIGIN = "_origin"
Usual = Mapping[TreeJoin | int, Access]  # what the rows of each input and join are sorted by
StoredInput = Callable[[int], list[Segment]]  # all rows of an input


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
    def of(
        cls,
        graph: JoinGraph,
        origin: InputSet,
        through: InputSet,
        usual: Usual,
        wanted: Sequence[str] = (),
        link: type[Link] = Link,
    ) -> Path:
        joined, links = origin, list[tuple[int, Link]]()
        while through - joined:
            found = {t: link.between(graph, frozenset({t}), joined, usual[t]) for t in sorted(through - joined)}
            # By as many equal columns as can be, since these leave the fewest combinations.
            source = max(found, key=lambda t: (len(found[t].access.probing), not found[t].is_unconditional))
            links.append((source, found[source]))
            joined |= {source}
        steps = list[_Step]()
        later = list(wanted)
        for source, by in reversed(links):
            kept = [name for name in dict.fromkeys(later) if graph.places[name][0] in joined]
            steps.insert(0, _Step(source, by, tuple(kept)))
            later += by.read
            joined -= {source}
        return cls(tuple(steps))

    @property
    def is_connected(self) -> bool:
        return not any(step.link.is_unconditional for step in self.steps)

    @cached_property
    def by_code(self) -> bool:
        return all(step.link.by_code for step in self.steps)

    def follow(self, rows: RowValues, stored: StoredInput) -> RowValues:
        """All combinations with the rows."""
        for step in self.steps:
            if isinstance(rows, pl.DataFrame):
                rows = step.link.extended(rows, stored(step.source), [*step.kept, *_origin(rows.columns)])
            else:
                rows = step.link.extended_words(rows, stored(step.source), [*step.kept, *_origin(rows)])
        return rows

    @cached_property
    def read(self) -> tuple[str, ...]:
        """The columns that are needed on the way."""
        return tuple(dict.fromkeys(name for step in self.steps for name in step.link.read))

    def exists(self, rows: RowValues, stored: StoredInput) -> Flags:
        """For which of the rows there is a combination."""
        last, origin = self.steps[-1], np.arange(number_of(rows))
        checked: RowValues
        if isinstance(rows, pl.DataFrame):
            checked = pl.DataFrame([*rows.get_columns(), pl.Series(_ORIGIN, origin)])
        else:
            checked = {**rows, _ORIGIN: origin.view(np.uint64)}
        combined = Path(self.steps[:-1]).follow(checked, stored)
        ends = last.link.has_partner(combined, [(segment, None) for segment in stored(last.source)])
        found = np.zeros(origin.size, np.bool_)
        origins = combined[_ORIGIN]
        found[(origins if isinstance(origins, np.ndarray) else origins.to_numpy())[ends].astype(np.intp)] = True
        return found


def _origin(columns: Container[str]) -> list[str]:
    return [_ORIGIN] if _ORIGIN in columns else []


@dataclass(frozen=True)
class LookAhead:
    """The combinations of a join's inputs, as far as some other inputs look at them."""

    paths: tuple[tuple[int, Path], ...]  # from each of its inputs through the others
    kept: tuple[str, ...]
    by_code: bool  # whether that is all that those who look need

    @classmethod
    def of(cls, graph: JoinGraph, join: TreeJoin, readers: InputSet, usual: Usual) -> LookAhead | None:
        """None where that would be a cross product."""
        links = [Link.between(graph, frozenset({reader}), join.inputs, usual[reader]) for reader in sorted(readers)]
        read = dict.fromkeys(name for link in links for name in link.read)
        kept = tuple(name for name in read if graph.places[name][0] in join.inputs)
        paths = tuple(
            (origin, Path.of(graph, frozenset({origin}), join.inputs, usual, kept)) for origin in sorted(join.inputs)
        )
        by_code = bool(kept) and all(link.by_code for link in links)
        return cls(paths, kept, by_code) if all(path.is_connected for _, path in paths) else None

    def changes(self, arrived: Sequence[Segment], stored: StoredInput) -> RowValues:
        """All combinations with a row that arrived, some of them more than once."""
        if all(path.by_code for _, path in self.paths) and self.by_code:
            found = []
            for origin, path in self.paths:
                read = {*self.kept, *path.read}
                own = [name for name in arrived[origin].columns if name in read]
                found.append(path.follow(dict(zip(own, words_of(arrived[origin], own), strict=True)), stored))
            return {name: np.concatenate([words_of(rows, [name])[0] for rows in found]) for name in self.kept}
        followed = (path.follow(arrived[origin], stored) for origin, path in self.paths)
        frames = [rows for rows in followed if isinstance(rows, pl.DataFrame)]
        return pl.concat([pl.DataFrame([rows.get_column(name) for name in self.kept]) for rows in frames])
