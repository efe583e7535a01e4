"""Tells Millstream a case through its public interface, and compares all that it says with the evaluator.

This is the one file here that imports Millstream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from tests.text_oracle.cases import Advance, Case, Change, Insert, Register, Reopen, Step
from tests.text_oracle.evaluator import Evaluator, Query, at, changes
from tests.text_oracle.kinds import Text
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
        for text in case.definitions:
            self._told(lambda text=text: self.db.execute(text))
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
            self._follow()
        for name in self.delivered:
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
                self.world.change(step.table, step.text.duck)
                self._told(lambda: self.db.execute(step.text.cql))
            case Register():
                for name in step.names:
                    text = self.case.queries[name].text.cql
                    query = self._told(
                        lambda name=name, text=text: self.db.register(text, name=name, mode=self.case.mode)
                    )
                    _same(f"notices of {name}", list(query.notices), [])
                    self.delivered[name], self.followed[name] = [], []
                for name in step.names:
                    self._attach(name)
                    self._check(name, sums=False)
            case Reopen():
                self.db.close()
                self.db = self.connect()
                for name in self.delivered:
                    self._attach(name)

    def _attach(self, name: str) -> None:
        self.db.create_sink(f"k_{name}", name, lambda _, table: self.delivered[name].append(table))

    def _follow(self) -> None:
        """Take what has become final since the last time, as a client that comes back does."""
        for name, seen in self.followed.items():
            since = seen[-1]["_ts"][-1].as_py() if seen else None
            seen += list(self.db.query(name).follow(since=since, timeout=0))

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
        evaluator = Evaluator(self.world, final)
        is_stream = registered.kind == "stream"
        if query.operator is not None:
            _same(f"kind of {name}", registered.kind, "stream")
        right = self._changes(evaluator, query, is_stream)
        found = _rows(registered.changes())
        _same(f"changes of {name}", Counter(found), right)
        _same(f"order of changes of {name}", [row[0] for row in found], sorted(row[0] for row in found))
        self._check_results(name, evaluator, is_stream)
        if sums:
            _same(f"what the sink of {name} got", _sum(self.delivered[name]), right_sum(right))
            _same(f"what a follower of {name} got", _sum(self.followed[name]), right_sum(right))

    def _shown(self, query: Query, instant: int) -> Any:
        """As its `_ts` has it: what reads no stream counts ticks."""
        return self.case.scale.shown(instant) if query.reads & set(self.world.streams) else instant

    def _changes(self, evaluator: Evaluator, query: Query, is_stream: bool) -> Bag:
        shown = partial(self._shown, query)
        if is_stream:
            operator = query.operator or "ISTREAM"
            elements = Counter((shown(e.instant), e.row) for e in evaluator.elements(query, operator))
            return Counter((instant, weight, *row) for (instant, row), weight in elements.items())
        net = changes(evaluator.relation(query))
        return Counter((shown(instant), weight, *row) for (instant, row), weight in net.items())

    def _check_results(self, name: str, evaluator: Evaluator, is_stream: bool) -> None:
        query, registered = self.case.queries[name], self.db.query(name)
        shown = partial(self._shown, query)
        middle = self.case.scale.instant(4)
        for instant in {evaluator.until, min(middle, evaluator.until)}:
            found = Counter(_rows(registered.result(at=shown(instant))))
            if is_stream:
                elements = evaluator.elements(query, query.operator or "ISTREAM")
                right = Counter((shown(e.instant), *e.row) for e in elements if e.instant <= instant)
            else:
                right = at(evaluator.relation(query), instant)
            _same(f"result of {name} at {shown(instant)}", found, right)

    def _check_ad_hoc(self, name: str, query: Query) -> None:
        """Asked once: it sees what is pending in tables, too."""
        final = self.world.final(query.reads)
        tables = [self.world.tables[name].last_change for name in query.reads if name in self.world.tables]
        now = max([final, *tables]) if not query.reads & set(self.world.streams) else final
        if now < 0:
            return
        evaluator = Evaluator(self.world, now)
        table = self._told(lambda: self.db.execute(query.text.cql)).table
        found = Counter(_rows(table))
        if self.db.query(name).kind == "stream":
            elements = evaluator.elements(query, query.operator or "ISTREAM")
            right = Counter((self._shown(query, e.instant), *e.row) for e in elements)
        else:
            right = at(evaluator.relation(query), now)
        _same(f"{name}, asked ad hoc", found, right)


# Of the last, a derived stream of tables only, which has no timestamps to say how long a tick is.
_DOCUMENTED = ("strategy 'direct'", "RSTREAM would repeat", "do not say how long a tick is")


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
        self.duck = World().duck
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
        self.duck.close()
