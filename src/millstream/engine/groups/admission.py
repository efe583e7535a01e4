"""Admission: queries whose past was worked through take part in their group, and those that fail are put aside.

Since everything above a selection keeps queries apart, what a group holds for the others and what was made for those
who come have no key in common, and are put together; the others do not notice. A query that fails is taken out alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.task import StateNames
from millstream.engine.groups.constants import told_by_query
from millstream.engine.groups.group import Group, RowsByShape, numbers_of, only_queries
from millstream.engine.groups.tables import QueryTables
from millstream.engine.past import Pasts
from millstream.engine.query_tables import failure_key
from millstream.engine.shared_plan import SharedPlan
from millstream.errors import EvaluationError
from millstream.kernel.operator import EVERYWHERE, Operator, Segment, State
from millstream.kernel.pending_errors import PENDING
from millstream.kernel.sharing.parameters import QUERY
from millstream.state.snapshot import Names, Snapshot, state_names
from millstream.state.store import Writer
from millstream.state.written import Written


@dataclass(frozen=True, eq=False)
class NewQueries:
    """Queries of a group whose past was worked through: the states and results that this made, and perhaps segments of
    their rows of the query table."""

    group: Group
    rows: RowsByShape
    states: StateNames
    results: Names
    segments: Names = ()


class Admission:
    """Changes who takes part in groups; under the lock of commits."""

    def __init__(self, commits: Commits, plan: SharedPlan, pasts: Pasts, tables: QueryTables) -> None:
        self._commits, self._plan, self._pasts, self._tables = commits, plan, pasts, tables

    def query_rows(self, group: Group, rows: RowsByShape) -> dict[str, tuple[Part, ...]]:
        """What the query table says as a source, where the plan reads it as one."""
        always = group.query_rows
        if always is None:
            return {}
        batch = group.rows_of_queries(pl.concat([frame[QUERY] for frame in rows.values()]))[always.group]
        with self._commits.store.file("queries") as writer:
            return {always.group: (Part("rows", writer.write(batch), batch.height, always.schema),)}

    def admit(self, *newcomers: NewQueries) -> None:
        """Let queries take part whose past was worked through, up to the committed snapshot: all by one commit."""
        with self._commits.writing() as written:
            snapshot = self.taking_part(newcomers, self._commits.snapshot.with_next_epoch(), written)
            with self._tables.leaving([(new.group, numbers_of(new.rows)) for new in newcomers]):
                self._commits.commit(snapshot)
        for new in newcomers:
            self.put(new.group)
            self._pasts.forget(new.group.edge, numbers_of(new.rows))

    def taking_part(self, newcomers: Iterable[NewQueries], snapshot: Snapshot, written: Written) -> Snapshot:
        """The snapshot with queries that take part."""
        steps = set[str]()
        for new in newcomers:
            snapshot = self._with(new, snapshot, steps, written)
            steps.update(new.group.steps)
        return snapshot

    def put(self, group: Group) -> None:
        """Have the steps of a group run."""
        self._plan.put(group.pipeline.steps)

    def _with(self, new: NewQueries, snapshot: Snapshot, steps: Collection[str], written: Written) -> Snapshot:
        """The snapshot with queries that take part; some steps are those of others that come with them."""
        group, states, selection = new.group, new.states, new.group.selection
        above = group.above - {selection}
        # Of what the selection reads, steps that have been there all along have their state already.
        known = {step for step in states if step in self._plan or step in steps or step == selection}
        made = {step: names for step, names in states.items() if step in above or step not in known}
        written.add([*state_names(states), *new.results])
        with self._commits.store.file("queries") as writer:
            for step in group.pipeline.steps:
                if step.name in above and step.name in made and step.name in snapshot.states:
                    both = snapshot.states[step.name], made[step.name]
                    made[step.name] = self._merged_states(step.operator, *both, writer)
        written.add(state_names(made))
        pending = {key: names for key, names in states.get(selection, {}).items() if key == EVERYWHERE + PENDING}
        held = snapshot.states.get(selection, {})
        held = {**held, **{key: (*held.get(key, ()), *names) for key, names in pending.items()}}
        if held:
            made[selection] = held
        table = self._tables.table_without(snapshot.query_table(selection), numbers_of(new.rows), "waiting")
        segments = new.segments or self._tables.written(new.rows.values())
        written.add(segments)
        table = self._tables.table_with_admitted(table, segments)
        written.add(table.names())
        snapshot = snapshot.with_states(made).with_query_tables({selection: table})
        return snapshot.with_results({group.edge: new.results}) if new.results else snapshot

    def fail(self, group: Group, rows: RowsByShape, error: EvaluationError) -> None:
        """Queries that wait have failed before they could be admitted."""
        snapshot, queries = self._commits.snapshot, numbers_of(rows)
        with self._commits.writing() as written:
            table = self._tables.table_without(snapshot.query_table(group.selection), queries, "waiting")
            table = self._tables.table_with(table, "failed", rows.values())
            written.add(table.names())
            errors = told_by_query(dict.fromkeys(queries, error), rows, group.shapes)
            failures = {failure_key(group.edge, query): said for query, said in errors.items()}
            with self._tables.leaving([(group, queries)]):
                self._commits.commit(snapshot.with_query_tables({group.selection: table}).with_failures(failures))
        self._pasts.forget(group.edge, queries)

    def stop(self, group: Group, errors: Mapping[int, EvaluationError]) -> None:
        """Put queries aside, each with its error, as far as they take part: of those that failed before there may be
        results left."""
        self._commits.commit_pending()
        running = numbers_of(self._tables.rows(group, "admitted"))
        errors = {query: error for query, error in errors.items() if query in running}
        if not errors:
            return
        with self._commits.writing() as written:
            snapshot = self.mark_failed(group, errors, self._commits.snapshot)
            written.add(snapshot.query_table(group.selection).names())
            self._commits.commit(snapshot)

    def mark_failed(self, group: Group, errors: Mapping[int, EvaluationError], snapshot: Snapshot) -> Snapshot:
        """The snapshot in which some queries that take part have failed, each with its error."""
        stopped = only_queries(self._tables.rows(group, "admitted"), errors)
        table = self._tables.table_without(snapshot.query_table(group.selection), errors)
        table = self._tables.table_with(table, "failed", stopped.values())
        own = told_by_query(errors, stopped, group.shapes)
        failures = {failure_key(group.edge, query): said for query, said in own.items()}
        return snapshot.with_query_tables({group.selection: table}).with_failures(failures)

    # What a group holds

    def held_for(self, group: Group, states: StateNames, queries: Iterable[int]) -> StateNames:
        """What the selection of a group and the steps above it hold for some of its queries."""
        wanted = pl.Series(list(queries), dtype=pl.Int64)
        above, states = group.above, dict(states)
        selecting = states.get(group.selection, {})
        states[group.selection] = {key: names for key, names in selecting.items() if key == EVERYWHERE + PENDING}
        with self._commits.store.file("queries") as writer:
            return {
                step.name: self._by_shard(
                    lambda own, step=step: step.operator.of_queries(own[0], wanted),  # type: ignore[misc]
                    (states[step.name],),
                    writer,
                )
                for step in group.pipeline.steps
                if step.name in above and step.name in states
            }

    def _merged_states(
        self, operator: Operator, one: Mapping[str, Names], other: Mapping[str, Names], writer: Writer
    ) -> dict[str, Names]:
        return self._by_shard(lambda states: operator.merged_states(*states), (one, other), writer)

    def _by_shard(
        self, made_of: Callable[[Sequence[State]], State], kept: Sequence[Mapping[str, Names]], writer: Writer
    ) -> dict[str, Names]:
        """What is made of states, shard by shard; segments that stay as they are keep their names."""
        found: dict[str, Names] = {}
        for shard in sorted({key.partition("/")[0] for synopses in kept for key in synopses}):
            named: dict[int, tuple[str, Segment]] = {}

            def loaded(synopses: Mapping[str, Names], shard: str = shard, named: dict[int, Any] = named) -> State:
                state = {}
                for key, names in synopses.items():
                    if key.startswith(f"{shard}/"):
                        segments = [self._commits.store.read(name) for name in names]
                        named.update((id(s), (name, s)) for s, name in zip(segments, names, strict=True))
                        state[key.removeprefix(f"{shard}/")] = tuple(segments)
                return state

            for synopsis, segments in made_of([*map(loaded, kept)]).items():
                names = tuple(named[id(s)][0] if id(s) in named else writer.write(s) for s in segments if s.height)
                if names:
                    found[f"{shard}/{synopsis}"] = names
        return found
