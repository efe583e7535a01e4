"""The standing queries of a database: how they come, come back after a restart, and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from millstream.catalog.comments import without_comments
from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.queries.bulk_registration import BulkRegistration
from millstream.queries.explaining import Explaining
from millstream.queries.left_out import LeftOutElements
from millstream.queries.live_plans import LivePlans
from millstream.queries.modes import Modes
from millstream.queries.named_templates import KIND as NAMED
from millstream.queries.named_templates import NamedTemplates
from millstream.queries.none_mode import NoneTemplate, NoneTemplates
from millstream.queries.planner import Planner
from millstream.queries.recovery import Recovery
from millstream.queries.registration import Registration, opening
from millstream.queries.registry import Registry
from millstream.queries.replanning import Replanning
from millstream.queries.sharing_choice import SharingChoice
from millstream.queries.template_recovery import TemplateRecovery
from millstream.queries.templates import GroupTemplate, Templates
from millstream.queries.unopened import UnopenedQuery
from millstream.query import Query, QueryContext, Template


class StandingQueries:
    """Puts together who registers, recovers and drops queries."""

    def __init__(self, engine: Engine, session: Session, planner: Planner, context: QueryContext) -> None:
        self._engine, self._session = engine, session
        self.registry = registry = Registry()
        self.left_out = LeftOutElements(engine, session)
        registry.on_change.append(self.left_out.notice)
        self.choice = choice = SharingChoice(engine)
        self._modes = modes = Modes(engine)
        self._templates = templates = Templates(engine, session, registry, modes, choice, context)
        self._none_templates = none = NoneTemplates(engine, session, registry, modes, context)
        self.named = named = NamedTemplates(planner, registry, context)
        session.kind_of_query = self._kind_of_query
        self.plans = LivePlans(engine, registry, choice, self._source_label)
        self.explaining = Explaining(engine, planner, choice, self.plans, self._source_label)
        self.registration = one = Registration(planner, registry, modes, choice, templates, context)
        self.replanning = Replanning(planner, registry, modes, choice, one, templates, context)
        self.bulk = BulkRegistration(planner, registry, modes, choice, templates, none, one, named)
        recovered = TemplateRecovery(planner, modes, templates, none, named)
        self.recovery = Recovery(planner, registry, one, recovered, named, context, partial(self.drop, recorded=True))

    def _kind_of_query(self, name: str) -> str | None:
        if name in self.registry:
            return "standing query"
        return None if self.named.get(name) is None else "template"

    def _source_label(self, source: str) -> str:
        """A stream or table as it was declared."""
        known = self._session.catalog.of_edge(source)
        return source if known is None else known.name

    def open(self) -> None:
        """Have those that earlier processes registered."""
        self.left_out.recover()
        self.recovery.open()

    def register(self, text: str, name: str | None, mode: str) -> Query:
        """A query comes alone."""
        query = self.registration.register_text(text, name, mode)
        self.left_out.catch_up()
        return query

    def register_many(
        self, text: str, rows: Any, names: Sequence[str] | None, mode: str | None, template: str | None
    ) -> list[Query] | Template:
        """Queries of a template, which may have a name."""
        try:
            if template is None:
                return self.bulk.register(text, rows, names, mode or "eager")
            return self.bulk.register_named(template, text, rows, names, mode)
        finally:
            self.left_out.catch_up()

    def drop(self, query: Query, *, recorded: bool = False) -> None:
        """Forget a query and what only it needed; where there is a record of that already, the caller commits."""
        with self._engine.lock:
            self.registry.find(query.name)  # which another thread may just have dropped
            self._engine.runner.caution.forgive(opening(query.name))
            self._forget_comments("query", [query.name])
            before = self._session.declared
            try:
                if query.member_of is not None:
                    self.named.forget_single(query.member_of, query.name)
                self._drop(query, recorded=recorded)
            except BaseException:
                self._session.declared = before
                raise
            self._have_gone([query])

    def _forget_comments(self, kind: str, names: Sequence[str]) -> None:
        """By a commit of its own, since queries of groups go without one."""
        declared = without_comments(self._session.declared, kind, names)
        if declared is not self._session.declared:
            self._session.declare(declared)

    def _drop(self, query: Query, *, recorded: bool) -> None:
        match query.template:
            case NoneTemplate() as template:
                self._none_templates.drop(query, template)
            case GroupTemplate() as template:
                self._templates.drop(query, template, recorded=recorded)
            case _:
                self._drop_own_plan(query)

    def _have_gone(self, queries: Sequence[Query]) -> None:
        self.registry.remove(queries)
        for query in queries:
            self.choice.forget(query.name)
            self.replanning.forget(query)
            if query.member_of is not None:
                query.member_of.remove(query)
            query.close()

    def drop_template(self, named: Template) -> None:
        """Forget a template and all of its queries, by one commit."""
        with self._engine.lock:
            self.named.find(named.name)
            queries = [*named]
            self._forget_comments("query", [query.name for query in queries])
            self._forget_comments("template", [named.name])
            numbers, edges, gone = dict[str, list[int]](), Counter[str](), {(NAMED, named.name.lower())}
            shared = Counter(query.template for query in queries if query.template is not None)
            for query in queries:
                if query.template is None:
                    edges.update(query.materialization.edges)
                    gone.add(("query", query.name.lower()))
                elif query.number is not None:
                    numbers.setdefault(query.edge, []).append(query.number)
            emptied = [plan for plan, count in shared.items() if count == self.registry.number_of(plan)]
            gone |= {("template", plan.name) for plan in emptied}
            declared = self._session.declared.without_all(gone)
            self._engine.admitter.dismiss_all(numbers, edges, declared.entries)
            self._session.declared = declared
            for plan in emptied:
                if isinstance(plan, NoneTemplate):
                    self._none_templates.forget(plan)
                elif isinstance(plan, GroupTemplate):
                    self._templates.forget(plan)
            for query in queries:
                if query.template is None:
                    self._modes.has_gone(query.name, query.materialization)
            self._have_gone(queries)
            self.named.forget(named)

    def _drop_own_plan(self, query: Query) -> None:
        declared = self._session.declared.without("query", query.name)
        self._modes.hide(query.name, query.materialization, declared.entries)
        if isinstance(query, UnopenedQuery):
            self._engine.commits.declare(declared.entries)
        self._session.declared = declared
