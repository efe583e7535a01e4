"""How far streams are behind the wall clock, where their time is such."""

from __future__ import annotations

from millstream.plan.definitions import StreamDefinition, TableDefinition


def lag_seconds(definition: object, heartbeat: int, now: float) -> float | None:
    """The seconds from a heartbeat (ticks) to now (seconds since 1970); None where ticks are no time of day."""
    domain = definition.domain if isinstance(definition, StreamDefinition | TableDefinition) else None
    if domain is None or domain.tick is None or not domain.type.is_temporal or heartbeat < 0:
        return None
    return now - heartbeat * domain.tick / 1e6
