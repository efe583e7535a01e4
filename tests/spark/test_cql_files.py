"""The `.cql` files with every epoch a Spark job: a few of them, and all where there is time."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests import cql
from tests.cql.runner import load, run
from tests.cql.subjects import EngineSubject

pytestmark = pytest.mark.spark

FILES = sorted(Path(cql.__path__[0]).rglob("*.cql"))
FAST = {"derived_streams", "relational", "tables_changes_by", "window_partition"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in FAST else [pytest.mark.slow]) for path in FILES],
)
def test_cql_file(session: SparkSession, path: Path) -> None:
    with EngineSubject(shards=2, spark=session) as opened:
        run(load(path), opened)
