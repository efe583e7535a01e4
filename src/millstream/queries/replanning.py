"""Plans follow the data: queries move to the plan that the statistics of now make the better one.

    epochs ──a source has grown──▶ plan again ──better by a margin──▶ run over history ──one commit──▶ the new plan

Looking is done in the background, and seldom: when a source has got as many rows again as it had at the last look, and
for queries whose statistics are others than when they were last planned. A move is a backfill beside the plan that
runs. It ends with the commit that has the new plan's state and results, and the statistics by which the same plan is
made when the database is opened next. It is begun only where history covers the query's windows; else
the new plan takes over the state of the old one, where that goes. A query of mode LAZY moves what makes its matches;
one of mode NONE has nothing that would have to move, and is asked by the new plan at once. Groups move as wholes
(`group_replanning`).

Plans do not flap: both are compared by the same statistics, and to move back these must have changed so much that the
plan that was left is the better one by the margin in its turn. Nor does a move read more rows than have come since the
last one: moves never cost more than a part of what the rows themselves do.
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
from millstream.engine.groups.group import Group
from millstream.engine.history.handover import CannotHandOver
from millstream.engine.history.move import Move
from millstream.engine.materialization import Eager, Lazy, Materialization, Unmaterialized
from millstream.engine.past import Past
from millstream.engine.reports import EpochReport
from millstream.engine.sources import STATISTICS_ROWS
from millstream.errors import ClosedError, Error
from millstream.kernel.pipeline import Pipeline
from millstream.language.type_names import stored_text
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.comparison import burden
from millstream.plan.cost import Statistics
from millstream.plan.lowering.matches import is_fragile
from millstream.plan.lowering.options import Options
from millstream.queries.group_replanning import GroupReplanning
from millstream.queries.leaving import Leaving
from millstream.queries.modes import Modes, kept_windows, options_of
from millstream.queries.notices import of_the_past, shortest_past
from millstream.queries.planner import ORDERED, Planned, Planner
from millstream.queries.registration import Registration, statement_of
from millstream.queries.registry import Registry
from millstream.queries.sharing_choice import SharingChoice
from millstream.queries.templates import GroupTemplate, Templates
from millstream.queries.weighing import (
    ARRIVED,
    REPLANNED,
    KnownStatistics,
    arrived_of,
    known_of_all,
    last_move,
    why_it_stays,
    why_not_yet,
)
from millstream.query import PlanChange, Query, QueryContext
from millstream.state.snapshot import Catalog

MARGIN = 2.0  # so many times better must another plan be
LEAST_ROWS = 10_000  # that a source must have got since the last look
_GROUP = "group "  # in front of those that are to be planned again and are no queries

_OTHER_MATCHES = "the matches that are kept are of other columns"

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Replacement:
    """Another plan that a query is on its way to."""

    query: Query
    planned: Planned
    materialization: Materialization
    plans: tuple[lo.Node, ...]  # by which its edges are made
    options: Options
    change: PlanChange
    before: PlanChange | None  # what was said of its plan
    declared: Declarations = field(default_factory=Declarations)  # with the commit that moves it
    is_made: bool = False  # the query goes by this plan: whatever ends later, it is not a move of now


class Replanning:
    """Looks after the plans of queries that have one of their own. All is done under the engine's lock."""

    def __init__(
        self,
        planner: Planner,
        registry: Registry,
        modes: Modes,
        choice: SharingChoice,
        registration: Registration,
        templates: Templates,
        context: QueryContext,
    ) -> None:
        self._planner, self._registry, self._modes = planner, registry, modes
        self._choice, self._registration = choice, registration
        self._engine: Engine = planner.engine
        self._session: Session = planner.session
        self.groups = GroupReplanning(planner.engine, planner.session, registry)
        self.leaving = Leaving(planner, registry, choice, templates, context, self._look_at_group)
        self.margin, self.least_rows = MARGIN, LEAST_ROWS
        self._looked: dict[str, int] = {}  # per source: the rows that it had got at the last look
        self._known = KnownStatistics()
        self._due: deque[str] = deque()  # queries and groups to be planned again
        self._moving: dict[str, Move] = {}
        # Queries that are to move as soon as all their streams are at one instant, by which statistics, if not by those
        # of then.
        self._waiting: dict[str, Statistics | None] = {}

    def is_moving(self, query: Query) -> bool:
        if isinstance(query.template, GroupTemplate):
            return self.groups.is_moving(query.template.group) or self.leaving.is_leaving(query)
        return query.name.lower() in self._moving

    def forget(self, query: Query) -> None:
        """A query is gone."""
        if isinstance(query.template, GroupTemplate):
            self.groups.forget(query.template.group)
        self.leaving.forget(query)
        self._known.forget(query.name.lower())
        if (move := self._moving.get(query.name.lower())) is not None:
            self._engine.backfills.cancel(move.afters[0])

    # When to look

    def notice(self, report: EpochReport) -> None:
        """An epoch has ended in which some sources have moved."""
        if self._session.settings.replan == "off":
            return
        if self._waiting:
            self._hand_over_waiting(report.progress)
        if self.groups.waiting:
            self.groups.hand_over_waiting(report.progress, self.margin)
        progress = {source: report.after.progress(source).arrived for source in report.progress}
        grown = {source: rows for source, rows in progress.items() if self._has_grown(source, rows)}
        if grown:
            self._looked |= grown
            reading = (query for query in self._registry if _has_choice(query))
            names = [query.name for query in reading if query.materialization.inputs & grown.keys()]
            waiting, others, small = self._choice.apart_from(), self.groups.reading(grown), self.leaving.reading(grown)
            self._look([*names, *(_GROUP + identity for identity in dict.fromkeys((*waiting, *others, *small)))])

    def _has_grown(self, source: str, rows: int) -> bool:
        before = self._looked.get(source, 0)
        return rows - before >= max(self.least_rows, min(before, STATISTICS_ROWS))

    def _look_at_group(self, group: Group) -> None:
        self._look([_GROUP + group.identity])

    def _look(self, names: Collection[str]) -> None:
        is_looking, known = bool(self._due), {*self._due}
        self._due.extend(name for name in names if name not in known)
        if self._due and not is_looking:
            self._engine.background.begin(self._look_at_next)

    def _look_at_next(self) -> None:
        """At one query at a time, so that nobody who reads waits for long."""
        with self._engine.lock:
            if not self._due:
                return  # it was looked at meanwhile
            name = self._due.popleft()
            try:
                if name.startswith(_GROUP):
                    group = self.groups.find(name.removeprefix(_GROUP))
                    if group is not None and not self.leaving.consider(group, self.margin):
                        self.gather(group)
                        self.groups.consider(group, self.margin)
                elif (query := self._registry.get(name)) is not None:
                    self.consider(query)
            except ClosedError:
                return
            except Error as error:
                _log.warning("%s: another plan could not be found: %s", name, error)
            finally:
                if self._due and not self._engine.life.is_closing:
                    self._engine.background.begin(self._look_at_next)

    # What to do

    def consider(self, query: Query, statistics: Statistics | None = None) -> bool:
        """Plan a query again by the statistics of now, or by others, and have it move to that plan if that is better;
        tells whether it does."""
        with self._engine.lock:
            if isinstance(query.template, GroupTemplate):
                return self.groups.consider(query.template.group, self.margin, statistics)
            entry = self._session.declared.find("query", query.name)
            if entry is None or not _has_choice(query) or self.is_moving(query):
                return False
            if query.is_filling or query.error is not None:
                return False
            known = known_of_all(self._engine, query.common.plan) if statistics is None else statistics
            if known is None or (statistics is None and not self._has_changed(query, entry, known)):
                return False
            planned = self._planned(entry, known if self._has_empty(known) else statistics)
            new = self._replacement(query, entry, planned)
            gain = None if new is None else self._gain(query, new)
            if new is None or gain is None:
                query.plan_change = last_move(entry)
                return False
            new.change = PlanChange("moving", self._engine.snapshot.epoch, f"its plan costs {gain:.1f} times as much")
            if isinstance(new.materialization, Unmaterialized):
                return self._replace(new)
            past, reason = self._past(query, new)
            if reason is not None:
                return self._hand_over(new, reason, statistics)
            return self._begin(new, entry, past, weighed=statistics is None)

    def gather(self, group: Group) -> int:
        """Have queries come to a group that began before it was there, and keep plans of their own: for the group each
        is one row more. Tells how many do."""
        with self._engine.lock:
            names = self._choice.apart_from().get(group.identity, ())
            if not names or self.groups.is_moving(group):
                return 0
            change = PlanChange("moved", self._engine.snapshot.epoch, "others share a plan that serves it too")
            moved = self._registration.gather_late(group, names, self._may_come)
            for query in moved:
                self._known.forget(query.name.lower())
                self._say(query, change)
            return len(moved)

    def _may_come(self, query: Query) -> bool:
        return not self.is_moving(query) and self.leaving.may_move_again(query)

    def change_setting(self, query: Query, name: str, value: object) -> str:
        """Plan a query again under another setting, and have it move to that plan, whether it is better or not; tells
        what comes of it."""
        with self._engine.lock:
            entry = self._session.declared.find("query", query.name)
            if entry is None or query.template is not None or query.member_of is not None:
                return "stays: it shares the plan of a group"
            if self.is_moving(query) or query.is_filling or query.error is not None:
                return "stays: it is not running"
            settings = self._session.settings_of(entry).with_value(name, value)
            planner = self._planner.of(entry).under(settings).ordering_joins(ORDERED in entry)
            with stored_text():
                planned = planner.plan(entry["text"], statement_of(entry["text"]).query)
            new = self._replacement(query, entry, planned)
            if new is None or new.materialization.edges == query.materialization.edges:
                return "stays: its plan is the same"
            new.change = PlanChange("moving", self._engine.snapshot.epoch, f"SET {name} = {value}")
            if isinstance(new.materialization, Unmaterialized):
                self._replace(new)
            else:
                past, reason = self._past(query, new)
                if reason is not None:
                    return f"stays: {reason}"
                self._begin(new, entry, past, weighed=False)
            return str(query.plan_change or new.change)

    def change_group(self, group: Group, name: str, value: object) -> str:
        """The same for all queries of a group."""
        with self._engine.lock:
            return self.groups.change_setting(group, name, value)

    def _hand_over(self, new: _Replacement, reason: str, statistics: Statistics | None) -> bool:
        """Have a query move with the state of the plan that it has, where history is not enough; tells whether it
        did."""
        query = new.query
        move = self._move(new, Past())
        if move is None:
            return False
        self._moving[query.name.lower()] = move
        try:
            if is_fragile(new.planned.bound.plan):
                raise CannotHandOver("what fails is told as it is found")
            if not _is_laid_out_alike(query.materialization, new.materialization):
                raise CannotHandOver(_OTHER_MATCHES)
            self._engine.moves.hand_over(move)
        except CannotHandOver as error:
            self._moving.pop(query.name.lower(), None)
            self._stay(new, f"{reason}; nor can state be handed over: {error}")
            if error.is_early:
                self._waiting[query.name.lower()] = statistics
            return False
        self._waiting.pop(query.name.lower(), None)
        return True

    def _hand_over_waiting(self, grown: Collection[str]) -> None:
        """Look again at queries whose streams were at different instants."""
        for name, statistics in [*self._waiting.items()]:
            query = self._registry.get(name)
            if query is None:
                del self._waiting[name]
            elif query.materialization.inputs & set(grown):
                found = {self._engine.sources.frontier(source) for source in query.materialization.inputs}
                if len(found) == 1:
                    del self._waiting[name]
                    self.consider(query, statistics or self._engine.sources.statistics(query.materialization.inputs))

    def _has_empty(self, known: Statistics) -> bool:
        """Whether some source has no rows, of which the planner would expect some."""
        return len(self._engine.sources.statistics(known)) < len(known)

    def _has_changed(self, query: Query, entry: Entry, known: Statistics) -> bool:
        before = entry["statistics"] if ORDERED in entry else None
        return self._known.have_changed(query.name.lower(), known, before)

    def _planned(self, entry: Entry, statistics: Statistics | None) -> Planned:
        planner = self._planner.of(entry).ordering_joins()
        given = None if statistics is None else statistics_entry(statistics)
        with stored_text():
            return planner.plan(entry["text"], statement_of(entry["text"]).query, statistics=given)

    def _replacement(self, query: Query, entry: Entry, planned: Planned) -> _Replacement | None:
        """A query by another plan; None where that would keep something else."""
        engine, bound, own = self._engine, planned.bound, query.materialization
        options = options_of(planned, query.past, entry.get("apart", ""))
        new: Materialization | str
        plans: tuple[lo.Node, ...] = (bound.plan,)
        if isinstance(own, Eager):
            edge = engine.plans.edge_of(bound.plan, options)
            new = replace(own, edge=edge, schema=bound.schema)
        else:
            new = self._modes.materialization(query.name, query.mode, planned, entry.get("kept"))
            if isinstance(new, str) or type(new) is not type(own):
                return None
            new = self._modes.by_past(new, planned, query.past, entry.get("apart", ""))
            plans = _plans(new)
        same_inputs = engine.plans.sources_of(bound.plan, options) == own.inputs
        if not same_inputs or len(new.edges) != len(own.edges) or any(edge in engine.sources for edge in new.edges):
            return None
        unknown = PlanChange("", 0, "")
        return _Replacement(query, planned, new, plans, options, unknown, query.plan_change)

    def _gain(self, query: Query, new: _Replacement) -> float | None:
        """How many times better the other plan is, where that is enough."""
        own = query.materialization
        before = (query.common.plan,) if isinstance(own, Eager) else _plans(own)
        if before == new.plans:
            return None
        statistics = statistics_of(new.planned.statistics)
        other = sum(burden(_read(plan), statistics) for plan in new.plans)
        gain = sum(burden(_read(plan), statistics) for plan in before) / max(other, 1e-9)
        return gain if gain >= self.margin else None

    def _past(self, query: Query, new: _Replacement) -> tuple[Past, str | None]:
        """What the other plan has of the past, and why that is not enough, if so. Matches are kept for as long as some
        query may need them."""
        engine, bound = self._engine, new.planned.bound
        past = of_the_past(engine, bound)
        if (reason := why_it_stays([query.past], bound, past)) is not None or isinstance(new.materialization, Eager):
            return past, reason
        for part in new.plans:
            own = of_the_past(engine, replace(bound, plan=part))
            if (reason := why_it_stays([query.past], bound, own)) is not None:
                return past, reason
            past = own if own.first > past.first else past
        if past.kept and any(isinstance(plan, ph.RankedTree) for plan in new.plans):
            return past, "its tree is kept as a whole, and history does not have all"
        if past.kept and not _is_laid_out_alike(query.materialization, new.materialization):
            return past, _OTHER_MATCHES
        return past, None

    def _begin(self, new: _Replacement, entry: Entry, past: Past, *, weighed: bool) -> bool:
        engine, query, edges = self._engine, new.query, new.materialization.edges
        whole = self._move(new, past)
        if whole is None:
            return False
        is_eager, is_made = isinstance(new.materialization, Eager), all(engine.shared_plan.shown[e] for e in edges)
        shortest = shortest_past(engine, new.planned.bound, past) if is_eager else past
        if weighed and not is_made and (reason := why_not_yet(engine, self._inputs(query), entry, shortest)):
            self._known.forget(query.name.lower())  # so that it is looked at when there is more
            self._stay(new, reason)
            return False
        move = self._move(new, shortest) if engine.backfills.is_due(whole.pipeline) else whole
        if move is None:
            return False
        self._moving[query.name.lower()] = move
        self._say(query, new.change)
        engine.moves.move(move)
        return True

    def _move(self, new: _Replacement, past: Past) -> Move | None:
        """The move to another plan that has so much of the past; None where it is the same."""
        before, engine = new.query.materialization, self._engine
        pairs = zip(before.edges, new.materialization.edges, new.plans, strict=True)
        moving = [(one, other, plan) for one, other, plan in pairs if one != other]
        steps = (engine.plans.lowered(plan, new.options)[1].steps for _, _, plan in moving)
        return (
            None
            if not moving
            else Move(
                tuple((one, other) for one, other, _ in moving),
                Pipeline().with_steps(*steps),
                past.kept,
                past.first if past.kept else 0,
                partial(self._catalog, new, before),
                partial(self._moved, new),
                partial(self._ended, new),
            )
        )

    @staticmethod
    def _inputs(query: Query) -> frozenset[str]:
        return query.materialization.inputs

    # The move

    def _catalog(self, new: _Replacement, before: Materialization) -> Catalog | None:
        query, declared = new.query, self._session.declared
        entry = declared.find("query", query.name)
        is_there = self._registry.get(query.name) is query and query.materialization is before and entry is not None
        if not is_there or entry is None or self._session.settings.replan == "off":
            return None
        replanned = {**new.change.entry(), ARRIVED: arrived_of(self._engine, self._inputs(query))}
        new.declared = declared.replacing(
            entry, {**entry, **new.planned.entry(), **self._kept(new), REPLANNED: replanned}
        )
        return new.declared.entries

    def _kept(self, new: _Replacement) -> dict[str, object]:
        """Under which names the new plan is kept."""
        match new.materialization:
            case Lazy() as lazy:
                return kept_windows(lazy)
            case Eager() as eager:
                steps = self._engine.plans.steps_of(*new.plans, options=new.options)
                return {"edge": eager.edge, "steps": steps}
            case _:
                return {}

    def _moved(self, new: _Replacement) -> None:
        query, before = new.query, new.query.materialization
        move = self._moving[query.name.lower()]
        self._go_on(new)
        try:
            self._engine.moves.take_over(move, new.declared.entries)
            if isinstance(new.materialization, Lazy) and isinstance(before, Lazy):
                self._modes.has_changed(query.name, before, new.materialization)
        finally:
            del self._moving[query.name.lower()]

    def _go_on(self, new: _Replacement) -> None:
        self._session.declared = new.declared
        new.query.change_plan(new.planned.bound, new.materialization)
        self._say(new.query, replace(new.change, state="moved"))
        new.is_made = True

    def _replace(self, new: _Replacement) -> bool:
        """Ask by another plan from now on, where nothing is kept."""
        catalog = self._catalog(new, new.query.materialization)
        if catalog is None:
            return False
        self._engine.commits.declare(catalog)
        self._go_on(new)
        return True

    def _ended(self, new: _Replacement, error: Error | None) -> None:
        """It is over: where the query has not moved, it goes on as before; one that has may be on its next."""
        query = new.query
        if new.is_made:
            if error is not None:
                _log.warning("query %s: its former plan could not be forgotten: %s", query.name, error)
            return
        self._moving.pop(query.name.lower(), None)
        query.plan_change = new.before
        self._known.forget(query.name.lower())  # so that it is looked at when there is more
        if error is not None:
            self._stay(new, str(error))

    def _stay(self, new: _Replacement, reason: str) -> None:
        self._say(new.query, replace(new.change, state="stays", reason=f"{new.change.reason}, but {reason}"))

    def _say(self, query: Query, change: PlanChange) -> None:
        query.plan_change = change
        _log.info("query %s: %s", query.name, change)


