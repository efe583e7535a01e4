"""Tables that statements change: INSERT with ON CONFLICT, DELETE and UPDATE, and the keys that hold at every instant.

A change lies after the clock and not before the table's last one, so that whoever looks at all changes sees the table
as it is at the instant of the next: pending changes count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from millstream.catalog.objects import CatalogOfObjects
from millstream.engine.engine import Engine
from millstream.engine.epochs import table_changes as changes
from millstream.errors import BindError, ConstraintError, InputError, NameError, Place, did_you_mean
from millstream.ingest.landed import LandedBatch
from millstream.ingest.row_values import shown_value
from millstream.ingest.typed_rows import as_altered, typed_table
from millstream.kernel.batch import WEIGHT, Batch, value_column
from millstream.kernel.scalar.value_size import first_too_long
from millstream.kernel.step_limits import limited
from millstream.language import statements as st
from millstream.language.instants import constant, instant, shown_instant
from millstream.language.syntax import place_of
from millstream.language.values import assignments, condition_on, replacements
from millstream.plan.definitions import StreamDefinition, TableDefinition
from millstream.state.snapshot import HistoryFile
from millstream.state.store import Store

_UPSERT = "ON CONFLICT DO UPDATE replaces the row that is there, ON CONFLICT DO NOTHING leaves it"


@dataclass(frozen=True)
class InsertResult:
    """How many rows an insert took, how many of those offered were late; and of ON CONFLICT, how many of those taken
    changed a row that was there, and how many were left out since one was."""

    accepted: int
    late: int = 0
    updated: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        said = [f"{self.accepted} accepted"]
        said += [f"{self.updated} of them updates"] if self.updated else []
        said += [f"{self.skipped} skipped"] if self.skipped else []
        said += [f"{self.late} late"] if self.late else []
        return ", ".join(said)


@dataclass(frozen=True)
class _Keys:
    """How many rows each key has, by some files of history."""

    files: tuple[HistoryFile, ...]
    counts: pl.DataFrame


class TableRows:
    """Changes tables. All that is looked at and committed is under the engine's lock."""

    def __init__(self, engine: Engine, catalog: CatalogOfObjects) -> None:
        self.engine, self.catalog = engine, catalog
        self._known: dict[str, _Keys] = {}

    # Statements

    def insert(self, table: TableDefinition, statement: st.Insert | st.InsertQuery, values: Any) -> InsertResult:
        most = self.engine.limits.value_bytes
        given = typed_table(values, table.columns, f"table {table.name}", most, table.rules)
        conflict = statement.conflict
        if conflict is not None:
            _check_conflict(table, conflict)
        with self.engine.lock, limited(self.engine.limits.steps):
            before, table = table, self.catalog.now(table)
            given = as_altered(given, before.columns, table.columns, table.rules)
            at = self._instant(table, statement)
            rows = changes.inserted(given, at)
            skipped = updated = 0
            if conflict is not None:
                rows, updated, skipped = self._resolved(table, conflict, rows, at, statement)
            elif table.enforced:
                self._check_new(table, rows)
            self._commit(table, rows, at)
        return InsertResult(given.num_rows - skipped, updated=updated, skipped=skipped)

    def change(self, statement: st.Delete | st.Update) -> str:
        with self.engine.lock, limited(self.engine.limits.steps):
            table = self._changed(statement)
            condition = condition_on(statement.where, table.columns, table.name, statement.place.text)
            at = self._instant(table, statement)
            bag = self._bag(table, at)
            if isinstance(statement, st.Update):
                values = assignments(statement, table.columns, table.rules)
                rows = changes.updated(bag, condition, values, at)
                self._check_written(table, rows.filter(pl.col(WEIGHT) > 0), statement.place)
                if table.enforced:
                    _check_still_keys(table, bag, rows, statement.place)
            else:
                rows = changes.deleted(bag, condition, at)
            self._commit(table, rows, at)
        verb = "updated" if isinstance(statement, st.Update) else "deleted"
        count = -int(rows.filter(pl.col(WEIGHT) < 0)[WEIGHT].sum())
        return f"{count} row{'' if count == 1 else 's'} {verb} at {self._shown(at)}"

    def _changed(self, statement: st.Delete | st.Update) -> TableDefinition:
        """The table of a statement that takes rows away."""
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
        return definition

    def _instant(self, table: TableDefinition, statement: st.TableChange) -> int:
        snapshot = self.engine.snapshot
        earliest = max(snapshot.clock + 1, snapshot.progress(table.edge).last_change, 0)
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
                f"table {table.name} cannot change at {self._shown(at)}",
                detail=f"a change lies after the clock ({self._shown(snapshot.clock)}) and not before the table's last "
                f"change ({self._shown(snapshot.progress(table.edge).last_change)})",
                hint=f"the earliest instant is {self._shown(earliest)}; a change of the past comes before later rows "
                "of any stream",
                place=statement.place,
            )
        return at

    def _shown(self, tick: int) -> str:
        """An instant as statements have it; before the first one, there was none."""
        return "none yet" if tick < 0 else str(shown_instant(tick, self.catalog.common_domain()))

    def _commit(self, table: TableDefinition, rows: Batch, at: int) -> None:
        key = table.edge
        progress = replace(self.engine.snapshot.progress(key), last_change=at)
        self.engine.epoch({key: self.engine.sources.part(key, rows)}, {key: progress}, self.engine.snapshot.clock)

    def _bag(self, table: TableDefinition, at: int) -> Batch:
        return changes.bag_at(self.engine.sources.history(table.edge), len(table.columns), at)

    # Keys

    def _resolved(
        self, table: TableDefinition, conflict: st.Conflict, given: Batch, at: int, statement: st.TableChange
    ) -> tuple[Batch, int, int]:
        """What ON CONFLICT makes of new rows: the rows to commit, how many change others, and how many do nothing."""
        key, text = [value_column(index) for index in table.key], statement.place.text
        if not conflict.updates:
            first = given.unique(key, keep="first", maintain_order=True)
            new = first.join(self._counts(table), on=key, how="anti", nulls_equal=True, maintain_order="left")
            return new, 0, given.height - new.height
        twice = given.filter(given.select(key).is_duplicated())
        if twice.height:
            raise ConstraintError(
                f"table {table.name}: two of the rows have the key {_shown_key(table, twice)}",
                hint="ON CONFLICT DO UPDATE changes a row once: give one row for each key",
                place=conflict.place,
            )
        values, condition = replacements(conflict, table.columns, table.rules, table.name, text)
        gone, made, met = changes.replaced(self._bag(table, at), given, key, values, condition, at)
        new = given.join(met, on=key, how="anti", nulls_equal=True, maintain_order="left")
        self._check_written(table, made, conflict.place)
        return pl.concat([gone, made, new]), made.height, met.height - made.height

    def _check_new(self, table: TableDefinition, rows: Batch) -> None:
        """Refuse rows whose key is there, or comes twice among them."""
        key = [value_column(index) for index in table.key]
        known = rows.join(self._counts(table), on=key, how="semi", nulls_equal=True, maintain_order="left")
        if known.height:
            raise ConstraintError(
                f"table {table.name}: there is a row with the key {_shown_key(table, known)} already", hint=_UPSERT
            )
        twice = rows.filter(rows.select(key).is_duplicated())
        if twice.height:
            raise ConstraintError(f"table {table.name}: two of the rows have the key {_shown_key(table, twice)}")

    def _counts(self, table: TableDefinition) -> pl.DataFrame:
        """The keys that are there; found out once, and then by what has come since."""
        source, columns = table.edge, [value_column(index) for index in table.key]
        files = self.engine.snapshot.history.get(source, ())
        known = self._known.get(source)
        if known is None or known.files != files[: len(known.files)]:
            known = _Keys((), self.engine.sources.empty(source).select(*columns, WEIGHT))
        new = files[len(known.files) :]
        if new:
            rows = self.engine.sources.kept_rows(source, self.engine.snapshot, lambda file: file in new)
            counts = pl.concat([known.counts, rows.select(*columns, WEIGHT)])
            counts = counts.group_by(columns).agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) > 0)
            known = _Keys(files, counts)
        self._known[source] = known
        return known.counts

    def _check_written(self, table: TableDefinition, rows: Batch, place: Place) -> None:
        """Refuse values that UPDATE and ON CONFLICT made and a column does not take."""
        for index, field in enumerate(table.columns):
            column = rows[value_column(index)]
            if (long := first_too_long(column, field.type)) is not None:
                raise InputError(f'table {table.name}: column "{field.name}": {long[1]}', place=place)
            if table.rules.is_required(field.name) and column.null_count():
                raise ConstraintError(f'table {table.name}: column "{field.name}" is NOT NULL', place=place)


