"""SET: the settings of a database, and what they reach."""

from __future__ import annotations

from dataclasses import replace

from millstream.catalog.session import Session
from millstream.engine.engine import Engine
from millstream.engine.limits import AnswerLimits
from millstream.errors import CatalogError, Error, NameError, Place, did_you_mean
from millstream.kernel.scalar.zones import checked_zone
from millstream.kernel.step_limits import StepLimits
from millstream.language import statements as st
from millstream.plan.rewrite import rule_names
from millstream.queries.registry import Registry
from millstream.settings import Settings
from millstream.statements.result import Result


def _zone(name: str, place: Place) -> str:
    try:
        return checked_zone(name)
    except Error as error:
        error.place = place
        raise


class SettingStatements:
    """Changes settings, and has the engine keep to them."""

    def __init__(self, engine: Engine, session: Session, registry: Registry) -> None:
        self._engine, self._session, self._registry = engine, session, registry
        self._default_shards = engine.runner.planner.shards

    def run(self, statement: st.SetOption) -> Result:
        name, value, settings, catalog = statement.name, statement.value, self._session.settings, self._session.catalog
        if statement.stream is None:
            changed = settings.with_value(name.text, value, name.place)
        else:
            stream = catalog.with_heartbeat(statement.stream.text, statement.stream.place)
            changed = settings.with_stream_value(stream.name.lower(), name.text, value, name.place)
        for rule in changed.disabled:
            if rule not in rule_names():
                hint = did_you_mean(rule, rule_names())
                raise NameError(f'there is no rule "{rule}" that can be disabled', hint=hint, place=statement.place)
        if name.key == "timezone":
            changed = replace(changed, timezone=_zone(changed.timezone, statement.place))
        fixed = len(self._registry) or catalog.views()
        users = {"shards": len(self._registry), "range_bounds": fixed, "timezone": fixed}
        if users.get(name.key) and changed != settings:
            raise CatalogError(
                f"{name.key} cannot change once there are views or queries",
                hint="set it first, or drop them",
                place=statement.place,
            )
        if name.key == "shards":
            self._engine.place_on(changed.shards or self._default_shards)
        self._session.declare(self._session.declared.with_settings(changed))
        self.apply(changed)
        return Result(f"{name.key} = {value}" + (f" for {statement.stream}" if statement.stream else ""))

    def apply(self, settings: Settings) -> None:
        self._session.settings = settings
        self._engine.store.limit(settings.memory_budget or None)
        limits = self._engine.limits
        limits.rows, limits.state = settings.max_query_rows, settings.max_query_state
        limits.answers = AnswerLimits(settings.max_rstream_rows, settings.max_answer_rows, settings.max_answer_bytes)
        limits.steps = StepLimits(
            settings.max_value_bytes,
            settings.max_column_bytes,
            settings.max_join_pairs,
            settings.max_join_rows,
            settings.max_join_bytes,
        )
        limits.routing = "" if settings.routing == "auto" else settings.routing
        limits.small_epochs = settings.small_epochs
        self._engine.backfills.least_rows = settings.background_rows
