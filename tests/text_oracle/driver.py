"""Tells Millstream a case through its public interface, and compares all that it says with the evaluator.

This is the one file here that imports Millstream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from tests.text_oracle.cases import Advance, Case, Change, Insert, Register, Reopen, Step
from tests.text_oracle.evaluator import Evaluator, Query, at, begun_at, changes
from tests.text_oracle.kinds import Text
from tests.text_oracle.past import OPEN, Past, past_of
from tests.text_oracle.user_code import AGGREGATES, FUNCTIONS
from tests.text_oracle.values import plain, plain_rows
from tests.text_oracle.windows import Row
from tests.text_oracle.world import World

import millstream as ms

Bag = Counter[Row]


class Refused(Exception):
    """The case is outside of what Millstream takes, and it said so when it was told."""


def check(case: Case) -> None:
    """Whatever the settings are, the answers are those of the evaluator."""
    with TemporaryDirectory() as directory:
        path = str(Path(directory) / "db") if case.needs_directory else None
        run = Run(case, lambda: ms.connect(path, engine="inprocess"))
        try:
            run.everything()
        except AssertionError as error:
            raise AssertionError(f"{error}\n\n{case}") from None
        finally:
            run.close()


class Run:
    def __init__(self, case: Case, connect: Callable[[], Any]) -> None:
        self.case, self.connect = case, connect
        self.world = World(case.half_open)
        self.db: Any = connect()
        self.delivered: dict[str, list[pa.Table]] = {}
        self.followed: dict[str, list[pa.Table]] = {}
        self.following: dict[str, Iterator[pa.Table]] = {}
        self.failed: set[str] = set()
        self.places: dict[str, Any] = {}  # up to where followers were given everything
        self.pasts: dict[str, Past] = {}
        self.begins: dict[str, int] = {}  # the first answerable instant when a query came
        create_user_code(self.db)
        try:
            for text in case.definitions:
                self._told(partial(self.db.execute, text))
        except Refused:
            self.close()
            raise
        for stream in case.streams:
            self.world.add_stream(stream)
        for table in case.tables:
            self.world.add_table(table)

    def close(self) -> None:
        self.db.close()
        self.world.close()

    def everything(self) -> None:
        for step in self.case.steps:
            self._perform(step)
            for name in self.followed:
                if not self._has_failed(name):
                    self._follow(name)
        for name in self.delivered:
            if name not in self.failed:
                self._check(name)
        for name, query in self.case.queries.items():
            if self.case.asks_ad_hoc and name in self.delivered:
                self._check_ad_hoc(name, query)

    def _told(self, tell: Callable[[], Any]) -> Any:
        """What it refuses by a reason that its documentation gives is no case."""
        try:
            return tell()
        except ms.NotSupportedError as error:
            raise Refused(str(error)) from None
        except ms.BindError as error:
            if any(reason in str(error) for reason in _DOCUMENTED):
                raise Refused(str(error)) from None
            raise AssertionError(f"refused: {error}") from None
        except ms.EvaluationError:
            raise
        except ms.Error as error:
            raise AssertionError(f"refused: {error}") from None

    def _perform(self, step: Step) -> None:
        match step:
            case Insert():
                right = self.world.insert(step.stream, step.rows)
                rows = [self.case.told(step.stream, row, instant) for row, instant in step.rows]
                found = self.db.insert(step.stream, rows)
                _same(f"accepted and late of {step}", (found.accepted, found.late), right)
            case Advance():
                self.world.advance(step.stream, step.to)
                self.db.advance(step.stream, to=self.case.scale.shown(step.to))
            case Change():
                self._change(step)
            case Register():
                for name in step.names:
                    self._register(name)
                for name in step.names:
                    if name in self.delivered and not self._has_failed(name):
                        self._attach(name)
                        self._check(name, sums=False)
            case Reopen():
                self.db.close()
                self.db = self.connect()
                for name in self.delivered:
                    if not self._has_failed(name):
                        self._attach(name)

    def _change(self, step: Change) -> None:
        statement = self.case.statement(step)
        if step.at is None or step.at >= self.world.earliest(step.table):
            self.world.change(step.table, step.text.duck, step.at)
            self._told(lambda: self.db.execute(statement))
            return
        try:
            self.db.execute(statement)
        except ms.InputError as error:
            _same(f"why it cannot be told {statement}", "a change lies after the clock" in str(error), True)
        else:
            raise AssertionError(f"taken: {statement}")

    def _has_failed(self, name: str) -> bool:
        """Whether a query has stopped, which it has where the evaluator finds rows that it fails on."""
        query, registered = self.case.queries[name], self.db.query(name)
        if not query.can_fail:
            return False
        registered.wait()
        final = self.world.final(query.reads)
        right = name in self.failed
        if not right and final >= self.begins[name]:
            right = Evaluator(self.world, final).first_failure(query, self.begins[name]) is not None
        error = registered.error
        if error is not None and not right:
            right = self._will_fail(query, self.begins[name])
        _same(f"whether {name} has failed ({error})", error is not None, right)
        if error is not None and name not in self.failed:
            self.failed.add(name)
            self._check_failed(name, registered.result)
            self._check_failed(name, registered.changes)
            _same(f"state of {name}", registered.stats()["state"], "failed")
        return right

    def _will_fail(self, query: Query, since: int = 0) -> bool:
        """Rows that nothing takes back may be told before their instant is final, where another input is behind."""
        known = max((max(feed.heartbeat, feed.greatest) for feed in self.world.feeds.values()), default=-1)
        return Evaluator(self.world, known).first_failure(query, since) is not None

    def _check_failed(self, what: str, ask: Callable[[], Any]) -> None:
        try:
            found = ask()
        except ms.EvaluationError as error:
            _same(f"the reason of {what} ({error})", "failed on its data" in str(error), False)
        else:
            raise AssertionError(f"{what}: {found}, and it fails")

    def _register(self, name: str) -> None:
        query = self.case.queries[name]
        try:
            found = self._told(lambda: self.db.register(query.text.cql, name=name, mode=self.case.mode))
        except ms.EvaluationError as error:  # of what is there already
            right = query.can_fail and self._will_fail(query)
            _same(f"whether {name} fails at once ({error})", True, right)
            return
        past, final = past_of(self.world, query, self._operator(name)), self.world.final(query.reads)
        if past.waits:
            found.wait()  # it counts what is kept
        past = past.believed(self.world, query, self._operator(name), _of_the_past(found.notices))
        _same(f"whether {name} has notices", bool(_of_the_past(found.notices)), past.is_told(final))
        self.world.readers[name], self.pasts[name] = query.reads, past
        self.begins[name] = past.answerable(self.world, query, final)
        self.delivered[name], self.followed[name] = [], []

    def _past(self, name: str) -> Past:
        """Of what is registered, now. Where it could not be asked until enough elements had come, it begins with F."""
        past = self.pasts[name] = self.pasts[name].now(self.world, self.case.queries[name], self._operator(name))
        self.begins[name] = past.first if self.begins[name] == OPEN else self.begins[name]
        return past

    def _operator(self, name: str) -> str | None:
        """What grows only is a stream, also where nothing is written."""
        implied = "ISTREAM" if self.db.query(name).kind == "stream" else None
        return self.case.queries[name].operator or implied

    def _attach(self, name: str) -> None:
        self.db.create_sink(f"k_{name}", name, lambda _, table: self.delivered[name].append(table))

        self._hold(name)

    def _hold(self, name: str) -> None:
        """Begin to follow, which keeps a place: where the last follower was, or, as a client that comes back, with the
        last instant that was seen."""
        seen = self.followed[name]
        since = seen[-1]["_ts"][-1].as_py() if seen and not self.case.forgets else self.places.get(name)
        self.following[name] = self.db.query(name).follow(since=since, timeout=0)

    def _follow(self, name: str) -> None:
        """Take what has become final since the last time."""
        query = self.case.queries[name]
        self.db.query(name).wait()
        self.followed[name] += list(self.following[name])
        final = self.world.final(query.reads)
        self._past(name)
        if self.case.forgets and final >= max(self.begins[name], 0):
            self.places[name] = self._shown(query, final)
        self._hold(name)

    # What it says

    def _check(self, name: str, *, sums: bool = True) -> None:
        query, registered = self.case.queries[name], self.db.query(name)
        final = self.world.final(query.reads)
        registered.wait()
        _same(f"final of {name}", plain(registered.final), None if final < 0 else self._shown(query, final))
        names = list(registered.schema.names)
        _same(f"columns of {name}", names, [column.name for column in query.columns])
        if final < 0:
            return
        past = self._past(name)
        _same(f"whether {name} has notices", bool(_of_the_past(registered.notices)), past.is_told(final))
        evaluator, first = Evaluator(self.world, final, past.kept), past.answerable(self.world, query, final)
        is_stream = registered.kind == "stream"
        if query.operator is not None:
            _same(f"kind of {name}", registered.kind, "stream")
        right = self._changes(evaluator, query, is_stream, first)
        found = _rows(registered.changes())
        _same(f"changes of {name}", Counter(found), right)
        _same(f"order of changes of {name}", [row[0] for row in found], sorted(row[0] for row in found))
        self._check_results(name, evaluator, is_stream, first)
        if sums:
            if self.begins[name] != first:
                right = self._changes(evaluator, query, is_stream, self.begins[name])
            _same(f"what the sink of {name} got", _sum(self.delivered[name]), right_sum(right))
            _same(f"what a follower of {name} got", _sum(self.followed[name]), right_sum(right))

    def _shown(self, query: Query, instant: int) -> Any:
        """As its `_ts` has it: what reads no stream counts ticks."""
        return self.case.scale.shown(instant) if query.reads & set(self.world.feeds) else instant

    def _changes(self, evaluator: Evaluator, query: Query, is_stream: bool, first: int) -> Bag:
        """From an instant on, those of a relation with all that holds then."""
        shown = partial(self._shown, query)
        if is_stream:
            made = evaluator.elements(query, query.operator or "ISTREAM")
            elements = Counter((shown(e.instant), e.row) for e in made if e.instant >= first)
            return Counter((instant, weight, *row) for (instant, row), weight in elements.items())
        net = changes(begun_at(evaluator.relation(query), first)) if first <= evaluator.until else {}
        return Counter((shown(instant), weight, *row) for (instant, row), weight in net.items())

    def _check_results(self, name: str, evaluator: Evaluator, is_stream: bool, first: int) -> None:
        query, registered = self.case.queries[name], self.db.query(name)
        shown, until = partial(self._shown, query), evaluator.until
        asked = {until, min(self.case.scale.instant(4), until)}
        asked |= {first, first - 1} if self.case.forgets and first < OPEN else set()
        for instant in sorted(asked):
            if 0 <= instant < first:
                self._check_forgotten(f"result of {name} at {instant}", partial(registered.result, at=shown(instant)))
            if not first <= instant <= until:
                continue
            found = Counter(_rows(registered.result(at=shown(instant))))
            if is_stream:
                elements = evaluator.elements(query, query.operator or "ISTREAM")
                right = Counter((shown(e.instant), *e.row) for e in elements if first <= e.instant <= instant)
            else:
                right = at(evaluator.relation(query), instant)
            _same(f"result of {name} at {shown(instant)}", found, right)

    def _check_forgotten(self, what: str, ask: Callable[[], Any]) -> None:
        try:
            found = ask()
        except ms.TimeError as error:
            _same(what, "no longer kept" in str(error), True)
        else:
            raise AssertionError(f"{what}: {found}, and history is no longer kept")

    def _check_ad_hoc(self, name: str, query: Query) -> None:
        """Asked once: it sees what is pending in tables, too."""
        final = self.world.final(query.reads)
        tables = [self.world.tables[name].last_change for name in query.reads if name in self.world.tables]
        now = max([final, *tables]) if not query.reads & set(self.world.feeds) else final
        if now < 0:
            return
        past = past_of(self.world, query, self._operator(name))
        if past.first > now:
            self._check_forgotten(f"{name}, asked ad hoc", lambda: self.db.execute(query.text.cql))
            return
        if self._fails_ad_hoc(name, query, now):
            self._check_failed(f"{name}, asked ad hoc", lambda: self.db.execute(query.text.cql))
            return
        answer = self._told(lambda: self.db.execute(query.text.cql))
        past = past.believed(self.world, query, self._operator(name), _of_the_past(answer.notices))
        _same(f"whether {name}, asked ad hoc, has notices", bool(_of_the_past(answer.notices)), past.is_told(now))
        found, evaluator = Counter(_rows(answer.table)), Evaluator(self.world, now, past.kept)
        if self.db.query(name).kind == "stream" and (query.reads or query.operator):
            first = past.answerable(self.world, query, now)
            elements = evaluator.elements(query, query.operator or "ISTREAM")
            right = Counter((self._shown(query, e.instant), *e.row) for e in elements if e.instant >= first)
        else:
            right = at(evaluator.relation(query), now)
        _same(f"{name}, asked ad hoc", found, right)

    def _fails_ad_hoc(self, name: str, query: Query, now: int) -> bool:
        """Of a relation only the instant asked counts."""
        if not query.can_fail:
            return False
        since = 0 if self.db.query(name).kind == "stream" else now
        return Evaluator(self.world, now).first_failure(query, since) is not None


# Of the last, a derived stream of tables only, which has no timestamps to say how long a tick is.
_DOCUMENTED = ("strategy 'direct'", "RSTREAM would repeat", "do not say how long a tick is")


def create_user_code(db: Any) -> None:
    for name, function in FUNCTIONS.items():
        db.create_function(name, function.body, function.returns)
    for name, aggregate in AGGREGATES.items():
        db.create_aggregate(name, aggregate.body, aggregate.returns)


def _rows(table: pa.Table | None) -> list[Row]:
    assert table is not None
    columns = [[plain(value) for value in column.to_pylist()] for column in table.columns]
    return plain_rows(zip(*columns, strict=True))


def _sum(tables: list[pa.Table]) -> Bag:
    """Weights by instant and row."""
    found: Bag = Counter()
    for table in tables:
        for ts, weight, *row in _rows(table):
            found[ts, *row] += weight
    return found


def right_sum(bag: Bag) -> Bag:
    found: Bag = Counter()
    for (ts, weight, *row), count in bag.items():
        found[ts, *row] += weight * count
    return found


def _same(what: str, found: object, right: object) -> None:
    if found == right:
        return
    if isinstance(found, Counter) and isinstance(right, Counter):
        missing, surplus = (sorted(_spread(one, other), key=repr) for one, other in ((right, found), (found, right)))
        raise AssertionError(f"{what}\n  missing: {missing[:12]}\n  surplus: {surplus[:12]}")
    raise AssertionError(f"{what}: {found}, not {right}")


def _spread(one: Bag, other: Bag) -> list[tuple[Row, int]]:
    return [(row, count - other[row]) for row, count in one.items() if count > other[row]]


class Asked:
    """A stream S of some rows in Millstream, and the same rows as a table in DuckDB: texts asked once are compared."""

    def __init__(self, declared: list[tuple[str, Text]], rows: list[Row]) -> None:
        self.db: Any = ms.connect(engine="inprocess")
        create_user_code(self.db)
        self.world = World()
        self.duck = self.world.duck
        columns = [", ".join(f"{name} {kind[index]}" for name, kind in declared) for index in (0, 1)]
        self.db.execute(f"CREATE STREAM S ({columns[0]}) TIMESTAMP BY ts")
        self.db.insert("S", [(*row, instant) for instant, row in enumerate(rows)])
        self.db.advance(to=len(rows))
        self.duck.execute(f"CREATE TABLE S ({columns[1]}, _order INT)")
        marks = ", ".join("?" * (len(declared) + 1))
        self.duck.executemany(f"INSERT INTO S VALUES ({marks})", [(*row, number) for number, row in enumerate(rows)])

    def check(self, text: Text) -> None:
        right = Counter(plain_rows(self.duck.execute(text.duck).fetchall()))
        try:
            table = self.db.execute(text.cql).table
        except ms.Error as error:
            raise AssertionError(f"{text.cql}\n{error}") from None
        shown = table.select([name for name in table.column_names if name != "_ts"])
        _same(f"{text.cql}\n{text.duck}", Counter(_rows(shown)), right)

    def close(self) -> None:
        self.db.close()
        self.world.close()


def _of_the_past(notices: Sequence[str]) -> list[str]:
    """Without what is said of the text: of places in it, and of constants that have no value."""
    return [notice for notice in notices if not notice.startswith(("line ", "it fails as soon as a row comes"))]
