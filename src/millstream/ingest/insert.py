"""What comes into a database: rows, heartbeats, and the changes of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa

from millstream.catalog.objects import CatalogOfObjects, kind_of
from millstream.engine.engine import Engine
from millstream.engine.epochs import table_changes as tables
from millstream.engine.epochs.lateness import admit
from millstream.engine.epochs.parts import FILES, LATE, MALFORMED, late_key, late_rows
from millstream.errors import BindError, InputError, Place
from millstream.ingest.landed import FILE_COLUMNS, MALFORMED_COLUMNS, LandedBatch, table_parts, with_drift
from millstream.ingest.typed_rows import typed_table
from millstream.kernel.batch import WEIGHT, Batch, value_column
from millstream.kernel.scalar.value_size import first_too_long, limited_values
from millstream.language import statements as st
from millstream.language.instants import constant, instant
from millstream.language.syntax import place_of
from millstream.language.values import assignments, condition_on, insert_rows, plain_rows, positions_of
from millstream.plan.definitions import StreamDefinition, TableDefinition, TimeDomain
from millstream.state.snapshot import Catalog, SourceProgress
from millstream.types import Field, Schema


@dataclass(frozen=True)
class InsertResult:
    """How many rows an insert took, and how many of those offered were late."""

    accepted: int
    late: int = 0

    def __str__(self) -> str:
        return f"{self.accepted} accepted" + (f", {self.late} late" if self.late else "")


class Inputs:
    """Takes rows and heartbeats in, each as an epoch of its own."""

    def __init__(self, engine: Engine, catalog: CatalogOfObjects, now: Callable[[], float]) -> None:
        self.engine = engine
        self.catalog = catalog
        self._now = now

    def insert(self, target: StreamDefinition | TableDefinition, rows: Any) -> InsertResult:
        """Rows of a stream, or changes of a table that is fed by them."""
        stream = target if isinstance(target, StreamDefinition) else target.feed
        table = self._typed(rows, stream.input_columns, f"{kind_of(target)} {stream.name}")
        if isinstance(target, TableDefinition):
            table = tables.with_operations(table, target)
        key = stream.name.lower()
        with self.engine.lock:
            progress = self.by_the_clock(stream, self.engine.snapshot.progress(key))
            arrival = admit(stream, pl.DataFrame(table), progress, self.clock_tick(stream))
            clock = max(self.engine.snapshot.clock, arrival.progress.heartbeat)
            arrived, progresses = {key: self.engine.sources.part(key, arrival.accepted)}, {key: arrival.progress}
            if arrival.late.height:
                at = self.late_instant(stream, clock)
                arrived[late_key(key)] = self.engine.sources.part(late_key(key), late_rows(stream, arrival.late, at))
                progresses[late_key(key)] = replace(self.engine.snapshot.progress(late_key(key)), last_change=at)
            self.engine.epoch(arrived, progresses, clock)
        return InsertResult(arrival.accepted.height, arrival.late.height)

    def _typed(self, rows: Any, columns: Schema, owner: str) -> pa.Table:
        return typed_table(rows, columns, owner, self.engine.limits.value_bytes)

    def read_table(self, table: TableDefinition, landed: LandedBatch, catalog: Catalog) -> None:
        """A table's rows from its files, there from tick 0 on; declared by the same commit."""
        key, rejected = table.name.lower(), f"{table.name.lower()}.{MALFORMED}"
        arrived = {
            key: table_parts(landed.parts, table.columns, 0),
            rejected: table_parts(landed.malformed, MALFORMED_COLUMNS, 0),
            files_key(key): table_parts(landed.skipped, FILE_COLUMNS, 0),
        }
        count = {name: sum(part.rows for part in parts) for name, parts in arrived.items()}
        progress = SourceProgress(arrived=count[key], last_change=0, malformed=count[rejected])
        progress = with_files(progress, landed)
        with self.engine.lock:
            try:
                self.engine.epoch(arrived, {key: progress}, self.engine.snapshot.clock, catalog)
            finally:
                self.engine.runner.store.sweep(landed.segments(), ())

    def late_instant(self, stream: StreamDefinition, clock: int) -> int:
        """When elements that come too late now enter the table of those."""
        return max(clock + 1, self.engine.snapshot.progress(late_key(stream.name.lower())).last_change)

    def advance(self, streams: Iterable[StreamDefinition], to: Any, place: Place | None = None) -> None:
        with self.engine.lock:
            progress = {}
            reached = [instant(to, TimeDomain(None), place)] if isinstance(to, int) else []
            for stream in streams:
                tick = instant(to, stream.domain, place)
                current = self.engine.snapshot.progress(stream.name.lower())
                progress[stream.name.lower()] = replace(current, heartbeat=max(current.heartbeat, tick))
                reached.append(tick)
            if not reached:
                raise InputError(f"{to!r} is not an instant", hint="give a number of ticks", place=place)
            self.engine.epoch({}, progress, max(reached))

    def tick_clocks(self) -> None:
        """Streams whose timestamp is the arrival time have a heartbeat just before now; others that go by the clock,
        one that lies the delay before it."""
        for stream, tick in self._behind():
            self.advance([stream], tick)

    def ask_for_ticks(self) -> None:
        """The same for those who read."""
        if self._behind():
            self.engine.background.do(self.tick_clocks)

    def _behind(self) -> list[tuple[StreamDefinition, int]]:
        """The streams that follow the clock and are behind it, and the heartbeats that it gives them."""
        found = ((stream, self._clock_heartbeat(stream)) for stream in self.catalog.feeds())
        return [
            (stream, tick)
            for stream, tick in found
            if tick is not None and self.engine.snapshot.progress(stream.name.lower()).heartbeat < tick
        ]

    def clock_tick(self, stream: StreamDefinition) -> int | None:
        """What the clock says, where that is the timestamp of rows."""
        return self._tick_now(stream) if stream.heartbeat.kind == "CLOCK" else None

    def by_the_clock(self, stream: StreamDefinition, progress: SourceProgress) -> SourceProgress:
        """How far a stream whose rows carry timestamps has come by the clock, when rows are judged."""
        tick = self._clock_heartbeat(stream) if stream.heartbeat.kind == "CLOCK DELAY" else None
        return progress if tick is None else replace(progress, heartbeat=max(progress.heartbeat, tick))

    def _clock_heartbeat(self, stream: StreamDefinition) -> int | None:
        if stream.heartbeat.kind not in ("CLOCK", "CLOCK DELAY"):
            return None
        now = self._tick_now(stream)
        return None if now is None else now - stream.heartbeat.delay - 1

    def _tick_now(self, stream: StreamDefinition) -> int | None:
        return None if stream.domain.tick is None else int(self._now() * 1_000_000) // stream.domain.tick

    def run_advance(self, statement: st.Advance) -> str:
        text = statement.place.text
        to, place = constant(statement.to, text).value, place_of(statement.to, text)
        if statement.stream is None:
            self.advance(self.catalog.feeds(), to, place)
        else:
            self.advance([self.catalog.with_heartbeat(statement.stream.text, statement.stream.place)], to, place)
        return f"advanced to {to}"

    def run_insert(self, statement: st.Insert) -> InsertResult:
        definition = self.catalog.source(statement.target.text, statement.target.place)
        self._check_at(definition, statement)
        with limited_values(self.engine.limits.value_bytes):
            rows = insert_rows(statement, _columns_given(definition))
        return self._insert_values(definition, statement, rows)

    def insert_table(self, statement: st.InsertQuery, rows: pa.Table) -> InsertResult:
        """The rows of a query, by position; columns that are not named are NULL."""
        definition = self.catalog.source(statement.target.text, statement.target.place)
        self._check_at(definition, statement)
        given = _columns_given(definition)
        names = [given[place] for place in positions_of(statement, given)]
        if rows.num_columns != len(names):
            raise InputError(
                f"the query has {rows.num_columns} columns, and {len(names)} are wanted",
                detail=f"for {', '.join(field.name for field in names)}",
                place=statement.place,
            )
        by_name = {field.name: rows.column(place) for place, field in enumerate(names)}
        missing = pa.nulls(rows.num_rows)
        whole = pa.table({field.name: by_name.get(field.name, missing) for field in given})
        return self._insert_values(definition, statement, whole)

    def _check_at(self, definition: StreamDefinition | TableDefinition, statement: st.Insert | st.InsertQuery) -> None:
        if statement.at is not None and not _changes_by_statements(definition):
            raise BindError(
                "AT belongs to tables that statements change",
                hint=f"the rows of {definition.name} carry their timestamps",
                place=statement.place,
            )

    def insert_together(self, run: Sequence[st.Insert]) -> bool:
        """Rows of several INSERTs that follow upon each other, as one epoch: what comes of rows does not depend on how
        they were cut. False where nothing was done, since one of them is wrong, or an epoch has a meaning."""
        definition = self.catalog.source(run[0].target.text, run[0].target.place)
        if isinstance(definition, StreamDefinition) and definition.heartbeat.kind.startswith("CLOCK"):
            return False
        whole = replace(run[0], literals=tuple(row for statement in run for row in statement.literals or ()))
        try:
            with limited_values(self.engine.limits.value_bytes):
                rows = plain_rows(whole, _columns_given(definition))
            if rows is not None:
                self._insert_values(definition, whole, rows)
        except InputError:
            return False
        return rows is not None

    def _insert_values(
        self, definition: StreamDefinition | TableDefinition, statement: st.Insert | st.InsertQuery, rows: Any
    ) -> InsertResult:
        try:
            if isinstance(definition, TableDefinition) and _changes_by_statements(definition):
                return self._insert_into_table(definition, statement, rows)
            return self.insert(definition, rows)
        except InputError as error:
            error.place = error.place or statement.place
            raise

    def _insert_into_table(
        self, table: TableDefinition, statement: st.Insert | st.InsertQuery, values: Any
    ) -> InsertResult:
        rows = self._typed(values, table.columns, f"table {table.name}")
        with self.engine.lock:
            at = self._change_instant(table, statement)
            self._commit_change(table, tables.inserted(rows, at), at)
        return InsertResult(rows.num_rows)

    def run_change(self, statement: st.Delete | st.Update) -> str:
        definition = self.catalog.source(statement.target.text, statement.target.place)
        if isinstance(definition, StreamDefinition):
            raise InputError(
                f"{definition.name} is a stream: what has arrived stays",
                hint="only tables change",
                place=statement.place,
            )
        if definition.log is not None:
            raise InputError(
                f"{definition.name} is changed by the rows put into it",
                hint=f"insert a row whose {definition.operation} is '-' or 'update'",
                place=statement.place,
            )
        if definition.nature in ("APPEND ONLY", "STATIC"):
            raise InputError(f"table {definition.name} is {definition.nature}", place=statement.place)
        condition = condition_on(statement.where, definition.columns, definition.name, statement.place.text)
        with self.engine.lock, limited_values(self.engine.limits.value_bytes):
            at = self._change_instant(definition, statement)
            bag = tables.bag_at(self.engine.sources.history(definition.name.lower()), len(definition.columns), at)
            if isinstance(statement, st.Update):
                rows = tables.updated(bag, condition, assignments(statement, definition.columns), at)
                _check_lengths(rows, definition, statement.place)
            else:
                rows = tables.deleted(bag, condition, at)
            self._commit_change(definition, rows, at)
        verb = "updated" if isinstance(statement, st.Update) else "deleted"
        count = -int(rows.filter(pl.col(WEIGHT) < 0)[WEIGHT].sum())
        return f"{count} rows {verb} at {at}"

    def _change_instant(
        self, table: TableDefinition, statement: st.Insert | st.InsertQuery | st.Delete | st.Update
    ) -> int:
        snapshot = self.engine.snapshot
        earliest = max(snapshot.clock + 1, snapshot.progress(table.name.lower()).last_change, 0)
        if table.nature == "STATIC" and (earliest > 0 or statement.at is not None):
            raise InputError(
                f"table {table.name} is STATIC: all its rows are there from tick 0 on",
                detail=f"the clock is at {snapshot.clock}" if earliest > 0 else None,
                hint="insert them before time passes and without AT, or read them by USING",
                place=statement.place,
            )
        if statement.at is None:
            return earliest
        domain = self.catalog.common_domain()
        text = statement.place.text
        at = instant(constant(statement.at, text).value, domain, place_of(statement.at, text))
        if at < earliest:
            raise InputError(
                f"table {table.name} cannot change at {at}",
                detail="a change lies after the clock and not before the table's last change",
                hint=f"the earliest instant is {earliest}",
                place=statement.place,
            )
        return at

    def _commit_change(self, table: TableDefinition, rows: Batch, at: int) -> None:
        key = table.name.lower()
        progress = replace(self.engine.snapshot.progress(key), last_change=at)
        self.engine.epoch({key: self.engine.sources.part(key, rows)}, {key: progress}, self.engine.snapshot.clock)


