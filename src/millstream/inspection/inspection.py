"""What people ask who look inside: `db.inspection`. Nothing here changes what is computed, but for settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.connectors.source_reports import source_reports
from millstream.engine.engine import Engine
from millstream.engine.groups.group import Group
from millstream.engine.live_plan import Document
from millstream.errors import Error
from millstream.inspection.checking import Checking
from millstream.inspection.epochs import Epochs
from millstream.inspection.listing import QueryListing
from millstream.inspection.measured import Measured, measured
from millstream.inspection.names import known_names
from millstream.inspection.run_report import RunReport
from millstream.inspection.streams import StreamReports
from millstream.inspection.tracing import trace_epochs
from millstream.inspection.watching import Look, look
from millstream.language.instants import instant
from millstream.queries.planner import Planner
from millstream.queries.standing import StandingQueries
from millstream.queries.states import states
from millstream.queries.templates import GroupTemplate
from millstream.query import Query
from millstream.settings import described
from millstream.system.streams import PREFIX, SYSTEM_STREAMS
from millstream.system.system import SystemStreams
from millstream.types import arrow_schema, to_arrow

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

# The settings that decide on plans.
OF_PLANS = ("strategy", "join_plan", "jit", "jit_detection", "stem_window", "disabled_rules", "expiry_groups")


class Inspector:
    """Reads what is committed and what was noticed. Whoever asks waits for no epoch."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        planner: Planner,
        queries: StandingQueries,
        sinks: Sinks,
        system: SystemStreams,
    ) -> None:
        self._engine, self._session, self._planner, self._queries = engine, session, planner, queries
        self._sinks = sinks
        self.plans = queries.plans
        self._system = system
        self.listing = QueryListing(engine, queries, self.plans)
        self.streams = StreamReports(engine, session.catalog)
        self.epochs = Epochs(engine, session, queries)
        self._checking = Checking(engine, planner, queries, self.plans)

    def report_of(self, run: Callable[[], None]) -> RunReport:
        """Read the sources, and say what came of it."""
        before = self._engine.snapshot
        run()
        stopped = states(self._engine, [*self._queries.registry]).failed
        paused = {sink.name: sink.error_text for sink in [*self._sinks.by_name.values()] if sink.state == "paused"}
        return RunReport(source_reports(self._engine, self._session.catalog, before), stopped, paused)

    def measured(self) -> Measured:
        """Numbers for who measures."""
        return measured(self._engine, self._session, self._queries, self._sinks)

    def trace(self, tracer: Tracer) -> Callable[[], None]:
        """Have epochs traced by an OpenTelemetry tracer from now on; gives what ends that."""
        return trace_epochs(self.epochs, tracer)

    def troubles(self) -> dict[str, dict[str, str]]:
        """What asks for somebody's attention, by what it is: names, with what is known of each."""
        failed = states(self._engine, [*self._queries.registry]).failed
        paused = {sink.name: sink.error_text for sink in [*self._sinks.by_name.values()] if sink.state == "paused"}
        lagging = {name: str(lag) for name, lag in self.epochs.lagging().items()}
        return {"queries have failed": failed, "sinks are paused": paused, "streams lag": lagging}

    def why_not_writable(self) -> str | None:
        """Why nothing can be committed, where nothing can be."""
        if self._engine.journal.is_in_doubt:
            return "a commit was cut short: the database must be opened again"
        try:
            self._engine.journal.check_current()
        except Error as error:
            return error.primary
        return None

    def plan(self) -> Document:
        """The shared plan of all queries, with what its operators have done."""
        return self.plans.whole()

    def plan_of(self, name: str) -> Document:
        """A query's part of it."""
        return self.plans.of_query(self._queries.registry.find(name), self._planner)

    def look(self) -> Look:
        """The numbers of the shared plan now, for those who watch them."""
        return look(self._engine, self.plans)

    def check(self, text: str) -> dict[str, Any]:
        """What a query would be if it were registered: nothing is."""
        return self._checking.check(text)

    def names(self) -> dict[str, Any]:
        """What may be named in a text."""
        return known_names(self._session, [query.name for query in self._queries.registry])

    def recent(self, stream: str, since: int | str | None, limit: int, until: int | str | None = None) -> pa.Table:
        """What was noticed lately: the last rows of a system stream after an instant and up to another one, in order
        of time. All of an epoch is noticed at one instant."""
        definition = next(each for each in SYSTEM_STREAMS if each.name == f"{PREFIX}{stream}")
        after = -1 if since is None else instant(since, definition.domain)
        last = None if until is None else instant(until, definition.domain)
        found = self._system.recent(stream, after, limit, last)
        columns = {
            field.name: pa.array([row[field.name] for row in found]).cast(to_arrow(field.type))
            for field in definition.columns
        }
        return pa.table(columns, arrow_schema(definition.columns))

    def settings(self) -> list[dict[str, Any]]:
        """All settings, with what they mean; those that decide on plans can be applied to queries that run."""
        has_queries, has_views = len(self._queries.registry) > 0, bool(self._session.catalog.views())
        fixed = {"shards": has_queries, **dict.fromkeys(("range_bounds", "timezone"), has_queries or has_views)}
        found = described(self._session.settings, {name for name, is_fixed in fixed.items() if is_fixed})
        return [{**setting, "of_plans": setting["name"] in OF_PLANS} for setting in found]

    def apply(self, name: str) -> dict[str, str]:
        """Have the queries that run go by the value that a setting has now, where it decides on plans; tells of each
        what comes of it. Those of a group move together, and have one line."""
        if name not in OF_PLANS:
            return {}
        value, found = getattr(self._session.settings, name), dict[str, str]()
        replanning, own_plans = self._queries.replanning, list[Query]()
        together: dict[Group, list[Query]] = {}
        for query in self._queries.registry:
            if isinstance(query.template, GroupTemplate):
                together.setdefault(query.template.group, []).append(query)
            elif query.template is None:
                own_plans.append(query)
        for query in own_plans:
            found[query.name] = _outcome(partial(replanning.change_setting, query, name, value))
        for group, queries in together.items():
            others = f" and {len(queries) - 1:,} that share its plan" if len(queries) > 1 else ""
            found[f"{queries[0].name}{others}"] = _outcome(partial(replanning.change_group, group, name, value))
        return found

    @property
    def database(self) -> str | None:
        """What the database is called: the last part of its directory; None of one that ends with its process."""
        directory = self._engine.journal.directory
        return None if directory is None else directory.resolve().parent.name

    def sinks(self) -> list[dict[str, Any]]:
        """All sinks; `delivered` is the instant up to which they have delivered, `template` that of those for one."""
        found = []
        for shown in self._sinks.shown():
            follows = self._sinks.find(shown["name"]).query
            delivered = follows.instants.shown(shown["until"]) if shown["until"] >= 0 else None
            template = None if isinstance(follows, Query) else follows.name
            found.append({**shown, "delivered": delivered, "template": template})
        return found


def _outcome(change: Callable[[], str]) -> str:
    try:
        return change()
    except Error as error:  # what this setting cannot run, say
        return f"stays: {error.primary}"
