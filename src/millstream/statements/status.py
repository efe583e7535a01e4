"""What a database is at: `db.stats()`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from millstream.catalog.objects import CatalogOfObjects
from millstream.connectors.sinks import Sinks
from millstream.engine.engine import Engine
from millstream.queries.standing import StandingQueries
from millstream.queries.states import states

_COUNTED = ("heartbeat", "arrived", "late", "malformed", "shed", "skipped_files", "drift")


def stats(engine: Engine, catalog: CatalogOfObjects, queries: StandingQueries, sinks: Sinks) -> dict[str, Any]:
    """Counts, streams and sinks."""
    snapshot, found = engine.snapshot, states(engine, [*queries.registry])
    streams = {
        stream.name: {
            **{name: getattr(snapshot.progress(stream.edge), name) for name in _COUNTED},
            "rows_behind": engine.reports.behind.get(stream.edge),  # None where its source does not tell
        }
        for stream in catalog.feeds()
    }
    return {
        "epoch": snapshot.epoch,
        "clock": snapshot.clock,
        "queries": len(queries.registry),
        # All that are not named run.
        "query_states": {"running": found.running, "filling": list(found.filling), "failed": found.failed},
        "epochs_run": dict(engine.reports.epochs),  # since the database was opened, by who ran them
        "operators": len(engine.pipeline.steps),
        "state_bytes": engine.reports.state_bytes(),
        "memory": engine.reports.memory(),
        "skew": [asdict(skew) for skew in engine.reports.skew.values()],
        "streams": streams,
        "sinks": {sink["name"]: sink for sink in sinks.shown()},
    }
