"""Queries that are read together: those of a group by one pass over its results, all others one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from millstream.engine.answers import elements_between, relation_at
from millstream.engine.engine import Engine
from millstream.engine.extents import Extent
from millstream.engine.groups.many import Numbered, Numbers
from millstream.engine.materialization import Eager, OwnColumns
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


class Members:
    """Queries with the same columns, by their places."""

    def __init__(
        self, engine: Engine, queries: Sequence[Query], common: BoundQuery, keys: Sequence[tuple[str, int]] = ()
    ) -> None:
        self._engine, self.queries, self.common = engine, tuple(queries), common
        self._keys = keys  # of each: the part of a template that it belongs to, and its number there
        self._singles: list[int] = []
        of_groups: dict[str, list[int]] = {}
        for place, query in enumerate(self.queries):
            is_in_group = query.number is not None and isinstance(query.materialization, Eager)
            (of_groups.setdefault(query.edge, []) if is_in_group else self._singles).append(place)
        self._groups = {edge: self._numbered(places) for edge, places in of_groups.items()}

    def _numbered(self, places: list[int]) -> Numbered:
        found = np.array([self.queries[place].row for place in places], np.int64)
        return Numbered.of(found, np.array(places, np.int64))

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
        singles = (edge for place in self._singles for edge in self.queries[place].materialization.edges)
        return tuple(dict.fromkeys([*self._groups, *singles]))

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The sources of their answers."""
        groups = (self._engine.reader.inputs(edge) for edge in self._groups)
        singles = (self.queries[place].materialization.inputs for place in self._singles)
        return frozenset[str]().union(*groups, *singles)

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
        singles = (query.edge for place in self._singles if (query := self.queries[place]).number is not None)
        for edge in {*self._groups, *singles}:
            self._engine.admitter.ask(edge)

    def filling(self) -> Flags:
        """Whose past is still being worked through."""
        found = np.zeros(len(self), np.bool_)
        for edge, queries in self._groups.items():
            busy = self._engine.groups[edge].filling if edge in self._engine.groups else set[int]()
            if busy:
                is_busy = np.isin(queries.numbers, np.array([*busy], np.int64))
                found[queries.places[is_busy]] = [self.queries[place].is_filling for place in queries.places[is_busy]]
        for place in self._singles:
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
        for place in self._singles:
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
        for place in self._singles:
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
                for edge, queries in self._groups.items()
                if len(failed) < len(queries.places) or not failed.keys() >= set(queries.places.tolist())
            ], failed

        of_groups, failed = self._engine.reader.read(read)
        found = [own for edge, rows in of_groups for own in self._with_own_columns(edge, rows)]
        singles = (place for place in self._singles if place not in failed and starts[place] <= until)
        found += [self._single(place, int(starts[place]), since, until, like) for place in singles]
        rows = concat(found, like)
        gone = np.array([*failed], np.int64)
        begin = starts.copy()
        begin[gone] = OPEN
        return _begun(rows, begin[numbers(rows, value_column(0))]), failed

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
        for edge, queries in self._groups.items():
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

    def at(self, rows: Batch, tick: int, max_rows: int) -> pa.Table:
        """The answers at an instant, by rows for it, query by query: the place first."""
        if self.common.kind == "relation":
            return relation_at(rows, self.schema, tick)
        found = elements_between(rows, self.schema, -1, tick, self.common.domain, max_rows)
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
