"""Consumers of a join: what reads its rows, and has no use for some of them.

    T ⋉ S, and T ⋈ S where T is made for others too     a row of T is needed while S has a row of its key
    T ▷ S                                               unless S has one for as long as the row lives
    T ⋈ S, S NON RETROACTIVE                            if S has one at the instant at which the row is generated

S comes as a further input of the join, of which only the keys are looked at. Consumers that are one behind the other
must all need a row; of several that read the same join, in one query or in many, each such list is an alternative, and
a row waits only while none of them needs it.

Rows that waited come late: they belong to the output from the first instant on that was not final, since until then
nobody needed them. For a consumer that looks at the instant at which they were generated they do not come at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
import polars as pl

from millstream.kernel.batch import END, START, WEIGHT, value_column, value_columns
from millstream.kernel.joins.graph import Access, EqualColumns, JoinGraph, equal_column
from millstream.kernel.joins.stem import Probe
from millstream.kernel.just_in_time.blacklist import Flags
from millstream.kernel.just_in_time.partners import Link, RowValues, number_of
from millstream.kernel.just_in_time.surroundings import Surroundings
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.expressions import TRUE, Expression
from millstream.kernel.storage.segments import numbers
from millstream.types import Schema

CONSUMER_INPUT = "asked "  # what the synopses begin with of what consumers ask by


@dataclass(frozen=True)
class Consumer:
    """Has use for rows of a join whose values `own` (columns, perhaps of a wider type) are those of a row of another
    relation, which comes on an edge and perhaps never changes (`static`), or only for those of which this is not so
    (`refuses`)."""

    edge: str
    keys: Schema
    own: tuple[Expression, ...]
    refuses: bool = False
    null_safe: bool = False
    static: bool = False

    @property
    def columns(self) -> tuple[int, ...]:
        """Where in the join's row the keys are."""
        return tuple(column for value in self.own if (column := equal_column(value)) is not None)

    def column_of(self, alike: EqualColumns, graph: JoinGraph) -> int | None:
        """The key that is one of some equal columns of the inputs."""
        owners = [(graph.owner_of(column), column) for column in self.columns]
        classes = [graph.class_of(owner, column - graph.starts[owner]) for owner, column in owners]
        return classes.index(alike) if alike in classes else None


# Each is a list of consumers of whom all must need a row.
Alternatives = tuple[tuple[Consumer, ...], ...]


@dataclass(frozen=True)
class ConsumerInput:
    """What consumers ask by, as an input: its edge, the columns that it is hashed by, its columns and its number. It is
    stored under its edge's name, since it stays while others come and go."""

    edge: str
    hashed_by: tuple[int, ...]
    keys: Schema
    source: int

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(value_columns(len(self.keys)))

    @property
    def usual(self) -> Access:
        return Access(self.columns, self.columns)

    @property
    def synopsis(self) -> str:
        return f"{CONSUMER_INPUT}{self.edge} {','.join(map(str, self.hashed_by))}"

    def check(
        self, consumer: Consumer, graph: JoinGraph, own_input: int, usual: Access, start: int, link: type[Link]
    ) -> KeyPresent | KeyAbsent | None:
        """What the rows of an input, whose columns are counted from a place on, ask: by those of the keys that they
        know."""
        found = [_column_of(graph, own_input, column) for column in consumer.columns]
        known = [None if column is None else value_column(start + column) for column in found]
        pairs = [(own, key) for own, key in zip(known, self.columns, strict=True) if own is not None]
        own, keys = tuple(own for own, _ in pairs), tuple(key for _, key in pairs)
        to_keys, to_own = link(Access(keys, own), self.usual, TRUE), Link(Access(own, keys), usual, TRUE)
        if not consumer.refuses:
            return KeyPresent((self.source,), to_keys, to_own)
        whole = own and len(own) == len(known)
        return KeyAbsent((self.source,), to_keys, to_own, null_safe=consumer.null_safe) if whole else None


class ConsumerDemand:
    """What the consumers of a join ask of it: by further `inputs`, some of them by the same."""

    def __init__(self, graph: JoinGraph, alternatives: Alternatives) -> None:
        self._graph, self.alternatives = graph, alternatives
        self._hashed_by = spreading_class(graph)
        found = {(one.edge, self._columns(one)): one.keys for consumers in alternatives for one in consumers}
        numbered = enumerate(found.items(), start=len(graph.widths))
        self.inputs = [ConsumerInput(*place, keys, number) for number, (place, keys) in numbered]

    def _columns(self, consumer: Consumer) -> tuple[int, ...]:
        column = consumer.column_of(self._hashed_by, self._graph) if self._hashed_by is not None else None
        return () if column is None else (column,)

    @property
    def keys(self) -> list[tuple[int, ...]]:
        """For each input, and then for each that is asked by, the columns that it is hashed by."""
        shared, inputs = self._hashed_by, range(len(self._graph.widths))
        own = [() if shared is None else (shared.column_of(source),) for source in inputs]
        return [*own, *(one.hashed_by for one in self.inputs)]

    def check(self, own_input: int, usual: Access, start: int, link: type[Link] = Link) -> AnyOf:
        """What the rows of an input ask. Of consumers who want the same columns it is asked at once."""
        checked = [self._checks(consumers, own_input, usual, start, link) for consumers in self.alternatives]
        single: dict[KeyPresent, list[int]] = {}
        others = []
        for checks in dict.fromkeys(checked):
            if len(checks) == 1 and isinstance(checks[0], KeyPresent):
                single.setdefault(replace(checks[0], sources=()), []).extend(checks[0].sources)
            else:
                others.append(checks)
        together = [(replace(wanted, sources=tuple(sources)),) for wanted, sources in single.items()]
        return AnyOf((*together, *others))

    def never_present(self, own_input: int, usual: Access, start: int) -> list[KeyPresent]:
        """Those of the questions that all consumers have, and that nothing will answer later if it is not answered at
        once."""
        first, *others = self.alternatives or ((),)
        always = [one for one in first if one.static and all(one in consumers for consumers in others)]
        found = self._checks(always, own_input, usual, start, Link)
        return [one for one in found if isinstance(one, KeyPresent) and one.to_keys.access.probing]

    def _checks(
        self, consumers: Sequence[Consumer], own_input: int, usual: Access, start: int, link: type[Link]
    ) -> tuple[KeyPresent | KeyAbsent, ...]:
        places = {(one.edge, one.hashed_by): one for one in self.inputs}
        checked = ((places[one.edge, self._columns(one)], one) for one in consumers)
        found = (place.check(one, self._graph, own_input, usual, start, link) for place, one in checked)
        return tuple(one for one in found if one is not None)


