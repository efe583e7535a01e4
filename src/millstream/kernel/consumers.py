"""Consumers of a tree: what reads its rows, and has no use for some of them.

    T ⋉ S, and T ⋈ S where T is made for others too     a row of T is needed while S has a row of its key
    T ▷ S                                               unless S has one for as long as the row lives
    T ⋈ S, S NON RETROACTIVE                            if S has one at the instant at which the row is generated

S comes as a further input of the tree, of which only the keys are looked at. Of a single consumer the tree asks as if S
were joined above: `JoinTree` puts it on top of its shape, and makes nothing there. Of several that read the same tree,
a row is needed as soon as one of them needs it; those `alternatives`, and consumers that refuse rows, are asked here.

Rows that waited come late: they belong to the output from the first instant on that was not final, since until then
nobody needed them. For a consumer that looks at the instant at which they were generated they do not come at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import polars as pl

from millstream.kernel.batch import END, START, WEIGHT, value_column
from millstream.kernel.blacklist import Flags
from millstream.kernel.demand import JustInTime, Question, Surroundings
from millstream.kernel.join_graph import Access, EqualColumns, JoinGraph, equal_column
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Segment
from millstream.kernel.partners import Link, Rows
from millstream.kernel.scalar.expressions import TRUE, Call, Column, Expression
from millstream.kernel.segments import numbers
from millstream.kernel.stem import Probe
from millstream.types import BOOLEAN, Schema


@dataclass(frozen=True)
class Consumer:
    """Has use for rows of a tree whose values `own` (columns, perhaps of a wider type) are those of a row of another
    relation, or only for those of which this is not so (`refuses`). Consumers of one `alternative` are one behind the
    other, and all of them must need a row."""

    keys: Schema
    own: tuple[Expression, ...]
    refuses: bool = False
    null_safe: bool = False
    alternative: int = 0

    @property
    def columns(self) -> tuple[int, ...]:
        """Where in the tree's row the keys are."""
        return tuple(column for value in self.own if (column := equal_column(value)) is not None)

    def condition(self, start: int) -> list[Expression]:
        """That the keys are equal, the relation's columns beginning at a place in the row of all inputs."""
        keys = (Column(field.type, start + index, field.name) for index, field in enumerate(self.keys))
        return [Call(BOOLEAN, "<=>", pair) for pair in zip(self.own, keys, strict=True)]


def asked_as_joined(consumers: Sequence[Consumer]) -> int:
    """How many of the consumers, from the first on, can be asked as inputs that are joined above the tree."""
    if len({consumer.alternative for consumer in consumers}) > 1:
        return 0
    return next((n for n, consumer in enumerate(consumers) if consumer.refuses), len(consumers))


@dataclass(frozen=True)
class Placed:
    """A consumer that is asked here: the number of its input, and the columns of that in the row of all inputs."""

    consumer: Consumer
    source: int
    columns: tuple[str, ...]

    @property
    def usual(self) -> Access:
        return Access(self.columns, self.columns)

    def question(self, graph: JoinGraph, asker: int, usual: Access, start: int) -> Question | None:
        """What the rows of an input, whose columns are counted from a place on, ask: by those of the keys that they
        know."""
        found = [_column_of(graph, asker, column) for column in self.consumer.columns]
        known = [None if column is None else value_column(start + column) for column in found]
        pairs = [(own, key) for own, key in zip(known, self.columns, strict=True) if own is not None]
        own, keys = tuple(own for own, _ in pairs), tuple(key for _, key in pairs)
        to_keys, to_own = Link(Access(keys, own), self.usual, TRUE), Link(Access(own, keys), usual, TRUE)
        if not self.consumer.refuses:
            return Wanted(self.source, to_keys, to_own)
        whole = own and len(own) == len(known)
        return Refused(self.source, to_keys, to_own, null_safe=self.consumer.null_safe) if whole else None


def _column_of(graph: JoinGraph, source: int, column: int) -> int | None:
    """The column of an input that has the value of a column of the row of all inputs."""
    owner = graph.owner_of(column)
    if owner == source:
        return column - graph.starts[owner]
    alike = graph.class_of(owner, column - graph.starts[owner])
    return alike.column_of(source) if alike is not None and source in alike.inputs else None


def common_classes(graph: JoinGraph, consumers: Sequence[Consumer]) -> list[EqualColumns]:
    """The classes of equal columns that all inputs and all consumers have one of."""
    known = [classes_of(graph, consumer) for consumer in consumers]
    everywhere = (c for c in graph.classes if len(c.inputs) == len(graph.widths))
    return [c for c in everywhere if all(c in classes for classes in known)]


def common_keys(graph: JoinGraph, consumers: Sequence[Consumer]) -> list[tuple[int, ...]]:
    """For each input, and then for each consumer, its columns of these classes."""
    shared = common_classes(graph, consumers)
    keys = [tuple(c.column_of(source) for c in shared) for source in range(len(graph.widths))]
    return [*keys, *(tuple(classes_of(graph, one).index(c) for c in shared) for one in consumers)]


def classes_of(graph: JoinGraph, consumer: Consumer) -> list[EqualColumns | None]:
    """Of each key the class that it is of."""
    owners = [(graph.owner_of(column), column) for column in consumer.columns]
    return [graph.class_of(owner, column - graph.starts[owner]) for owner, column in owners]


