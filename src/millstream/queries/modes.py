"""What a query keeps, by the mode it asks for: decided when it is registered, and found again when it is recovered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from millstream.catalog.entries import Entry, statistics_of
from millstream.engine.engine import Engine
from millstream.engine.materialization import Lazy, Materialization, Unmaterialized
from millstream.engine.past import Past
from millstream.kernel.batch import INF
from millstream.kernel.scalar.expressions import Parameter
from millstream.language.binder import BoundQuery
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.lifetime import influence
from millstream.plan.analysis.time_order import goes_by_order_of_changes
from millstream.plan.grouping import Cut, Split, split, splits
from millstream.plan.lowering.matches import Choose, LazyPlan, NotLazy, is_fragile, lazy_plan, with_tree
from millstream.plan.lowering.options import Options
from millstream.queries.planner import Planned
from millstream.types import Schema

Catalog = tuple[Entry, ...]
_ANY = 1 << 60  # later than all elements
# By core: how many ticks its matches may lie apart; all such numbers where parts of a plan keep it differently.
KeptWindows = dict[str, int | list[int | None] | None]


@dataclass
class Modes:
    """What queries of modes LAZY and NONE keep."""

    engine: Engine
    # Of each core, how many queries read matches that lie so many ticks apart. Queries whose windows are no longer than
    # those of others read the matches that are there.
    _cores: dict[str, Counter[int | None]] = field(default_factory=dict)

    def none_mode(self, name: str, plan: lo.Node, schema: Schema, options: Options) -> Unmaterialized | str:
        """Or why the answer must be kept."""
        engine = self.engine
        inputs = engine.plans.sources_of(plan, options)
        for source in sorted(inputs):
            if engine.sources.retain_of(source) is not None and influence(plan, {source: _ANY}) >= INF - 1:
                return f"elements of {source} matter longer than its history is kept"
        if goes_by_order_of_changes(plan):
            return "FIRST and LAST go by the order in which rows come"
        guards = self._guards(plan, options)
        expressions = (e for node in plan.walk() for e in node.computed)
        if guards and any(isinstance(part, Parameter) for expression in expressions for part in expression.walk()):
            return "what can fail is tried for each query"
        engine.retention.recomputed[name.lower()] = plan, inputs
        return Unmaterialized(engine.reader, plan, inputs, schema, options, edges=guards)

    def _guards(self, plan: lo.Node, options: Options) -> tuple[str, ...]:
        return (self.engine.plans.edge_of(ph.Guard(plan), options),) if is_fragile(plan) else ()

    def show_none_mode(
        self,
        materialization: Unmaterialized,
        catalog: Catalog,
        known: frozenset[str] = frozenset(),
        firsts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Take in a query of which nothing is kept; what can fail in it is tried as rows come."""
        if not materialization.edges:
            self.engine.commits.declare(catalog)
        for edge in materialization.edges:
            if edge in known:
                self.engine.attach(ph.Guard(materialization.plan), materialization.options, firsts)
            else:
                self.engine.show([ph.Guard(materialization.plan)], materialization.options, catalog, firsts)

    def materialization(self, name: str, mode: str, query: Planned, known: KeptWindows | None) -> Materialization | str:
        """What a query of mode LAZY or NONE keeps, or why its answer is kept; `known` says what was chosen when it was
        registered."""
        bound, options = query.bound, query.planner.options
        if mode == "none":
            return self.none_mode(name, bound.plan, bound.schema, options)
        found = self._taken_apart(query, known)
        if isinstance(found, NotLazy):
            return found.reason
        return self._lazy(with_tree(found, self._choice(bound.plan, query, known)), bound, options)

    def by_past(self, materialization: Materialization, query: Planned, past: Past, apart: str = "") -> Materialization:
        """What a query keeps that has so much of the past."""
        if not apart and not past.counted:
            return materialization
        if isinstance(materialization, Lazy):
            return self.lazy_apart(materialization, query, past, apart)
        if isinstance(materialization, Unmaterialized):
            options = options_of(query, past)
            return replace(materialization, options=options, edges=self._guards(materialization.plan, options))
        return materialization

    def lazy_apart(self, materialization: Lazy, query: Planned, past: Past, apart: str) -> Lazy:
        """With state of its own, where it is to be kept from that of others."""
        return self._lazy(materialization.plan, query.bound, options_of(query, past, apart))

    def of_group(
        self, query: Planned, *, lazy: bool, known: KeptWindows | None = None, cut: Cut | None = None
    ) -> tuple[LazyPlan | None, Split | None]:
        """What the group of a template is of, if it can be in one; of mode LAZY also what is done with its matches."""
        if not lazy:
            plan = query.bound.plan
            return None, split(plan, cut) if cut is not None else next(iter(splits(plan)), None)
        return self.shared(query, known) or (None, None)

    def shared(self, query: Planned, known: KeptWindows | None = None) -> tuple[LazyPlan, Split] | None:
        """The plan of mode LAZY as a query of a group has it, with a tree where that answers it, and what the group is
        of; None where it cannot be in one."""
        found = self._taken_apart(query, known)
        if isinstance(found, NotLazy):
            return None
        tree = with_tree(found, self._choice(query.unplanned.plan, query, known))
        for each in dict.fromkeys((tree, found)):
            if (taken := shareable(each)) is not None:
                return each, taken
        return None

    def _taken_apart(self, query: Planned, known: KeptWindows | None) -> LazyPlan | NotLazy:
        planner = query.planner
        if (strategy := planner.settings.strategy) != "upa":
            return NotLazy(f"strategy '{strategy}' is asked for")
        plan = planner.rewritten_for_matches(query.unplanned, statistics_of(query.statistics)).plan
        return lazy_plan(plan, self._choice(plan, query, known))

    def _choice(self, plan: lo.Node, query: Planned, known: KeptWindows | None) -> Choose:
        """How many ticks the matches of a core may lie apart: by what is kept already, or rounded up."""
        least = query.planner.settings.stem_window
        streams = (source for source in lo.sources(plan) if isinstance(source, lo.StreamScan))
        forever = all(self.engine.sources.retain_of(stream.name) is None for stream in streams)

        def choose(core: str, needed: int | None, single_stream: bool) -> int | None:
            # Queries of a template keep as much of their cores, which differ in the condition, as one of them says.
            for kept in () if known is None else (known[core],) if core in known else known.values():
                if fitting := [each for each in (kept if isinstance(kept, list) else [kept]) if _fits(each, needed)]:
                    return min(fitting, key=_ticks)
            if fitting := [kept for kept in self._cores.get(core, ()) if _fits(kept, needed)]:
                return min(fitting, key=_ticks)
            if needed is None or (single_stream and forever):
                return None
            return max(least, 1 << max(needed - 1, 0).bit_length())

        return choose

    def _lazy(self, found: LazyPlan, bound: BoundQuery, options: Options) -> Lazy:
        edges = tuple(self.engine.plans.edge_of(part.plan, options) for part in found.parts)
        inputs = self.engine.plans.sources_of(bound.plan, options)
        return Lazy(self.engine.reader, found, edges, inputs, bound.schema, options)

    def show(
        self,
        materialization: Lazy,
        catalog: Catalog,
        known: frozenset[str] = frozenset(),
        firsts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Keep the parts of a plan from now on, their past included as far as it counts, or those that the snapshot
        has."""
        engine, plans = self.engine, [part.plan for part in materialization.plan.parts]
        if known:
            for plan in plans:
                engine.attach(plan, materialization.options, firsts)
        else:
            engine.show(plans, materialization.options, catalog, firsts)
        self.note(materialization.plan)
        engine.retention.together[materialization.edges, materialization.inputs] += 1

    def hide(self, name: str, materialization: Materialization, catalog: Catalog) -> None:
        """A query is gone."""
        self.engine.admitter.hide(materialization.edges, catalog)
        self.has_gone(name, materialization)

    def has_gone(self, name: str, materialization: Materialization) -> None:
        """A query is gone, and this is committed."""
        self.engine.retention.recomputed.pop(name.lower(), None)
        if isinstance(materialization, Lazy):
            self.forget(materialization.plan)
            self.engine.retention.together[materialization.edges, materialization.inputs] -= 1

    def has_changed(self, name: str, before: Lazy, after: Lazy) -> None:
        """A query goes on with matches that are made by another plan."""
        self.note(after.plan)
        self.engine.retention.together[after.edges, after.inputs] += 1
        self.has_gone(name, before)

    def note(self, plan: LazyPlan) -> None:
        """Somebody reads the matches of a plan."""
        for part in plan.parts:
            if part.windows:
                self._cores.setdefault(part.identity, Counter())[part.kept] += 1

    def forget(self, plan: LazyPlan) -> None:
        for part in plan.parts:
            if part.windows:
                counts = self._cores[part.identity]
                counts[part.kept] -= 1
                self._cores[part.identity] = +counts


def options_of(query: Planned, past: Past, apart: str = "") -> Options:
    """How the plan of a query is run that has so much of the past."""
    is_open = past.unseen is not None
    return replace(query.planner.options, apart=apart, first_counted=past.counted, is_open=is_open)


def shareable(found: LazyPlan) -> Split | None:
    """The matches of a plan taken apart for a group, where these are all that there is. What queries do with them may
    differ in constants."""
    if len(found.parts) != 1 or not found.parts[0].windows:
        return None
    return split(found.parts[0].plan)


def _fits(kept: int | None, needed: int | None) -> bool:
    return kept is None or (needed is not None and kept >= needed)


def _ticks(kept: int | None) -> int:
    return INF if kept is None else kept


def steps_of(materialization: Lazy) -> str:
    return materialization.reader.plans.steps_of(
        *(part.plan for part in materialization.plan.parts), options=materialization.options
    )


def kept_windows(materialization: Lazy) -> dict[str, Any]:
    """For a query's entry: what was chosen, and under which names it is kept."""
    chosen: dict[str, dict[int | None, None]] = {}
    for part in materialization.plan.parts:
        if part.windows:
            chosen.setdefault(part.identity, {})[part.kept] = None
    kept: KeptWindows = {core: [*each] if len(each) > 1 else next(iter(each)) for core, each in chosen.items()}
    return {"edges": list(materialization.edges), "steps": steps_of(materialization), "kept": kept}
