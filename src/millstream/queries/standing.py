"""The standing queries of a database: how they come, come back after a restart, and go."""

from __future__ import annotations

from functools import partial

from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.queries.bulk_registration import BulkRegistration
from millstream.queries.modes import Modes
from millstream.queries.none_mode import NoneTemplate, NoneTemplates
from millstream.queries.planner import Planner
from millstream.queries.recovery import Recovery
from millstream.queries.registration import Registration
from millstream.queries.registry import Registry
from millstream.queries.sharing_choice import SharingChoice
from millstream.queries.template_recovery import TemplateRecovery
from millstream.queries.templates import Template, Templates
from millstream.queries.unopened import UnopenedQuery
from millstream.query import Query, QueryContext


class StandingQueries:
    """Puts together who registers, recovers and drops queries."""

    def __init__(self, engine: Engine, session: Session, planner: Planner, context: QueryContext) -> None:
        self._engine, self._session = engine, session
        self.registry = registry = Registry()
        self.choice = choice = SharingChoice(engine)
        self._modes = modes = Modes(engine)
        self._templates = templates = Templates(engine, session, registry, modes, choice, context)
        self._none_templates = none = NoneTemplates(engine, session, registry, modes, context)
        self.registration = one = Registration(planner, registry, modes, choice, templates, context)
        self.bulk = BulkRegistration(planner, registry, modes, choice, templates, none, one)
        recovered = TemplateRecovery(planner, modes, templates, none)
        self.recovery = Recovery(planner, registry, one, recovered, context, partial(self.drop, recorded=True))

    def drop(self, query: Query, *, recorded: bool = False) -> None:
        """Forget a query and what only it needed; where there is a record of that already, the caller commits."""
        with self._engine.lock:
            self.registry.find(query.name)  # which another thread may just have dropped
            match query.template:
                case NoneTemplate() as template:
                    self._none_templates.drop(query, template)
                case Template() as template:
                    self._templates.drop(query, template, recorded=recorded)
                case _:
                    self._drop_own_plan(query)
            self.registry.remove(query)
            self.choice.forget(query.name)
            query.close()

    def _drop_own_plan(self, query: Query) -> None:
        declared = self._session.declared.without("query", query.name)
        self._modes.hide(query.name, query.materialization, declared.entries)
        if isinstance(query, UnopenedQuery):
            self._engine.commits.declare(declared.entries)
        self._session.declared = declared