def check_files_key(store: Store, table: TableDefinition, landed: LandedBatch) -> None:
    """Refuse files that have two rows of one key."""
    if not table.enforced:
        return
    names = [table.columns[index].name for index in table.key]
    parts = [store.read(part.name).select(names) for part in landed.parts]
    rows = pl.concat(parts) if parts else pl.DataFrame()
    twice = rows.filter(rows.is_duplicated()) if rows.height else rows
    if twice.height:
        raise ConstraintError(
            f"table {table.name}: two rows of its files have the key {_shown(names, twice.row(0))}",
            hint="declare the key NOT ENFORCED, or have each once in the files",
        )


def _check_conflict(table: TableDefinition, conflict: st.Conflict) -> None:
    if not table.enforced:
        why = f"that of table {table.name} is NOT ENFORCED" if table.key else f"table {table.name} has none"
        raise BindError(
            f"ON CONFLICT needs a key, and {why}",
            hint="CREATE TABLE t (a INT, b INT) KEY (a)",
            place=conflict.place,
        )
    if conflict.updates and table.nature in ("APPEND ONLY", "STATIC"):
        raise InputError(f"table {table.name} is {table.nature}", hint="use DO NOTHING", place=conflict.place)
    key = [table.columns[index].name for index in table.key]
    names = {field.name.lower(): field.name for field in table.columns}
    for name in conflict.columns:
        if name.key not in names:
            hint = did_you_mean(name.text, names.values())
            raise NameError(f'{table.name} has no column "{name}"', hint=hint, place=name.place)
    if conflict.columns and {name.key for name in conflict.columns} != {name.lower() for name in key}:
        raise BindError(
            f"the key of table {table.name} is ({', '.join(key)})",
            hint="name these columns behind ON CONFLICT, or none",
            place=conflict.place,
        )
    for name, _ in conflict.assignments:
        if name.key in {each.lower() for each in key}:
            raise BindError(f'"{name}" is of the key, which ON CONFLICT does not change', place=name.place)


def _check_still_keys(table: TableDefinition, bag: Batch, rows: Batch, place: Place) -> None:
    """Refuse an UPDATE after which two rows would have one key."""
    key = [value_column(index) for index in table.key]
    counts = pl.concat([bag.select(*key, WEIGHT), rows.select(*key, WEIGHT)]).group_by(key).agg(pl.col(WEIGHT).sum())
    twice = counts.filter(pl.col(WEIGHT) > 1)
    if twice.height:
        shown = _shown_key(table, twice)
        raise ConstraintError(f"table {table.name}: two rows would have the key {shown}", place=place)


def _shown_key(table: TableDefinition, rows: pl.DataFrame) -> str:
    """The key of the first of some rows."""
    columns = [value_column(index) for index in table.key]
    return _shown([table.columns[index].name for index in table.key], rows.select(columns).row(0))


def _shown(names: list[str], values: tuple[Any, ...]) -> str:
    return ", ".join(f"{name} = {shown_value(value)}" for name, value in zip(names, values, strict=True))
