"""The answers of many queries in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from millstream.engine.answers import relation_at
from millstream.engine.engine import Engine
from millstream.errors import InputError
from millstream.kernel.batch import value_column
from millstream.plan import physical as ph
from millstream.query import Query, TemplatePlan

QUERY_NAME = "_query"


def results(engine: Engine, queries: Sequence[Query], at: Any) -> pa.Table:
    """Each row with its query's name. A group is read once."""
    schemas = {(query.kind, query.schema) for query in queries}
    if len(schemas) != 1:
        raise InputError(
            "queries with different columns in one table" if schemas else "no queries to ask",
            hint="ask those with the same columns together",
        )
    by_group: dict[tuple[str, TemplatePlan | None], list[Query]] = {}
    for query in queries:
        by_group.setdefault((query.edge, query.template), []).append(query)
    return pa.concat_tables([table for members in by_group.values() for table in _results(engine, members, at)])


def _results(engine: Engine, queries: Sequence[Query], at: Any) -> Iterator[pa.Table]:
    first = queries[0]
    is_group = first.number is not None and first.kind == "relation" and engine.groups[first.edge].lifted.expanded
    if not is_group or (at is None and first.instants.pending() is not None):
        for query in queries:
            found = query.result(at)
            names = pa.array([query.name] * found.num_rows, pa.string())
            yield found.add_column(0, QUERY_NAME, names)
        return
    for query in queries:
        query.wait()
        engine.reader.check(query.edge, query.number)
    names = {query.number: query.name for query in queries}
    rows, tick = first.rows_of_group(at)
    wanted = rows.filter(pl.col(value_column(0)).is_in(list(names)))
    found = relation_at(wanted, (ph.QUERY, *first.common.schema), tick)
    shown = pl.Series(found[ph.QUERY.name]).replace_strict(names, return_dtype=pl.String)
    yield found.set_column(0, QUERY_NAME, shown.to_arrow().cast(pa.string()))
