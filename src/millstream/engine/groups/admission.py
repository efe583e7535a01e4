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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.task import EpochOutcome, StateNames
from millstream.engine.history.past import by_beginning, common
from millstream.errors import EvaluationError, StateError, told
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_column
from millstream.kernel.keys import Positions
from millstream.kernel.operator import EVERYWHERE, Operator, Segment, State
from millstream.kernel.pending_errors import PENDING
from millstream.kernel.pipeline import Pipeline
from millstream.kernel.relational.failures import counting_from
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.by_query import rows_of_query, taken
from millstream.kernel.sharing.lineage import wanted_by
from millstream.kernel.sharing.parameters import QUERY
from millstream.plan import physical as ph
from millstream.plan.grouping import Lifted, Shape, Split, lift
from millstream.plan.lowering.lower import Lowering, Options
from millstream.state.snapshot import Names, Snapshot, state_names
from millstream.state.store import Writer
from millstream.types import Schema, to_polars

if TYPE_CHECKING:
    from millstream.engine.engine import Engine

TABLE = f"{EVERYWHERE}queries/"  # the queries that take part, by shape
WAITING = "waiting/queries/"
FAILED = "failed/queries/"
_REMEMBERED = 10_000
Rows = Mapping[str, pl.DataFrame]  # of the query table, by shape


@dataclass(eq=False)
class Group:
    """The queries of one skeleton. `selection` is the step that selects for all of them, `above` what reads it."""

    split: Split
    key: Expression | None
    options: Options
    shapes: dict[str, Shape] = field(default_factory=dict)
    following: int = 0  # the number of the next query
    filling: set[int] = field(default_factory=set)  # queries whose past is worked through in the background
    lifted: Lifted = field(init=False)
    edge: str = field(init=False)
    selection: str = field(init=False)
    pipeline: Pipeline = field(init=False)

    def __post_init__(self) -> None:
        self._lower()

    def add(self, shape: Shape) -> None:
        if shape.name not in self.shapes:
            self.shapes[shape.name] = shape
            self._lower()

    def _lower(self) -> None:
        conditions = {name: shape.condition for name, shape in self.shapes.items()}
        self.lifted = lift(self.split, self.key, conditions)
        lowering = Lowering(self.lifted.plan, self.options)
        self.edge, self.selection = lowering.edge, lowering.selection
        self.pipeline = Pipeline(tuple(lowering.steps.values()))

    def another_pipeline(self) -> Pipeline:
        """The same, for another thread: selections remember what they made of their query tables."""
        return Pipeline(tuple(Lowering(self.lifted.plan, self.options).steps.values()))

    @property
    def above(self) -> set[str]:
        """The selection and the steps that read it: what is the group's own."""
        found = {self.selection}
        for step in self.pipeline.steps:
            if found.intersection(step.inputs):
                found.add(step.name)
        return found

    @property
    def query_rows(self) -> ph.QueryRows | None:
        return next((node for node in self.lifted.plan.walk() if isinstance(node, ph.QueryRows)), None)


