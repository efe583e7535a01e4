"""What comes into a database: rows, heartbeats, and the changes of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa

from millstream.catalog.objects import CatalogOfObjects, kind_of
from millstream.engine.engine import Engine
from millstream.engine.epochs import table_changes as tables
from millstream.engine.epochs.lateness import Arrival, admit
from millstream.engine.epochs.parts import FILES, LATE, MALFORMED, late_key, late_rows
from millstream.errors import BindError, Error, InputError, Place
from millstream.ingest.gathering import Gathering, WaitingInsert
from millstream.ingest.insert_keys import InsertKeys, Inserts, digest_of, name_of
from millstream.ingest.landed import FILE_COLUMNS, MALFORMED_COLUMNS, LandedBatch, table_parts, with_drift
from millstream.ingest.table_rows import InsertResult, TableRows, check_files_key
from millstream.ingest.typed_rows import as_altered, repeated, typed_pieces
from millstream.kernel.batch import concat
from millstream.kernel.step_limits import limited
from millstream.language import statements as st
from millstream.language.instants import constant, instant, shown_instant
from millstream.language.syntax import place_of
from millstream.language.values import insert_rows, plain_rows, positions_of
from millstream.plan.definitions import StreamDefinition, TableDefinition, TimeDomain
from millstream.state.snapshot import Catalog, SourceProgress
from millstream.types import Field, Schema, columns_at_first


class Inputs:
    """Takes rows and heartbeats in, each as an epoch of its own, or inserts that wait for one another as one."""

    def __init__(self, engine: Engine, catalog: CatalogOfObjects, now: Callable[[], float]) -> None:
        self.engine = engine
        self.catalog = catalog
        self.tables = TableRows(engine, catalog)
        self.keys = InsertKeys(engine, now)
        self._now = now
        self._gathering = Gathering(engine.lock, self._take)

    def insert(
        self,
        target: StreamDefinition | TableDefinition,
        pieces: Iterable[Any],
        check: Callable[[int, int], None] = lambda rows, size: None,
        key: str | None = None,
    ) -> InsertResult:
        """Rows of a stream, or changes of a table that is fed by them, piece by piece; `check` is told how much it is
        so far. Those with a `key` that was there before count once."""
        given, most = _columns_given(target), self.engine.limits.value_bytes
        table = typed_pieces(pieces, given, f"{kind_of(target)} {target.name}", most, check, target.rules)
        if isinstance(target, TableDefinition):
            table = tables.with_operations(table, target)
        digest = "" if key is None else digest_of(target.edge, table)
        return self._gathering.insert(WaitingInsert(target, table, key, digest))

    def _take(self, inserts: Sequence[WaitingInsert]) -> None:
        """Take rows for one stream in, of the first insert and of those after it, by one epoch. Where that fails, each
        is tried by itself, since what is wrong with one need not concern the others."""
        with self.engine.lock:
            before, arrivals = self.engine.snapshot.epoch, list[tuple[WaitingInsert, Arrival]]()
            try:
                target = self.catalog.now(inserts[0].target)
                stream = target if isinstance(target, StreamDefinition) else target.feed
                arrivals = self._admitted(inserts, target, stream)
                if arrivals:
                    self._epoch_of(stream, [arrival for _, arrival in arrivals], self._keys_with(arrivals))
            except Error as error:
                if self.engine.snapshot.epoch > before or len(arrivals) <= 1:
                    for insert in [insert for insert, _ in arrivals] or inserts:
                        insert.error = copy(error)
                    return
                for insert, _ in arrivals:
                    insert.is_single = True
                if not inserts[0].is_done:
                    self._take(inserts[:1])  # the others are led by their own threads, which may go on where this ends
                return
            for insert, arrival in arrivals:
                insert.outcome = InsertResult(arrival.accepted.height, arrival.late.height)

    def _admitted(
        self, inserts: Sequence[WaitingInsert], target: StreamDefinition | TableDefinition, stream: StreamDefinition
    ) -> list[tuple[WaitingInsert, Arrival]]:
        """What becomes of rows that come one after the other. Late ones enter their table by the clock as their insert
        leaves it, so that this one is the last. Of inserts that are sent again the second one finds the first."""
        found, keys = list[tuple[WaitingInsert, Arrival]](), set[str]()
        progress = self.by_the_clock(stream, self.engine.snapshot.progress(stream.edge))
        for insert in inserts:
            try:
                if insert.key is not None:
                    if name_of(insert.key) in keys:
                        break
                    keys.add(name_of(insert.key))
                    if (known := self.keys.find(insert.key, insert.digest)) is not None:
                        insert.outcome = InsertResult(known.accepted, known.late)
                        continue
                rows = as_altered(insert.rows, insert.target.columns, target.columns, target.rules)
                arrival = admit(stream, pl.DataFrame(rows), progress, self.clock_tick(stream))
            except Error as error:
                insert.error = error
                continue
            found.append((insert, arrival))
            progress = arrival.progress
            if arrival.late.height:
                break
        return found

    def _keys_with(self, arrivals: Sequence[tuple[WaitingInsert, Arrival]]) -> Inserts | None:
        """The keys to commit with inserts; None where these have none."""
        kept: Inserts | None = None
        for insert, arrival in arrivals:
            if insert.key is not None:
                counts = arrival.accepted.height, arrival.late.height
                kept = self.keys.with_insert(insert.key, insert.digest, *counts, kept)
        return kept

    def _epoch_of(self, stream: StreamDefinition, arrivals: Sequence[Arrival], keys: Inserts | None) -> None:
        name, last = stream.edge, arrivals[-1]
        accepted = concat([arrival.accepted for arrival in arrivals], last.accepted)
        clock = max(self.engine.snapshot.clock, last.progress.heartbeat)
        arrived, progresses = {name: self.engine.sources.part(name, accepted)}, {name: last.progress}
        if last.late.height:
            at, late = self.late_instant(stream, clock), late_key(name)
            arrived[late] = self.engine.sources.part(late, late_rows(stream, last.late, at))
            progresses[late] = replace(self.engine.snapshot.progress(late), last_change=at)
        self.engine.epoch(arrived, progresses, clock, inserts=keys)

    def read_table(self, table: TableDefinition, landed: LandedBatch, catalog: Catalog) -> None:
        """A table's rows from its files, there from tick 0 on; declared by the same commit."""
        key, rejected = table.edge, f"{table.edge}.{MALFORMED}"
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
                check_files_key(self.engine.store, table, landed)
                self.engine.epoch(arrived, {key: progress}, self.engine.snapshot.clock, catalog)
            finally:
                self.engine.runner.store.sweep(landed.segments(), ())

    def late_instant(self, stream: StreamDefinition, clock: int) -> int:
        """When elements that come too late now enter the table of those."""
        return max(clock + 1, self.engine.snapshot.progress(late_key(stream.edge)).last_change)

    def advance(self, streams: Iterable[StreamDefinition], to: Any, place: Place | None = None) -> None:
        with self.engine.lock:
            progress = {}
            reached = [instant(to, TimeDomain(None), place)] if isinstance(to, int) else []
            for stream in streams:
                tick = instant(to, stream.domain, place)
                current = self.engine.snapshot.progress(stream.edge)
                progress[stream.edge] = replace(current, heartbeat=max(current.heartbeat, tick))
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
            if tick is not None and self.engine.snapshot.progress(stream.edge).heartbeat < tick
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
            return f"advanced to {to}"
        stream = self.catalog.with_heartbeat(statement.stream.text, statement.stream.place)
        before = self.engine.snapshot.progress(stream.edge).heartbeat
        self.advance([stream], to, place)
        if before > instant(to, stream.domain, place):
            return f"{stream.name} was at {shown_instant(before, stream.domain)} already"
        return f"advanced to {to}"

    def run_insert(self, statement: st.Insert) -> InsertResult:
        definition = self.catalog.source(statement.target.text, statement.target.place)
        self._check_at(definition, statement)
        with limited(self.engine.limits.steps):
            rows = insert_rows(statement, _columns_given(definition), definition.rules)
        return self._insert_values(definition, statement, rows)

    def insert_table(self, statement: st.InsertQuery, rows: pa.Table) -> InsertResult:
        """The rows of a query, by position; columns that are not named have their defaults, or NULL."""
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
        left_out = [field for field in given if field.name not in by_name]
        by_name |= {field.name: repeated(definition.rules, field, rows.num_rows) for field in left_out}
        whole = pa.table({field.name: by_name[field.name] for field in given})
        return self._insert_values(definition, statement, whole)

    def _check_at(self, definition: StreamDefinition | TableDefinition, statement: st.Insert | st.InsertQuery) -> None:
        if _changes_by_statements(definition):
            return
        if statement.conflict is not None:
            raise BindError(
                "ON CONFLICT belongs to tables that statements change",
                hint=f"the rows of {definition.name} are taken as they come"
                + ("" if isinstance(definition, StreamDefinition) else f"; {definition.operation} may say 'update'"),
                place=statement.conflict.place,
            )
        if statement.at is not None:
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
            with limited(self.engine.limits.steps):
                rows = plain_rows(whole, _columns_given(definition), definition.rules)
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
                return self.tables.insert(definition, statement, rows)
            return self.insert(definition, [rows])
        except InputError as error:
            error.place = error.place or statement.place
            raise


