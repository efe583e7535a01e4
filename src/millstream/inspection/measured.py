"""Numbers of a database for who measures it now and then: what is in memory, in a few milliseconds however many
queries there are."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.engine.engine import Engine
from millstream.errors import Error
from millstream.plan.definitions import StreamDefinition, TimeDomain
from millstream.queries.standing import StandingQueries
from millstream.queries.states import states
from millstream.state.snapshot import HistoryFile, Snapshot
from millstream.system.lags import lag_seconds
from millstream.system.streams import is_system

_COUNTED = ("arrived", "late", "malformed", "shed", "heartbeat")
_LOOKED_AT = 1_000  # files of a stream, the newest first, in search of what is not final


@dataclass(frozen=True)
class Measured:
    epoch: int
    epochs_run: Mapping[str, int]  # by who ran them
    invocations: Mapping[str, int]  # answers that were given, by what was asked
    states: Mapping[str, int]  # how many queries are in each
    operators: int
    state_bytes: int
    # What was counted, the lag in seconds, the rows that the source is ahead, and those that are not final yet.
    streams: Mapping[str, Mapping[str, float | None]]
    finals: Mapping[str, float]  # the least and the most that is final of queries, as seconds since 1970
    sinks: Mapping[str, Mapping[str, float]]
    pools: Mapping[str, Mapping[str, float]]  # of memory, by process


def measured(engine: Engine, session: Session, queries: StandingQueries, sinks: Sinks) -> Measured:
    snapshot, now = engine.snapshot, time.time()
    found = states(engine, [*queries.registry])
    streams = [stream for stream in session.catalog.feeds() if not is_system(stream.name)]
    pools = engine.reports.memory()["pools"]
    return Measured(
        snapshot.epoch,
        dict(engine.reports.epochs),
        engine.invocations.by_kind(),
        {"running": found.running, "filling": len(found.filling), "failed": len(found.failed)},
        len(engine.pipeline.steps),
        sum(engine.reports.state_bytes().values()),
        {stream.name: _stream(stream, snapshot, now, engine.reports.behind) for stream in streams},
        _finals(engine, queries),
        {
            sink["name"]: {
                "active": float(sink["state"] == "active"),
                **{name: float(sink[name]) for name in ("deliveries", "rows", "bytes")},
            }
            for sink in sinks.shown()
        },
        {
            pool["process"]: {
                "budget": pool["budget"],
                "used": pool["segments"] + pool["beside"],
                "peak": pool["peak"],
                "refused": pool["refused"],
            }
            for pool in pools
        },
    )


def _stream(
    stream: StreamDefinition, snapshot: Snapshot, now: float, behind: Mapping[str, int]
) -> dict[str, float | None]:
    key = stream.edge
    progress = snapshot.progress(key)
    counted: dict[str, float | None] = {name: float(getattr(progress, name)) for name in _COUNTED}
    lag = lag_seconds(stream, progress.heartbeat, now)
    opened = float(_open_rows(snapshot.history.get(key, ()), progress.heartbeat))
    return {**counted, "lag": lag, "behind": behind.get(key), "open": opened}


def _open_rows(files: tuple[HistoryFile, ...], heartbeat: int) -> int:
    """Rows that have come and are not final yet; of a file that has both, as if its rows were spread evenly."""
    found = 0.0
    for file in files[-_LOOKED_AT:]:
        if file.last > heartbeat:
            beyond = file.last - max(heartbeat, file.first - 1)
            found += file.rows * beyond / (file.last - file.first + 1)
    return round(found)


def _finals(engine: Engine, queries: StandingQueries) -> dict[str, float]:
    """Queries that read the same are equally far: each set of sources is looked at once."""
    snapshot, found = engine.snapshot, dict[tuple[object, int], float]()
    seen: set[tuple[int, object]] = set()
    for query in [*queries.registry]:
        domain, inputs = query.common.domain, query.materialization.inputs
        if not _is_time_of_day(domain) or (place := (id(domain), inputs)) in seen:
            continue
        seen.add(place)
        try:
            final = engine.sources.final(inputs, snapshot)
        except Error:
            continue  # one of its sources has just been dropped
        if final >= 0 and domain is not None and domain.tick is not None:
            found[inputs, final] = final * domain.tick / 1e6
    return {"least": min(found.values()), "most": max(found.values())} if found else {}


def _is_time_of_day(domain: TimeDomain | None) -> bool:
    return domain is not None and domain.tick is not None and domain.type.is_temporal
