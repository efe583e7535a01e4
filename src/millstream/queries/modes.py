"""What a query keeps, by the mode it asks for: decided when it is registered, and found again when it is recovered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from millstream.catalog.entries import Entry
from millstream.engine.engine import Engine
from millstream.engine.materialization import Eager, Keeping, Lazy, Nothing
from millstream.kernel.batch import INF
from millstream.kernel.scalar.expressions import Parameter
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.analysis.lifetime import influence
from millstream.plan.grouping import Split, split
from millstream.plan.lowering.lower import Options
from millstream.plan.lowering.matches import Choose, LazyPlan, NotLazy, is_fragile, lazy_plan, with_tree
from millstream.types import Schema

Catalog = tuple[Entry, ...]
_ANY = 1 << 60  # later than all elements
KeptWindows = dict[str, int | None]  # by core: how many ticks its matches may lie apart


@dataclass
class Modes:
    """What queries of modes LAZY and NONE keep."""

    engine: Engine
    # Of each core, how many queries read matches that lie so many ticks apart. Queries whose windows are no longer than
    # those of others read the matches that are there.
    _cores: dict[str, Counter[int | None]] = field(default_factory=dict)

    def nothing(self, name: str, plan: lo.Node, schema: Schema, options: Options) -> Nothing | str:
        """Or why the answer must be kept."""
        engine = self.engine
        inputs = engine.sources_of(plan, options)
        for source in sorted(inputs):
            if engine.retain_of(source) is not None and influence(plan, {source: _ANY}) >= INF - 1:
                return f"elements of {source} matter longer than its history is kept"
        guards = self._guards(plan, options)
        expressions = (e for node in plan.walk() for e in node.computed)
        if guards and any(isinstance(part, Parameter) for expression in expressions for part in expression.walk()):
            return "what can fail is tried for each query"
        engine.retention.recomputed[name.lower()] = plan, inputs
        return Nothing(engine, plan, inputs, schema, options, edges=guards)

    def counting(self, keeping: Nothing, options: Options) -> Nothing:
        """The same, failing from the first instant on that these options count."""
        return replace(keeping, options=options, edges=self._guards(keeping.plan, options))

    def _guards(self, plan: lo.Node, options: Options) -> tuple[str, ...]:
        return (self.engine.edge_of(ph.Guard(plan), options),) if is_fragile(plan) else ()

    def show_nothing(
        self,
        keeping: Nothing,
        catalog: Catalog,
        known: frozenset[str] = frozenset(),
        firsts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Take in a query of which nothing is kept; what can fail in it is tried as rows come."""
        if not keeping.edges:
            self.engine.declare(catalog)
        for edge in keeping.edges:
            if edge in known:
                self.engine.attach(ph.Guard(keeping.plan), keeping.options, firsts)
            else:
                self.engine.show(ph.Guard(keeping.plan), keeping.options, catalog, firsts)

    def plan(self, plan: lo.Node, options: Options, least: int, known: KeptWindows | None = None) -> LazyPlan | NotLazy:
        """A plan taken apart; `known` says what was chosen when it was registered, `least` what to keep at least."""
        if options.strategy != "upa":
            return NotLazy(f"strategy '{options.strategy}' is asked for")
        return lazy_plan(plan, self._choice(plan, least, known))

    def shared(
        self, found: LazyPlan, plan: lo.Node, least: int, known: KeptWindows | None = None
    ) -> tuple[LazyPlan, Split] | None:
        """The plan as a query of a group has it, with a tree where that answers it, and what the group is of; None
        where it cannot be in one."""
        tree = self.with_tree(found, plan, least, known)
        for each in dict.fromkeys((tree, found)):
            if (taken := shareable(each)) is not None:
                return each, taken
        return None

    def with_tree(self, found: LazyPlan, plan: lo.Node, least: int, known: KeptWindows | None = None) -> LazyPlan:
        """With a ranked tree where that answers it."""
        return with_tree(found, self._choice(plan, least, known))

    def _choice(self, plan: lo.Node, least: int, known: KeptWindows | None) -> Choose:
        streams = (source for source in lo.sources(plan) if isinstance(source, lo.StreamScan))
        forever = all(self.engine.retain_of(stream.name) is None for stream in streams)

        def choose(core: str, needed: int | None, alone: bool) -> int | None:
            if known is not None and core in known and _fits(known[core], needed):
                return known[core]
            fitting = [kept for kept in self._cores.get(core, ()) if _fits(kept, needed)]
            if fitting:
                return min(fitting, key=lambda kept: INF if kept is None else kept)
            if needed is None or (alone and forever):
                return None
            return max(least, 1 << max(needed - 1, 0).bit_length())

        return choose

    def lazy(self, found: LazyPlan, whole: lo.Node, schema: Schema, options: Options) -> Lazy:
        edges = tuple(self.engine.edge_of(part.plan, options) for part in found.parts)
        return Lazy(self.engine, found, edges, self.engine.sources_of(whole, options), schema, options)

    def show(
        self,
        keeping: Lazy,
        before: Catalog,
        after: Catalog,
        known: frozenset[str] = frozenset(),
        firsts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Keep the parts of a plan from now on, their past included as far as it counts, but for those that the
        snapshot has."""
        engine, shown = self.engine, []
        try:
            for edge, part in zip(keeping.edges, keeping.plan.parts, strict=True):
                if edge in known:
                    engine.attach(part.plan, keeping.options, firsts)
                else:
                    catalog = after if edge == keeping.edges[-1] else before
                    engine.show(part.plan, keeping.options, catalog, firsts)
                shown.append(edge)
        except BaseException:
            for edge in shown:
                engine.hide(edge, before)
            raise
        self.note(keeping.plan)
        engine.retention.together[keeping.edges, keeping.inputs] += 1

    def hide(self, name: str, keeping: Keeping, catalog: Catalog) -> None:
        """A query is gone."""
        self.engine.retention.recomputed.pop(name.lower(), None)
        for edge in keeping.edges:
            self.engine.hide(edge, catalog)
        if isinstance(keeping, Nothing):
            self.engine.declare(catalog)
        if isinstance(keeping, Lazy):
            self.forget(keeping.plan)
            self.engine.retention.together[keeping.edges, keeping.inputs] -= 1

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


def shareable(found: LazyPlan) -> Split | None:
    """The matches of a plan taken apart for a group, where these are all that there is and that queries differ in."""
    if len(found.parts) != 1 or not found.parts[0].windows:
        return None
    above = (e for node in found.above.walk() for e in node.computed)
    if any(isinstance(part, Parameter) for expression in above for part in expression.walk()):
        return None
    return split(found.parts[0].plan)


def _fits(kept: int | None, needed: int | None) -> bool:
    return kept is None or (needed is not None and kept >= needed)


def steps_of(keeping: Lazy) -> str:
    return keeping.engine.steps_of(*(part.plan for part in keeping.plan.parts), options=keeping.options)


def kept_windows(keeping: Lazy) -> dict[str, Any]:
    """For a query's entry: what was chosen, and under which names it is kept."""
    return {
        "edges": list(keeping.edges),
        "steps": steps_of(keeping),
        "kept": {part.identity: part.kept for part in keeping.plan.parts if part.windows},
    }


__all__ = ["Eager", "Keeping", "Lazy", "Modes", "NotLazy", "Nothing", "kept_windows", "shareable", "steps_of"]
