"""Plans follow the data: queries move to the plan that the statistics of now make the better one.

    epochs ──a source has grown──▶ plan again ──better by a margin──▶ run over history ──one commit──▶ the new plan

Looking is done in the background, and seldom: when a source has got as many rows again as it had at the last look, and
for queries whose statistics are others than when they were last planned. A move is a backfill beside the plan that
runs. It ends with the commit that has the new plan's state and results, and the statistics by which the same plan is
made when the database is opened next. It is begun only where history covers the query's windows.

Plans do not flap: both are compared by the same statistics, and to move back these must have changed so much that the
plan that was left is the better one by the margin in its turn.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial

from millstream.catalog.entries import Declarations, Entry, statistics_entry, statistics_of
from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.engine.history.move import Move
from millstream.engine.materialization import Eager
from millstream.engine.past import Past
from millstream.engine.sources import STATISTICS_ROWS
from millstream.errors import ClosedError, Error
from millstream.language.instants import shown_instant
from millstream.language.type_names import stored_text
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.comparison import burden
from millstream.plan.cost import SourceStatistics, Statistics
from millstream.plan.lowering.matches import is_fragile
from millstream.queries.modes import options_of
from millstream.queries.notices import of_the_past, shortest_past
from millstream.queries.planner import ORDERED, Planned, Planner
from millstream.queries.registration import statement_of
from millstream.queries.registry import Registry
from millstream.query import PlanChange, Query
from millstream.state.snapshot import Catalog

MARGIN = 2.0  # so many times better must another plan be
LEAST_ROWS = 10_000  # that a source must have got since the last look
_CHANGED = 2.0  # a statistic is another one that is so many times what it was, or less by as much

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Replacement:
    """Another plan that a query is on its way to."""

    query: Query
    planned: Planned
    materialization: Eager
    steps: str
    change: PlanChange
    before: PlanChange | None  # what was said of its plan
    declared: Declarations = field(default_factory=Declarations)  # with the commit that moves it


class Replanning:
    """Looks after the plans of queries that have one of their own. All is done under the engine's lock."""

    def __init__(self, planner: Planner, registry: Registry) -> None:
        self._planner, self._registry = planner, registry
        self._engine: Engine = planner.engine
        self._session: Session = planner.session
        self.margin, self.least_rows = MARGIN, LEAST_ROWS
        self._looked: dict[str, int] = {}  # per source: the rows that it had got at the last look
        self._planned_by: dict[str, Statistics] = {}  # per query: the statistics when it was last planned
        self._due: deque[str] = deque()  # queries to be planned again
        self._moving: dict[str, Move] = {}

    def is_moving(self, query: Query) -> bool:
        return query.name.lower() in self._moving

    def forget(self, query: Query) -> None:
        """A query is gone."""
        self._planned_by.pop(query.name.lower(), None)
        if (move := self._moving.get(query.name.lower())) is not None:
            self._engine.backfills.cancel(move.after)

    # When to look

    def notice(self, moved: Collection[str]) -> None:
        """An epoch has ended in which some sources have moved."""
        if self._session.settings.replan == "off":
            return
        progress = {source: self._engine.snapshot.progress(source).arrived for source in moved}
        grown = {source: rows for source, rows in progress.items() if self._has_grown(source, rows)}
        if grown:
            self._looked |= grown
            reading = (query for query in self._registry if _has_choice(query))
            self._look([query.name for query in reading if query.materialization.inputs & grown.keys()])

    def _has_grown(self, source: str, rows: int) -> bool:
        before = self._looked.get(source, 0)
        return rows - before >= max(self.least_rows, min(before, STATISTICS_ROWS))

    def _look(self, names: Collection[str]) -> None:
        is_looking = bool(self._due)
        self._due.extend(name for name in names if name not in self._due)
        if self._due and not is_looking:
            self._engine.background.begin(self._look_at_next)

    def _look_at_next(self) -> None:
        """At one query at a time, so that nobody who reads waits for long."""
        with self._engine.lock:
            name = self._due.popleft()
            try:
                if (query := self._registry.get(name)) is not None:
                    self.consider(query)
            except ClosedError:
                return
            except Error as error:
                _log.warning("query %s: another plan could not be found: %s", name, error)
            finally:
                if self._due and not self._engine.life.is_closing:
                    self._engine.background.begin(self._look_at_next)

    # What to do

    def consider(self, query: Query, statistics: Statistics | None = None) -> bool:
        """Plan a query again by the statistics of now, or by others, and have it move to that plan if that is better;
        tells whether it does."""
        with self._engine.lock:
            entry = self._session.declared.find("query", query.name)
            if entry is None or not _has_choice(query) or self.is_moving(query):
                return False
            if query.is_filling or query.error is not None:
                return False
            if statistics is None and not self._has_changed(query, entry):
                return False
            planned = self._planned(entry, statistics)
            gain = self._gain(query.common.plan, planned)
            if gain is None:
                query.plan_change = _said(entry)
                return False
            change = PlanChange("moving", self._engine.snapshot.epoch, f"its plan costs {gain:.1f} times as much")
            past = of_the_past(self._engine, planned.bound)
            if (reason := _why_it_stays(query, planned, past)) is not None:
                self._say(query, replace(change, state="stays", reason=f"{change.reason}, but {reason}"))
                return False
            return self._begin(query, entry, planned, past, change)

    def _has_changed(self, query: Query, entry: Entry) -> bool:
        known = self._engine.sources.statistics(query.materialization.inputs)
        before = self._planned_by.get(query.name.lower())
        if before is None and ORDERED in entry:
            before = statistics_of(entry["statistics"])
        if before is not None and not any(_is_other(now, before.get(source)) for source, now in known.items()):
            return False
        self._planned_by[query.name.lower()] = known
        return True

    def _planned(self, entry: Entry, statistics: Statistics | None) -> Planned:
        planner = self._planner.under(self._session.settings_of(entry)).ordering_joins()
        given = None if statistics is None else statistics_entry(statistics)
        with stored_text():
            return planner.plan(entry["text"], statement_of(entry["text"]).query, statistics=given)

    def _gain(self, plan: lo.Node, planned: Planned) -> float | None:
        """How many times better the other plan is, where that is enough."""
        if planned.bound.plan == plan:
            return None
        statistics = statistics_of(planned.statistics)
        gain = burden(plan, statistics) / max(burden(planned.bound.plan, statistics), 1e-9)
        return gain if gain >= self.margin else None

    def _begin(self, query: Query, entry: Entry, planned: Planned, past: Past, change: PlanChange) -> bool:
        engine, bound = self._engine, planned.bound
        options = options_of(planned, query.past, entry.get("apart", ""))
        edge, pipeline = engine.plans.lowered(bound.plan, options)
        same_inputs = engine.plans.sources_of(bound.plan, options) == query.materialization.inputs
        if edge == query.edge or edge in engine.sources or not same_inputs:
            return False
        if engine.backfills.is_due(pipeline):
            past = shortest_past(engine, bound, past)
        own = Eager(engine.reader, edge, bound.schema, bound.kind == "stream")
        steps = engine.plans.steps_of(bound.plan, options=options)
        new = _Replacement(query, planned, own, steps, replace(change, state="moved"), query.plan_change)
        move = Move(
            query.edge,
            edge,
            pipeline,
            past.kept,
            past.first if past.kept else 0,
            partial(self._catalog, new, query.edge),
            partial(self._moved, new, query.edge),
            partial(self._ended, new),
        )
        self._moving[query.name.lower()] = move
        self._say(query, change)
        engine.move(move)
        return True

    # The move

    def _catalog(self, new: _Replacement, before: str) -> Catalog | None:
        query, declared = new.query, self._session.declared
        entry = declared.find("query", query.name)
        is_there = self._registry.get(query.name) is query and query.edge == before and entry is not None
        if not is_there or entry is None or self._session.settings.replan == "off":
            return None
        kept = {"edge": new.materialization.edge, "steps": new.steps, "replanned": new.change.entry()}
        new.declared = declared.replacing(entry, {**entry, **new.planned.entry(), **kept})
        return new.declared.entries

    def _moved(self, new: _Replacement, before: str) -> None:
        query, planned = new.query, new.planned
        self._session.declared = new.declared
        query.change_plan(planned.bound, new.materialization)
        self._say(query, new.change)
        self._engine.take_over(before, new.materialization.edge, new.declared.entries)
        del self._moving[query.name.lower()]

    def _ended(self, new: _Replacement, error: Error | None) -> None:
        """It is over: where the query has not moved, it goes on as before."""
        query = new.query
        if self._moving.pop(query.name.lower(), None) is None:
            if error is not None:
                _log.warning("query %s: its former plan could not be forgotten: %s", query.name, error)
            return
        query.plan_change = new.before
        self._planned_by.pop(query.name.lower(), None)  # so that it is looked at when there is more
        if error is not None:
            self._say(query, replace(new.change, state="stays", reason=f"{new.change.reason}, but {error}"))

    def _say(self, query: Query, change: PlanChange) -> None:
        query.plan_change = change
        _log.info("query %s: %s", query.name, change)


