"""Runs a case on the engine and on the oracle side by side, and compares all answers after every step."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
from tests.oracle import Oracle
from tests.properties.cases import Action, Advance, Case, Change, Drop, Insert, Register, Row

import millstream as ms
from millstream.database import Database

Connect = Callable[[], AbstractContextManager[Database]]
Bag = Counter[Row]


def in_process() -> Database:
    return ms.connect(engine="inprocess")


def check_case(case: Case, connect: Connect = in_process, mode: str = "eager") -> None:
    """The engine says what the oracle says, step by step, with all queries in one mode."""
    with connect() as db:
        both = SideBySide(db, case.probes, mode)
        both.define(case.definitions)
        for step, action in enumerate(case.actions):
            both.perform(action)
            both.check_step(step)
        both.check_end()


def outcome(case: Case, connect: Connect = in_process) -> dict[str, object]:
    """What the engine alone says in the end: of queries the kind, the final instant and all changes; of streams how
    many rows were accepted and late."""
    taken: Counter[str] = Counter()
    names: set[str] = set()
    with connect() as db:
        for text in case.definitions:
            db.execute(text)
        for action in case.actions:
            match action:
                case Insert():
                    result = db.insert(action.stream, action.rows)
                    taken[f"{action.stream} accepted"] += result.accepted
                    taken[f"{action.stream} late"] += result.late
                case Advance():
                    db.advance(action.stream, to=action.to)
                case Change():
                    _refused(db, action)
                case Register() if _registered(db, action):
                    names.add(action.query)
                case Drop() if action.query in names:
                    db.query(action.query).drop()
        answers = {query.name: (query.kind, query.final, Counter(_rows(query.changes()))) for query in db.queries()}
    return {**taken, **answers}


class SideBySide:
    def __init__(self, db: Database, probes: tuple[int, ...], mode: str = "eager") -> None:
        self.db, self.oracle, self.probes, self.mode = db, Oracle(), probes, mode
        self.queries: dict[str, str] = {}

    def define(self, definitions: Iterable[str]) -> None:
        for text in definitions:
            self.oracle.execute(text)
            self.db.execute(text)

    def perform(self, action: Action) -> None:
        match action:
            case Insert():
                right = self.oracle.insert(action.stream, action.rows)
                found = self.db.insert(action.stream, action.rows)
                _same(f"{action}\n(accepted, late)", (found.accepted, found.late), tuple(right))
            case Advance():
                self.oracle.advance(action.stream, to=action.to)
                self.db.advance(action.stream, to=action.to)
            case Change():
                _same(f"{action}\nrefused", _refused(self.db, action), _refused(self.oracle, action))
            case Register() if _registered(self.db, action, self.mode):
                self.oracle.execute(str(action))
                self.queries[action.query] = action.text
                self._check_query(action.query)
            case Drop() if action.query in self.queries:
                self.oracle.execute(str(action))
                self.db.query(action.query).drop()
                del self.queries[action.query]

    def check_step(self, step: int) -> None:
        """Cheaply: what is final, and by turns the changes and the answer there."""
        for name in self.queries:
            self._check_final(name)
            final = self.oracle.final(name)
            if step % 2:
                probe = self.probes[step % len(self.probes)]
                self._check_changes(name, probe % (final + 1) if final >= 0 else None)
            else:
                self._check_result(name, None)

    def check_end(self) -> None:
        for name, text in self.queries.items():
            self._check_query(name)
            if self.probes[0] % 3 == 0:  # planning costs more than the rest
                table = self.db.execute(text).table
                _same(f"{text}\nad hoc", _bag(table), self._as_rows(name, self.oracle.now(name)))

    def _check_query(self, name: str) -> None:
        query = self.db.query(name)
        _same(f"kind of {name}", query.kind, self.oracle.kind(name))
        _same(f"columns of {name}", tuple(query.schema.names), self.oracle.columns(name))
        self._check_final(name)
        self._check_changes(name, None)
        final = self.oracle.final(name)
        for instant in {probe % (final + 1) for probe in self.probes} | {final} if final >= 0 else ():
            self._check_result(name, instant)

    def _check_final(self, name: str) -> None:
        final = self.oracle.final(name)
        right = None if final < 0 else self.oracle.timestamp(name, final)
        _same(f"final instant of {name}", _plain(self.db.query(name).final), right)

    def _check_result(self, name: str, at: int | None) -> None:
        if at is None:
            right = self.oracle.now(name)
        elif self.oracle.kind(name) == "stream":
            right = self.oracle.elements(name, at)
        else:
            right = self.oracle.relation(name, at)
        _same(f"result of {name} at {at}", _bag(self.db.query(name).result(at=at)), self._as_rows(name, right))

    def _check_changes(self, name: str, since: int | None) -> None:
        found = _rows(self.db.query(name).changes(since=since))
        _same(f"order of the changes of {name}", [row[0] for row in found], sorted(row[0] for row in found))
        net = self.oracle.changes(name, since)
        right = Counter((self.oracle.timestamp(name, ts), weight, *row) for (ts, row), weight in net.items())
        _same(f"changes of {name} since {since}", Counter(found), right)

    def _as_rows(self, name: str, bag: Counter[Any]) -> Bag:
        """Elements of streams with their timestamps in front."""
        if self.oracle.kind(name) == "relation":
            return Counter(bag)
        return Counter({(self.oracle.timestamp(name, ts), *row): count for (ts, row), count in bag.items()})


def _registered(db: Database, action: Register, mode: str = "eager") -> bool:
    """All queries can be; only the strategy `direct` may be refused."""
    try:
        db.register(action.text, name=action.query, mode=mode)
    except ms.BindError as error:
        if "strategy 'direct'" not in str(error):
            raise
        return False
    return True


def _refused(subject: Database | Oracle, change: Change) -> bool:
    try:
        subject.execute(change.text)
    except ms.Error:
        return True
    return False


def _same(what: str, found: object, right: object) -> None:
    if found == right:
        return
    if isinstance(found, Counter) and isinstance(right, Counter):
        missing, surplus = (sorted(bag.elements(), key=repr) for bag in (right - found, found - right))
        raise AssertionError(f"{what}\n  missing: {missing}\n  surplus: {surplus}")
    raise AssertionError(f"{what}: {found}, not {right}")


def _bag(table: pa.Table | None) -> Bag:
    return Counter(_rows(table))


def _rows(table: pa.Table | None) -> list[Row]:
    assert table is not None
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    """As the oracle has it: one NaN for all, timestamps in UTC without saying so."""
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value
