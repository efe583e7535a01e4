"""Whether a query gets a plan of its own, or becomes a row of a group.

A group is one plan for all queries that differ only in what they select.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import polars as pl

from millstream.engine.engine import Engine
from millstream.engine.groups.group import Group
from millstream.engine.groups.new_rows import NewRows
from millstream.engine.past import Past
from millstream.kernel.batch import value_column
from millstream.kernel.sharing.identity import Recent
from millstream.language.binder import BoundQuery
from millstream.plan import nodes as lo
from millstream.plan.cost import SourceStatistics, selectivity
from millstream.plan.explain_groups import lines_of_member, service_of
from millstream.plan.grouping import Split, shape_of, splits
from millstream.plan.kept_columns import shared_stems
from millstream.plan.lowering.options import Options
from millstream.plan.lowering.selections import has_lineage
from millstream.plan.nodes import sources
from millstream.plan.shapes import Shape, constants_of, has_many_constants
from millstream.queries.planner import Planner
from millstream.settings import Settings

# From so many queries of one skeleton on, further ones share a plan. Fewer are as well off with plans of their own.
ENOUGH_TO_SHARE = 8
# From so many sizes of windows on, queries share a plan whatever these are. Joins make pairs for the largest window of
# a class of sizes then, which few of them do not make up for.
ENOUGH_SIZES = 2
ENOUGH_JOINED_SIZES = 4
# Of a join that makes all its rows for everybody, those that together want so much of it.
WORTH_ONE_JOIN = 0.5
# So many queries that ask for the same value may become rows of their own before bits are cheaper.
MOST_PER_VALUE = 32
_SPLITS = 64  # plans whose splits are remembered


@dataclass(frozen=True)
class WantedRows:
    """What a query wants of the rows of a core: by which shape and constants, and which part of them."""

    shape: str
    values: tuple[object, ...]
    part: float = field(default=0.0, compare=False)


@dataclass(frozen=True, eq=False)
class Membership:
    """A group that a query could be in: as which row, and the part of the rows of the core that it wants. The plan of a
    group is made when somebody asks for it."""

    split: Split
    shape: Shape
    values: tuple[object, ...]
    find: Callable[[], Group]
    part: float

    @cached_property
    def group(self) -> Group:
        return self.find()

    @property
    def wanted(self) -> WantedRows:
        return WantedRows(self.shape.name, self.values, self.part)


class SharingChoice:
    """Knows which queries could share a plan, and do not yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Queries with plans of their own, by the group they could be in: the part of its rows that each wants.
        self._own_plans: dict[str, dict[str, WantedRows]] = {}
        self._could_be_in: dict[str, tuple[str, ...]] = {}  # by query: those groups
        self._first: tuple[str, list[Membership], bool] | None = None  # a query of which that is not known yet
        self._apart: dict[str, str] = {}  # queries that came before a group and kept their plans: the group
        self._splits = Recent[tuple[lo.Node, list[Split]]](_SPLITS, lambda _: 1)  # by the identity of plans
        self._values: dict[tuple[str, str], set[object]] = {}  # by group and shape: the values of keys
        # By group whose queries may have windows of any sizes: those that were asked for.
        self._sizes: dict[str, set[tuple[object, ...]]] = {}

    def group(self, found: Split, shape: Shape, options: Options, constants: pl.DataFrame | None = None) -> Group:
        """The group for a query of a shape, or for many with these constants: by the value of a column that they ask
        for, where there are not too many of them for each value."""
        groups = self._engine.groups
        if shape.key is not None:
            key, parameter = shape.key
            keyed = groups.find(found, key, options)
            values = None if constants is None else constants[value_column(parameter)]
            known = len(self._values.get((keyed.identity, shape.name), ()))
            known += 1 if values is None else values.n_unique()
            rows = groups.tables.next_query(keyed) - len(keyed.equal)
            count = rows + (1 if constants is None else constants.n_unique())
            if count <= MOST_PER_VALUE * known:
                return keyed
        return groups.find(found, None, options)

    def has_joined(self, group: Group, shape: Shape, rows: NewRows) -> None:
        """Queries with these constants are in a group now."""
        if group.key is not None and shape.key is not None:
            values = rows.constants(shape.key[1])
            self._values.setdefault((group.identity, shape.name), set()).update(values)

    def forget_shape(self, group: Group, shape: Shape) -> None:
        """No query of a group has a shape any more."""
        self._values.pop((group.identity, shape.name), None)

    def memberships(
        self,
        bound: BoundQuery,
        planner: Planner,
        statistics: Mapping[str, SourceStatistics],
        *,
        recorded: bool = False,
    ) -> Iterator[Membership]:
        """The groups that a query could be in, those first that have more in common. One that there is a record of was
        in a group before."""
        if planner.settings.sharing == "off" or (not recorded and has_many_constants(bound.plan)):
            return
        for found in self.splits(bound.plan):
            if found.window is not None and planner.options.strategy != "upa":
                continue  # windows say themselves when their rows go
            shape, values = shape_of(found)
            find = partial(self.group, found, shape, planner.options)
            yield Membership(found, shape, values, find, wanted_part(found, statistics))

    def splits(self, plan: lo.Node) -> list[Split]:
        """The ways in which a plan can be split: a query that has come with a plan of its own is often asked for them
        again, when the next one comes."""
        return self._splits.get(id(plan), lambda: (plan, splits(plan)), lambda held: held[0] is plan)[1]

    def chosen(self, memberships: list[Membership], settings: Settings, past: Past | None = None) -> Membership | None:
        """The group that a query should come to, if there is one: one that there is, or that is worth to be begun."""
        there = [each for each in memberships if each.group.edge in self._engine.groups]
        others = [each for each in memberships if self._is_worth(each, settings)]
        if settings.sharing == "on" and any(constants_of(e.split.condition) for e in others if e.split.cut == "from"):
            others.reverse()  # to the one that most others may come to
            others.sort(key=lambda each: each.split.cut != "cases")  # which makes no rows of each query
        for each in (*there, *others):
            if past is None or not self.differs_by_its_past(each.group, past):
                return each
        return None

    def _is_worth(self, membership: Membership, settings: Settings) -> bool:
        window = membership.split.window
        if window is not None and membership.split.cut != "limit":
            enough = ENOUGH_JOINED_SIZES if window.instants else ENOUGH_SIZES
            if len(self._sizes.get(membership.group.identity, ())) < enough:
                return False
        return self.is_to_share(membership.group, settings, membership.wanted)

    def is_first(self, settings: Settings) -> bool:
        """Whether there is nothing yet that a query could share, or could come to share with others."""
        known = self._own_plans or self._first is not None or any(True for _ in self._engine.groups)
        return settings.sharing == "auto" and not known

    def note_first(self, name: str, memberships: list[Membership], *, is_new: bool) -> None:
        """The first query has a plan of its own. Which groups it could be in is found out when there is another one."""
        self._first = name, memberships, is_new

    def _know_first(self) -> None:
        if self._first is not None:
            (name, memberships, is_new), self._first = self._first, None
            if is_new:
                self.note_sizes(memberships)
            self.note_own_plan(name, {each.group: each.wanted for each in memberships})

    def note_sizes(self, memberships: list[Membership]) -> None:
        """A query comes that could be in groups whose queries may have windows of any sizes."""
        for each in memberships:
            window = each.split.window
            if window is not None:
                known = self._sizes.setdefault(each.group.identity, set())
                if len(known) < ENOUGH_JOINED_SIZES:
                    known.add(tuple(each.values[place] for place in window.sizes))

    def is_to_share(self, group: Group, settings: Settings, wanted: WantedRows) -> bool:
        """Whether a query should come to a group, given what it wants of the rows of the core. Those that want the same
        have one plan without a group, too."""
        self._know_first()
        if settings.sharing == "on" or group.edge in self._engine.groups:
            return True
        others = {*self._own_plans.get(group.identity, {}).values()} - {wanted}
        if len(others) >= ENOUGH_TO_SHARE:
            return True
        if not others or len(sources(group.split.core)) < 2:
            return False
        # One join that looks at no more rows than the joins of all do, or one of all rows instead of several of some.
        return has_lineage(group.split.core) or sum(other.part for other in others) + wanted.part >= WORTH_ONE_JOIN

    def is_to_begin(self, group: Group, settings: Settings, wanted: WantedRows) -> bool:
        """Whether a further query should come to a group that is not there yet, and to no other before it: one that
        differs in constants of its condition only from all that could be in the group."""
        self._know_first()
        others = [self._could_be_in[name] for name in self._own_plans.get(group.edge, ())]
        is_first = bool(others) and all(edges[0] == group.edge for edges in others)
        return is_first and self.is_to_share(group, settings, wanted)

    def may_be_shared(self, memberships: list[Membership]) -> bool:
        """Whether a second query would be enough for a query to come to a group."""
        cores = [each.split.core for each in memberships if each.split.window is None]
        return any(len(sources(core)) > 1 and has_lineage(core) for core in cores)

    def differs_by_its_past(self, group: Group, past: Past) -> bool:
        """Whether what the group's selection reads has seen more of the past than is kept, or will have: then the state
        there is does not go with what a new query has seen."""
        if not past.apart:
            return False
        if past.covered and past.counted:
            return True  # a group counts what fails from now on
        engine = self._engine
        if any(engine.snapshot.states.get(step.name) for step in group.below):
            return True
        others = engine.pasts.all_of(group.edge)
        keeps = any(step.operator.distribution.keys is not None for step in group.below)
        return keeps and any(other.kept != past.kept for other in others)

    def note_own_plan(self, name: str, groups: Mapping[Group, WantedRows]) -> None:
        """A query has a plan of its own that could be in groups, of whose rows it wants a part."""
        self._know_first()
        self.forget(name)
        for group, wanted in groups.items():
            self._own_plans.setdefault(group.identity, {})[name.lower()] = wanted
        self._could_be_in[name.lower()] = tuple(dict.fromkeys(group.identity for group in groups))

    def own_plans(self, group: Group) -> list[str]:
        """The queries that could be in a group."""
        self._know_first()
        return [*self._own_plans.get(group.identity, ())]

    def stays_apart(self, name: str, group: Group) -> None:
        """A query keeps its own plan, though its group is there now."""
        self.forget(name)
        self._apart[name.lower()] = group.identity

    def apart_from(self) -> dict[str, list[str]]:
        """By groups that are there the queries that could be in them, and have their own plans."""
        if any(True for _ in self._engine.groups):
            self._know_first()
        groups = self._engine.groups
        found = {group: [*names] for group, names in self._own_plans.items() if groups.get(group) is not None}
        for name, identity in self._apart.items():
            found.setdefault(identity, []).append(name)
        return found

    def forget(self, name: str) -> None:
        """A query is gone, or has come to a group."""
        if self._first is not None and self._first[0].lower() == name.lower():
            self._first = None
        self._apart.pop(name.lower(), None)
        for edge in self._could_be_in.pop(name.lower(), ()):
            others = self._own_plans[edge]
            del others[name.lower()]
            if not others:
                del self._own_plans[edge]

    def explain(self, bound: BoundQuery, planner: Planner) -> list[str]:
        """What a query would share if it were registered now, what it would add, and what would serve it."""
        engine, options = self._engine, planner.options
        statistics = engine.sources.statistics({source.feed for source in sources(bound.plan)})
        chosen = self.chosen([*self.memberships(bound, planner, statistics)], planner.settings)
        if chosen is not None:
            shape, group, constants = chosen.shape, chosen.group, chosen.values
            service = service_of(shape.condition, keyed=group.key is not None, constants=constants)
            return lines_of_member(service, shape.own_columns, constants, engine.shared_plan.shown[group.edge])
        own = engine.plans.pipeline_of(bound.plan, options)
        known = {step.name for step in engine.pipeline.steps}
        shared = [step.name for step in own.steps if step.name in known]
        lines = [f"shares {len(shared)} of its {len(own.steps)} operators: {', '.join(shared)}"] if shared else []
        stems = shared_stems(own, engine.pipeline)
        return lines + ([f"keeps the rows of {', '.join(stems)} together with other joins"] if stems else [])


def wanted_part(found: Split, statistics: Mapping[str, SourceStatistics]) -> float:
    """The part of the rows of the core that a query wants."""
    return selectivity(lo.Filter(found.core, found.condition), statistics)