def _changes_by_statements(definition: StreamDefinition | TableDefinition) -> bool:
    return isinstance(definition, TableDefinition) and definition.log is None


def _columns_given(definition: StreamDefinition | TableDefinition) -> Schema:
    """The columns that rows for a stream or table have."""
    if isinstance(definition, TableDefinition):
        return definition.columns if definition.log is None else definition.feed.input_columns
    return definition.input_columns


def with_files(progress: SourceProgress, landed: LandedBatch) -> SourceProgress:
    """What is known of a source's files after those of a batch."""
    skipped = progress.skipped_files + sum(part.rows for part in landed.skipped)
    return replace(progress, skipped_files=skipped, drift=with_drift(progress.drift, landed.drift))


def files_key(source: str) -> str:
    return f"{source}.{FILES}"


def late_table(stream: StreamDefinition) -> TableDefinition:
    """The stream's late elements: its columns, and the instant that each came too late for; then columns that were
    added later, so that who reads the others finds them where they were."""
    first = columns_at_first(stream.columns)
    columns = (*stream.columns[:first], Field("_ts", stream.domain.type), *stream.columns[first:])
    name, edge = f"{stream.name}.{LATE}", late_key(stream.edge)
    return TableDefinition(name, columns, (), "APPEND ONLY", domain=stream.domain, identity=edge)


def malformed_table(table: TableDefinition) -> TableDefinition:
    """The changes that could not be applied: the table's columns and what was to be done."""
    if table.log is None:
        raise AssertionError(f"table {table.name} is not declared CHANGES BY")
    log = replace(table.log, malformed=True)
    columns, name, edge = table.feed.columns, f"{table.name}.{MALFORMED}", f"{table.edge}.{MALFORMED}"
    return TableDefinition(name, columns, (), "APPEND ONLY", domain=table.domain, log=log, identity=edge)
