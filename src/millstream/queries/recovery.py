"""Opening the queries of an earlier process, which may have been one of another version.

    those whose plans find what was kept for them go on with it
    those that are planned otherwise are registered again, with what is kept of the past now
    those that this version refuses are there as failed, with the reason

What was kept and nobody shows is forgotten between the first two, in one commit with entries that say so: whenever the
process ends, the next one finds all queries.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict

from millstream.catalog.entries import Entry
from millstream.engine.groups.new_rows import MODE, TEXT
from millstream.engine.query_tables import NAME
from millstream.language.type_names import stored_text
from millstream.queries.named_templates import KIND as NAMED
from millstream.queries.named_templates import NamedTemplates
from millstream.queries.planner import Planner
from millstream.queries.registration import Registration, opening, statement_of
from millstream.queries.registry import Registry
from millstream.queries.template_recovery import TemplateRecovery
from millstream.queries.templates import DROPPED
from millstream.queries.unopened import FAILED, UnopenedQuery, is_about_the_query, without_state
from millstream.query import Query, QueryContext
from millstream.state.notes import Record


class Recovery:
    """The queries of a database's catalog, as it was found."""

    def __init__(
        self,
        planner: Planner,
        registry: Registry,
        registration: Registration,
        templates: TemplateRecovery,
        named: NamedTemplates,
        context: QueryContext,
        drop: Callable[[Query], None],
    ) -> None:
        self._planner, self._engine, self._session = planner, planner.engine, planner.session
        self._registry, self._registration, self._templates = registry, registration, templates
        self._named, self._context, self._drop = named, context, drop
        self._put_off: list[Entry] = []
        self._taken_apart: list[Entry] = []  # templates of which these are
        self._records: list[Record] = []

    def open(self) -> None:
        """Have all queries."""
        for step in STEPS:
            step(self)

    def begin(self) -> None:
        """Find the records of queries that no commit came after: they count until all queries are there."""
        self._records = [*self._engine.journal.notes()]
        self._engine.journal.keeps_notes = self._engine.retention.is_opening = True
        self._engine.upgrade()

    def take_over(self) -> None:
        """Go on with what is kept for queries, or put them off."""
        for entry in self._session.declared.entries:
            if entry["kind"] == NAMED:
                self._named.recover(entry)
            elif entry["kind"] in ("query", "template"):
                self._take_over(entry)

    def forget_unshown(self) -> None:
        """What was kept for queries that are put off."""
        for entry in self._taken_apart:
            self._templates.leave_out(entry)
        self._commit_declared()
        self._engine.commits.commit_pending()
        self._engine.forget_unshown()

    def register_again(self) -> None:
        """Those that were put off, of which nothing is kept."""
        for entry in self._put_off:
            self._register_again(entry)

    def join_templates(self) -> None:
        """Queries with plans of their own that are of a template."""
        self._named.join_singles()

    def follow_records(self) -> None:
        """Queries that have come and gone, of which there is no more than a record."""
        for record in self._records:
            if DROPPED in record:
                if (query := self._registry.get(record[DROPPED])) is not None:
                    self._drop(query)
            elif record[NAME] not in self._registry:  # else a process that was at the same has come so far
                self._register_recorded(record)

    def end(self) -> None:
        """From now on all queries are there, and records of earlier processes count no more."""
        self._engine.journal.keeps_notes = self._engine.retention.is_opening = False
        self._commit_declared()
        if self._records:
            self._engine.commit(self._engine.snapshot)

    def _commit_declared(self) -> None:
        if self._session.declared.entries != self._engine.snapshot.catalog:
            self._session.declare(self._session.declared)

    def _take_over(self, entry: Entry) -> None:
        is_template = entry["kind"] == "template"
        try:
            if FAILED not in entry:
                with self._guarded(entry), stored_text():
                    self._templates.recover(entry) if is_template else self._registration.recover(entry)
                return
        except Exception as error:
            if not is_about_the_query(error):
                raise
        own = self._templates.taken_apart(entry) if is_template else [without_state(entry)]
        self._taken_apart += [entry] if is_template else []
        self._session.declared = self._session.declared.replacing(entry, *own)
        self._put_off += own

    def _register_again(self, entry: Entry) -> None:
        before = self._session.declared
        self._session.declared = before.replacing(entry)
        try:
            planner = self._planner.of(entry)
            with self._guarded(entry), stored_text():
                self._registration.register(entry["shown"], entry["mode"], statement_of(entry["text"]), planner)
        except Exception as error:
            if not is_about_the_query(error):
                raise
            failed = without_state(entry, error)
            self._session.declared = before.replacing(entry, failed)
            self._add_unopened(failed)

    def _register_recorded(self, record: Record) -> None:
        try:
            with self._guarded(self._entry_of(record)), stored_text():
                self._registration.register_recorded(record)
        except Exception as error:
            if not is_about_the_query(error):
                raise
            entry = without_state(self._entry_of(record), error)
            self._session.declared = self._session.declared.with_entry(**entry)
            self._add_unopened(entry)

    def _guarded(self, entry: Entry) -> AbstractContextManager[None]:
        """A query at which processes end is there as a failed one, and the others are opened."""
        caution = self._engine.runner.caution
        if entry["kind"] == "template":
            return caution.guarded("opening a template", str(entry["name"]))
        return caution.guarded(opening(entry["shown"]))

    def _entry_of(self, record: Record) -> Entry:
        """A record as an entry of the catalog."""
        settings = asdict(self._session.settings)
        content = {"shown": record[NAME], "mode": record[MODE], "text": record[TEXT], "settings": settings}
        return {"kind": "query", "name": record[NAME].lower(), **content, "statistics": {}}

    def _add_unopened(self, entry: Entry) -> None:
        """A query that this version cannot open."""
        self._engine.retention.recomputed.pop(entry["name"], None)
        self._registry.add([UnopenedQuery(self._context, entry)])


STEPS: tuple[Callable[[Recovery], None], ...] = (
    Recovery.begin,
    Recovery.take_over,
    Recovery.forget_unshown,  # before any is registered again, which would find what was kept of another plan
    Recovery.register_again,
    Recovery.join_templates,
    Recovery.follow_records,
    Recovery.end,
)
