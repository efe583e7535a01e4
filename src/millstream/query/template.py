"""A template: queries of one text that differ in the values of its parameters, as a sequence and as one relation.

Its answers are those of its queries side by side, each row with its query's name (`_query`) and parameters (`_p1`,
`_p2`, ...) in front. They are read once for all queries of a group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import polars as pl
import pyarrow as pa

from millstream.answers.following import Following
from millstream.answers.visible import Answering
from millstream.engine.bookmarks import AnsweredFrom
from millstream.engine.life import Life, under_way
from millstream.engine.materialization import Unmaterialized
from millstream.errors import ClosedError, EvaluationError
from millstream.kernel.batch import Batch, concat, empty_batch, value_columns
from millstream.kernel.sharing.keyed_selection import expanded
from millstream.language.binder import BoundQuery
from millstream.language.instants import shown_instant
from millstream.names import MISSING
from millstream.plan.analysis.lifetime import OPEN
from millstream.plan.nodes import Kind
from millstream.query.context import QueryContext, TemplatePlan
from millstream.query.members import Members
from millstream.query.query import Query
from millstream.query.template_reader import TemplateInstants, TemplateReader
from millstream.types import DataType, arrow_schema, to_arrow, to_polars

QUERY_NAME = "_query"
_NAMED = 20  # queries that a notice names


@dataclass(frozen=True)
class Together:
    """What the answers of several queries are made from."""

    edges: tuple[str, ...]
    inputs: frozenset[str]


@dataclass(frozen=True)
class Single:
    """A query of a template that came alone: its number among these, and its values."""

    number: int
    values: tuple[object, ...]


class Template(Answering, Sequence[Query]):
    """Queries of one text; made by `Database.register_many` with the name of a template."""

    def __init__(
        self,
        context: QueryContext,
        name: str,
        text: str,
        mode: str,
        parameters: tuple[DataType, ...],
        common: BoundQuery,
    ) -> None:
        self.name, self.text, self.mode, self.parameters, self.common = name, text, mode, parameters, common
        self._context, self._engine = context, context.engine
        self._queries: dict[str, Query] = {}
        self._singles: dict[str, Single] = {}
        self._edges: dict[tuple[str, ...], frozenset[str]] = {}  # that queries show, with the sources of their answers
        self._members: Members | None = None
        self._known_labels: tuple[Members, pa.Table] | None = None
        self.remarks: tuple[str, ...] = ()  # what was noticed of its text when it came
        self._dropped = False

    # A sequence of queries

    def __len__(self) -> int:
        return len(self._queries)

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice) -> list[Query]: ...
    def __getitem__(self, index: int | slice) -> Query | list[Query]:
        return [*self._queries.values()][index]

    def __iter__(self) -> Iterator[Query]:
        return iter([*self._queries.values()])  # others may come and go meanwhile

    def __contains__(self, query: object) -> bool:
        return isinstance(query, Query) and self._queries.get(query.name.lower()) is query

    def query(self, name: str) -> Query | None:
        """The query of a name, if it is one of these."""
        return self._queries.get(name.lower())

    def add(self, queries: Iterable[Query], singles: Mapping[str, Single] | None = None) -> None:
        """Queries have come; some have plans of their own."""
        self._singles.update(singles or {})
        for query in queries:
            query.member_of = self
            self._queries[query.name.lower()] = query
            if query.materialization.edges not in self._edges:
                self._edges[query.materialization.edges] = query.materialization.inputs
        self._members = None

    def remove(self, query: Query) -> None:
        self._queries.pop(query.name.lower(), None)
        self._singles.pop(query.name.lower(), None)
        self._members = None

    # What they have in common

    @property
    def kind(self) -> Kind:
        """That of all its queries: `"stream"` or `"relation"`."""
        return self.common.kind

    @property
    def schema(self) -> pa.Schema:
        """The query's name, its parameters, and the columns of the queries."""
        return pa.schema([*self._labels_schema, *arrow_schema(self.common.schema)])

    @property
    def _labels_schema(self) -> pa.Schema:
        kinds = (pa.field(f"_p{n}", to_arrow(kind)) for n, kind in enumerate(self.parameters, start=1))
        return pa.schema([pa.field(QUERY_NAME, pa.string()), *kinds])

    @property
    def life(self) -> Life:
        return self._engine.life

    @property
    def instants(self) -> TemplateInstants:
        """Which instants the queries can be asked for."""
        return TemplateInstants(self, self._context)

    @property
    def reader(self) -> TemplateReader:
        """Reads the changes of all queries from a bookmark on."""
        return TemplateReader(self, self._context)

    @property
    def materialization(self) -> AnsweredFrom:
        """What all answers are made from, and perhaps what those of queries were that are gone."""
        first = next(iter(self._queries.values()), None)
        if first is not None and isinstance(first.materialization, Unmaterialized):
            return first.materialization
        singles = (self._queries.get(name) for name in [*self._singles])
        own = {query.materialization.edges: query.materialization.inputs for query in singles if query is not None}
        read = {**self._edges, **own}
        inputs = frozenset[str]().union(*read.values())
        inputs = inputs or self._engine.plans.sources_of(self.common.plan, self._context.options())
        return Together(tuple(dict.fromkeys(edge for edges in read for edge in edges)), inputs)

    @property
    def final(self) -> Any:
        """The instant up to which answers are final; None where nothing is yet."""
        self.check_open()
        tick = self.instants.reached()
        return None if tick < 0 else shown_instant(tick, self.common.domain)

    # The state of the queries

    @property
    def failed(self) -> dict[str, EvaluationError]:
        """The queries that have failed, by name: they have no answers any more."""
        self.check_open()
        members = self.members
        return {members.queries[place].name: error for place, error in members.failed().items()}

    @property
    def notices(self) -> list[str]:
        """What a reader should know of its text, and of the queries that have no rows in answers."""
        return [*self.failures, *self.remarks]

    @property
    def failures(self) -> list[str]:
        """How many of its queries have failed, and which."""
        failed = self.failed
        return [f"{len(failed)} of {len(self)} queries have failed: {_named(failed)}"] if failed else []

    @property
    def is_filling(self) -> bool:
        """Whether the past is still being worked through for all of them."""
        filling = self.members.filling()
        return bool(filling.size and filling.all())

    @property
    def has_ended(self) -> bool:
        """Whether it was dropped, or its database closed."""
        return self._dropped or self.life.is_closing

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the past that is kept has been worked through; tells whether it has, in so many seconds."""
        self.check_open()
        return self.members.wait(timeout)

    def check_open(self) -> None:
        self.life.check()
        if self._dropped:
            raise ClosedError(f'template "{self.name}" was dropped')

    def check_some_go_on(self) -> None:
        """Raise what stopped the queries, if all of them have failed."""
        members = self.members
        failed = members.failed()
        if failed and len(failed) == len(members):
            raise next(iter(failed.values()))

    @under_way
    def stats(self) -> dict[str, Any]:
        """How many queries it has, how many of them run, fill or have failed, and why."""
        self.check_open()
        members = self.members
        failed, filling = members.failed(), int(members.filling().sum())
        return {
            "queries": len(members),
            "running": len(members) - len(failed) - filling,
            "filling": filling,
            "failed": {members.queries[place].name: str(error) for place, error in failed.items()},
            "mode": self.mode,
            "epoch": self._engine.snapshot.epoch,
        }

    # Answers

    @under_way
    def result(self, at: Any = None) -> pa.Table:
        """The answers of all queries at an instant, as those of `Query.result`: by query, in the order of the sequence.

        A query that has failed, or cannot be asked for the instant, has no rows; the table's metadata says so.
        """
        self.check_open()
        self.members.wait()
        self._context.bring_up_to_now(self.materialization.inputs)
        members, instants, missing = self.members, self.instants, dict[int, EvaluationError]()
        if at is None and (pending := instants.pending()) is not None:
            tick, rows = pending, self._evaluated(members, pending)
        else:
            tick = instants.resolved(at, instants.final)
            firsts = np.maximum(members.firsts(), self._engine.sources.first_answerable(self.materialization.inputs))
            since = tick if self.kind == "relation" else int(firsts.min(initial=tick)) - 1
            rows, missing = members.rows(firsts, since, tick)
            for place in np.flatnonzero(firsts > tick).tolist():
                first = "not known yet" if firsts[place] == OPEN else instants.shown(int(firsts[place]))
                missing.setdefault(place, EvaluationError(f"the first answerable instant is {first}"))
        found = self.labelled(members, members.at(rows, tick, self._engine.limits.answers), missing)
        self._engine.invocations.count("result")
        return found

    def _evaluated(self, members: Members, tick: int) -> Batch:
        """Over tables only, with changes that lie beyond what is final: each query anew."""
        found, like = [], empty_batch(members.schema)
        options = replace(self._context.options(), first_counted=tick)
        for place, query in enumerate(members.queries):
            rows = self._engine.evaluation.evaluate(query.bound.plan, options, tick)
            columns = rows.select(empty_batch(self.common.schema).columns).get_columns()
            found.append(expanded(pl.Series([place], dtype=pl.Int64).new_from_index(0, rows.height), columns))
        return concat(found, like)

    @under_way
    def changes(self, since: Any = None) -> pa.Table:
        """The final changes of all queries after `since`: name, parameters, _ts, _weight and the columns, in time
        order."""
        self.check_open()
        self.members.wait()
        final, reader = self.instants.reached(), self.reader
        place = reader.bookmark(since)
        if since is not None and place.seen > final:
            raise self.instants.not_final(f"changes of {self.name} since {since} are", since, final)
        found = reader.given(place, final)[0]
        self._engine.invocations.count("changes")
        return found

    def follow(self, since: Any = None, timeout: float | None = None) -> Following:
        """The final changes of all queries after `since`, as they become final: tables like those of `changes`.

        Of queries that come to the template later, what holds then comes first, as insertions.
        """
        self.check_open()
        following = self.reader.following(since, timeout)
        self._engine.invocations.count("follow")
        return following

    def labelled(self, members: Members, found: pa.Table, missing: Mapping[int, EvaluationError]) -> pa.Table:
        """A table with names and parameters in front, in the place of the column that has the places of queries; its
        metadata names the queries that have no rows in it, and says why."""
        place = found.schema.names.index(members.schema[0].name)
        labels = self._labels(members).take(found.column(place))
        table = found.remove_column(place)
        columns = [*labels.columns, *table.columns]
        reasons = {members.queries[place].name: str(why) for place, why in missing.items()}
        metadata = {MISSING: json.dumps(reasons)} if reasons else None
        return pa.Table.from_arrays(columns, schema=pa.schema([*labels.schema, *table.schema], metadata=metadata))

    # Members, as they are now

    @property
    def members(self) -> Members:
        found = self._members
        while found is None:
            queries = [*self._queries.values()]
            found = Members(self._engine, queries, self.common, [self._key(query) for query in queries])
            if queries == [*self._queries.values()]:
                self._members = found
        return found

    def _labels(self, members: Members) -> pa.Table:
        known = self._known_labels
        if known is None or known[0] is not members:
            known = self._known_labels = members, self._labels_of(members.queries)
        return known[1]

    def _key(self, query: Query) -> tuple[str, int]:
        single = self._singles.get(query.name.lower())
        if single is not None or query.template is None:
            return "", 0 if single is None else single.number
        return query.template.name, query.number or 0

    def _labels_of(self, queries: Sequence[Query]) -> pa.Table:
        """Names and parameters, by place."""
        by_plan: dict[TemplatePlan | None, list[int]] = {}
        for place, query in enumerate(queries):
            by_plan.setdefault(None if query.name.lower() in self._singles else query.template, []).append(place)
        names = value_columns(len(self.parameters))
        kinds = {name: to_polars(kind) for name, kind in zip(names, self.parameters, strict=True)}
        parts = []
        for plan, places in by_plan.items():
            chosen = [queries[place] for place in places]
            if plan is None:
                singles = (self._singles.get(query.name.lower()) for query in chosen)
                rows = [(None,) * len(kinds) if single is None else single.values for single in singles]
                values = pl.DataFrame(rows, schema=kinds, orient="row")
            else:
                values = plan.values(chosen).select(pl.col(name).cast(kind) for name, kind in kinds.items())
            parts.append(values.with_columns(pl.Series("place", places, pl.Int64)))
        ordered = pl.concat(parts).sort("place") if parts else pl.DataFrame(schema=kinds)
        schema = self._labels_schema
        columns = [ordered[name].to_arrow().cast(field.type) for name, field in zip(names, [*schema][1:], strict=True)]
        return pa.Table.from_arrays([pa.array([q.name for q in queries], pa.string()), *columns], schema=schema)

    # Life

    @under_way
    def drop(self) -> None:
        """Forget the template and all of its queries, at once."""
        self.check_open()
        self._context.drop_template(self.name)

    def close(self) -> None:
        self._dropped = True
        self._engine.notifier.notify()

    def __repr__(self) -> str:
        return f"<Template {self.name}: {len(self)} queries {self.text}>"


def _named(failed: Mapping[str, EvaluationError]) -> str:
    shown = [f"{name} ({error})" for name, error in [*failed.items()][:_NAMED]]
    return ", ".join([*shown, *(["..."] if len(failed) > _NAMED else [])])
