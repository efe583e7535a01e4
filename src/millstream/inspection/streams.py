"""Streams as people look at them: what comes, how far they are, what was late or could not be read."""

from __future__ import annotations

import time
from typing import Any

import polars as pl
import pyarrow as pa

from millstream.catalog.objects import CatalogOfObjects
from millstream.engine.engine import Engine
from millstream.engine.epochs.parts import LATE, MALFORMED, read_history
from millstream.kernel.batch import empty_batch, value_column
from millstream.language.instants import shown_instant
from millstream.plan.definitions import StreamDefinition, TableDefinition
from millstream.state.snapshot import Snapshot
from millstream.system.lags import lag_seconds
from millstream.types import Schema, arrow_schema, to_arrow

_COUNTED = ("arrived", "late", "malformed", "shed")


def _rule(definition: StreamDefinition | TableDefinition) -> str | None:
    """How its heartbeat rises, as it is written."""
    rule, domain = definition.heartbeat, definition.domain
    return None if rule is None or domain is None else rule.shown(domain)


class StreamReports:
    """Of streams, and of tables."""

    def __init__(self, engine: Engine, catalog: CatalogOfObjects) -> None:
        self._engine, self._catalog = engine, catalog

    def all(self) -> list[dict[str, Any]]:
        """Those that were declared, in their order; system streams last."""
        snapshot, now = self._engine.snapshot, self._engine.reports.measures.now
        objects = [d for d in [*self._catalog.values()] if isinstance(d, StreamDefinition | TableDefinition)]
        shown = [d for d in objects if not d.name.rpartition(".")[2].startswith("_")]
        return [self._about(each, snapshot, now) for each in sorted(shown, key=lambda d: "." in d.name)]

    def _about(self, definition: StreamDefinition | TableDefinition, snapshot: Snapshot, now: float) -> dict[str, Any]:
        key = definition.edge
        progress, measure = snapshot.progress(key), self._engine.reports.measures.get(key)
        files, domain = snapshot.history.get(key, ()), definition.domain
        has_heartbeat = key in self._engine.sources and self._engine.sources.has_heartbeat(key)
        heartbeat = progress.heartbeat if has_heartbeat else snapshot.clock
        lag = lag_seconds(definition, heartbeat, time.time()) if has_heartbeat else None
        return {
            "name": definition.name,
            "kind": "stream" if isinstance(definition, StreamDefinition) else "table",
            "system": "." in definition.name,
            "columns": [{"name": column.name, "type": str(column.type)} for column in definition.columns],
            "rate": 0.0 if measure is None else round(measure.rate(now), 3),
            "heartbeat": shown_instant(heartbeat, domain) if heartbeat >= 0 else None,
            "heartbeat_tick": heartbeat,
            "heartbeat_rule": _rule(definition),
            "lag_ms": None if lag is None else 1e3 * lag,
            "rows_behind": self._engine.reports.behind.get(key),
            **{name: getattr(progress, name) for name in _COUNTED},
            "rows": sum(file.rows for file in files),
            "bytes": sum(file.bytes for file in files),
            "source": None if definition.source is None else definition.source.format,
        }

    def late(self, name: str, limit: int) -> pa.Table:
        """The last elements that came too late, the newest first."""
        return self._newest(name, LATE, limit)

    def malformed(self, name: str, limit: int) -> pa.Table:
        """The last rows that could not be read, the newest first."""
        return self._newest(name, MALFORMED, limit)

    def _newest(self, name: str, kept: str, limit: int) -> pa.Table:
        source = self._catalog.source(name)
        table = self._catalog.get(f"{source.name.lower()}.{kept}")
        if table is None:
            return pa.table({})  # all that is put into it can be read
        key, schema = table.edge, table.columns
        return self._engine.commits.read(lambda snapshot: self._read(key, schema, snapshot, limit))

    def _read(self, key: str, schema: Schema, snapshot: Snapshot, limit: int) -> pa.Table:
        frames, left = list[pl.DataFrame](), limit
        for file in reversed(snapshot.history.get(key, ())):
            if left <= 0:
                break
            frames.append(read_history(self._engine.store, file, schema).tail(left).reverse())
            left -= frames[-1].height
        rows = pl.concat([empty_batch(schema), *(frame.select(empty_batch(schema).columns) for frame in frames)])
        columns = [rows[value_column(place)].to_arrow().cast(to_arrow(f.type)) for place, f in enumerate(schema)]
        return pa.Table.from_arrays(columns, schema=arrow_schema(schema))
