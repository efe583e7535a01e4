"""Opening the queries of an earlier process, which may have been one of another version.

    those whose plans find what was kept for them go on with it
    those that are planned otherwise are registered again, with what is kept of the past now
    those that this version refuses are there as failed, with the reason

What was kept and nobody shows is forgotten between the first two, in one commit with entries that say so: whenever the
process ends, the next one finds all queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.catalog.entries import Entry
from millstream.queries.registry import NAME, Registry
from millstream.queries.unopened import FAILED, is_about_the_query, without_state
from millstream.state.notes import Record

if TYPE_CHECKING:
    from millstream.database import Database


class Reopening:
    """The queries of a database's catalog, as it was found."""

    def __init__(self, database: Database, registry: Registry) -> None:
        self._database = database
        self._registry = registry
        self._put_off: list[Entry] = []

    def open(self) -> None:
        """Have all queries, and those that there is only a record of: it counts until all are there."""
        database, engine = self._database, self._database.engine
        records = engine.journal.notes()
        engine.journal.keeps_notes = engine.retention.is_opening = True
        for entry in database.declared.entries:
            if entry["kind"] in ("query", "template"):
                self._take_over(entry)
        self._keep()
        engine.forget_unshown()
        for entry in self._put_off:
            self._register(entry)
        for record in records:
            if record[NAME] not in self._registry:  # else a process that was at the same has come so far
                self._register_recorded(record)
        engine.journal.keeps_notes = engine.retention.is_opening = False
        self._keep()
        if records:
            engine.commit(engine.snapshot)

    def _keep(self) -> None:
        database = self._database
        if database.declared.entries != database.engine.snapshot.catalog:
            database.engine.commits.declare(database.declared.entries)

    def _take_over(self, entry: Entry) -> None:
        """Go on with what is kept for queries, or put them off."""
        database, registry = self._database, self._registry
        try:
            with database.under_settings_of(entry):
                if FAILED not in entry:
                    registry.recover(entry)
                    return
        except Exception as error:
            if not is_about_the_query(error):
                raise
        own = registry.taken_apart(entry) if entry["kind"] == "template" else [without_state(entry)]
        database.declared = database.declared.replacing(entry, *own)
        self._put_off += own

    def _register(self, entry: Entry) -> None:
        """Have a query again of which nothing is kept."""
        database, before = self._database, self._database.declared
        database.declared = before.replacing(entry)
        try:
            with database.under_settings_of(entry):
                self._registry.register_again(entry)
        except Exception as error:
            if not is_about_the_query(error):
                raise
            failed = without_state(entry, error)
            database.declared = before.replacing(entry, failed)
            self._registry.add_unopened(failed)

    def _register_recorded(self, record: Record) -> None:
        database = self._database
        try:
            self._registry.recover_recorded(record)
        except Exception as error:
            if not is_about_the_query(error):
                raise
            entry = without_state(self._registry.entry_of(record), error)
            database.declared = database.declared.with_entry(**entry)
            self._registry.add_unopened(entry)