@dataclass(frozen=True)
class _Keyed:
    """Rows of an input that ask for keys."""

    source: int
    to_keys: Link
    to_own: Link
    kind: str = "consumers"

    @property
    def by_code(self) -> bool:
        return self.is_cheap

    @property
    def is_cheap(self) -> bool:
        return self.to_keys.by_code or self.to_keys.says_nothing

    @property
    def own_columns(self) -> tuple[str, ...]:
        return self.to_keys.access.probing


@dataclass(frozen=True)
class Wanted(_Keyed):
    """That there is a row of the key."""

    def is_met(self, rows: Rows, around: Surroundings, jit: JustInTime) -> Flags:
        return self.to_keys.has_partner(rows, around.arrived_rows(self.source), bloom=jit.bloom)

    def answered(self, around: Surroundings, segments: Sequence[Segment]) -> list[Positions]:
        return self.to_own.partners(around.arrived[self.source], segments)


@dataclass(frozen=True)
class Refused(_Keyed):
    """That there is no row of the key that lasts as long as the row which asks. This must be certain, so it is values
    that are compared, and copies that are taken away anywhere in between count against those that are there."""

    null_safe: bool = False

    @property
    def by_code(self) -> bool:
        return False

    @property
    def is_cheap(self) -> bool:
        return True

    @property
    def own_columns(self) -> tuple[str, ...]:
        return (*self.to_keys.access.probing, START, END)

    def is_met(self, rows: Rows, around: Surroundings, jit: JustInTime) -> Flags:
        if not isinstance(rows, pl.DataFrame):
            raise AssertionError("values are needed")
        # What is over does not matter: of a row from before only the rest.
        starts, ends = np.maximum(numbers(rows, START), around.open_from), numbers(rows, END)
        copies = np.zeros(rows.height, np.int64)
        probe = Probe(rows, self.to_keys.access, self.to_keys.usual)
        for stored, flags in around.arrived_rows(self.source):
            for i, j in probe.candidates(stored):
                pairs = np.arange(i.size) if flags is None else np.flatnonzero(flags[j])
                kept = probe.agreeing(stored, i, j, pairs)
                i, j = i[kept], j[kept]
                begins, stops, weights = (numbers(stored, name)[j] for name in (START, END, WEIGHT))
                covers = (weights > 0) & (begins <= starts[i]) & (stops >= ends[i])
                taken = (weights < 0) & (begins < ends[i]) & (stops > starts[i])
                np.add.at(copies, i, np.where(covers | taken, weights, 0))
        needed: Flags = copies <= 0
        for name in () if self.null_safe else self.to_keys.access.probing:
            needed |= rows.get_column(name).is_null().to_numpy()
        return needed

    def answered(self, around: Surroundings, segments: Sequence[Segment]) -> list[Positions]:
        new = around.arrived[self.source]
        return self.to_own.partners(new.filter(pl.col(WEIGHT) < 0), segments)


@dataclass(frozen=True)
class AnyOf:
    """That one of several consumers needs the row: each is a list of questions that must all be met."""

    alternatives: tuple[tuple[Question, ...], ...]
    kind: str = "consumers"

    @property
    def _questions(self) -> list[Question]:
        return [question for questions in self.alternatives for question in questions]

    @cached_property
    def by_code(self) -> bool:
        return all(question.by_code for question in self._questions)

    @cached_property
    def is_cheap(self) -> bool:
        return all(question.is_cheap for question in self._questions)

    @cached_property
    def own_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for question in self._questions for name in question.own_columns))

    def is_met(self, rows: Rows, around: Surroundings, jit: JustInTime) -> Flags:
        met = (
            reduce(np.logical_and, (question.is_met(rows, around, jit) for question in questions))
            for questions in self.alternatives
        )
        return reduce(np.logical_or, met)

    def answered(self, around: Surroundings, segments: Sequence[Segment]) -> list[Positions]:
        found = [question.answered(around, segments) for question in self._questions]
        return [np.concatenate(positions) for positions in zip(*found, strict=True)]


def consumers_question(
    graph: JoinGraph, placed: Sequence[Placed], asker: int, usual: Access, start: int
) -> list[Question]:
    """What the rows of an input ask of the consumers that are not on top of a tree."""
    alternatives: dict[int, list[Question]] = {}
    for one in placed:
        found = one.question(graph, asker, usual, start)
        alternatives.setdefault(one.consumer.alternative, []).extend([found] if found is not None else [])
    if len(alternatives) <= 1:
        return [question for questions in alternatives.values() for question in questions]
    if not all(alternatives.values()):
        return []  # one of them takes whatever comes
    return [AnyOf(tuple(map(tuple, alternatives.values())))]


def timely(rows: pl.DataFrame, first: int, *, generated: bool) -> pl.DataFrame:
    """The rows of an output that was final before an instant: none of those `generated` before, or from then on."""
    starts = numbers(rows, START)
    late = starts < first
    if not late.any():
        return rows
    if generated:
        return rows.filter(~late)
    begun = rows.with_columns(pl.Series(START, np.maximum(starts, first)))
    return begun.filter(numbers(rows, END) > first) if (numbers(rows, END) <= first).any() else begun
