"""SHOW: what there is, as a table."""

from __future__ import annotations

import pyarrow as pa

from millstream.catalog.objects import CatalogOfObjects
from millstream.connectors.sinks import Sinks
from millstream.engine.engine import Engine
from millstream.language import statements as st
from millstream.queries.standing import StandingQueries
from millstream.queries.states import states, texts
from millstream.statements.result import Result


class ShowStatements:
    """Lists objects, queries, sinks, and the steps of the shared plan."""

    def __init__(self, engine: Engine, catalog: CatalogOfObjects, queries: StandingQueries, sinks: Sinks) -> None:
        self._engine, self._catalog, self._queries, self._sinks = engine, catalog, queries, sinks

    def run(self, statement: st.Show) -> Result:
        if statement.what == "QUERIES":
            return self._shown_queries()
        if statement.what == "TEMPLATES":
            rows = [
                {
                    "name": template.name,
                    "kind": template.kind,
                    "mode": template.mode,
                    "queries": str(len(template)),
                    "failed": str(len(template.failed)),
                    "cql": template.text,
                }
                for template in self._queries.named
            ]
            columns = ["name", "kind", "mode", "queries", "failed", "cql"]
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

    def _shown_queries(self) -> Result:
        queries = [*self._queries.registry]
        found = states(self._engine, queries)
        shown = {**dict.fromkeys(found.filling, "filling"), **dict.fromkeys(found.failed, "failed")}
        columns = {
            "name": [query.name for query in queries],
            "kind": [query.kind for query in queries],
            "mode": [query.mode for query in queries],
            "state": [shown.get(query.name, "running") for query in queries],
            "error": [found.failed.get(query.name, "") for query in queries],
            "cql": texts(queries),
        }
        table = pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
        return Result(f"{len(queries)} queries", table=table)
