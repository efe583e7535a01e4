"""The answers of many queries in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.engine.engine import Engine
from millstream.errors import InputError
from millstream.query import Query, QueryContext
from millstream.query.members import PLACE, Members

QUERY_NAME = "_query"


def results(engine: Engine, context: QueryContext, queries: Sequence[Query], at: Any) -> pa.Table:
    """Each row with its query's name. A group is read once."""
    bound = {id(query.common): query.common for query in queries}
    schemas = {(common.kind, common.schema) for common in bound.values()}
    if len(schemas) != 1:
        raise InputError(
            "queries with different columns in one table" if schemas else "no queries to ask",
            hint="ask those with the same columns together",
        )
    by_inputs: dict[frozenset[str], list[Query]] = {}
    for query in queries:
        query.check_open()
        by_inputs.setdefault(query.materialization.inputs, []).append(query)
    tables = [table for members in by_inputs.values() for table in _results(engine, context, members, at)]
    engine.invocations.count("results")
    return pa.concat_tables(tables)


def _results(engine: Engine, context: QueryContext, queries: Sequence[Query], at: Any) -> Iterator[pa.Table]:
    """Those of queries that are final up to the same instant."""
    first, members = queries[0], Members(engine, queries, queries[0].common)
    members.wait()
    context.bring_up_to_now(first.materialization.inputs)
    if at is None and first.instants.pending() is not None:
        for query in queries:
            found = query.result().rename_columns([field.name for field in first.common.schema])
            names = pa.array([query.name] * found.num_rows, pa.string())
            yield found.add_column(0, QUERY_NAME, names)
        return
    final, firsts = first.instants.frontier, members.firsts()
    firsts = np.maximum(firsts, engine.sources.first_answerable(first.materialization.inputs))
    tick = queries[int(firsts.argmax())].instants.resolved(at, final)
    since = tick if first.kind == "relation" else int(firsts.min()) - 1
    rows, failed = members.rows(firsts, since, tick)
    if failed:
        raise failed[min(failed)]
    found = members.at(rows, tick, engine.limits.answers)
    names = pa.array([query.name for query in queries], pa.string())
    yield found.set_column(0, QUERY_NAME, names.take(found.column(PLACE.name).combine_chunks()))
