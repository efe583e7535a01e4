"""Queries that are read together: those of a group by one pass over its results or matches, those of a template that
keeps nothing by one run through history, all others one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from millstream.engine.answers import elements_between, relation_at
from millstream.engine.answers_of_many import LazyOfMany, UnmaterializedOfMany
from millstream.engine.engine import Engine
from millstream.engine.extents import Extent
from millstream.engine.groups.many import Numbered, Numbers
from millstream.engine.limits import AnswerLimits
from millstream.engine.materialization import Eager, Lazy, OwnColumns, Unmaterialized
from millstream.errors import Error, EvaluationError
from millstream.kernel.batch import END, START, Batch, concat, empty_batch, value_column
from millstream.kernel.columns import only
from millstream.kernel.sharing.keyed_selection import expanded
from millstream.kernel.storage.segments import numbers
from millstream.language.binder import BoundQuery
from millstream.plan.analysis.lifetime import OPEN
from millstream.query.query import Query
from millstream.state.snapshot import Snapshot
from millstream.types import BIGINT, Field, Schema

PLACE = Field("_place", BIGINT)  # of a query among its fellows: the first column of what is read together
Flags = npt.NDArray[np.bool_]
_Kind = TypeVar("_Kind", bound=Error)


class WaysOfReading:
    """Which queries are read together, by their places, and how."""

    def __init__(self, queries: Sequence[Query]) -> None:
        by_plan: dict[int, tuple[Lazy, list[int]]] = {}
        by_template: dict[int, tuple[Unmaterialized, list[int]]] = {}
        eager: dict[str, list[int]] = {}
        self.singles: list[int] = []
        for place, query in enumerate(queries):
            match query.materialization:
                case Eager(number=int()):
                    eager.setdefault(query.edge, []).append(place)
                case Lazy(number=int(), constants=None) as lazy:
                    by_plan.setdefault(id(lazy.plan), (lazy, []))[1].append(place)
                case Unmaterialized(values=tuple()) as none_mode:
                    by_template.setdefault(id(none_mode.template), (none_mode, []))[1].append(place)
                case _:
                    self.singles.append(place)
        self.eager = {edge: numbered(queries, places) for edge, places in eager.items()}
        self.lazy: list[tuple[LazyOfMany, Numbered]] = []
        alike: dict[object, tuple[Lazy, list[int]]] = {}
        for one, places in by_plan.values():
            alike.setdefault((one.edges, one.plan), (one, []))[1].extend(places)
        for one, places in alike.values():
            together = LazyOfMany(one)
            if len(places) > 1 and together.can_be_read:
                self.lazy.append((together, numbered(queries, places)))
            else:
                self.singles += places
        self.none_mode: list[tuple[UnmaterializedOfMany, Numbers]] = []
        for first, places in by_template.values():
            if len(places) == 1:
                self.singles += places
                continue
            values = [_values_of(queries[place]) for place in places]
            self.none_mode.append((UnmaterializedOfMany(first, values), np.array(places, np.int64)))


def numbered(queries: Sequence[Query], places: Sequence[int]) -> Numbered:
    """Queries of a group by their rows in its query table."""
    rows = np.array([queries[place].row for place in places], np.int64)
    return Numbered.of(rows, np.array(places, np.int64))


def _values_of(query: Query) -> tuple[object, ...]:
    own = query.materialization
    return (own.values or ()) if isinstance(own, Unmaterialized) else ()


class Members:
    """Queries with the same columns, by their places."""

    def __init__(
        self, engine: Engine, queries: Sequence[Query], common: BoundQuery, keys: Sequence[tuple[str, int]] = ()
    ) -> None:
        self._engine, self.queries, self.common = engine, tuple(queries), common
        self._keys = keys  # of each: the part of a template that it belongs to, and its number there
        self._own_plans: list[int] = []  # those that are in no group
        of_groups: dict[str, list[int]] = {}
        for place, query in enumerate(self.queries):
            (of_groups.setdefault(query.edge, []) if query.number is not None else self._own_plans).append(place)
        self._groups = {edge: numbered(self.queries, places) for edge, places in of_groups.items()}

    @cached_property
    def _ways(self) -> WaysOfReading:
        """Found where rows are read: whoever asks for states needs none."""
        return WaysOfReading(self.queries)

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def keys(self) -> list[tuple[str, Numbers, Numbers]]:
        """By part of a template: the numbers of its queries there, and their places."""
        found: dict[str, tuple[list[int], list[int]]] = {}
        for place, (part, number) in enumerate(self._keys):
            of_part, places = found.setdefault(part, ([], []))
            of_part.append(number)
            places.append(place)
        return [(part, np.array(of, np.int64), np.array(at, np.int64)) for part, (of, at) in found.items()]

    @property
    def schema(self) -> Schema:
        return (PLACE, *self.common.schema)

    @cached_property
    def edges(self) -> tuple[str, ...]:
        """All that is shown for them."""
        own_plans = (edge for place in self._own_plans for edge in self.queries[place].materialization.edges)
        return tuple(dict.fromkeys([*self._groups, *own_plans]))

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The sources of their answers."""
        groups = (self.queries[queries.places[0]].materialization.inputs for queries in self._groups.values())
        own_plans = {self.queries[place].materialization.inputs for place in self._own_plans}
        return frozenset[str]().union(*groups, *own_plans)

    # Their state

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the past that is kept has been worked through, for all of them."""
        self.admit()
        engine = self._engine
        engine.notifier.wait_until(lambda: engine.life.is_closing or not self.filling().any(), timeout)
        engine.life.check_goes_on()
        return not self.filling().any()

    def admit(self) -> None:
        """Have those admitted to their groups that wait, unless their past is long."""
        for edge in self._groups:
            self._engine.admitter.ask(edge)

    def filling(self) -> Flags:
        """Whose past is still being worked through."""
        found = np.zeros(len(self), np.bool_)
        for edge, queries in self._groups.items():
            busy = self._engine.groups[edge].filling if edge in self._engine.groups else set[int]()
            if busy:
                is_busy = np.isin(queries.numbers, np.array([*busy], np.int64))
                found[queries.places[is_busy]] = [self.queries[place].is_filling for place in queries.places[is_busy]]
        for place in self._own_plans:
            found[place] = self.queries[place].is_filling
        return found

    def failed(self, snapshot: Snapshot | None = None) -> dict[int, EvaluationError]:
        """Those that have no answers any more, by place, each with its error."""
        return self._stopped(EvaluationError, snapshot or self._engine.snapshot)

    def stopped(self) -> dict[int, Error]:
        """Those that have no answers now, for whatever reason, by place."""
        return self._stopped(Error, self._engine.snapshot)

    def _stopped(self, kind: type[_Kind], snapshot: Snapshot) -> dict[int, _Kind]:
        found, reader = dict[int, Any](), self._engine.reader
        for edge, queries in self._groups.items():
            try:
                errors = reader.failed(edge, snapshot)
            except kind as stopped:
                found.update(dict.fromkeys(queries.places.tolist(), stopped))
                continue
            at, places = queries.find(np.array([*errors], np.int64))
            by_position = [*errors.values()]
            found.update((place, by_position[n]) for n, place in zip(at.tolist(), places.tolist(), strict=True))
        for place in self._own_plans:
            query = self.queries[place]
            try:
                for edge in query.materialization.edges:
                    reader.check(edge, query.row)
                if not query.materialization.edges:
                    query.materialization.check()
            except kind as error:
                found[place] = error
        return found

    def firsts(self) -> Numbers:
        """The first answerable instant of each, by what there was of the past when it came."""
        found = self._firsts.copy()
        for place in self._own_plans:
            found[place] = self.queries[place].instants.first_by_past()
        return found

    @cached_property
    def _firsts(self) -> Numbers:
        """Those of queries of groups do not change."""
        return np.array([query.past.first for query in self.queries], np.int64)

    # Their rows

    def rows(self, starts: Numbers, since: int, until: int) -> tuple[Batch, dict[int, EvaluationError]]:
        """Rows from which answers for instants after `since` up to `until` are made, or for `until` alone where both
        are the same; each query has rows from an instant of its own on. Also those that have failed, which have none.
        """
        is_relation, like = self.common.kind == "relation", empty_batch(self.schema)
        late = starts[(starts > since) & (starts <= until)]
        base = int(late.min(initial=until))  # the first instant of which all that holds is needed

        def wanted(extent: Extent) -> bool:
            if not is_relation:
                return extent.has_elements(since, until)
            is_base = (late.size > 0 or since == until) and extent.has_alive(base)
            return is_base or (since < until and extent.has_changes(since, until))

        def read(snapshot: Snapshot) -> tuple[list[tuple[str, Batch]], dict[int, EvaluationError]]:
            failed, reader = self.failed(snapshot), self._engine.reader
            return [
                (edge, reader.rows_of_many(snapshot, edge, queries, wanted, since, until))
                for edge, queries in self._ways.eager.items()
                if len(failed) < len(queries.places) or not failed.keys() >= set(queries.places.tolist())
            ], failed

        of_groups, failed = self._engine.reader.read(read)
        found = [own for edge, rows in of_groups for own in self._with_own_columns(edge, rows)]
        asked = np.flatnonzero(starts <= until)
        asked = asked[~np.isin(asked, np.array([*failed], np.int64))]
        computed, left = self._computed(asked, since, until)
        found += computed
        for place in left:
            try:
                found.append(self._single(place, int(starts[place]), since, until, like))
            except EvaluationError as error:
                failed[place] = error
        rows = concat(found, like)
        gone = np.array([*failed], np.int64)
        begin = starts.copy()
        begin[gone] = OPEN
        return _begun(rows, begin[numbers(rows, value_column(0))]), failed

    def _computed(self, asked: Numbers, since: int, until: int) -> tuple[list[Batch], list[int]]:
        """The rows of those whose answers are made when they are asked, many at a time; also those that must be asked
        one by one, where that cannot be, or something is wrong with one of them."""
        reader, found, left = self._engine.reader, list[Batch](), np.intersect1d(self._ways.singles, asked).tolist()
        for lazy, queries in self._ways.lazy:
            own = queries.only(asked)
            try:
                if own.places.size:
                    found.append(reader.read(partial(lazy.rows, queries=own, since=since, until=until)))
            except EvaluationError:
                left += own.places.tolist()
        for none_mode, places in self._ways.none_mode:
            chosen = np.flatnonzero(np.isin(places, asked))
            if not chosen.size:
                continue
            try:
                with reader.commits.reading(none_mode.one.inputs) as snapshot:
                    rows = none_mode.rows(snapshot, chosen, since, until) if none_mode.can_be_read(snapshot) else None
            except EvaluationError:
                rows = None
            if rows is None:
                left += places[chosen].tolist()
            else:
                place = pl.Series(value_column(0), places[numbers(rows, value_column(0))], pl.Int64)
                found.append(rows.with_columns(place))
        types = empty_batch(self.schema).schema
        return [rows.cast(types) if rows.schema != types else rows for rows in found], sorted(left)

    def _with_own_columns(self, edge: str, rows: Batch) -> list[Batch]:
        """The rows that a group keeps as its queries have them."""
        found = []
        for columns, places in self._by_columns[edge]:
            of_these = rows
            if len(self._by_columns[edge]) > 1:
                of_these = only(rows, np.isin(numbers(rows, value_column(0)), places))
            if columns is not None:
                own = [number for place in places if (number := self.queries[place].number) is not None]
                of_these = columns.own_of_many(of_these, places, own)
            found.append(of_these)
        return found

    @cached_property
    def _by_columns(self) -> dict[str, list[tuple[OwnColumns | None, Numbers]]]:
        """By group: what makes rows of queries of those that are kept, and these queries."""
        found: dict[str, list[tuple[OwnColumns | None, Numbers]]] = {}
        for edge, queries in self._ways.eager.items():
            alike: dict[int, tuple[OwnColumns | None, list[int]]] = {}
            for place in sorted(queries.places.tolist()):
                own = self.queries[place].materialization
                columns = own.own_columns if isinstance(own, Eager) else None
                key = -1 if columns is None else id(columns.template)
                alike.setdefault(key, (columns, []))[1].append(place)
            found[edge] = [(columns, np.array(places, np.int64)) for columns, places in alike.values()]
        return found

    def _single(self, place: int, start: int, since: int, until: int, like: Batch) -> Batch:
        is_whole = start > since and self.common.kind == "relation"
        begin = start if is_whole else max(since, start - 1)
        found = self.queries[place].answer(lambda final: (begin, until), whole=is_whole).rows
        if not found.height:
            return like
        types = empty_batch(self.common.schema).schema
        # A constant in a text may be of a narrower type than the parameter that it stands for.
        columns = [found[name].cast(kind) for name, kind in types.items()]
        return expanded(pl.Series([place], dtype=pl.Int64).new_from_index(0, found.height), columns)

    def at(self, rows: Batch, tick: int, limits: AnswerLimits) -> pa.Table:
        """The answers at an instant, by rows for it, query by query: the place first."""
        if self.common.kind == "relation":
            return relation_at(rows, self.schema, tick, limits=limits)
        found = elements_between(rows, self.schema, -1, tick, self.common.domain, limits)
        order = np.argsort(found.column(PLACE.name).to_numpy(), kind="stable")
        return found.select([PLACE.name, *(name for name in found.column_names if name != PLACE.name)]).take(order)


def _begun(rows: Batch, begins: Numbers) -> Batch:
    """Rows that are there from an instant on, each from its own."""
    starts = numbers(rows, START)
    if not rows.height or (starts >= begins).all():
        return rows
    kept = numbers(rows, END) > begins
    begun = only(rows, kept)
    return begun.with_columns(pl.Series(START, np.maximum(starts[kept], begins[kept]), pl.Int64))
