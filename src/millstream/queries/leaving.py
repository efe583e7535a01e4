"""Queries leave their group for plans of their own, where these are the better ones.

    one of them is left, or few of a join of all rows ──run over history──▶ one commit ──▶ no group any more

A group of few queries whose join has lineage looks at no more rows than their own joins would, and stays. One query has
nobody to share with: its own plan is the same without a selection for many. Where a join makes all of its rows for
everybody, few queries that want little of it are better off by themselves; whether they are is said by the model that
compares plans. They leave one after the other. The commit that has the plan of one has it in the group no more, and
the last one ends the group.

It takes more queries to begin a group than may be left for it to end, and a query that has left neither comes back nor
leaves again before as many rows have come as had then: moves never read more than a part of what comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from millstream.catalog.entries import Declarations, statistics_of
from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.engine.groups.group import Group
from millstream.engine.history.move import LeavingMove
from millstream.engine.materialization import Eager
from millstream.engine.query_tables import NAME
from millstream.errors import Error
from millstream.kernel.batch import Batch
from millstream.language.type_names import stored_text
from millstream.plan.comparison import gain_apart
from millstream.plan.lowering.matches import is_fragile
from millstream.plan.lowering.options import Options
from millstream.plan.lowering.selections import has_lineage
from millstream.plan.nodes import sources
from millstream.queries.modes import options_of
from millstream.queries.notices import of_the_past, shortest_past
from millstream.queries.planner import Planned, Planner
from millstream.queries.registration import statement_of
from millstream.queries.registry import Registry
from millstream.queries.sharing_choice import ENOUGH_TO_SHARE, SharingChoice
from millstream.queries.templates import GroupTemplate, Templates
from millstream.queries.weighing import ARRIVED, REPLANNED, arrived_of, known_of_all, why_it_stays
from millstream.query import PlanChange, Query, QueryContext
from millstream.state.snapshot import Catalog

_MOST_NAMES = 64  # of the queries of a group: more of them, though equal, would be as many entries of the catalog

_LAST = "no other query is left in its group"

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Departure:
    """A query that is on its way to a plan of its own."""

    query: Query
    template: GroupTemplate
    planned: Planned
    text: str
    options: Options
    edge: str
    change: PlanChange
    declared: Declarations = field(default_factory=Declarations)  # with the commit by which it leaves
    is_made: bool = False


class Leaving:
    """Knows who leaves its group. All is done under the engine's lock; `again` has a group looked at once more."""

    def __init__(
        self,
        planner: Planner,
        registry: Registry,
        choice: SharingChoice,
        templates: Templates,
        context: QueryContext,
        again: Callable[[Group], None],
    ) -> None:
        self._planner, self._registry, self._choice = planner, registry, choice
        self._templates, self._context, self._again = templates, context, again
        self._engine: Engine = planner.engine
        self._session: Session = planner.session
        self._moving: dict[str, LeavingMove] = {}
        self._left: dict[str, dict[str, int]] = {}  # by query: the rows that its sources had got when it left

    def is_leaving(self, query: Query) -> bool:
        return query.name.lower() in self._moving

    def forget(self, query: Query) -> None:
        """A query is gone."""
        self._left.pop(query.name.lower(), None)
        if (move := self._moving.get(query.name.lower())) is not None:
            self._engine.backfills.cancel(move.afters[0])

    def reading(self, grown: Collection[str]) -> list[str]:
        """Groups of few queries whose queries may have better plans of their own, and that read one of some sources."""
        return [
            group.identity
            for group in self._engine.groups
            if self._are_few(group) and _inputs(group) & {*grown} and (self._rows(group) == 1 or _makes_all(group))
        ]

    def _rows(self, group: Group) -> int:
        """How many queries of a group there are that select different rows."""
        return self._engine.shared_plan.shown[group.edge] - group.equal.without_row

    def _are_few(self, group: Group) -> bool:
        return 0 < self._rows(group) < ENOUGH_TO_SHARE and self._engine.shared_plan.shown[group.edge] <= _MOST_NAMES

    def may_move_again(self, query: Query) -> bool:
        """Whether as much has come since a query left as had before: then its group may be run for it."""
        before = self._left.get(query.name.lower())
        if before is None:
            return True
        now = arrived_of(self._engine, before.keys())
        return sum(now.values()) >= 2 * sum(before.values())

    def consider(self, group: Group, margin: float) -> bool:
        """Have a query leave a group if its own plan is the better one; tells whether one is on its way."""
        with self._engine.lock:
            return self._consider(group, margin)

    def _consider(self, group: Group, margin: float) -> bool:
        tables = self._engine.groups.tables
        if not self._are_few(group) or group.filling or tables.has_waiting(group):
            return False
        is_last = self._rows(group) == 1
        if not is_last and not _makes_all(group):
            return False
        queries = [*self._queries(group)]
        if any(map(self.is_leaving, queries)):
            return True
        reason = _LAST if is_last else self._why_apart(group, margin)
        return reason is not None and any(self.leave(query, reason) for query in queries)

    def _queries(self, group: Group) -> Iterator[Query]:
        """Of a group, those that may leave it."""
        names = (name for rows in self._engine.groups.tables.rows(group).values() for name in rows[NAME].drop_nulls())
        found = (query for name in names if (query := self._registry.get(name)) is not None)
        return (query for query in found if self._may_leave(query, group) and self._is_there_by_choice(query))

    def _may_leave(self, query: Query, group: Group) -> bool:
        """Whether it was registered by itself, and runs."""
        template = query.template
        if not isinstance(template, GroupTemplate) or template.group is not group or template.text_of(query) is None:
            return False
        is_plain = isinstance(query.materialization, Eager) and query.member_of is None
        return is_plain and not query.is_filling and query.error is None

    def _is_there_by_choice(self, query: Query) -> bool:
        """Whether nobody has said that it is to share a plan."""
        template, now = query.template, self._session.settings.sharing
        return isinstance(template, GroupTemplate) and {now, template.planned.planner.settings.sharing} == {"auto"}

    def _why_apart(self, group: Group, margin: float) -> str | None:
        """Why queries of a group should have plans of their own; None where they should not."""
        statistics = known_of_all(self._engine, group.split.core)
        rows = self._engine.groups.tables.rows(group, "admitted").values()
        names = [name for frame in rows for name in frame[NAME].drop_nulls()]
        queries = [query for name in names if (query := self._registry.get(name)) is not None]
        if statistics is None or len(queries) < self._rows(group):
            return None  # those whose words a row had are gone
        core = group.split.core if group.core is None else group.core
        gain = gain_apart(core, [query.bound.plan for query in queries], statistics)
        return f"the plan that it shares costs {gain:.1f} times as much" if gain >= margin else None

    # The move

    def leave(self, query: Query, reason: str, *, weighed: bool = True) -> bool:
        """Have a query go on by a plan of its own; tells whether it does."""
        with self._engine.lock:
            template = query.template
            if not isinstance(template, GroupTemplate) or not self._may_leave(query, template.group):
                return False
            return not self.is_leaving(query) and self._leave(query, template, reason, weighed=weighed)

    def _leave(self, query: Query, template: GroupTemplate, reason: str, *, weighed: bool) -> bool:
        engine = self._engine
        planned, text = self._planned(query, template)
        options = options_of(planned, query.past)
        edge, pipeline = engine.plans.lowered(planned.bound.plan, options)
        if edge in engine.sources:
            return False
        new = _Departure(
            query, template, planned, text, options, edge, PlanChange("moving", engine.snapshot.epoch, reason)
        )
        past = of_the_past(engine, planned.bound)
        why = "what fails is told as it is found" if is_fragile(planned.bound.plan) else None
        why = why or why_it_stays([query.past], planned.bound, past)
        read = shortest_past(engine, planned.bound, past) if engine.backfills.is_due(pipeline) else past
        if why is None and weighed and not self.may_move_again(query):
            why = "not as many rows have come since it left the last time as before"
        if why is not None:
            self._say(query, replace(new.change, state="stays", reason=f"{reason}, but {why}"))
            return False
        self._moving[query.name.lower()] = move = LeavingMove(
            ((query.edge, edge),),
            pipeline,
            read.kept,
            read.first if read.kept else 0,
            partial(self._catalog, new),
            partial(self._moved, new),
            partial(self._ended, new),
            partial(_rows_until, query),
        )
        self._say(query, new.change)
        engine.moves.move(move)
        return True

    def _planned(self, query: Query, template: GroupTemplate) -> tuple[Planned, str]:
        text = template.text_of(query)
        if text is None:
            raise AssertionError(f"{query.name} came with others")
        with stored_text():
            return template.planned.planner.ordering_joins().plan(text, statement_of(text).query), text

    def _catalog(self, new: _Departure) -> Catalog | None:
        query = new.query
        is_there = self._registry.get(query.name) is query and query.template is new.template
        if not is_there or self._session.settings.replan == "off":
            return None
        arrived = arrived_of(self._engine, _inputs(new.template.group))
        new.declared = self._session.declared.with_entry(
            "query",
            query.name,
            shown=query.name,
            mode=query.mode,
            text=new.text,
            **new.planned.entry(),
            **query.past.entry(),
            edge=new.edge,
            steps=self._engine.plans.steps_of(new.planned.bound.plan, options=new.options),
            **{REPLANNED: {**new.change.entry(), ARRIVED: arrived}},
        )
        self._left[query.name.lower()] = arrived
        return new.declared.entries

    def _moved(self, new: _Departure) -> None:
        """By the same commit it is in the group no more."""
        query, template, engine, bound = new.query, new.template, self._engine, new.planned.bound
        row, move = self._as_it_was(query), self._moving.pop(query.name.lower())
        self._session.declared = new.declared
        reason = query.materialization.reason if isinstance(query.materialization, Eager) else ""
        own = Eager(engine.reader, new.edge, bound.schema, bound.kind == "stream", reason=reason)
        query.join(Query(self._context, query.name, query.mode, bound, own, past=query.past))
        engine.moves.show(move)
        self._templates.drop(row, template, recorded=True)
        self._registry.has_left(template)
        self._could_be_in(query, new)
        new.is_made = True
        self._say(query, replace(new.change, state="moved"))
        if engine.groups.get(template.group.edge) is template.group and not engine.life.is_closing:
            self._again(template.group)

    def _as_it_was(self, query: Query) -> Query:
        """A query as a row of its group, which it is for others until it has left."""
        return Query(
            self._context,
            query.name,
            query.mode,
            query.common,
            query.materialization,
            query.number,
            query.template,
            query.past,
        )

    def _could_be_in(self, query: Query, new: _Departure) -> None:
        planner = new.planned.planner
        found = self._choice.memberships(new.planned.bound, planner, statistics_of(new.planned.statistics))
        self._choice.note_own_plan(query.name, {each.group: each.wanted for each in found})

    def _ended(self, new: _Departure, error: Error | None) -> None:
        """It is over: where the query has not left, it goes on in its group."""
        if new.is_made:
            if error is not None:
                _log.warning("query %s: its group could not be told that it has left: %s", new.query.name, error)
            return
        self._moving.pop(new.query.name.lower(), None)
        reason = (
            f"{new.change.reason}, but {error}" if error is not None else f"{new.change.reason}, but it was called off"
        )
        self._say(new.query, replace(new.change, state="stays", reason=reason))

    def _say(self, query: Query, change: PlanChange) -> None:
        if query.plan_change is None or (query.plan_change.state, query.plan_change.reason) != (
            change.state,
            change.reason,
        ):
            query.plan_change = change
            _log.info("query %s: %s", query.name, change)


def _makes_all(group: Group) -> bool:
    """Whether its join makes all rows for everybody."""
    return len(sources(group.split.core)) > 1 and not has_lineage(group.split.core)


def _inputs(group: Group) -> frozenset[str]:
    return frozenset(source.feed for source in sources(group.split.core))


def _rows_until(query: Query, instant: int) -> Batch:
    """The rows that a query has had in its group, as far as they begin up to an instant."""
    return query.materialization.answer(lambda _: (-1, instant), whole=True).rows
