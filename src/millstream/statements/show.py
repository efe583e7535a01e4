"""SHOW: what there is, as a table."""

from __future__ import annotations

import pyarrow as pa

from millstream.catalog.objects import CatalogOfObjects
from millstream.connectors.sinks import Sinks
from millstream.engine.engine import Engine
from millstream.language import statements as st
from millstream.queries.registry import Registry
from millstream.statements.result import Result


class ShowStatements:
    """Lists objects, queries, sinks, and the steps of the shared plan."""

    def __init__(self, engine: Engine, catalog: CatalogOfObjects, registry: Registry, sinks: Sinks) -> None:
        self._engine, self._catalog, self._registry, self._sinks = engine, catalog, registry, sinks

    def run(self, statement: st.Show) -> Result:
        if statement.what == "QUERIES":
            rows = [{"name": q.name, "kind": q.kind, "mode": q.mode, "cql": q.cql} for q in self._registry]
            columns = ["name", "kind", "mode", "cql"]
        elif statement.what == "SINKS":
            rows = [{name: str(value) for name, value in sink.items()} for sink in self._sinks.shown()]
            columns = ["name", "query", "target", "state", "deliveries", "until", "error", "rows", "bytes", "since"]
        elif statement.what == "PLAN":
            rows = [{"step": s.name, "inputs": ", ".join(s.read)} for s in self._engine.pipeline.steps]
            columns = ["step", "inputs"]
        else:
            rows = self._catalog.listing(statement.what)
            columns = ["name", "columns", "properties"]
        table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in columns})
        return Result(f"{len(rows)} {statement.what.lower()}", table=table)