class Groups:
    """The groups of an engine; all is done under the engine's lock."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
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
            self._engine.add_query_rows(rows.group, rows.schema)

    def attach(self, group: Group) -> None:
        """Go on with a group of which the snapshot holds the state."""
        if self.tables(group, TABLE):
            self._engine.pipeline = self._engine.pipeline.replacing(group.pipeline.steps)

    def kept_under(self, selection: str) -> dict[str, pl.DataFrame]:
        """The rows of the query tables that a selection of this name has, by shape, whether there is such a group now
        or not."""
        frames: dict[str, list[pl.DataFrame]] = {}
        for synopsis, names in query_tables(self._engine.snapshot.states.get(selection, {})).items():
            frames.setdefault(_shape_of(synopsis), []).extend(map(self._engine.store.read, names))
        return {shape: pl.concat(found) for shape, found in frames.items()}

    def move(self, selection: str, edge: str, group: Group, chosen: pl.Expr, catalog: tuple[Any, ...]) -> None:
        """Let queries that another version kept under other names wait to be let in here. What is left there is
        forgotten when nobody is moved any more."""
        snapshot = self._engine.snapshot
        tables = query_tables(snapshot.states.get(group.selection, {}))
        with self._engine.store.file("queries") as writer:
            for shape, rows in self.kept_under(selection).items():
                own = rows.filter(chosen)
                if own.height:
                    tables[WAITING + shape] = (*tables.get(WAITING + shape, ()), writer.write(own))
        # What was made under the other names is of no use, even where some of them are the same.
        states = {step: names for step, names in snapshot.states.items() if step not in group.above}
        states[selection] = query_tables(snapshot.states.get(selection, {}))
        results = {key: names for key, names in snapshot.results.items() if key not in (edge, group.edge)}
        queries = {**snapshot.queries, group.edge: max(self.next_query(group), snapshot.queries.get(edge, 0))}
        failures = {key: said for key, said in snapshot.failures.items() if key.partition("#")[0] != group.edge}
        states[group.selection] = tables
        changes: dict[str, Any] = {"states": states, "results": results, "queries": queries, "failures": failures}
        self._engine.commit(replace(snapshot, catalog=catalog, **changes))

    # The query tables

    def tables(self, group: Group, *kinds: str) -> dict[str, pl.DataFrame]:
        """The rows of the query tables of some kinds, by shape."""
        kinds = kinds or (TABLE, WAITING, FAILED)
        frames: dict[str, list[pl.DataFrame]] = {}
        for (edge, shape), held in [*self._held.items()]:
            if edge == group.edge and WAITING in kinds:
                frames[shape] = list(held)
        for synopsis, names in self._engine.snapshot.states.get(group.selection, {}).items():
            kind = next((kind for kind in kinds if synopsis.startswith(kind)), None)
            if kind is not None:
                frames.setdefault(synopsis.removeprefix(kind), []).extend(map(self._engine.store.read, names))
        return {shape: pl.concat(found) for shape, found in frames.items()}

    def table(self, group: Group, shape: Shape) -> pl.DataFrame:
        """All rows of the query table of a shape."""
        return self.tables(group)[shape.name]

    def next_query(self, group: Group) -> int:
        return max(self._engine.snapshot.queries.get(group.edge, 0), group.following)

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
        states, queries = dict(snapshot.states), dict(snapshot.queries)
        with self._engine.store.file("queries") as writer:
            for (edge, shape), held in self._held.items():
                group = self._groups.get(edge)
                if group is not None:  # else it was closed meanwhile
                    tables = dict(states.get(group.selection, {}))
                    tables[WAITING + shape] = (*tables.get(WAITING + shape, ()), writer.write(pl.concat(held)))
                    states[group.selection], queries[edge] = tables, group.following
        return replace(snapshot, states=states, queries=queries)

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def release(self) -> None:
        """What was held is committed."""
        self._held.clear()

    def without(self, group: Group, queries: Iterable[int]) -> Snapshot:
        """The snapshot without some queries of a group; the caller commits it. Their rows stay until they expire, and
        are nobody's: numbers are not used again."""
        self._engine.keep_held()
        return self._without(group, queries, self._engine.snapshot)

    def _without(self, group: Group, queries: Iterable[int], snapshot: Snapshot) -> Snapshot:
        gone = pl.Series(list(queries), dtype=pl.Int64)
        states = dict(snapshot.states.get(group.selection, {}))
        for synopsis, names in query_tables(states).items():
            states[synopsis] = tuple(kept for name in names for kept in self._filtered(name, gone))
        forgotten = {failure_key(group.edge, query) for query in gone}
        failures = {step: told for step, told in snapshot.failures.items() if step not in forgotten}
        kept = {synopsis: names for synopsis, names in states.items() if names}
        return replace(snapshot, states={**snapshot.states, group.selection: kept}, failures=failures)

    def _filtered(self, name: str, gone: pl.Series) -> Names:
        rows = self._engine.store.read(name)
        kept = rows.filter(~rows[QUERY].is_in(gone.implode()))
        if kept.height == rows.height:
            return (name,)
        if not kept.height:
            return ()
        with self._engine.store.file("queries") as writer:
            return (writer.write(kept),)

    def close(self, group: Group) -> None:
        """The last query is gone."""
        self._groups.pop(group.edge, None)
        self._known.clear()

    # Letting queries in

    def let_in(self, group: Group | None = None) -> None:
        """Let all that wait take part, of one group or of all; those with a long past once that was worked through."""
        for each in [group] if group is not None else self:
            if self.is_waited_for(each) and not self.hand_over(each):
                self._engine.keep_held()
                for rows in self.by_past(each, self.waiting(each)):
                    self._let_in(each, rows)

    def hand_over(self, group: Group) -> bool:
        """Have the past of those that wait worked through in the background, where it is long."""
        backfills = self._engine.backfills
        waiting = self.waiting(group)
        if not backfills.is_due(group.pipeline, waiting):
            return False
        group.filling |= numbers_of(waiting)
        backfills.add_group(group)
        return True

    def is_waited_for(self, group: Group) -> bool:
        """Whether queries of a group wait to be let in that nobody is busy with."""
        kept = self._engine.snapshot.states.get(group.selection, {})
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
        pasts = self._engine.pasts_of(group.edge, sorted(numbers_of(rows)))
        return [only_queries(rows, queries) for queries in by_beginning(pasts)]

    def _let_in(self, group: Group, rows: Rows) -> None:
        """Commits for each part of the rows that can be let in at once; a query that fails is kept as failed."""
        names = self.written(rows)
        outcome = self._run(group, rows, names)
        if not outcome.failures:
            self._take_over(group, names, rows, outcome)
            return
        self._engine.sweep([*outcome.names(), *state_names({"": names})])
        step, error = next(iter(outcome.failures.items()))
        if step not in group.above or sum(frame.height for frame in rows.values()) == 1:
            self.fail(group, rows, error)
            return
        for half in halves(rows):
            self._let_in(group, half)

    def written(self, rows: Rows) -> dict[str, Names]:
        with self._engine.store.file("queries") as writer:
            return {TABLE + shape: (writer.write(frame),) for shape, frame in rows.items()}

    def _run(self, group: Group, rows: Rows, names: Mapping[str, Names]) -> EpochOutcome:
        """The group's plan over the kept history for these queries alone; what is above the selection has the state of
        all the others too."""
        engine, arrived = self._engine, self.query_rows(group, rows)
        pasts = engine.pasts_of(group.edge, numbers_of(rows)).values()
        pipeline = counting_from(group.pipeline, max(past.counted for past in pasts))
        frontiers, snapshot = engine.frontiers(), engine.snapshot
        task = engine.history_task(pipeline, group.edge, frontiers, snapshot, rows, common(pasts))
        task = replace(task, arrived={**task.arrived, **arrived})
        if not any(task.arrived.values()):
            return EpochOutcome()  # nothing has ever come
        above = group.above
        states = {step: synopses for step, synopses in engine.snapshot.states.items() if step in above}
        outcome = engine.runner.run(
            replace(
                task,
                states={**states, group.selection: names},
                settled=frozenset({*above, *arrived}),
            )
        )
        engine.store.sweep([part.name for parts in arrived.values() for part in parts], ())
        return outcome

    def query_rows(self, group: Group, rows: Rows) -> dict[str, tuple[Part, ...]]:
        """What the query table says as a source, where the plan reads it as one."""
        always = group.query_rows
        if always is None:
            return {}
        batch = _always(always.schema, pl.concat([frame[QUERY] for frame in rows.values()]))
        with self._engine.store.file("queries") as writer:
            return {always.group: (Part("rows", writer.write(batch), batch.height, always.schema),)}

    def publish(self, group: Group, rows: Rows, states: StateNames, results: Names) -> None:
        """Let queries take part whose past was worked through elsewhere, up to the committed snapshot. What the group
        holds for the others and for them has no key in common, and is put together."""
        engine, snapshot = self._engine, self._engine.snapshot
        above = group.above - {group.selection}
        known = {step.name for step in engine.pipeline.steps} - above
        made = {step: names for step, names in states.items() if step not in known | {group.selection}}
        with engine.store.file("queries") as writer:
            for step in group.pipeline.steps:
                if step.name in above and step.name in made and step.name in snapshot.states:
                    both = snapshot.states[step.name], made[step.name]
                    made[step.name] = self._united(step.operator, *both, writer)
        made[group.selection] = states.get(group.selection, {})
        outcome = EpochOutcome(made, {group.edge: results} if results else {})
        self._take_over(group, self.written(rows), rows, outcome)

    def _united(
        self, operator: Operator, one: Mapping[str, Names], other: Mapping[str, Names], writer: Writer
    ) -> dict[str, Names]:
        return self._by_shard(lambda states: operator.united(*states), (one, other), writer)

    def only_of(self, group: Group, states: StateNames, queries: Iterable[int]) -> StateNames:
        """What the selection of a group and the steps above it hold for some of its queries."""
        wanted = pl.Series(list(queries), dtype=pl.Int64)
        above, states = group.above, dict(states)
        states[group.selection] = _awaited(states.get(group.selection, {}))
        with self._engine.store.file("queries") as writer:
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
                        segments = [self._engine.store.read(name) for name in names]
                        named.update((id(s), (name, s)) for s, name in zip(segments, names, strict=True))
                        state[key.removeprefix(f"{shard}/")] = tuple(segments)
                return state

            for synopsis, segments in made_of([*map(loaded, kept)]).items():
                names = tuple(named[id(s)][0] if id(s) in named else writer.write(s) for s in segments if s.height)
                if names:
                    found[f"{shard}/{synopsis}"] = names
        return found

    def _take_over(self, group: Group, names: Mapping[str, Names], rows: Rows, outcome: EpochOutcome) -> None:
        engine, snapshot = self._engine, self._engine.snapshot
        tables = dict(snapshot.states.get(group.selection, {}))
        for table, new in [*names.items(), *_awaited(outcome.states.get(group.selection, {})).items()]:
            tables[table] = (*tables.get(table, ()), *new)
        tables = self._not_waiting(group, tables, rows)
        above = group.above - {group.selection}
        # Of what the selection reads, steps that have been there all along have their state already.
        known = {step.name for step in engine.pipeline.steps} - above
        states = {step: synopses for step, synopses in outcome.states.items() if step not in known}
        results = outcome.results.get(group.edge, ())
        engine.pipeline = engine.pipeline.replacing(group.pipeline.steps)
        engine.commit(
            replace(
                snapshot,
                epoch=snapshot.epoch + 1,
                states={**snapshot.states, **states, group.selection: tables},
                results={**snapshot.results, group.edge: (*snapshot.results.get(group.edge, ()), *results)},
            )
        )
        engine.has_seen(group.edge, numbers_of(rows))
        engine.sweep([*outcome.names(), *state_names({"": names})])

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
        engine, snapshot = self._engine, self._engine.snapshot
        tables = self._not_waiting(group, snapshot.states.get(group.selection, {}), rows)
        failures = dict(snapshot.failures)
        with engine.store.file("queries") as writer:
            for shape, frame in rows.items():
                tables[FAILED + shape] = (*tables.get(FAILED + shape, ()), writer.write(frame))
                failures |= {failure_key(group.edge, query): told(error) for query in frame[QUERY]}
        engine.commit(replace(snapshot, states={**snapshot.states, group.selection: tables}, failures=failures))
        engine.has_seen(group.edge, numbers_of(rows))

    def taking_part(self, group: Group) -> list[int]:
        """The queries that take part."""
        return [query for table in self.tables(group, TABLE).values() for query in table[QUERY]]

    def stop(self, group: Group, errors: Mapping[int, EvaluationError]) -> None:
        """Put queries aside that take part, each with its error."""
        self._engine.keep_held()
        self._engine.commit(self.put_aside(group, errors, self._engine.snapshot))

    def put_aside(self, group: Group, errors: Mapping[int, EvaluationError], snapshot: Snapshot) -> Snapshot:
        """The snapshot in which some queries that take part have failed, each with its error."""
        gone = pl.Series(list(errors), dtype=pl.Int64)
        stopped = {
            shape: rows.filter(rows[QUERY].is_in(gone.implode())) for shape, rows in self.tables(group, TABLE).items()
        }
        snapshot = self._without(group, errors, snapshot)
        tables, failures = dict(snapshot.states.get(group.selection, {})), dict(snapshot.failures)
        with self._engine.store.file("queries") as writer:
            for shape, rows in stopped.items():
                if rows.height:
                    tables[FAILED + shape] = (*tables.get(FAILED + shape, ()), writer.write(rows))
        failures |= {failure_key(group.edge, query): told(error) for query, error in errors.items()}
        return replace(snapshot, states={**snapshot.states, group.selection: tables}, failures=failures)

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