def _plans(materialization: Materialization) -> tuple[lo.Node, ...]:
    """By which plans a query of mode LAZY or NONE is kept, or asked."""
    match materialization:
        case Lazy():
            return tuple(part.plan for part in materialization.plan.parts)
        case Unmaterialized():
            return (materialization.plan,)
        case _:
            raise AssertionError("neither LAZY nor NONE")


def _is_laid_out_alike(before: Materialization, after: Materialization) -> bool:
    """Whether matches that were kept by one plan are those of another: not where they are of other columns."""
    if not isinstance(before, Lazy) or not isinstance(after, Lazy):
        return True
    kept, others = before.plan.parts, after.plan.parts
    return before.plan.above == after.plan.above and [p.windows for p in kept] == [p.windows for p in others]


def _read(plan: lo.Node) -> lo.Node:
    """What matches are made of, whose cost is known."""
    return plan.children[0] if isinstance(plan, ph.Matches | ph.RankedTree | ph.Guard) else plan


def _has_choice(query: Query) -> bool:
    """Whether a query has a plan of its own, of which there may be others: not of one join of two inputs, which are
    joined in one way."""
    if query.template is not None or query.member_of is not None:
        return False
    own = query.materialization
    if isinstance(own, Unmaterialized) and own.edges:
        return False  # what can fail in it is tried as rows come, by the plan that it has
    nodes = [*query.common.plan.walk()]
    joins = [node for node in nodes if isinstance(node, lo.Join | ph.ManyJoin)]
    if len(joins) == 1 and isinstance(joins[0], lo.Join) and joins[0].join == "inner":
        return any(isinstance(node, lo.SetOperation | lo.Distinct) for node in nodes)
    return bool(joins) or any(isinstance(node, lo.SetOperation) for node in nodes)