def _column_of(graph: JoinGraph, source: int, column: int) -> int | None:
    """The column of an input that has the value of a column of the row of all inputs."""
    owner = graph.owner_of(column)
    if owner == source:
        return column - graph.starts[owner]
    alike = graph.class_of(owner, column - graph.starts[owner])
    return alike.column_of(source) if alike is not None and source in alike.inputs else None


def spreading_class(graph: JoinGraph) -> EqualColumns | None:
    """What rows are hashed by where consumers ask: equal columns of all inputs. Where state is must not depend on who
    asks, so it is the first such class, and consumers must know it (`add_consumers`), or there is one shard only."""
    return next((c for c in graph.classes if len(c.inputs) == len(graph.widths)), None)


@dataclass(frozen=True)
class _Keyed:
    """Rows of an input that ask for keys, which are in one of some other inputs."""

    sources: tuple[int, ...]
    to_keys: Link
    to_own: Link
    kind: str = "consumers"

    @property
    def by_code(self) -> bool:
        return self.is_cheap

    @property
    def is_cheap(self) -> bool:
        return self.to_keys.by_code or self.to_keys.is_unconditional

    @property
    def own_columns(self) -> tuple[str, ...]:
        return self.to_keys.access.probing


@dataclass(frozen=True)
class KeyPresent(_Keyed):
    """That there is a row of the key."""

    def is_met(self, rows: RowValues, around: Surroundings) -> Flags:
        stored = [each for source in self.sources for each in around.arrived_rows(source)]
        return self.to_keys.has_partner(rows, stored)

    def answered(self, around: Surroundings, segments: Sequence[Segment]) -> list[Positions]:
        found = (self.to_own.partners(around.arrived[source], segments) for source in self.sources)
        return [np.concatenate(positions) for positions in zip(*found, strict=True)]


@dataclass(frozen=True)
class KeyAbsent(_Keyed):
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

    def is_met(self, rows: RowValues, around: Surroundings) -> Flags:
        if not isinstance(rows, pl.DataFrame):
            raise AssertionError("values are needed")
        # What is over does not matter: of a row from before only the rest.
        starts, ends = np.maximum(numbers(rows, START), around.open_from), numbers(rows, END)
        copies = np.zeros(rows.height, np.int64)
        probe = Probe(rows, self.to_keys.access, self.to_keys.usual)
        for stored, flags in around.arrived_rows(self.sources[0]):
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
        new = around.arrived[self.sources[0]]
        return self.to_own.partners(new.filter(pl.col(WEIGHT) < 0), segments)


@dataclass(frozen=True)
class AnyOf:
    """That one of several consumers needs the row: each is a list of questions that must all be met. It is asked even
    where there is nothing to ask, since rows may still wait for who has gone by now."""

    alternatives: tuple[tuple[KeyPresent | KeyAbsent, ...], ...]
    kind: str = "consumers"

    @property
    def _checks(self) -> list[KeyPresent | KeyAbsent]:
        return list(dict.fromkeys(check for checks in self.alternatives for check in checks))

    @cached_property
    def by_code(self) -> bool:
        return all(check.by_code for check in self._checks)

    @property
    def is_cheap(self) -> bool:
        return True

    @cached_property
    def takes_all(self) -> bool:
        return not self.alternatives or not all(self.alternatives)

    @cached_property
    def own_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for check in self._checks for name in check.own_columns))

    def is_met(self, rows: RowValues, around: Surroundings) -> Flags:
        if self.takes_all:
            return np.ones(number_of(rows), np.bool_)
        met = {check: check.is_met(rows, around) for check in self._checks}
        needed = (reduce(np.logical_and, (met[one] for one in checks)) for checks in self.alternatives)
        return reduce(np.logical_or, needed)

    def answered(self, around: Surroundings, segments: Sequence[Segment]) -> list[Positions]:
        if self.takes_all:
            return [np.arange(segment.height) for segment in segments]
        found = [check.answered(around, segments) for check in self._checks]
        return [np.concatenate(positions) for positions in zip(*found, strict=True)]


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