def _has_choice(query: Query) -> bool:
    """Whether a query has a plan of its own, of which there may be others."""
    if query.template is not None or query.member_of is not None or query.mode != "eager":
        return False
    if not isinstance(query.materialization, Eager):
        return False
    return any(isinstance(node, lo.Join | lo.SetOperation | ph.ManyJoin) for node in query.common.plan.walk())


def _why_it_stays(query: Query, planned: Planned, past: Past) -> str | None:
    """Why what is kept of history is not enough for another plan; None where it is."""
    if past.unseen is None and query.past.unseen is None and query.past.covered and past.covered and not past.apart:
        if past.kept and is_fragile(planned.bound.plan):
            return f"{_cut(planned, past)}, and what fails counts from there on"
        return None
    return f"{_cut(planned, past)}, and its windows reach further back"


def _cut(planned: Planned, past: Past) -> str:
    begins = (f"{source} begins at {shown_instant(at, planned.bound.domain)}" for source, at in past.kept.items())
    return f"the history of {', '.join(sorted(begins))} (RETAIN)"


def _said(entry: Entry) -> PlanChange | None:
    """What an entry says of the last move."""
    return PlanChange.of(entry["replanned"]) if "replanned" in entry else None


def _is_other(now: SourceStatistics, before: SourceStatistics | None) -> bool:
    if before is None or len(now.distinct) != len(before.distinct):
        return True
    pairs = zip((now.rate, now.size, *now.distinct), (before.rate, before.size, *before.distinct), strict=True)
    return any(max(one, other) > _CHANGED * min(one, other) for one, other in pairs)
