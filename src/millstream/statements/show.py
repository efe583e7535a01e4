"""SHOW: what there is, as a table."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.engine.engine import Engine
from millstream.inspection.streams import StreamReports
from millstream.language import statements as st
from millstream.language.function_list import functions
from millstream.plan.graph import step_label, step_pattern
from millstream.plan.structures import structure_of
from millstream.queries.standing import StandingQueries
from millstream.queries.states import states, texts
from millstream.settings import described
from millstream.statements.result import Result


class ShowStatements:
    """Lists objects, queries, sinks, and the steps of the shared plan."""

    def __init__(self, engine: Engine, session: Session, queries: StandingQueries, sinks: Sinks) -> None:
        self._engine, self._session, self._queries, self._sinks = engine, session, queries, sinks
        self._catalog = session.catalog
        self._reports = StreamReports(engine, session.catalog)

    def run(self, statement: st.Show) -> Result:
        if statement.what == "QUERIES":
            return self._shown_queries()
        if statement.what == "TEMPLATES":
            rows: list[dict[str, Any]] = [
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
            rows = [self._sink(sink) for sink in self._sinks.shown()]
            columns = ["name", "query", "target", "state", "deliveries", "until", "error", "rows", "bytes", "since"]
        elif statement.what == "PLAN":
            return self._shown_plan()
        elif statement.what == "FUNCTIONS":
            found = [each for each in functions(self._session.code) if _is_like(each.name, statement.like)]
            rows = [{"name": each.name, "kind": each.kind, "takes": each.takes} for each in found]
            columns = ["name", "kind", "takes"]
        elif statement.what == "SETTINGS":
            return self._shown_settings(statement.like)
        elif statement.what == "STREAMS":
            return self._shown_streams()
        else:
            rows = self._catalog.listing(statement.what)
            columns = ["name", "columns", "properties"]
        table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in columns})
        return Result(f"{len(rows)} {statement.what.lower()}", table=table)

    def _sink(self, shown: dict[str, Any]) -> dict[str, str | None]:
        """With the instant up to which it has delivered."""
        instants, until = self._sinks.find(shown["name"]).query.instants, shown["until"]
        said = {**shown, "until": instants.shown(until) if until >= 0 else None}
        return {name: None if value is None else str(value) for name, value in said.items()}

    def _shown_streams(self) -> Result:
        """As they were declared, and with what has come: the numbers of `sys.streams`."""
        declared = {row["name"]: row for row in self._catalog.listing("STREAMS")}
        found = [report for report in self._reports.all() if report["name"] in declared]
        texts = {name: [declared[report["name"]][name] for report in found] for name in ("columns", "properties")}
        counts = {name: [report[name] for report in found] for name in ("arrived", "late", "malformed")}
        columns: dict[str, pa.Array] = {
            "name": pa.array([report["name"] for report in found], pa.string()),
            **{name: pa.array(values, pa.string()) for name, values in texts.items()},
            **{name: pa.array(values, pa.int64()) for name, values in counts.items()},
            "heartbeat": pa.array([_text(report["heartbeat"]) for report in found], pa.string()),
            "lag_ms": pa.array([report["lag_ms"] for report in found], pa.float64()),
            "rate": pa.array([report["rate"] for report in found], pa.float64()),
        }
        return Result(f"{len(found)} streams", table=pa.table(columns))

    def _shown_settings(self, like: str | None) -> Result:
        found = [each for each in described(self._session.settings) if _is_like(each["name"], like)]
        texts = {name: [str(each[name]) for each in found] for name in ("name", "value", "default", "description")}
        choices = [None if each["choices"] is None else ", ".join(each["choices"]) for each in found]
        columns = {**texts, "choices": choices}
        table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
        own = [
            f"{key}: {name} = {value}"
            for key, own in self._session.settings.by_stream.items()
            for name, value in own.items()
        ]
        return Result("; ".join([f"{len(found)} settings", *own]), table=table)

    def _shown_plan(self) -> Result:
        """All steps that run, with what they have done since the database was opened."""
        pipeline = self._engine.pipeline
        reports = self._engine.reports.operators(*(step.name for step in pipeline.steps))
        steps = [pipeline.by_name[report.name] for report in reports]
        columns: dict[str, pa.Array] = {
            "step": pa.array([step.name for step in steps], pa.string()),
            "inputs": pa.array([", ".join(step.read) for step in steps], pa.string()),
            "operator": pa.array([step_label(step) for step in steps], pa.string()),
            "pattern": pa.array([step_pattern(step) for step in steps], pa.string()),
            "state": pa.array([structure_of(step.operator) for step in steps], pa.string()),
            "rows_in": pa.array([report.rows_in for report in reports], pa.int64()),
            "rows_out": pa.array([report.rows for report in reports], pa.int64()),
            "seconds": pa.array([report.seconds for report in reports], pa.float64()),
            "state_bytes": pa.array([report.state for report in reports], pa.int64()),
            "queries": pa.array([report.queries for report in reports], pa.int64()),
        }
        return Result(f"{len(steps)} steps", table=pa.table(columns))

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


def _is_like(name: str, pattern: str | None) -> bool:
    """By LIKE, without regard to case."""
    if pattern is None:
        return True
    parts = (".*" if one == "%" else "." if one == "_" else re.escape(one) for one in pattern.lower())
    return re.fullmatch("".join(parts), name.lower(), re.DOTALL) is not None


def _text(instant: object) -> str | None:
    return None if instant is None else str(instant)