def query_tables(synopses: Mapping[str, Names]) -> dict[str, Names]:
    """What a step keeps beside its shards' state: the query tables of its group."""
    return {name: names for name, names in synopses.items() if name.startswith((TABLE, WAITING, FAILED))}


def _shape_of(synopsis: str) -> str:
    return synopsis.removeprefix(TABLE).removeprefix(WAITING).removeprefix(FAILED)


def _awaited(synopses: Mapping[str, Names]) -> dict[str, Names]:
    """What a selection holds of errors that are to come."""
    return {name: names for name, names in synopses.items() if name == EVERYWHERE + PENDING}


def failure_key(edge: str, query: int) -> str:
    return f"{edge}#{query}"


def _wanted_rows(frame: pl.DataFrame, query: int) -> Positions:
    return np.flatnonzero(wanted_by(frame, query))


def _always(schema: Schema, queries: pl.Series) -> Batch:
    """A row of NULLs for each query, from instant 0 on."""
    nulls = (pl.lit(None, to_polars(f.type)).alias(value_column(i + 1)) for i, f in enumerate(schema[1:]))
    times = (pl.lit(value, pl.Int64).alias(name) for name, value in ((START, 0), (END, INF), (WEIGHT, 1)))
    return pl.DataFrame({value_column(0): queries.cast(pl.Int64)}).with_columns(*nulls, *times)


def numbers_of(rows: Rows) -> set[int]:
    """The queries of rows of query tables."""
    return {query for frame in rows.values() for query in frame[QUERY]}


def only_queries(rows: Rows, queries: Iterable[int]) -> Rows:
    wanted = pl.Series(list(queries), dtype=pl.Int64).implode()
    found = ((shape, frame.filter(frame[QUERY].is_in(wanted))) for shape, frame in rows.items())
    return {shape: frame for shape, frame in found if frame.height}


def halves(rows: Rows) -> list[Rows]:
    """The queries in two halves."""
    half = sum(frame.height for frame in rows.values()) // 2
    first: dict[str, pl.DataFrame] = {}
    second: dict[str, pl.DataFrame] = {}
    for shape, frame in rows.items():
        taken = min(half, frame.height)
        half -= taken
        for part, into in ((frame[:taken], first), (frame[taken:], second)):
            if part.height:
                into[shape] = part
    return [first, second]
