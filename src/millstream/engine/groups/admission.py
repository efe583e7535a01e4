"""Groups: queries that differ only in what they select, as rows of one query table over one shared plan.

A query that comes is a row that waits. Before the next epoch, or when its answer is asked for, all that wait are let
in: what the group's plan reads is run over the kept history for these queries alone, and its rows go through the
operators above, which hold the state of all queries, as rows of queries that were not there before. Since everything
above keeps queries apart, the others do not notice.

A query that fails is taken out alone. Which one it was is found by halves, and the others go on with what they hold
(`parting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.runner import Runner
from millstream.engine.epochs.task import EpochOutcome, StateNames
from millstream.engine.groups.group import Group, Rows, halves, numbers_of, only_queries
from millstream.engine.past import Pasts, by_beginning, common
from millstream.engine.query_tables import (
    FAILED,
    TABLE,
    WAITING,
    failure_key,
    pending_errors,
    query_tables,
    shape_of,
)
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.engine.tasks import Tasks
from millstream.errors import EvaluationError, StateError, told
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_column
from millstream.kernel.first_counted import counting_from
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Operator, Segment, State
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.by_query import rows_of_query, taken
from millstream.kernel.sharing.lineage import wanted_by
from millstream.kernel.sharing.parameters import QUERY
from millstream.plan.grouping import Shape, Split
from millstream.plan.lowering.lower import Options
from millstream.state.snapshot import Names, Snapshot, state_names
from millstream.state.store import Writer
from millstream.state.written import Written
from millstream.types import Schema, to_polars

_REMEMBERED = 10_000


class Groups:
    """The groups of queries; all is done under the lock of commits."""

    def __init__(
        self, commits: Commits, sources: Sources, plan: SharedPlan, tasks: Tasks, pasts: Pasts, runner: Runner
    ) -> None:
        self._commits, self._sources, self._plan = commits, sources, plan
        self._tasks, self._pasts, self._runner = tasks, pasts, runner
        self._groups: dict[str, Group] = {}
        self._known: dict[object, Group] = {}  # by skeleton
        self._held: dict[tuple[str, str], list[pl.DataFrame]] = {}  # by edge and shape: not yet in the snapshot

    def __getitem__(self, edge: str) -> Group:
        return self._groups[edge]

    def __contains__(self, edge: str) -> bool:
        return edge in self._groups

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def find(self, split: Split, key: Expression | None, options: Options) -> Group:
        """The group of a skeleton, as it is or as it would be."""
        skeleton = split.skeleton, key, options
        if skeleton not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = Group(split, key, options)
            self._known[skeleton] = self._groups.get(found.edge, found)
        return self._known[skeleton]

    def steps_of(self, split: Split, key: Expression | None, options: Options) -> list[str]:
        """The steps of a group, whatever queries it has."""
        return [step.name for step in Group(split, key, options).pipeline.steps]

    def open(self, group: Group, shape: Shape) -> None:
        """Have a group, for queries of this shape too; its steps run once a query takes part."""
        group.add(shape)
        self._groups[group.edge] = group
        rows = group.query_rows
        if rows is not None:
            self._sources.add_query_rows(rows.group, rows.schema)

    def attach(self, group: Group) -> None:
        """Go on with a group of which the snapshot holds the state."""
        if self.tables(group, TABLE):
            self._plan.put(group.pipeline.steps)

    def kept_under(self, selection: str) -> dict[str, pl.DataFrame]:
        """The rows of the query tables that a selection of this name has, by shape, whether there is such a group now
        or not."""
        frames: dict[str, list[pl.DataFrame]] = {}
        for synopsis, names in query_tables(self._commits.snapshot.states.get(selection, {})).items():
            frames.setdefault(shape_of(synopsis), []).extend(map(self._commits.store.read, names))
        return {shape: pl.concat(found) for shape, found in frames.items()}

    def move(self, selection: str, edge: str, group: Group, chosen: pl.Expr, catalog: tuple[Any, ...]) -> None:
        """Let queries that another version kept under other names wait to be let in here. What is left there is
        forgotten when nobody is moved any more."""
        snapshot = self._commits.snapshot
        tables = query_tables(snapshot.states.get(group.selection, {}))
        with self._commits.store.file("queries") as writer:
            for shape, rows in self.kept_under(selection).items():
                own = rows.filter(chosen)
                if own.height:
                    tables[WAITING + shape] = (*tables.get(WAITING + shape, ()), writer.write(own))
        # What was made under the other names is of no use, even where some of them are the same.
        kept = {selection: query_tables(snapshot.states.get(selection, {})), group.selection: tables}
        number = max(self.next_query(group), snapshot.queries.get(edge, 0))
        failed = [key for key in snapshot.failures if key.partition("#")[0] == group.edge]
        snapshot = snapshot.without_states(group.above).with_states(kept).without_results((edge, group.edge))
        snapshot = snapshot.with_number_of_queries({group.edge: number}).without_failures(failed)
        self._commits.commit(snapshot.with_catalog(catalog))

    # The query tables

    def tables(self, group: Group, *kinds: str) -> dict[str, pl.DataFrame]:
        """The rows of the query tables of some kinds, by shape."""
        kinds = kinds or (TABLE, WAITING, FAILED)
        frames: dict[str, list[pl.DataFrame]] = {}
        for (edge, shape), held in [*self._held.items()]:
            if edge == group.edge and WAITING in kinds:
                frames[shape] = list(held)
        for synopsis, names in self._commits.snapshot.states.get(group.selection, {}).items():
            kind = next((kind for kind in kinds if synopsis.startswith(kind)), None)
            if kind is not None:
                frames.setdefault(synopsis.removeprefix(kind), []).extend(map(self._commits.store.read, names))
        return {shape: pl.concat(found) for shape, found in frames.items()}

    def table(self, group: Group, shape: Shape) -> pl.DataFrame:
        """All rows of the query table of a shape."""
        return self.tables(group)[shape.name]

    def next_query(self, group: Group) -> int:
        return max(self._commits.snapshot.queries.get(group.edge, 0), group.following)

    def hold(self, group: Group, shape: Shape, rows: pl.DataFrame) -> None:
        """Have queries wait to be let in; the next commit, whatever it is for, keeps them."""
        self._held.setdefault((group.edge, shape.name), []).append(rows)
        group.following = self.next_query(group) + rows.height

    def let_go(self, group: Group, shape: Shape) -> None:
        """Forget what was held last: it could not be kept."""
        self._held[group.edge, shape.name].pop()
        self._held = {key: held for key, held in self._held.items() if held}

    def with_held(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what is held; to be committed."""
        if not self._held:
            return snapshot
        states, numbers = dict[str, dict[str, Names]](), dict[str, int]()
        with self._commits.store.file("queries") as writer:
            for (edge, shape), held in self._held.items():
                group = self._groups.get(edge)
                if group is not None:  # else it was closed meanwhile
                    tables = states.setdefault(group.selection, dict(snapshot.states.get(group.selection, {})))
                    tables[WAITING + shape] = (*tables.get(WAITING + shape, ()), writer.write(pl.concat(held)))
                    numbers[edge] = group.following
        return snapshot.with_states(states).with_number_of_queries(numbers)

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def release(self) -> None:
        """What was held is committed."""
        self._held.clear()

    def without(self, group: Group, queries: Iterable[int]) -> Snapshot:
        """The snapshot without some queries of a group; the caller commits it. Their rows stay until they expire, and
        are nobody's: numbers are not used again."""
        self._commits.keep_held()
        return self._without(group, queries, self._commits.snapshot)

    def _without(self, group: Group, queries: Iterable[int], snapshot: Snapshot) -> Snapshot:
        gone = pl.Series(list(queries), dtype=pl.Int64)
        states = dict(snapshot.states.get(group.selection, {}))
        for synopsis, names in query_tables(states).items():
            states[synopsis] = tuple(kept for name in names for kept in self._filtered(name, gone))
        forgotten = {failure_key(group.edge, query) for query in gone}
        kept = {synopsis: names for synopsis, names in states.items() if names}
        return snapshot.with_states({group.selection: kept}).without_failures(forgotten)

    def _filtered(self, name: str, gone: pl.Series) -> Names:
        rows = self._commits.store.read(name)
        kept = rows.filter(~rows[QUERY].is_in(gone.implode()))
        if kept.height == rows.height:
            return (name,)
        if not kept.height:
            return ()
        with self._commits.store.file("queries") as writer:
            return (writer.write(kept),)

    def close(self, group: Group) -> None:
        """The last query is gone."""
        self._groups.pop(group.edge, None)
        self._known.clear()

    # Letting queries in

    def is_waited_for(self, group: Group) -> bool:
        """Whether queries of a group wait to be let in that nobody is busy with."""
        kept = self._commits.snapshot.states.get(group.selection, {})
        if not any(synopsis.startswith(WAITING) for synopsis in kept) and all(
            e != group.edge for e, _ in [*self._held]
        ):
            return False
        try:
            return not group.filling or bool(self.waiting(group))
        except StateError:
            return True  # a commit came between: whoever asks without the lock looks again with it

    def waiting(self, group: Group, *, filling: bool = False) -> Rows:
        """The queries that wait: those that nobody is busy with, or those whose past is worked through."""
        known = pl.Series(list(group.filling), dtype=pl.Int64).implode()
        tables = self.tables(group, WAITING)
        chosen = ((shape, rows, rows[QUERY].is_in(known)) for shape, rows in tables.items())
        found = ((shape, rows.filter(busy if filling else ~busy)) for shape, rows, busy in chosen)
        return {shape: rows for shape, rows in found if rows.height}

    def by_past(self, group: Group, rows: Rows) -> list[Rows]:
        """Queries that may be run over the past together: what one of them sees of it must not depend on others."""
        pasts = self._pasts.of(group.edge, sorted(numbers_of(rows)))
        return [only_queries(rows, queries) for queries in by_beginning(pasts)]

    def let_in(self, group: Group) -> None:
        """Let those of a group take part that wait and that nobody is busy with."""
        self._commits.keep_held()
        for rows in self.by_past(group, self.waiting(group)):
            self._let_in(group, rows)

    def _let_in(self, group: Group, rows: Rows) -> None:
        """Commits for each part of the rows that can be let in at once; a query that fails is kept as failed."""
        with self._commits.writing() as written:
            names = self.written(rows)
            written.add(state_names({"": names}))
            outcome = self._run(group, rows, names, written)
            if not outcome.failures:
                self._take_over(group, names, rows, outcome)
                return
        step, error = next(iter(outcome.failures.items()))
        if step not in group.above or sum(frame.height for frame in rows.values()) == 1:
            self.fail(group, rows, error)
            return
        for half in halves(rows):
            self._let_in(group, half)

    def written(self, rows: Rows) -> dict[str, Names]:
        with self._commits.store.file("queries") as writer:
            return {TABLE + shape: (writer.write(frame),) for shape, frame in rows.items()}

    def _run(self, group: Group, rows: Rows, names: Mapping[str, Names], written: Written) -> EpochOutcome:
        """The group's plan over the kept history for these queries alone; what is above the selection has the state of
        all the others too."""
        arrived, snapshot = self.query_rows(group, rows), self._commits.snapshot
        written.add(part.name for parts in arrived.values() for part in parts)
        pasts = self._pasts.of(group.edge, numbers_of(rows)).values()
        pipeline = counting_from(group.pipeline, max(past.counted for past in pasts))
        frontiers = self._sources.frontiers(snapshot)
        task = self._tasks.over_history(pipeline, group.edge, frontiers, snapshot, rows, common(pasts))
        task = replace(task, arrived={**task.arrived, **arrived})
        if not any(task.arrived.values()):
            return EpochOutcome()  # nothing has ever come
        above = group.above
        states = {step: synopses for step, synopses in snapshot.states.items() if step in above}
        outcome = self._runner.run(
            replace(
                task,
                states={**states, group.selection: names},
                settled=frozenset({*above, *arrived}),
            )
        )
        written.add(outcome.names())
        return outcome

    def query_rows(self, group: Group, rows: Rows) -> dict[str, tuple[Part, ...]]:
        """What the query table says as a source, where the plan reads it as one."""
        always = group.query_rows
        if always is None:
            return {}
        batch = _always(always.schema, pl.concat([frame[QUERY] for frame in rows.values()]))
        with self._commits.store.file("queries") as writer:
            return {always.group: (Part("rows", writer.write(batch), batch.height, always.schema),)}

    def publish(self, group: Group, rows: Rows, states: StateNames, results: Names) -> None:
        """Let queries take part whose past was worked through elsewhere, up to the committed snapshot. What the group
        holds for the others and for them has no key in common, and is put together."""
        snapshot = self._commits.snapshot
        above = group.above - {group.selection}
        known = self._plan.names - above
        made = {step: names for step, names in states.items() if step not in known | {group.selection}}
        with self._commits.store.file("queries") as writer:
            for step in group.pipeline.steps:
                if step.name in above and step.name in made and step.name in snapshot.states:
                    both = snapshot.states[step.name], made[step.name]
                    made[step.name] = self._united(step.operator, *both, writer)
        made[group.selection] = states.get(group.selection, {})
        outcome = EpochOutcome(made, {group.edge: results} if results else {})
        with self._commits.writing() as written:
            names = self.written(rows)
            written.add([*outcome.names(), *state_names({"": names})])
            self._take_over(group, names, rows, outcome)

    def _united(
        self, operator: Operator, one: Mapping[str, Names], other: Mapping[str, Names], writer: Writer
    ) -> dict[str, Names]:
        return self._by_shard(lambda states: operator.united(*states), (one, other), writer)

    def only_of(self, group: Group, states: StateNames, queries: Iterable[int]) -> StateNames:
        """What the selection of a group and the steps above it hold for some of its queries."""
        wanted = pl.Series(list(queries), dtype=pl.Int64)
        above, states = group.above, dict(states)
        states[group.selection] = pending_errors(states.get(group.selection, {}))
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

    def _take_over(self, group: Group, names: Mapping[str, Names], rows: Rows, outcome: EpochOutcome) -> None:
        snapshot = self._commits.snapshot
        tables = dict(snapshot.states.get(group.selection, {}))
        for table, new in [*names.items(), *pending_errors(outcome.states.get(group.selection, {})).items()]:
            tables[table] = (*tables.get(table, ()), *new)
        tables = self._not_waiting(group, tables, rows)
        above = group.above - {group.selection}
        # Of what the selection reads, steps that have been there all along have their state already.
        known = self._plan.names - above
        states = {step: synopses for step, synopses in outcome.states.items() if step not in known}
        results = outcome.results.get(group.edge, ())
        self._plan.put(group.pipeline.steps)
        snapshot = snapshot.with_next_epoch().with_states({**states, group.selection: tables})
        shown = (*snapshot.results.get(group.edge, ()), *results)
        self._commits.commit(snapshot.with_results_of({group.edge: shown}))
        self._pasts.forget(group.edge, numbers_of(rows))

    def _not_waiting(self, group: Group, tables: Mapping[str, Names], rows: Rows) -> dict[str, Names]:
        kept = {}
        for synopsis, names in tables.items():
            shape = synopsis.removeprefix(WAITING)
            if synopsis.startswith(WAITING) and shape in rows:
                names = tuple(left for name in names for left in self._filtered(name, rows[shape][QUERY]))
            if names:
                kept[synopsis] = names
        return kept

    def fail(self, group: Group, rows: Rows, error: EvaluationError) -> None:
        snapshot = self._commits.snapshot
        tables = self._not_waiting(group, snapshot.states.get(group.selection, {}), rows)
        failures: dict[str, dict[str, str]] = {}
        with self._commits.store.file("queries") as writer:
            for shape, frame in rows.items():
                tables[FAILED + shape] = (*tables.get(FAILED + shape, ()), writer.write(frame))
                failures |= {failure_key(group.edge, query): told(error) for query in frame[QUERY]}
        self._commits.commit(snapshot.with_states({group.selection: tables}).with_failures(failures))
        self._pasts.forget(group.edge, numbers_of(rows))

    def taking_part(self, group: Group) -> list[int]:
        """The queries that take part."""
        return [query for table in self.tables(group, TABLE).values() for query in table[QUERY]]

    def stop(self, group: Group, errors: Mapping[int, EvaluationError]) -> None:
        """Put queries aside that take part, each with its error."""
        self._commits.keep_held()
        self._commits.commit(self.put_aside(group, errors, self._commits.snapshot))

    def put_aside(self, group: Group, errors: Mapping[int, EvaluationError], snapshot: Snapshot) -> Snapshot:
        """The snapshot in which some queries that take part have failed, each with its error."""
        gone = pl.Series(list(errors), dtype=pl.Int64)
        stopped = {
            shape: rows.filter(rows[QUERY].is_in(gone.implode())) for shape, rows in self.tables(group, TABLE).items()
        }
        snapshot = self._without(group, errors, snapshot)
        tables = dict(snapshot.states.get(group.selection, {}))
        with self._commits.store.file("queries") as writer:
            for shape, rows in stopped.items():
                if rows.height:
                    tables[FAILED + shape] = (*tables.get(FAILED + shape, ()), writer.write(rows))
        failures = {failure_key(group.edge, query): told(error) for query, error in errors.items()}
        return snapshot.with_states({group.selection: tables}).with_failures(failures)

    def broken(self, failures: Iterable[str]) -> list[Group]:
        """The groups that must find out which of their queries failed: a step of their own did."""
        failed = set(failures)
        return [g for g in self._groups.values() if g.above & failed and not self._below(g) & failed]

    def _below(self, group: Group) -> set[str]:
        return {step.name for step in group.pipeline.steps} - group.above

    # Reading

    def rows_of(self, group: Group, schema: Schema, query: int, frames: Iterable[pl.DataFrame]) -> list[Batch]:
        """One query's rows of the group's results, with the query's own columns."""
        shift = int(group.lifted.expanded)
        columns = {value_column(index + shift): value_column(index) for index in range(len(schema))}
        columns |= {name: name for name in (START, END, WEIGHT)}
        find = rows_of_query if group.lifted.expanded else _wanted_rows
        found = ((frame, find(frame, query)) for frame in frames)
        return [taken(frame, columns, rows) for frame, rows in found if rows.size]


def _wanted_rows(frame: pl.DataFrame, query: int) -> Positions:
    return np.flatnonzero(wanted_by(frame, query))


def _always(schema: Schema, queries: pl.Series) -> Batch:
    """A row of NULLs for each query, from instant 0 on."""
    nulls = (pl.lit(None, to_polars(f.type)).alias(value_column(i + 1)) for i, f in enumerate(schema[1:]))
    times = (pl.lit(value, pl.Int64).alias(name) for name, value in ((START, 0), (END, INF), (WEIGHT, 1)))
    return pl.DataFrame({value_column(0): queries.cast(pl.Int64)}).with_columns(*nulls, *times)