def _changes_by_statements(definition: StreamDefinition | TableDefinition) -> bool:
    return isinstance(definition, TableDefinition) and definition.log is None


def _columns_given(definition: StreamDefinition | TableDefinition) -> Schema:
    """The columns that rows for a stream or table have."""
    if isinstance(definition, TableDefinition):
        return definition.columns if definition.log is None else definition.feed.input_columns
    return definition.input_columns


def _check_lengths(rows: Batch, table: TableDefinition, place: Place) -> None:
    """Of what an UPDATE writes. What it takes away was there."""
    for index, field in enumerate(table.columns):
        if (long := first_too_long(rows[value_column(index)], field.type)) is not None:
            raise InputError(f'table {table.name}: column "{field.name}": {long[1]}', place=place)


def with_files(progress: SourceProgress, landed: LandedBatch) -> SourceProgress:
    """What is known of a source's files after those of a batch."""
    skipped = progress.skipped_files + sum(part.rows for part in landed.skipped)
    return replace(progress, skipped_files=skipped, drift=with_drift(progress.drift, landed.drift))


def files_key(source: str) -> str:
    return f"{source}.{FILES}"


def late_table(stream: StreamDefinition) -> TableDefinition:
    """The stream's late elements: its columns, and the instant that each came too late for."""
    columns = (*stream.columns, Field("_ts", stream.domain.type))
    return TableDefinition(f"{stream.name}.{LATE}", columns, (), "APPEND ONLY", domain=stream.domain)


def malformed_table(table: TableDefinition) -> TableDefinition:
    """The changes that could not be applied: the table's columns and what was to be done."""
    if table.log is None:
        raise AssertionError(f"table {table.name} is not declared CHANGES BY")
    log = replace(table.log, malformed=True)
    columns = table.feed.columns
    return TableDefinition(f"{table.name}.{MALFORMED}", columns, (), "APPEND ONLY", domain=table.domain, log=log)
