"""Plans of groups follow the data: what all queries of a group read is joined in the way that is the better one now.

    the core of a group ──planned again──▶ better by a margin ──▶ run over history for all queries ──one commit──▶ runs

The queries stay rows of the same table, with the same numbers. Their templates' entries say by which statistics the
core was planned, so that it is planned in the same way when the database is opened next.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any

from millstream.catalog.entries import Declarations, Entry, statistics_entry, statistics_of
from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.engine.groups.group import Group
from millstream.engine.history.handover import CannotHandOver
from millstream.engine.history.move import GroupMove
from millstream.engine.materialization import Eager, Lazy, Materialization
from millstream.engine.past import Past
from millstream.engine.plans import steps_name
from millstream.errors import Error
from millstream.kernel.batch import value_columns
from millstream.kernel.sharing.parameters import with_values
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.cost import Statistics, selectivity
from millstream.plan.lowering.matches import is_fragile
from millstream.plan.replanned_core import burden_of_core, has_choice, replanned_core
from millstream.plan.rules.context import Context, JoinChoice
from millstream.queries.notices import of_the_past, shortest_past
from millstream.queries.registry import Registry
from millstream.queries.templates import CORE, GroupTemplate
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
from millstream.query import PlanChange, Query
from millstream.settings import Settings
from millstream.state.snapshot import Catalog

_OF_CORES = tuple(part.name for part in fields(JoinChoice))  # the settings that decide how cores are joined
_CHOSEN = "chosen"  # in what is said of a core: what was chosen about its joins is not what its queries came with
_SAMPLE = 16  # queries whose conditions tell what all of them want

_log = logging.getLogger(__name__)


def core_of(core: lo.Node, said: Mapping[str, Any], shards: int) -> lo.Node:
    """A core as it was planned by what an entry says."""
    return replanned_core(core, Context(statistics_of(said["statistics"]), JoinChoice(**said["choice"]), shards))


@dataclass(eq=False)
class _Change:
    """Another plan that a group is on its way to."""

    group: Group
    target: Group
    change: PlanChange
    inputs: frozenset[str]
    declared: Declarations = field(default_factory=Declarations)  # with the commit that moves it
    is_made: bool = False


class GroupReplanning:
    """Looks after the plans of groups. All is done under the engine's lock."""

    def __init__(self, engine: Engine, session: Session, registry: Registry) -> None:
        self._engine, self._session, self._registry = engine, session, registry
        self._known = KnownStatistics()
        self._moving: dict[str, GroupMove] = {}  # by the identity of the group
        # Those that are to move once all their streams are at one instant, by which statistics, if not those of then.
        self.waiting: dict[str, Statistics | None] = {}

    def is_moving(self, group: Group) -> bool:
        return group.identity in self._moving

    def forget(self, group: Group) -> None:
        """A query of a group is gone."""
        move = self._moving.get(group.identity)
        if group.edge not in self._engine.groups:
            self._known.forget(group.identity)
            if move is not None:
                self._engine.backfills.cancel(move.target.edge)

    def reading(self, sources: Mapping[str, int]) -> list[str]:
        """Groups of which there may be other plans, and that read one of some sources."""
        return [
            group.identity
            for group in self._engine.groups
            if has_choice(group.split.core) and self._inputs(group) & sources.keys()
        ]

    def find(self, identity: str) -> Group | None:
        return self._engine.groups.get(identity)

    def _inputs(self, group: Group) -> frozenset[str]:
        return frozenset(source.feed for source in lo.sources(group.split.core))

    def consider(self, group: Group, margin: float, statistics: Statistics | None = None) -> bool:
        """Plan the core of a group again by the statistics of now, or by others, and have the group move to that plan
        if that is better; tells whether it does."""
        engine, entries = self._engine, self._entries(group)
        if not entries or self.is_moving(group) or not has_choice(group.split.core):
            return False
        if group.filling or engine.groups.tables.has_waiting(group):
            return False
        said = None if group.core_said is None else group.core_said["statistics"]
        found = known_of_all(engine, group.split.core) if statistics is None else statistics
        if found is None or (statistics is None and not self._known.have_changed(group.identity, found, said)):
            return False
        core, how = self._planned(group, self._choice(group, self._session.settings_of(entries[0])), found)
        gain = self._gain(group, core, found)
        if gain < margin or core == self._core(group):
            _note(self._queries(group), last_move(entries[0]))
            return False
        change = PlanChange("moving", engine.snapshot.epoch, f"its group's plan costs {gain:.1f} times as much")
        return self._move_to(group, core, how, change, statistics, weighed=statistics is None)

    def change_setting(self, group: Group, name: str, value: object) -> str:
        """Plan the core of a group again under another setting, and have the group move to that plan, whether it is
        better or not; tells what comes of it."""
        entries, queries = self._entries(group), self._queries(group)
        is_running = bool(entries) and not self.is_moving(group) and not group.filling
        if not is_running or self._engine.groups.tables.has_waiting(group):
            return "stays: it is not running"
        if name not in _OF_CORES:
            return f"stays: queries that share a plan keep their {name}"
        choice = self._choice(group, self._session.settings_of(entries[0]))
        statistics = self._engine.sources.statistics(self._inputs(group))
        core, how = self._planned(group, JoinChoice(**{**asdict(choice), name: value}), statistics)
        if not has_choice(group.split.core) or core == self._core(group):
            return "stays: its plan is the same"
        change = PlanChange("moving", self._engine.snapshot.epoch, f"SET {name} = {value}")
        self._move_to(group, core, {**how, _CHOSEN: True}, change, statistics, weighed=False)
        return str(queries[0].plan_change or change)

    def _move_to(
        self,
        group: Group,
        core: lo.Node,
        how: dict[str, Any],
        change: PlanChange,
        statistics: Statistics | None,
        *,
        weighed: bool,
    ) -> bool:
        """Have a group move to another core, from history or with the state that it has; tells whether it does."""
        queries, inputs = self._queries(group), self._inputs(group)
        is_first = core == group.split.core and _CHOSEN not in how
        target = group.by_core(None, None) if is_first else group.by_core(core, how)
        if not _is_laid_out_alike(group, target):
            self._stay(queries, change, "answers would be kept in another way")
            return False
        past, reason = self._past(group, queries, target)
        if reason is None and weighed and (reason := why_not_yet(self._engine, inputs, self._entries(group)[0], past)):
            self._known.forget(group.identity)
            self._stay(queries, change, reason)
            return False
        new = _Change(group, target, change, inputs)
        if reason is not None:
            return self._hand_over(new, queries, reason, statistics)
        self._begin(new, past)
        return True

    def _hand_over(self, new: _Change, queries: Sequence[Query], reason: str, statistics: Statistics | None) -> bool:
        """Have a group move with the state of the plan that it has, where history is not enough; tells whether it
        did."""
        identity = new.group.identity
        self._moving[identity] = self._move(new, Past())
        try:
            if is_fragile(queries[0].common.plan):
                raise CannotHandOver("what fails is told as it is found")
            self._engine.moves.hand_over(self._moving[identity])
        except CannotHandOver as error:
            self._moving.pop(identity, None)
            self._stay(queries, new.change, f"{reason}; nor can state be handed over: {error}")
            if error.is_early:
                self.waiting[identity] = statistics
            return False
        self.waiting.pop(identity, None)
        return True

    def _stay(self, queries: Sequence[Query], change: PlanChange, reason: str) -> None:
        self._say(queries, replace(change, state="stays", reason=f"{change.reason}, but {reason}"))

    def hand_over_waiting(self, grown: Collection[str], margin: float) -> None:
        """Look again at groups whose streams were at different instants."""
        for identity, statistics in [*self.waiting.items()]:
            group = self.find(identity)
            inputs = frozenset[str]() if group is None else self._inputs(group)
            frontiers = {self._engine.sources.frontier(source) for source in inputs}
            if group is None or (inputs & set(grown) and len(frontiers) == 1):
                del self.waiting[identity]
            if group is not None and identity not in self.waiting:
                self.consider(group, margin, statistics or self._engine.sources.statistics(inputs))

    @staticmethod
    def _core(group: Group) -> lo.Node:
        return group.split.core if group.core is None else group.core

    def _entries(self, group: Group) -> list[Entry]:
        """Of the templates of a group."""
        entries = self._session.declared.entries
        return [e for e in entries if e["kind"] == "template" and e.get("edge") == group.edge]

    def _queries(self, group: Group) -> list[Query]:
        found = ((query, query.template) for query in self._registry)
        return [query for query, of in found if isinstance(of, GroupTemplate) and of.group is group]

    def _choice(self, group: Group, settings: Settings) -> JoinChoice:
        """What was chosen about the joins of a group: when it was begun, or since then."""
        if group.core_said is not None and _CHOSEN in group.core_said:
            return JoinChoice(**group.core_said["choice"])
        return JoinChoice(settings.join_plan, settings.jit, settings.jit_detection)

    def _planned(self, group: Group, choice: JoinChoice, statistics: Statistics) -> tuple[lo.Node, dict[str, Any]]:
        """Another plan for the core, and what it is made by."""
        choice = replace(choice, jit="off") if _keeps_matches(group) else choice
        said: dict[str, Any] = {"statistics": statistics_entry(statistics), "choice": asdict(choice)}
        if group.core_said is not None and _CHOSEN in group.core_said:
            said[_CHOSEN] = True
        return core_of(group.split.core, said, self._engine.runner.planner.shards), said

    def _gain(self, group: Group, core: lo.Node, statistics: Statistics) -> float:
        """How many times better another core is."""
        wanted = self._wanted(group, statistics)
        before = burden_of_core(self._core(group), statistics, wanted)
        return before / max(burden_of_core(core, statistics, wanted), 1e-9)

    def _wanted(self, group: Group, statistics: Statistics) -> float:
        """The part of the rows of the core that the queries want together, by what some of them do."""
        parts, count = list[float](), 0
        for name, rows in self._engine.groups.tables.rows(group, "admitted").items():
            shape = group.shapes[name]
            count += rows.height
            for values in rows[:_SAMPLE].select(value_columns(len(shape.parameters))).iter_rows():
                selected = lo.Filter(group.split.core, with_values(shape.condition, values))
                parts.append(selectivity(selected, statistics))
        return sum(parts) / len(parts) * count if parts else 1.0

    def _past(self, group: Group, queries: Sequence[Query], target: Group) -> tuple[Past, str | None]:
        """What the queries have of the past by another plan, and why that is not enough, if so. All read the same
        windows."""
        engine, bound = self._engine, queries[0].common
        past = of_the_past(engine, bound)
        reason = why_it_stays((query.past for query in queries), bound, past)
        if reason is None and any(query.past.counted for query in queries):
            reason = "what fails in its queries counts from different instants on"
        if reason is not None:
            return past, reason
        shortest = shortest_past(engine, bound, past)
        if _keeps_matches(group):
            return (
                past,
                "the matches of a group are kept as wholes, and history does not have all" if past.kept else None,
            )
        return (shortest if engine.backfills.is_due(target.pipeline) else past), None

    def _begin(self, new: _Change, past: Past) -> None:
        self._moving[new.group.identity] = move = self._move(new, past)
        self._say(self._queries(new.group), new.change)
        self._engine.backfills.move(move)

    def _move(self, new: _Change, past: Past) -> GroupMove:
        group, target = new.group, new.target
        return GroupMove(
            ((group.edge, target.edge),),
            target.pipeline,
            past.kept,
            past.first if past.kept else 0,
            partial(self._catalog, new),
            partial(self._moved, new),
            partial(self._ended, new),
            group,
            target,
        )

    def _catalog(self, new: _Change) -> Catalog | None:
        group, target = new.group, new.target
        entries = self._entries(group)
        if group.edge not in self._engine.groups or not entries or self._session.settings.replan == "off":
            return None
        replanned = {**new.change.entry(), ARRIVED: arrived_of(self._engine, new.inputs)}
        changed: dict[str, Any] = {
            "edge": target.edge,
            "selection": target.selection,
            "steps": steps_name(target.steps),
            REPLANNED: replanned,
        }
        core = {} if target.core_said is None else {CORE: target.core_said}
        new.declared = self._session.declared
        for entry in entries:
            kept = {key: value for key, value in entry.items() if key != CORE}
            new.declared = new.declared.replacing(entry, {**kept, **changed, **core})
        return new.declared.entries

    def _moved(self, new: _Change) -> None:
        group, queries = new.group, self._queries(new.group)
        self._session.declared = new.declared
        for query in queries:
            query.change_plan(query.common, _shown_by(query.materialization, new.target.edge))
        new.is_made = True
        self._say(queries, replace(new.change, state="moved"))
        try:
            self._engine.moves.take_over_group(self._moving[group.identity])
        finally:
            del self._moving[group.identity]

    def _ended(self, new: _Change, error: Error | None) -> None:
        """It is over: where the group has not moved, it goes on as before."""
        if new.is_made:
            if error is not None:
                _log.warning("the former plan of a group could not be forgotten: %s", error)
            return
        self._moving.pop(new.group.identity, None)
        self._known.forget(new.group.identity)  # so that it is looked at when there is more
        entries, queries = self._entries(new.group), self._queries(new.group)
        if error is not None:
            self._say(queries, replace(new.change, state="stays", reason=f"{new.change.reason}, but {error}"))
        else:
            _note(queries, last_move(entries[0]) if entries else None)

    def _say(self, queries: Sequence[Query], change: PlanChange) -> None:
        _note(queries, change)
        if queries:
            others = f" and {len(queries) - 1} others of its group" if len(queries) > 1 else ""
            _log.info("query %s%s: %s", queries[0].name, others, change)


def _is_laid_out_alike(group: Group, target: Group) -> bool:
    """Whether what a group has shown can be read as what another one shows: rows of queries, or totals of cells."""
    one, other = group.lifted, target.lifted
    alike = one.expanded == other.expanded and one.plan.schema == other.plan.schema
    return alike and (one.upper is None) == (other.upper is None)


def _note(queries: Sequence[Query], change: PlanChange | None) -> None:
    for query in queries:
        query.plan_change = change


def _keeps_matches(group: Group) -> bool:
    """Whether its queries are of mode LAZY."""
    return isinstance(group.lifted.plan, ph.MatchedSelection | ph.TreeSelection)


def _shown_by(materialization: Materialization, edge: str) -> Materialization:
    """The same by another edge."""
    if isinstance(materialization, Eager):
        return replace(materialization, edge=edge)
    if isinstance(materialization, Lazy):
        return replace(materialization, edges=(edge,))
    raise AssertionError("neither EAGER nor LAZY")
