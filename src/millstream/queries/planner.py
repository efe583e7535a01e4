"""From a text to a plan: bound to the catalog, and rewritten by settings and statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlglot import exp

from millstream.catalog.alterations import AS_OF
from millstream.catalog.entries import Entry, statistics_entry, statistics_of
from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.errors import Error, EvaluationError, Place
from millstream.language import statements as st
from millstream.language.binder import BoundQuery
from millstream.language.failed_expressions import place_of_failure
from millstream.language.nesting import without_collecting
from millstream.language.statement_parser import parse
from millstream.language.syntax import place_of
from millstream.plan import nodes as lo
from millstream.plan.analysis.depth import too_deep
from millstream.plan.cost import SourceStatistics
from millstream.plan.kept_columns import joins_made, kept_columns
from millstream.plan.lowering.matches import DISABLED_RULES
from millstream.plan.lowering.options import Options
from millstream.plan.rewrite import rewrite
from millstream.plan.rules.context import JoinChoice
from millstream.plan.rules.fold_constants import certain_failures
from millstream.settings import Settings
from millstream.types import DataType

ORDERED = "ordered"  # in the entry of a query whose joins are ordered by cost


@dataclass(frozen=True, eq=False)
class Planned:
    """A query with its plan, and what this was chosen by."""

    planner: Planner
    unplanned: BoundQuery  # as it was bound: what mode LAZY keeps is planned from it
    bound: BoundQuery
    statistics: dict[str, Any]  # as an entry of the catalog has them

    def entry(self) -> dict[str, Any]:
        """What an entry says, so that the same plan is made of its text again."""
        ordered = {ORDERED: True} if self.planner.orders_joins else {}
        said = {"settings": asdict(self.planner.settings), "statistics": self.statistics}
        return {**said, **ordered, **self.planner.known}


@dataclass(frozen=True)
class Planner:
    """Plans queries under the settings of now, or under those that a query was planned under first."""

    engine: Engine
    session: Session
    fixed: Settings | None = None
    orders_joins: bool = False  # by cost, and not as they were written
    ad_hoc: bool = False  # queries that are answered once
    as_of: int | None = None  # the last alteration that texts know, where others may have been made since

    def under(self, settings: Settings) -> Planner:
        return replace(self, fixed=settings)

    def fixed_now(self) -> Planner:
        """As it plans now, whatever is set and altered later."""
        as_of = self.session.alterations.last if self.as_of is None else self.as_of
        return replace(self, fixed=self.settings, as_of=as_of)

    def of(self, entry: Entry) -> Planner:
        """As what an entry says was planned."""
        return replace(self, fixed=self.session.settings_of(entry), as_of=entry.get(AS_OF, 0))

    def read_as(self, bound: BoundQuery) -> Planner:
        """With names that mean what they did for a query."""
        return replace(self, as_of=bound.as_of)

    def answering_once(self) -> Planner:
        return replace(self, ad_hoc=True)

    def ordering_joins(self, by_cost: bool = True) -> Planner:
        return replace(self, orders_joins=by_cost)

    @property
    def settings(self) -> Settings:
        return self.fixed or self.session.settings

    @property
    def known(self) -> dict[str, int]:
        """What entries say of the alterations that texts know."""
        return self.session.alterations.entry(self.as_of)

    @property
    def options(self) -> Options:
        """How plans are run, by the settings."""
        settings = self.settings
        return Options(
            settings.strategy,
            settings.max_rstream_rows,
            settings.expiry_groups,
            settings.lazy_interval,
            synopses=settings.synopses,
            join_synopses=settings.join_synopses,
        )

    def bind(self, text: str, tree: exp.Query, kinds: Sequence[DataType] = ()) -> BoundQuery:
        session, as_of = self.session, self.session.alterations.last if self.as_of is None else self.as_of
        bound = session.binder(text, self.settings, kinds, ad_hoc=self.ad_hoc, as_of=as_of).bind(tree)
        return bound if self.ad_hoc else replace(bound, as_of=as_of, as_called_now=session.as_called_now)

    def pointed(self, error: EvaluationError, place: Place) -> None:
        """Have an error that a query met say where in its text the expression stands that failed."""
        if error.place is not None:
            return
        try:
            (statement,) = (each for each in parse(place.text) if each.place.start == place.start)
            if not isinstance(statement, st.AdHocQuery | st.RegisterQuery):
                return
            session, as_of = self.session, self.session.alterations.last if self.as_of is None else self.as_of
            binder = session.binder(place.text, self.settings, ad_hoc=self.ad_hoc, as_of=as_of)
            binder.places = places = dict[str, Place]()
            binder.bind(statement.query)
        except Error:
            return  # what it reads was altered or dropped meanwhile: the error names the expression in any case
        error.place = place_of_failure(error, places)

    def certain_failures(self, bound: BoundQuery, place: Place) -> list[str]:
        """What is said of constants of a query that have no value."""
        said = []
        for error in certain_failures(bound.plan):
            self.pointed(error, place)
            at = error.place
            where = "" if at is None else f": {at.text[at.start : at.end]} (line {at.line}, column {at.column})"
            said.append(f"it fails as soon as a row comes to this{where}: {error.primary}")
        return said

    def plan(
        self, text: str, tree: exp.Query, kinds: Sequence[DataType] = (), statistics: dict[str, Any] | None = None
    ) -> Planned:
        """By the statistics of now, or by those that a query was planned by first. The tree may be of a part of the
        text."""
        found = self.planned(text, tree, kinds, statistics)
        self.session.on_read({source.feed for source in lo.sources(found.unplanned.plan)})
        return found

    def planned(
        self, text: str, tree: exp.Query, kinds: Sequence[DataType] = (), statistics: dict[str, Any] | None = None
    ) -> Planned:
        """The same for those who only look at the plan: nobody is going to read what it reads."""
        try:
            return self._planned(text, tree, kinds, statistics)
        except RecursionError:
            raise too_deep(place_of(tree, text)) from None

    def _planned(
        self, text: str, tree: exp.Query, kinds: Sequence[DataType], statistics: dict[str, Any] | None
    ) -> Planned:
        unplanned = self.bind(text, tree, kinds)
        known = self._statistics(unplanned.plan) if statistics is None else statistics_of(statistics)
        found = statistics_entry(known) if statistics is None else statistics
        return Planned(self, unplanned, self.rewritten(unplanned, known), found)

    def _statistics(self, plan: lo.Node) -> dict[str, SourceStatistics]:
        """What the engine knows of the sources of a plan, and what is kept and joined of them already."""
        read = {source.feed for source in lo.sources(plan)}
        known = self.engine.sources.statistics(read)
        joins = [node for node in plan.walk() if isinstance(node, lo.Join)]
        if joins:
            pipeline = self.engine.pipeline
            for source, kept in kept_columns(pipeline).items():
                if source in read:
                    known[source] = replace(known.get(source, SourceStatistics()), kept=kept)
            of_views = any(join.of_view for join in joins)
            for source, made in joins_made(pipeline, read).items() if of_views else ():
                known[source] = replace(known.get(source, SourceStatistics()), made=made)
        return known

    def rewritten(self, bound: BoundQuery, statistics: Mapping[str, SourceStatistics]) -> BoundQuery:
        settings, shards = self.settings, self.engine.runner.planner.shards
        # Said by negative rows, the end of a window is no longer known where its rows are joined.
        shared = settings.stem_window if settings.strategy != "negative" else 0
        choice = JoinChoice(settings.join_plan, settings.jit, settings.jit_detection)
        with without_collecting():
            plan = rewrite(bound.plan, statistics, settings.disabled, choice, shards, shared, self.orders_joins)
        return replace(bound, plan=plan)

    def rewritten_for_matches(self, bound: BoundQuery, statistics: Mapping[str, SourceStatistics]) -> BoundQuery:
        """With all columns, and nothing moved below the joins but selections: what stands above is done when asked."""
        settings, shards = self.settings, self.engine.runner.planner.shards
        disabled = DISABLED_RULES.union(settings.disabled)
        choice = JoinChoice(settings.join_plan, jit="off")
        with without_collecting():
            plan = rewrite(bound.plan, statistics, disabled, choice, shards, orders_joins=self.orders_joins)
        return replace(bound, plan=plan)
