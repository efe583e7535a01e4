"""Plays schedules of many queries to databases, and compares all that they say with tests/text_oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.properties.schedules import Ask, Check, Drop, Event, Register, RegisterMany, Reopen, Schedule
from tests.text_oracle.cases import Advance, Change, Insert
from tests.text_oracle.driver import create_user_code
from tests.text_oracle.evaluator import Evaluator, Query, at, changes
from tests.text_oracle.values import plain_rows
from tests.text_oracle.windows import Row
from tests.text_oracle.world import World

import millstream as ms
from millstream.queries.leaving import Leaving

Bag = Counter[Row]
_DOCUMENTED = ("strategy 'direct'", "RSTREAM would repeat", "do not say how long a tick is")


@dataclass
class Play:
    """One database, and who is registered there."""

    schedule: Schedule
    connect: Callable[[], Any]
    world: World
    alone: bool = False  # no query shares a plan, and nothing is closed
    wandering: random.Random | None = None  # by which queries leave their groups, and come back
    living: dict[str, Query] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.db: Any = self.connect()

    def declare(self) -> None:
        create_user_code(self.db)
        for text in self.schedule.definitions:
            self.db.execute(text)
        if self.alone:
            self.db.execute("SET sharing = 'off'")

    def perform(self, event: Event) -> None:
        match event:
            case Insert():
                self.db.insert(event.stream, [(*row, instant) for row, instant in event.rows])
            case Advance():
                self.db.advance(event.stream, to=event.to)
            case Change():
                self.db.execute(event.text.cql)
            case Register():
                if not self.alone:
                    self.db.execute(f"SET sharing = '{event.sharing}'")
                for name, query in event.queries:
                    self._register(name, query, event.mode)
            case RegisterMany():
                self._register_many(event)
            case Drop():
                for name in event.names:
                    if name in self.living:
                        self.db.query(name).drop()
                        del self.living[name]
                        self.failed.discard(name)
            case Ask():
                for name in event.names:
                    self._ask(name)
            case Reopen():
                if not self.alone:
                    self.db.close()
                    self.db = self.connect()
            case Check():
                if not self.alone:
                    self.check()
        if self.wandering is not None:
            self._wander(self.wandering)

    def _wander(self, dice: random.Random) -> None:
        replanning, notifier = self.db._queries.replanning, self.db.engine.notifier
        leaving = replanning.leaving
        for query in self.db.queries():
            if dice.random() < 0.4 and leaving.leave(query, "told to", weighed=False):
                notifier.wait_until(partial(_is_over, leaving, query), 60)
                assert _is_over(leaving, query)
        if dice.random() < 0.3:
            leaving._left.clear()
            for group in [*self.db.engine.groups]:
                replanning.gather(group)

    def _register(self, name: str, query: Query, mode: str) -> None:
        try:
            self.db.register(query.text.cql, name=name, mode=mode)
        except ms.NotSupportedError:
            return
        except ms.BindError as error:
            if not any(reason in str(error) for reason in _DOCUMENTED):
                raise
            return
        except ms.EvaluationError:  # of what is there already
            assert self._will_fail(query), f"{name} was refused"
            return
        self.living[name] = query

    def _register_many(self, event: RegisterMany) -> None:
        if self.alone:
            for name, query in event.queries:
                self._register(name, query, "eager")
            return
        names = [name for name, _ in event.queries]
        try:
            self.db.register_many(event.template, list(event.rows), names, event.mode, template=event.name)
        except ms.EvaluationError:
            assert any(self._will_fail(query) for _, query in event.queries), f"{names} were refused"
            known = {query.name for query in self.db.queries()}
            self.living.update((name, query) for name, query in event.queries if name in known)
            return
        self.living.update(event.queries)

    # What it says

    def check(self) -> None:
        same("names", sorted(query.name for query in self.db.queries()), sorted(self.living))
        for name, query in self.living.items():
            try:
                if not self._has_failed(name, query):
                    self._check(name, query)
            except ms.Error as error:
                raise AssertionError(f"{name} ({query.text.cql}): {error}") from error
        self._check_together()
        for template in self.db.templates():
            self._check_template(template)

    def _ask(self, name: str) -> None:
        query = self.living.get(name)
        if query is not None and not self._has_failed(name, query):
            self.db.query(name).result()

    def _final(self, query: Query) -> int:
        return self.world.final(query.reads)

    def _has_failed(self, name: str, query: Query) -> bool:
        registered, final = self.db.query(name), self._final(query)
        registered.wait()
        error = registered.error
        if not query.can_fail:
            same(f"whether {name} has failed ({query.text.cql})", error, None)
            return False
        right = name in self.failed or (final >= 0 and Evaluator(self.world, final).first_failure(query) is not None)
        if error is not None and not right:
            right = self._will_fail(query)
        same(f"whether {name} has failed ({error}; {query.text.cql})", error is not None, right)
        if right:
            self.failed.add(name)
        return right

    def _will_fail(self, query: Query) -> bool:
        """Rows that nothing takes back may be told before their instant is final."""
        known = max(max(feed.heartbeat, feed.greatest) for feed in self.world.feeds.values())
        return query.can_fail and known >= 0 and Evaluator(self.world, known).first_failure(query) is not None

    def _check(self, name: str, query: Query) -> None:
        registered, final = self.db.query(name), self._final(query)
        registered.wait()
        what = f"{name} ({query.text.cql})"
        same(f"final of {what}", registered.final, None if final < 0 else final)
        if final < 0:
            return
        evaluator, is_stream = Evaluator(self.world, final), registered.kind == "stream"
        if is_stream:
            elements = evaluator.elements(query, query.operator or "ISTREAM")
            net: Bag = Counter()
            for element in elements:
                net[element.instant, *element.row] += 1
        else:
            pieces = evaluator.relation(query)
            net = Counter({(t, *row): weight for (t, row), weight in changes(pieces).items()})
        found: Bag = Counter()
        rows = rows_of(registered.changes())
        for instant, weight, *row in rows:
            found[instant, *row] += weight
        same(f"changes of {what}", found, net)
        same(f"order of changes of {what}", [row[0] for row in rows], sorted(row[0] for row in rows))
        for instant in sorted({0, final // 2, final}):
            answer = Counter(rows_of(registered.result(at=instant)))
            if is_stream:
                right = Counter((e.instant, *e.row) for e in elements if e.instant <= instant)
            else:
                right = at(pieces, instant)
            same(f"result of {what} at {instant}", answer, right)

    def _check_together(self) -> None:
        """What many say at once is what each says."""
        alike: dict[Any, list[str]] = {}
        for name in self.living:
            registered = self.db.query(name)
            if name not in self.failed and registered.final is not None:
                alike.setdefault((registered.kind, tuple(registered.schema)), []).append(name)
        for names in alike.values():
            single: Bag = Counter()
            for name in names:
                single.update((name, *row) for row in rows_of(self.db.query(name).result()))
            queries = [self.db.query(name) for name in names]
            same(f"results of {names}", Counter(rows_of(self.db.results(queries))), single)
            instant = min(query.final for query in queries) // 2
            single = Counter((q.name, *row) for q in queries for row in rows_of(q.result(instant)))
            same(f"results of {names} at {instant}", Counter(rows_of(self.db.results(queries, instant))), single)

    def _check_template(self, template: Any) -> None:
        """What the queries of a template say together is what each says."""
        queries = [query for query in template if query.name not in self.failed]
        same(f"who has failed of {template.name}", {*template.failed}, {q.name for q in template} & self.failed)
        final = queries[0].final if queries else None
        if final is None:
            return
        hidden = [f"_p{number}" for number in range(1, len(template.parameters) + 1)]
        for instant in (None, *sorted({0, final // 2, final})):
            found = rows_of(template.result(instant).drop_columns(hidden))
            single = Counter((q.name, *row) for q in queries for row in rows_of(q.result(instant)))
            same(f"result of {template} at {instant}", Counter(found), single)
        for since in (None, final // 2):
            found = rows_of(template.changes(since).drop_columns(hidden))
            single = Counter((q.name, *row) for q in queries for row in rows_of(q.changes(since)))
            same(f"changes of {template} since {since}", Counter(found), single)


def _is_over(leaving: Leaving, query: ms.Query) -> bool:
    return not leaving.is_leaving(query)


def play(
    schedule: Schedule, connect: Callable[[], Any], wandering: random.Random | None = None, *, beside: bool = False
) -> None:
    """With `beside`, another database hears the same, in which no query shares anything."""
    world = world_of(schedule)
    plays = [Play(schedule, connect, world, wandering=wandering)]
    if beside:
        plays.append(Play(schedule, lambda: ms.connect(engine="inprocess"), world, alone=True))
    try:
        for one in plays:
            one.declare()
        perform(plays, world, schedule.events)
        for one in plays:
            one.check()
    except Exception as error:
        error.add_note(str(schedule))
        raise
    finally:
        for one in plays:
            one.db.close()
        world.close()


def play_seed(seed: int, schedule: Schedule, path: Path) -> None:
    """In process, in a directory where the schedule needs one; in every third case beside one without sharing."""
    place = path / "db" if schedule.needs_directory else None
    try:
        play(schedule, lambda: ms.connect(place, engine="inprocess"), beside=seed % 3 == 0)
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise


def perform(plays: Sequence[Play], world: World, events: Sequence[Event]) -> None:
    for event in events:
        notify(world, event)
        for one in plays:
            one.perform(event)


def world_of(schedule: Schedule) -> World:
    world = World()
    for stream in schedule.streams:
        stream.elements.clear()
        stream.numbers.clear()
        stream.heartbeat = stream.greatest = -1
        stream.arrived = 0
        world.add_stream(stream)
    for table in schedule.tables:
        table.versions.clear()
        world.add_table(table)
    return world


def notify(world: World, event: Event) -> None:
    match event:
        case Insert():
            world.insert(event.stream, event.rows)
        case Advance():
            world.advance(event.stream, event.to)
        case Change():
            world.change(event.table, event.text.duck)


def rows_of(table: pa.Table) -> list[Row]:
    return plain_rows(zip(*(column.to_pylist() for column in table.columns), strict=True))


def same(what: str, found: object, right: object) -> None:
    if found == right:
        return
    if isinstance(found, Counter) and isinstance(right, Counter):
        missing = [(row, n - found[row]) for row, n in right.items() if n > found[row]]
        surplus = [(row, n - right[row]) for row, n in found.items() if n > right[row]]
        raise AssertionError(f"{what}\n  missing: {missing[:12]}\n  surplus: {surplus[:12]}")
    raise AssertionError(f"{what}: {found}, not {right}")
