"""Answers as tests compare them: what a statement gave, and what others read in our files."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

import millstream as ms


def table_of(db: ms.Database, cql: str) -> pa.Table:
    """The rows of a SELECT that is answered once."""
    table = db.execute(cql).table
    assert table is not None, f"no rows come from {cql}"
    return table


def accepted(db: ms.Database, cql: str) -> int:
    """How many rows an INSERT brought."""
    insert = db.execute(cql).insert
    assert insert is not None, f"nothing is inserted by {cql}"
    return insert.accepted


def read_by_duckdb(sql: str) -> list[tuple[Any, ...]]:
    """What DuckDB reads in the files that we write."""
    relation = duckdb.sql(sql)
    assert relation is not None, f"no rows come from {sql}"
    return relation.fetchall()
